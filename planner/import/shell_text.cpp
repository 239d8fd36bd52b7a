#include "planner/import/shell_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace tpplan {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr int kMaxDepth = 32;

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The end of a bracketed text that opens at `begin`, other groups inside it skipped.
std::size_t end_of_bracket(std::string_view text, std::size_t begin, char open, char close) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' || c == '"') {
      const std::size_t end = end_of_group(text, i);
      if (end == kNone) {
        return kNone;
      }
      i = end - 1;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return i + 1;
    }
  }
  return kNone;
}

/// Whole-number expressions of the shell, by precedence.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellVariables& variables) : text_(text), variables_(variables) {}
  std::optional<std::int64_t> value() {
    const std::int64_t result = choice();
    skip();
    return failed_ || at_ != text_.size() ? std::nullopt : std::optional(result);
  }

 private:
  struct OperatorRow {
    std::string_view sign;
    int level;
  };
  static constexpr std::array<OperatorRow, 13> kOperators{{{"||", 0},
                                                           {"&&", 1},
                                                           {"==", 2},
                                                           {"!=", 2},
                                                           {"<=", 3},
                                                           {">=", 3},
                                                           {"<", 3},
                                                           {">", 3},
                                                           {"+", 4},
                                                           {"-", 4},
                                                           {"*", 5},
                                                           {"/", 5},
                                                           {"%", 5}}};
  static constexpr int kLevels = 6;

  void skip() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
  }

  std::string_view take_operator(int level) {
    skip();
    for (const OperatorRow& row : kOperators) {
      if (row.level == level && text_.substr(at_, row.sign.size()) == row.sign) {
        at_ += row.sign.size();
        return row.sign;
      }
    }
    return "";
  }

  /// "condition ? a : b".
  std::int64_t choice() {
    const std::int64_t condition = binary(0);
    skip();
    if (at_ >= text_.size() || text_[at_] != '?') {
      return condition;
    }
    ++at_;
    const std::int64_t yes = choice();
    skip();
    failed_ = failed_ || at_ >= text_.size() || text_[at_] != ':';
    ++at_;
    const std::int64_t no = failed_ ? 0 : choice();
    return condition != 0 ? yes : no;
  }

  std::int64_t apply(std::string_view sign, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (sign == "+") {
      failed_ = failed_ || __builtin_add_overflow(a, b, &result);
    } else if (sign == "-") {
      failed_ = failed_ || __builtin_sub_overflow(a, b, &result);
    } else if (sign == "*") {
      failed_ = failed_ || __builtin_mul_overflow(a, b, &result);
    } else if (sign == "/" || sign == "%") {
      failed_ = failed_ || b == 0 || (b == -1 && a != static_cast<int>(a));
      result = failed_ ? 0 : sign == "/" ? a / b : a % b;
    } else {
      const bool truth = sign == "=="   ? a == b
                         : sign == "!=" ? a != b
                         : sign == "<=" ? a <= b
                         : sign == ">=" ? a >= b
                         : sign == "<"  ? a < b
                         : sign == ">"  ? a > b
                         : sign == "&&" ? a != 0 && b != 0
                                        : a != 0 || b != 0;
      result = truth ? 1 : 0;
    }
    return result;
  }

  std::int64_t binary(int level) {
    if (level == kLevels) {
      return primary();
    }
    std::int64_t left = binary(level + 1);
    while (!failed_) {
      const std::string_view sign = take_operator(level);
      if (sign.empty()) {
        break;
      }
      left = apply(sign, left, binary(level + 1));
    }
    return left;
  }

  std::int64_t primary() {
    skip();
    if (at_ >= text_.size() || ++depth_ > 1000) {
      failed_ = true;
      return 0;
    }
    const char c = text_[at_];
    if (c == '(' || c == '-' || c == '!') {
      ++at_;
      const std::int64_t inner = c == '(' ? choice() : primary();
      if (c == '(') {
        skip();
        failed_ = failed_ || at_ >= text_.size() || text_[at_] != ')';
        ++at_;
        return inner;
      }
      return c == '!' ? (inner == 0 ? 1 : 0) : apply("-", 0, inner);
    }
    std::size_t end = at_;
    while (end < text_.size() && (is_name_character(text_[end]) || (text_[end] == '$' && end == at_))) {
      ++end;
    }
    std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (!word.empty() && word.front() == '$') {
      word.remove_prefix(1);
    }
    return number(word);
  }

  std::int64_t number(std::string_view word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc() && end == word.data() + word.size()) {
      return value;
    }
    const auto variable = variables_.find(word);
    if (variable == variables_.end() || variable->second.empty() || ++lookups_ > kMaxDepth) {
      failed_ = true;
      return 0;
    }
    return number(variable->second.front().text);
  }

  std::string_view text_;
  const ShellVariables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0, lookups_ = 0;
  bool failed_ = false;
};

/// What a "$..." stands for.
struct Replacement {
  std::vector<TracedText> words;
  bool list = false;   ///< ${NAME[@]}: words of their own even in quotes
  bool whole = false;  ///< not to be split: kept as written
};

class Expander {
 public:
  Expander(const TracedText& raw, ShellVariables& variables, Unset unset, int depth)
      : raw_(raw), variables_(variables), unset_(unset), depth_(depth) {}

  std::vector<TracedText> words() {
    while (at_ < raw_.text.size()) {
      step();
    }
    finish_word();
    return std::move(words_);
  }

 private:
  void finish_word() {
    if (started_) {
      words_.push_back(std::move(word_));
    }
    word_ = {};
    started_ = false;
  }
  void keep() {
    word_.add(raw_.text[at_], raw_.at[at_]);
    started_ = true;
    ++at_;
  }
  /// Copies up to `end` as written.
  void keep_until(std::size_t end) {
    while (at_ < std::min(end, raw_.text.size())) {
      keep();
    }
  }

  void step() {
    const char c = raw_.text[at_];
    if (c == '\\' && at_ + 1 < raw_.text.size()) {
      const char next = raw_.text[at_ + 1];
      if (!quoted_ || next == '$' || next == '"' || next == '\\' || next == '`') {
        ++at_;
      }
      keep();
    } else if (c == '\'' && !quoted_) {
      started_ = true;
      const std::size_t end = end_of_group(raw_.text, at_);
      ++at_;
      keep_until(end - 1);
      ++at_;
    } else if (c == '"') {
      quoted_ = !quoted_;
      started_ = true;
      ++at_;
    } else if (is_blank(c) && !quoted_) {
      finish_word();
      ++at_;
    } else if (c == '`') {
      keep_until(end_of_group(raw_.text, at_));
    } else if (c == '$') {
      put(replacement());
    } else {
      keep();
    }
  }

  void put(const Replacement& replacement) {
    for (std::size_t i = 0; i < replacement.words.size(); ++i) {
      const TracedText& word = replacement.words[i];
      if (i > 0) {
        if (quoted_ && !replacement.list) {
          word_.add(' ', word.place());
        } else {
          finish_word();
        }
      }
      if (quoted_ || replacement.whole) {
        word_.add(word);
        started_ = true;
        continue;
      }
      split(word);
    }
  }

  /// Splits a value at blanks, but for those inside what was kept as written.
  void split(const TracedText& word) {
    std::size_t kept = 0;  // end of what stays together
    for (std::size_t i = 0; i < word.text.size(); ++i) {
      const char c = word.text[i];
      const char next = i + 1 < word.text.size() ? word.text[i + 1] : '\0';
      if (i >= kept && (c == '`' || (c == '$' && (next == '(' || next == '{')))) {
        const std::size_t end = end_of_group(word.text, i);
        kept = end == kNone ? i : end;
      }
      if (i >= kept && is_blank(c)) {
        finish_word();
      } else {
        word_.add(c, word.at[i]);
        started_ = true;
      }
    }
  }

  Replacement as_written(std::size_t end) {
    Replacement kept{{raw_.part(at_, end)}, false, true};
    at_ = end;
    return kept;
  }

  Replacement value_of(std::string_view name, std::size_t end) {
    const auto variable = variables_.find(name);
    if (variable != variables_.end()) {
      at_ = end;
      return {variable->second.empty() ? std::vector<TracedText>{} : std::vector<TracedText>{variable->second.front()}};
    }
    if (unset_ == Unset::empty) {
      at_ = end;
      return {};
    }
    return as_written(end);
  }

  Replacement replacement() {
    const std::string_view text = raw_.text;
    const char next = at_ + 1 < text.size() ? text[at_ + 1] : '\0';
    if (next == '(' || next == '{') {
      const std::size_t end = end_of_group(text, at_);
      if (end == kNone) {
        return as_written(text.size());
      }
      if (next == '{') {
        return in_braces(end);
      }
      return text.substr(at_, 3) == "$((" && text.substr(end - 2, 2) == "))" ? calculated(end) : as_written(end);
    }
    std::size_t end = at_ + 1;
    while (end < text.size() && is_name_character(text[end])) {
      ++end;
    }
    if (end == at_ + 1) {
      const bool special = next == '@' || next == '*' || next == '#' || next == '?' || next == '$';
      return as_written(special ? at_ + 2 : at_ + 1);
    }
    return value_of(text.substr(at_ + 1, end - at_ - 1), end);
  }

  Replacement calculated(std::size_t end) {
    const TracedText inner = nested(raw_.part(at_ + 3, end - 2));
    const auto value = arithmetic(inner.text, variables_);
    if (!value) {
      return as_written(end);
    }
    const std::size_t place = raw_.at[at_];
    at_ = end;
    return {{TracedText::of(std::to_string(*value), place)}};
  }

  TracedText nested(const TracedText& raw) const {
    if (depth_ >= kMaxDepth) {
      return raw;
    }
    TracedText whole;
    for (const TracedText& word : Expander(raw, variables_, unset_, depth_ + 1).words()) {
      if (!whole.empty()) {
        whole.add(' ', word.place());
      }
      whole.add(word);
    }
    return whole;
  }

  /// "${...}" that ends at `end`.
  Replacement in_braces(std::size_t end) {
    const std::string_view inner = std::string_view(raw_.text).substr(at_ + 2, end - at_ - 3);
    std::size_t length = 0;
    while (length < inner.size() && is_name_character(inner[length])) {
      ++length;
    }
    const std::string_view name = inner.substr(0, length);
    const std::string_view rest = inner.substr(length);
    if (name.empty() || depth_ >= kMaxDepth) {
      return as_written(end);
    }
    if (rest.empty()) {
      return value_of(name, end);
    }
    const auto variable = variables_.find(name);
    if (rest == "[@]" || rest == "[*]") {
      if (variable == variables_.end() && unset_ == Unset::kept) {
        return as_written(end);
      }
      at_ = end;
      return {variable == variables_.end() ? std::vector<TracedText>{} : variable->second, rest == "[@]"};
    }
    const std::size_t sign = rest.front() == ':' ? 1 : 0;
    const char operation = sign < rest.size() ? rest[sign] : '\0';
    if (std::string_view("-=?+").find(operation) == kNone) {
      return as_written(end);
    }
    const bool set =
        variable != variables_.end() && (sign == 0 || (!variable->second.empty() && !variable->second.front().empty()));
    const std::size_t default_at = at_ + 2 + length + sign + 1;
    if (operation == '+') {
      const TracedText raw = raw_.part(default_at, end - 1);
      at_ = end;
      return set ? Replacement{{nested(raw)}} : Replacement{};
    }
    if (set) {
      return value_of(name, end);
    }
    if (operation == '?') {
      return as_written(end);
    }
    const TracedText fallback = nested(raw_.part(default_at, end - 1));
    if (operation == '=') {
      variables_[std::string(name)] = {fallback};
    }
    at_ = end;
    return {{fallback}};
  }

  const TracedText& raw_;
  ShellVariables& variables_;
  Unset unset_;
  int depth_;
  std::size_t at_ = 0;
  bool quoted_ = false, started_ = false;
  TracedText word_;
  std::vector<TracedText> words_;
};

}  // namespace

void TracedText::add(char c, std::size_t place) {
  text.push_back(c);
  at.push_back(place);
}

void TracedText::add(const TracedText& other) {
  text += other.text;
  at.insert(at.end(), other.at.begin(), other.at.end());
}

TracedText TracedText::part(std::size_t begin, std::size_t end) const {
  end = std::min(end, text.size());
  begin = std::min(begin, end);
  TracedText result;
  result.text = text.substr(begin, end - begin);
  result.at.assign(at.begin() + static_cast<std::ptrdiff_t>(begin), at.begin() + static_cast<std::ptrdiff_t>(end));
  return result;
}

TracedText TracedText::of(std::string_view text, std::size_t place) {
  TracedText result;
  result.text = std::string(text);
  result.at.assign(text.size(), place);
  return result;
}

TracedText TracedText::source(std::string_view text) {
  TracedText result = of(text, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    result.at[i] = i;
  }
  return result;
}

std::vector<TracedText> expand(const TracedText& raw, ShellVariables& variables, Unset unset) {
  return Expander(raw, variables, unset, 0).words();
}

TracedText expand_whole(const TracedText& raw, ShellVariables& variables, Unset unset) {
  // Quotes around the whole keep its blanks; places are those of the text inside.
  TracedText whole;
  for (const TracedText& word : expand(raw, variables, unset)) {
    if (!whole.empty()) {
      whole.add(' ', word.place());
    }
    whole.add(word);
  }
  return whole;
}

std::optional<std::int64_t> arithmetic(std::string_view text, const ShellVariables& variables) {
  return Arithmetic(text, variables).value();
}

std::size_t end_of_group(std::string_view text, std::size_t begin) {
  const char c = text[begin];
  if (c == '\'' || c == '`') {
    const std::size_t end = text.find(c, begin + 1);
    return end == kNone ? kNone : end + 1;
  }
  if (c == '$') {
    const char open = begin + 1 < text.size() ? text[begin + 1] : '\0';
    return open == '(' ? end_of_bracket(text, begin + 1, '(', ')') : end_of_bracket(text, begin + 1, '{', '}');
  }
  for (std::size_t i = begin + 1; i < text.size(); ++i) {  // a text in double quotes
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    } else if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '(' || text[i + 1] == '{')) {
      const std::size_t end = end_of_group(text, i);
      if (end == kNone) {
        return kNone;
      }
      i = end - 1;
    }
  }
  return kNone;
}

}  // namespace tpplan
