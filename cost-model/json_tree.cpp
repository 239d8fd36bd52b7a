#include "cost-model/json_tree.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace tpplan::detail {

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : (first & 0xF0U) == 0xE0 ? 3 : 4;
  if (first >= 0x80 && (first < 0xC2 || first > 0xF4)) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  const unsigned second = byte(at + 1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int hex_value(char c) {
  if (is_digit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Four hexadecimal digits at `at`, or -1.
long hex4(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) {
    return -1;
  }
  long value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const int digit = hex_value(text[i]);
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& out, unsigned long code) {
  const auto byte = [&](unsigned long value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | (code >> 6));
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

struct SyntaxProblem {
  Diagnostic diagnostic;
};

struct Literal {
  std::string_view word;
  JsonNode::Kind kind;
};

constexpr std::array kLiterals = {
    Literal{"true", JsonNode::Kind::boolean},        Literal{"false", JsonNode::Kind::boolean},
    Literal{"null", JsonNode::Kind::null},           Literal{"NaN", JsonNode::Kind::not_finite},
    Literal{"Infinity", JsonNode::Kind::not_finite},
};

/// Words of other languages and what JSON writes for them.
struct ForeignWord {
  std::string_view word;
  std::string_view meant;
};

constexpr std::array kForeignWords = {
    ForeignWord{"True", "true"},   ForeignWord{"TRUE", "true"}, ForeignWord{"False", "false"},
    ForeignWord{"FALSE", "false"}, ForeignWord{"None", "null"}, ForeignWord{"NULL", "null"},
    ForeignWord{"yes", "true"},    ForeignWord{"no", "false"},  ForeignWord{"nil", "null"},
};

/// Recursive descent over the text; recursion is bounded by kMaxJsonDepth.
class Parser {
 public:
  Parser(std::string_view source, std::vector<Diagnostic>& diagnostics) : text_(source), diagnostics_(diagnostics) {}

  void parse(JsonNode& root) {
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      at_ = kByteOrderMark.size();
    }
    check_kind_of_file();
    value(root, 0);
    skip_blanks();
    if (at_ < text_.size()) {
      fail(at_, "unexpected " + shown(at_) + " after the end of the JSON value",
           text_[at_] == '{' ? "one JSON value per file; is this a JSON Lines file?" : "");
    }
  }

 private:
  [[noreturn]] static void fail(std::size_t at, std::string message, std::string hint = "") {
    throw SyntaxProblem{{Diagnostic::Severity::error, std::move(message), std::move(hint), at}};
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// What stands at a place, for a message: a word, a character, or the end of the file.
  [[nodiscard]] std::string shown(std::size_t at) const {
    if (at >= text_.size()) {
      return "end of input";
    }
    std::size_t end = at;
    while (end < text_.size() && is_word(text_[end]) && end - at < 24) {
      ++end;
    }
    end = std::max(end, at + std::max<std::size_t>(1, utf8_length(text_, at)));
    const auto first = static_cast<unsigned char>(text_[at]);
    if (first < 0x20 || (first >= 0x80 && utf8_length(text_, at) == 0)) {
      constexpr std::string_view kHex = "0123456789abcdef";
      return std::string("byte 0x") + kHex[first >> 4U] + kHex[first & 15U];
    }
    const std::string_view word = text_.substr(at, end - at);
    return word == "\"" ? "'\"'" : "\"" + std::string(word) + "\"";
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
    if (at_ + 1 < text_.size() && text_[at_] == '/' && (text_[at_ + 1] == '/' || text_[at_ + 1] == '*')) {
      fail(at_, "JSON has no comments", "remove the comment");
    }
    if (peek() == '#') {
      fail(at_, "JSON has no comments", "remove the comment");
    }
  }

  void check_kind_of_file() {
    const std::string_view head = text_.substr(0, 2);
    if (head == "\xFF\xFE" || head == "\xFE\xFF") {
      fail(0, "the file is UTF-16", "save it as UTF-8");
    }
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
    if (at_ == text_.size()) {
      fail(0, "the file is empty");
    }
    if (peek() != '{' && peek() != '[' && text_.substr(0, 1024).find('\0') != std::string_view::npos) {
      fail(0, "this is a binary file, not JSON");
    }
    if (peek() == '<') {
      fail(at_, "this is an HTML page, not JSON", "a gated model or a login page? download the file itself");
    }
    constexpr std::string_view kLfs = "version https://git-lfs";
    if (text_.substr(at_, kLfs.size()) == kLfs) {
      fail(at_, "this is a Git LFS pointer, not the file it stands for", "fetch it with git lfs pull");
    }
  }

  void value(JsonNode& node, std::size_t depth) {
    skip_blanks();
    if (++values_ > kMaxJsonValues) {
      fail(at_, "more than " + with_separators(static_cast<long long>(kMaxJsonValues)) + " values in one file");
    }
    node.offset = static_cast<std::uint32_t>(at_);
    const char c = peek();
    if (at_ >= text_.size()) {
      fail(at_, "unexpected end of input", "the file is cut off");
    } else if (c == '{') {
      object(node, depth + 1);
    } else if (c == '[') {
      array(node, depth + 1);
    } else if (c == '"') {
      node.kind = JsonNode::Kind::text;
      scan_text();
    } else if (c == '-' || is_digit(c) || c == '+' || c == '.') {
      number(node);
    } else {
      literal(node);
    }
    node.end = static_cast<std::uint32_t>(at_);
  }

  void literal(JsonNode& node) {
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) {
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    for (const Literal& row : kLiterals) {
      if (row.word == word) {
        node.kind = row.kind;
        at_ = end;
        return;
      }
    }
    for (const ForeignWord& row : kForeignWords) {
      if (row.word == word) {
        fail(at_, "unexpected " + shown(at_), "did you mean " + std::string(row.meant) + "?");
      }
    }
    if (peek() == '\'') {
      fail(at_, "text in single quotes", "JSON texts stand in double quotes");
    }
    fail(at_, "expected a value, got " + shown(at_), word.empty() ? "" : "texts stand in double quotes");
  }

  void number(JsonNode& node) {
    const std::size_t start = at_;
    if (peek() == '-') {
      ++at_;
      if (text_.substr(at_, 8) == "Infinity") {
        at_ += 8;
        node.kind = JsonNode::Kind::not_finite;
        return;
      }
    }
    const auto digits = [&] {
      const std::size_t first = at_;
      while (is_digit(peek())) {
        ++at_;
      }
      return at_ - first;
    };
    const std::size_t first = at_;
    const std::size_t whole = digits();
    bool good = whole == 1 || (whole > 1 && text_[first] != '0');
    if (good && peek() == '.') {
      ++at_;
      good = digits() > 0;
    }
    if (good && (peek() | 0x20) == 'e') {
      ++at_;
      if (peek() == '+' || peek() == '-') {
        ++at_;
      }
      good = digits() > 0;
    }
    if (!good || is_word(peek()) || peek() == '.') {
      while (is_word(peek()) || peek() == '.' || peek() == '+' || peek() == '-') {
        ++at_;
      }
      const std::string_view word = text_.substr(start, std::min<std::size_t>(at_ - start, 24));
      if (at_ >= text_.size() && whole > 0) {
        fail(at_, "unexpected end of input", "the file is cut off");
      }
      fail(start, "\"" + std::string(word) + "\" is not a JSON number",
           "digits with an optional fraction and exponent, no leading zero, sign + or unit");
    }
    node.kind = std::isfinite(decode_json_number(text_.substr(start, at_ - start))) ? JsonNode::Kind::number
                                                                                    : JsonNode::Kind::not_finite;
  }

  /// Passes over a string literal, checking escapes and encoding.
  void scan_text() {
    const std::size_t start = at_++;
    while (true) {
      if (at_ >= text_.size()) {
        fail(at_, "unexpected end of input", "the text that starts on " + line_of(start) + " is not closed");
      }
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return;
      }
      if (c == '\n') {
        fail(start, "the text is not closed on its line", "a closing double quote is missing");
      }
      if (c < 0x20) {
        fail(at_, "control character in a text", "write it as an escape: tab is \\t");
      }
      if (c == '\\') {
        escape();
        continue;
      }
      const std::size_t length = utf8_length(text_, at_);
      if (length == 0) {
        fail(at_, "the text is not valid UTF-8");
      }
      at_ += length;
    }
  }

  void escape() {
    const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (kind == 'u') {
      const long code = hex4(text_, at_ + 2);
      if (code < 0) {
        fail(at_, "\\u needs four hexadecimal digits");
      }
      if (code >= 0xD800 && code < 0xE000) {
        const long low = text_.substr(at_ + 6, 2) == "\\u" ? hex4(text_, at_ + 8) : -1;
        if (code >= 0xDC00 || low < 0xDC00 || low > 0xDFFF) {
          fail(at_, "half of a surrogate pair");
        }
        at_ += 6;
      }
      at_ += 6;
    } else if (kind != '\0' && std::string_view("\"\\/bfnrt").find(kind) != std::string_view::npos) {
      at_ += 2;
    } else {
      fail(at_, "unknown escape " + std::string("\"\\") + (kind == '\0' ? ' ' : kind) + "\"",
           "a backslash itself is written \\\\");
    }
  }

  void array(JsonNode& node, std::size_t depth) {
    node.kind = JsonNode::Kind::array;
    open(depth);
    if (peek() == ']') {
      ++at_;
      return;
    }
    while (true) {
      node.children.emplace_back();
      value(node.children.back(), depth);
      if (!another(']', node.offset)) {
        return;
      }
    }
  }

  void object(JsonNode& node, std::size_t depth) {
    node.kind = JsonNode::Kind::object;
    open(depth);
    if (peek() == '}') {
      ++at_;
      return;
    }
    while (true) {
      if (at_ >= text_.size()) {
        fail(at_, "unexpected end of input", "the object that starts on " + line_of(node.offset) + " is not closed");
      }
      if (peek() != '"') {
        fail(at_, "expected a key in double quotes, got " + shown(at_));
      }
      JsonNode& member = node.children.emplace_back();
      member.key_offset = static_cast<std::uint32_t>(at_);
      scan_text();
      member.key = decode_json_text(text_.substr(member.key_offset, at_ - member.key_offset));
      skip_blanks();
      if (peek() != ':' || at_ >= text_.size()) {
        if (at_ >= text_.size()) {
          fail(at_, "unexpected end of input", "the file is cut off");
        }
        fail(at_, "expected \":\" after the key \"" + member.key + "\", got " + shown(at_));
      }
      ++at_;
      value(member, depth);
      if (!another('}', node.offset)) {
        break;
      }
    }
    report_duplicates(node);
  }

  void open(std::size_t depth) {
    if (depth > kMaxJsonDepth) {
      fail(at_, "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    ++at_;
    skip_blanks();
  }

  /// After a value inside brackets: true when a comma promises another one, false at the closing bracket.
  bool another(char close, std::size_t opened) {
    const std::size_t value_end = at_;
    skip_blanks();
    if (at_ >= text_.size()) {
      fail(at_, "unexpected end of input",
           (close == '}' ? "the object that starts on " : "the list that starts on ") + line_of(opened) +
               " is not closed");
    }
    if (peek() == close) {
      ++at_;
      return false;
    }
    if (peek() != ',') {
      const bool next_item = peek() == '"' || peek() == '{' || peek() == '[' || is_word(peek()) || peek() == '-';
      if (next_item) {
        fail(value_end, "missing comma", "put a comma here");
      }
      fail(at_, std::string("expected \",\" or \"") + close + "\", got " + shown(at_));
    }
    const std::size_t comma = at_++;
    skip_blanks();
    if (peek() == close) {
      fail(comma, std::string("trailing comma before \"") + close + "\"", "remove the comma");
    }
    return true;
  }

  void report_duplicates(const JsonNode& node) {
    std::vector<std::size_t> order(node.children.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return node.children[a].key < node.children[b].key; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const JsonNode& first = node.children[order[i - 1]];
      const JsonNode& second = node.children[order[i]];
      if (first.key == second.key) {
        diagnostics_.push_back({Diagnostic::Severity::error, "duplicate key \"" + second.key + "\"",
                                "already given on " + line_of(first.key_offset), second.key_offset});
      }
    }
  }

  [[nodiscard]] std::string line_of(std::size_t offset) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(offset);
    return "line " + std::to_string(1 + std::count(text_.begin(), end, '\n'));
  }

  std::string_view text_;
  std::vector<Diagnostic>& diagnostics_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

bool parse_json(std::string_view source, JsonNode& root, std::vector<Diagnostic>& diagnostics) {
  if (source.size() > kMaxJsonBytes) {
    diagnostics.push_back({Diagnostic::Severity::error, "the file is larger than 64 MiB", "", 0});
    return false;
  }
  try {
    Parser(source, diagnostics).parse(root);
    return true;
  } catch (SyntaxProblem& problem) {
    diagnostics.push_back(std::move(problem.diagnostic));
    return false;
  }
}

std::string decode_json_text(std::string_view literal) {
  std::string out;
  out.reserve(literal.size());
  for (std::size_t at = 1; at + 1 < literal.size(); ++at) {
    if (literal[at] != '\\') {
      out.push_back(literal[at]);
      continue;
    }
    ++at;
    if (literal[at] == 'u') {
      auto code = static_cast<unsigned long>(hex4(literal, at + 1));
      at += 4;
      if (code >= 0xD800 && code < 0xDC00) {
        code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<unsigned long>(hex4(literal, at + 3)) - 0xDC00);
        at += 6;
      }
      append_utf8(out, code);
      continue;
    }
    constexpr std::string_view kNames = "bfnrt";
    constexpr std::string_view kValues = "\b\f\n\r\t";
    const std::size_t index = kNames.find(literal[at]);
    out.push_back(index == std::string_view::npos ? literal[at] : kValues[index]);
  }
  return out;
}

double decode_json_number(std::string_view literal) {
  double value = 0;
  const auto result = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    // A negative exponent underflows to zero; anything else is beyond double range.
    const std::size_t exponent = literal.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && literal.substr(exponent + 1, 1) == "-";
    return tiny ? 0.0 : HUGE_VAL;
  }
  return value;
}

}  // namespace tpplan::detail
