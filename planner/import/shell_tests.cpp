#include "planner/import/shell_tests.h"

#include <charconv>
#include <cstdint>

namespace tpplan::detail {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool whole_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// A comparison of two words of a test.
bool compared(const std::string& a, std::string_view sign, const std::string& b) {
  if (sign == "=" || sign == "==") {
    return matches(b, a);
  }
  if (sign == "!=") {
    return !matches(b, a);
  }
  std::int64_t x = 0;
  std::int64_t y = 0;
  if (!whole_number(a, x) || !whole_number(b, y)) {
    return false;
  }
  return (sign == "-eq" && x == y) || (sign == "-ne" && x != y) || (sign == "-lt" && x < y) ||
         (sign == "-le" && x <= y) || (sign == "-gt" && x > y) || (sign == "-ge" && x >= y);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) {
    return text.empty();
  }
  if (pattern.front() == '*') {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (matches(pattern.substr(1), text.substr(i))) {
        return true;
      }
    }
    return false;
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
         matches(pattern.substr(1), text.substr(1));
}

bool tested(const std::vector<std::string>& words, std::size_t& at, std::string_view end) {
  bool negated = false;
  while (at < words.size() && words[at] == "!") {
    negated = !negated;
    ++at;
  }
  bool result = false;
  const std::size_t left = words.size() - at;
  const bool comparison =
      left >= 3 && (words[at + 1].front() == '-' || words[at + 1].find('=') != kNone) && words[at + 2] != end;
  if (left > 0 && (words[at] == "-z" || words[at] == "-n")) {
    const bool given = left > 1 && words[at + 1] != end;
    result = (words[at] == "-z") == (!given || words[at + 1].empty());
    at += given ? 2 : 1;
  } else if (comparison) {
    result = compared(words[at], words[at + 1], words[at + 2]);
    at += 3;
  } else if (left > 1 && words[at].size() == 2 && words[at].front() == '-') {
    at += 2;  // -f FILE, -d FOLDER
  } else if (left > 0 && words[at] != end) {
    result = !words[at].empty();
    ++at;
  }
  result = result != negated;
  if (at < words.size() && (words[at] == "&&" || words[at] == "-a" || words[at] == "||" || words[at] == "-o")) {
    const bool both = words[at] == "&&" || words[at] == "-a";
    ++at;
    const bool right = tested(words, at, end);
    return both ? result && right : result || right;
  }
  return result;
}

}  // namespace tpplan::detail
