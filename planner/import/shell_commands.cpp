// Follows a shell script without running it: splits it into commands, keeps variables, decides tests.
#include "planner/import/shell_commands.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/import/shell_tests.h"

namespace tpplan::detail {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kMostVariableBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 8;  // scripts inside words: bash -c "bash -c ..."

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_word(char c) { return is_blank(c) || std::string_view("\n;&|<>()").find(c) != kNone; }

/// One word as written; of NAME=( ... ) the elements.
struct RawWord {
  TracedText text;
  bool array = false;
  std::vector<TracedText> elements = {};
};

/// Length of "NAME" of an assignment NAME=value or NAME+=value; 0 when it is none.
std::size_t assigned_name(std::string_view word) {
  std::size_t length = 0;
  while (length < word.size() && (std::isalnum(static_cast<unsigned char>(word[length])) != 0 || word[length] == '_')) {
    ++length;
  }
  const bool named = length > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0;
  const std::string_view rest = word.substr(length);
  return named && (rest.substr(0, 1) == "=" || rest.substr(0, 2) == "+=") ? length : 0;
}

/// Lines joined where a backslash ends them, except in comments.
TracedText joined_lines(const TracedText& text) {
  TracedText result;
  char quote = '\0';
  bool comment = false;
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    const char c = text.text[i];
    const char before = i == 0 ? '\n' : text.text[i - 1];
    if (c == '\\' && !comment) {
      const std::size_t next = i + 1 < text.text.size() && text.text[i + 1] == '\r' ? i + 2 : i + 1;
      if (next < text.text.size() && text.text[next] == '\n') {
        i = next;
        continue;
      }
      result.add(c, text.at[i]);
      if (quote != '\'' && i + 1 < text.text.size()) {
        ++i;
        result.add(text.text[i], text.at[i]);
      }
      continue;
    }
    if (comment) {
      comment = c != '\n';
    } else if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else {
      comment = c == '#' && (is_blank(before) || before == '\n' || before == ';' || before == '(');
    }
    result.add(c, text.at[i]);
  }
  return result;
}

class Follower {
 public:
  explicit Follower(const ConfigFile& file) : file_(file) {}

  void run(const TracedText& source) {
    if (++depth_ > kMaxDepth) {
      return;
    }
    const TracedText* const outer_text = text_;
    const std::size_t outer_at = at_;
    const TracedText text = joined_lines(source);
    text_ = &text;
    at_ = 0;
    const std::size_t frames = frames_.size();
    while (at_ < text.text.size()) {
      if (!frames_.empty() && frames_.back().wants_pattern) {
        read_pattern();
      } else {
        read_command();
      }
    }
    frames_.resize(std::min(frames, frames_.size()));
    text_ = outer_text;
    at_ = outer_at;
    --depth_;
  }

  ShellRun take() { return std::move(run_); }

 private:
  /// An if, case or loop that is open.
  struct Frame {
    enum class Kind : std::uint8_t { branch, choice, loop } kind = Kind::branch;
    bool outer = true;   ///< what is around it runs
    bool taken = false;  ///< what stands here runs
    bool done = false;   ///< a branch before did
    bool testing = false;
    bool wants_pattern = false;
    std::string subject = {};
  };

  [[nodiscard]] bool active() const {
    return std::all_of(frames_.begin(), frames_.end(), [](const Frame& frame) { return frame.taken || frame.testing; });
  }
  [[nodiscard]] char here() const { return text_->text[at_]; }
  [[nodiscard]] bool more() const { return at_ < text_->text.size(); }
  [[noreturn]] void fail(std::size_t at, const std::string& message) const {
    throw_syntax(file_.name, file_.source, text_->at[at], message);
  }

  void skip_comment() {
    const std::size_t end = std::min(text_->text.find('\n', at_), text_->text.size());
    const TracedText line = text_->part(at_, end);
    constexpr std::string_view kDirective = "#SBATCH";
    if (line.text.rfind(kDirective, 0) == 0) {
      std::size_t comment = line.text.find(" #");
      comment = comment == kNone ? line.text.size() : comment;
      ShellVariables none;
      for (TracedText& word : expand(line.part(kDirective.size(), comment), none)) {
        run_.sbatch.push_back(std::move(word));
      }
    }
    at_ = end;
  }

  TracedText read_raw() {
    TracedText word;
    while (more() && !ends_word(here())) {
      const char c = here();
      const char next = at_ + 1 < text_->text.size() ? text_->text[at_ + 1] : '\0';
      std::size_t end = at_ + 1;
      if (c == '\\') {
        end = std::min(at_ + 2, text_->text.size());
      } else if (c == '\'' || c == '"' || c == '`' || (c == '$' && (next == '(' || next == '{'))) {
        end = end_of_group(text_->text, at_);
        if (end == kNone) {
          fail(at_, c == '$' ? "this bracket is not closed" : "this quote is not closed");
        }
      }
      word.add(text_->part(at_, end));
      at_ = end;
    }
    return word;
  }

  RawWord read_word() {
    RawWord word{read_raw()};
    if (more() && here() == '(' && assigned_name(word.text.text) > 0 && word.text.text.back() == '=') {
      const std::size_t open = at_;
      ++at_;
      word.array = true;
      while (true) {
        while (more() && (is_blank(here()) || here() == '\n')) {
          ++at_;
        }
        if (!more()) {
          fail(open, "this list is not closed");
        }
        if (here() == '#') {
          skip_comment();
        } else if (here() == ')') {
          ++at_;
          break;
        } else if (ends_word(here())) {
          ++at_;
        } else {
          word.elements.push_back(read_raw());
        }
      }
    }
    return word;
  }

  void read_redirection() {
    std::size_t end = at_;
    while (end < text_->text.size() && (text_->text[end] == '<' || text_->text[end] == '>' ||
                                        (text_->text[end] == '&' && end > at_) || text_->text[end] == '-')) {
      ++end;
    }
    const std::string sign = text_->text.substr(at_, end - at_);
    at_ = end;
    while (more() && is_blank(here())) {
      ++at_;
    }
    const std::string word = read_raw().text;
    if (sign == "<<" || sign == "<<-") {
      std::string delimiter;
      std::copy_if(word.begin(), word.end(), std::back_inserter(delimiter),
                   [](char c) { return c != '"' && c != '\'' && c != '\\'; });
      heredocs_.push_back(delimiter);
    }
  }

  void skip_heredocs() {
    for (const std::string& delimiter : heredocs_) {
      while (more()) {
        const std::size_t end = std::min(text_->text.find('\n', at_), text_->text.size());
        std::string line = text_->text.substr(at_, end - at_);
        line.erase(0, line.find_first_not_of('\t') == kNone ? line.size() : line.find_first_not_of('\t'));
        at_ = std::min(end + 1, text_->text.size());
        if (line == delimiter) {
          break;
        }
      }
    }
    heredocs_.clear();
  }

  /// "(( ... ))" at the start of a command.
  bool read_arithmetic() {
    const std::size_t end = text_->text.find("))", at_);
    if (text_->text.compare(at_, 2, "((") != 0 || end == kNone) {
      return false;
    }
    const TracedText inner = expand_whole(text_->part(at_ + 2, end), variables_, Unset::empty);
    at_ = end + 2;
    const auto value = arithmetic(inner.text, variables_);
    conclude(value && *value != 0);
    return true;
  }

  /// Reads words up to what ends a command, and follows it.
  void read_command() {
    std::vector<RawWord> words;
    const std::string connector = connector_;
    connector_.clear();
    while (more()) {
      const char c = here();
      if (is_blank(c)) {
        ++at_;
      } else if (c == '#') {
        skip_comment();
      } else if (c == '\n' || c == ';' || c == '|' || (c == '&' && text_->text.compare(at_, 2, "&>") != 0)) {
        const bool twice = c != '\n' && at_ + 1 < text_->text.size() && text_->text[at_ + 1] == c;
        const bool in_test = c != '\n' && c != ';' && !words.empty() && test_is_open(words);
        connector_ = text_->text.substr(at_, twice ? 2 : 1);
        at_ += twice ? 2 : 1;
        if (in_test) {
          words.push_back({TracedText::of(connector_, 0)});
          continue;
        }
        if (c == '\n') {
          skip_heredocs();
        }
        break;
      } else if (c == '(' || c == ')') {
        const bool condition =
            words.empty() || (words.size() == 1 && (words[0].text.text == "if" || words[0].text.text == "elif"));
        if (c == '(' && condition && text_->text.compare(at_, 2, "((") == 0) {
          follow(words, connector);
          words.clear();
          if (read_arithmetic()) {
            continue;
          }
        }
        ++at_;
        if (!test_is_open(words)) {
          if (words.size() == 1) {
            words.clear();  // name(): the body follows
          }
          break;
        }
      } else if (c == '<' || c == '>' || c == '&') {
        at_ += c == '&' ? 1 : 0;
        read_redirection();
      } else {
        RawWord word = read_word();
        const bool descriptor =
            more() && (here() == '<' || here() == '>') && word.text.text.find_first_not_of("0123456789") == kNone;
        if (!descriptor) {
          words.push_back(std::move(word));
        }
      }
    }
    follow(words, connector);
    if (connector_ == ";;" && !frames_.empty() && frames_.back().kind == Frame::Kind::choice) {
      frames_.back().taken = false;
      frames_.back().wants_pattern = true;
    }
  }

  static bool test_is_open(const std::vector<RawWord>& words) {
    bool open = false;
    for (const RawWord& word : words) {
      open = word.text.text == "[[" || (open && word.text.text != "]]");
    }
    return open;
  }

  /// "pattern | pattern)" or "esac".
  void read_pattern() {
    while (more() && (is_blank(here()) || here() == '\n' || here() == ';')) {
      ++at_;
    }
    if (more() && here() == '#') {
      skip_comment();
      return;
    }
    Frame& frame = frames_.back();
    const std::size_t end = text_->text.find_first_of(")\n", at_);
    if (!more() || end == kNone || text_->text[end] == '\n' || text_->text.compare(at_, 4, "esac") == 0) {
      frame.wants_pattern = false;  // esac, which ends the frame as a command
      return;
    }
    bool fits = false;
    for (std::size_t begin = at_; begin <= end;) {
      const std::size_t bar = std::min(text_->text.find('|', begin), end);
      std::string pattern = expand_whole(text_->part(begin, bar), variables_, Unset::empty).text;
      pattern.erase(std::remove_if(pattern.begin(), pattern.end(), [](char c) { return c == '(' || is_blank(c); }),
                    pattern.end());
      fits = fits || matches(pattern, frame.subject);
      begin = bar + 1;
    }
    at_ = end + 1;
    frame.wants_pattern = false;
    frame.taken = fits && !frame.done && frame.outer;
    frame.done = frame.done || frame.taken;
  }

  /// The result of a condition, or of a command before && and ||.
  void conclude(bool result) {
    if (!frames_.empty() && frames_.back().testing) {
      condition_ = condition_connector_ == "&&"   ? condition_ && result
                   : condition_connector_ == "||" ? condition_ || result
                                                  : result;
      condition_connector_ = connector_;
    }
    last_ = result;
  }

  void open(Frame::Kind kind, bool testing) {
    Frame frame;
    frame.kind = kind;
    frame.outer = active();
    frame.testing = testing;
    frames_.push_back(frame);
    condition_connector_.clear();
  }

  /// Keywords at the start of a command; true when the rest is still to be followed.
  bool keyword(std::vector<RawWord>& words) {
    const std::string first = words.front().text.text;
    Frame* const frame = frames_.empty() ? nullptr : &frames_.back();
    const auto drop = [&words] {
      words.erase(words.begin());
      return true;
    };
    if (first == "if") {
      open(Frame::Kind::branch, true);
      return drop();
    }
    if (first == "while" || first == "until") {
      open(Frame::Kind::loop, true);
      return drop();
    }
    if (first == "elif" && frame != nullptr) {
      frame->testing = frame->outer && !frame->done;
      frame->taken = false;
      condition_connector_.clear();
      return drop();
    }
    if (first == "then" && frame != nullptr) {
      frame->taken = frame->testing && condition_ && !frame->done && frame->outer;
      frame->testing = false;
      frame->done = frame->done || frame->taken;
      return drop();
    }
    if (first == "else" && frame != nullptr) {
      frame->taken = !frame->done && frame->outer;
      frame->testing = false;
      return drop();
    }
    if (first == "do" && frame != nullptr) {
      frame->taken = frame->taken && !frame->testing;  // of while loops nothing
      frame->testing = false;
      return drop();
    }
    if (first == "fi" || first == "done" || first == "esac") {
      if (frame != nullptr) {
        frames_.pop_back();
      }
      return drop();
    }
    if (first == "for" && words.size() > 1) {
      const std::string name = words[1].text.text;
      std::vector<TracedText> values;
      for (std::size_t i = 3; i < words.size() && values.empty(); ++i) {
        values = expand(words[i].text, variables_);
      }
      open(Frame::Kind::loop, false);
      frames_.back().taken = frames_.back().outer && !values.empty();
      if (frames_.back().taken) {
        variables_[name] = {values.front()};
      }
      words.clear();
      return true;
    }
    if (first == "case" && words.size() > 1) {
      open(Frame::Kind::choice, false);
      frames_.back().subject = expand_whole(words[1].text, variables_, Unset::empty).text;
      frames_.back().wants_pattern = true;
      words.clear();
      return true;
    }
    constexpr std::array<std::string_view, 9> kPassed{"{",        "}",       "time", "exec",  "nohup",
                                                      "function", "command", "sudo", "return"};
    if (std::find(kPassed.begin(), kPassed.end(), first) != kPassed.end()) {
      return drop();
    }
    return false;
  }

  void follow(std::vector<RawWord>& words, const std::string& connector) {
    while (!words.empty() && keyword(words)) {
    }
    if (words.empty() || !active() || (connector == "&&" && !last_) || (connector == "||" && last_ && !testing())) {
      return;
    }
    bool negated = false;
    if (words.front().text.text == "!") {
      negated = true;
      words.erase(words.begin());
    }
    const std::string first = words.empty() ? "" : words.front().text.text;
    if (first == "[" || first == "[[" || first == "test") {
      std::vector<std::string> test;
      for (std::size_t i = 1; i < words.size(); ++i) {
        test.push_back(expand_whole(words[i].text, variables_, Unset::empty).text);
      }
      std::size_t at = 0;
      conclude(tested(test, at, first == "[[" ? "]]" : "]") != negated);
      return;
    }
    if (testing()) {
      conclude((first == "true" || first == ":") != negated);  // other commands: taken as failing
      return;
    }
    last_ = true;
    assign_and_run(words);
  }

  [[nodiscard]] bool testing() const { return !frames_.empty() && frames_.back().testing; }

  void assign(const RawWord& word) {
    const std::size_t length = assigned_name(word.text.text);
    const std::string name = word.text.text.substr(0, length);
    const bool append = word.text.text[length] == '+';
    std::vector<TracedText> value;
    if (word.array) {
      for (const TracedText& element : word.elements) {
        for (TracedText& expanded : expand(element, variables_)) {
          value.push_back(std::move(expanded));
        }
      }
    } else {
      value.push_back(expand_whole(word.text.part(length + (append ? 2 : 1), word.text.text.size()), variables_));
    }
    std::vector<TracedText>& target = variables_[name];
    if (!append) {
      target = std::move(value);
    } else if (word.array || target.empty()) {
      target.insert(target.end(), value.begin(), value.end());
    } else {
      target.front().add(value.front());
    }
    std::size_t bytes = 0;
    for (const TracedText& part : target) {
      bytes += part.text.size();
    }
    if (bytes > kMostVariableBytes) {
      throw_syntax(file_.name, file_.source, word.text.place(), name + " grows beyond 1 MiB");
    }
  }

  void assign_and_run(const std::vector<RawWord>& words) {
    std::size_t at = 0;
    constexpr std::array<std::string_view, 5> kDeclaring{"export", "declare", "local", "readonly", "typeset"};
    const bool declares = std::find(kDeclaring.begin(), kDeclaring.end(), words.front().text.text) != kDeclaring.end();
    at += declares ? 1 : 0;
    while (at < words.size() && (assigned_name(words[at].text.text) > 0 || declares)) {
      if (assigned_name(words[at].text.text) > 0) {
        assign(words[at]);
      }
      ++at;
    }
    ShellCommand command;
    for (; at < words.size(); ++at) {
      for (TracedText& word : expand(words[at].text, variables_)) {
        command.push_back(std::move(word));
      }
    }
    if (!command.empty()) {
      run_command(std::move(command));
    }
  }

  void run_command(ShellCommand command) {
    const std::string& first = command.front().text;
    if (first == "eval") {
      TracedText line;
      for (std::size_t i = 1; i < command.size(); ++i) {
        line.add(' ', command[i].place());
        line.add(command[i]);
      }
      run(line);
      return;
    }
    if ((first == "source" || first == ".") && command.size() > 1) {
      run_.remarks.push_back("the file that line " + std::to_string(file_.line_of(command.front().place())) +
                             " reads (" + command[1].text + ") was not read");
      return;
    }
    for (std::size_t i = 2; i < command.size(); ++i) {
      const std::string& shell = command[i - 2].text;
      if (command[i - 1].text == "-c" && shell.size() >= 2 && shell.compare(shell.size() - 2, 2, "sh") == 0) {
        ShellCommand before(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(i - 2));
        const std::size_t known = run_.commands.size();
        run(command[i]);
        // Options of srun in front belong to what it starts.
        for (std::size_t j = known; j < run_.commands.size(); ++j) {
          run_.commands[j].insert(run_.commands[j].begin(), before.begin(), before.end());
        }
        return;
      }
    }
    run_.commands.push_back(std::move(command));
  }

  const ConfigFile& file_;
  const TracedText* text_ = nullptr;
  std::size_t at_ = 0;
  int depth_ = 0;
  ShellVariables variables_;
  std::vector<Frame> frames_;
  std::vector<std::string> heredocs_;
  std::string connector_, condition_connector_;
  bool condition_ = false, last_ = true;
  ShellRun run_;
};

}  // namespace

ShellRun follow_script(const ConfigFile& file) {
  Follower follower(file);
  follower.run(TracedText::source(file.source));
  return follower.take();
}

}  // namespace tpplan::detail
