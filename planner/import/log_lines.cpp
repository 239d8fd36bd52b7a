#include "planner/import/log_lines.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tpplan {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// ESC [ digits and semicolons, then one letter.
void remove_colours(std::string& text) {
  for (std::size_t at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b', at)) {
    std::size_t end = at + 1;
    if (end < text.size() && text[end] == '[') ++end;
    while (end < text.size() && (is_digit(text[end]) || text[end] == ';')) ++end;
    text.erase(at, std::min(end + 1, text.size()) - at);
  }
}

void normalise_blanks(std::string& text) {
  remove_colours(text);
  replace_all(text, "&nbsp;", " ");
  replace_all(text, "\xc2\xa0", " ");     // no-break space in UTF-8
  replace_all(text, "\xe2\x80\x8b", "");  // zero-width space
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\r' || c == '\0' || c == '|'; }, ' ');
  const std::size_t first = text.find_first_not_of(' ');
  if (first != std::string::npos && text.compare(first, 3, "```") == 0) text.clear();
}

/// "[1,0]<stdout>:" and "[job@1,0]<stderr>:", wherever they stand.
void remove_tags(std::string& text) {
  static constexpr std::array<std::string_view, 3> kStreams{"<stdout>:", "<stderr>:", "<stddiag>:"};
  for (const std::string_view stream : kStreams) {
    for (std::size_t at = text.find(stream); at != std::string::npos; at = text.find(stream, at)) {
      const std::size_t open = text.rfind('[', at);
      const std::size_t from = open != std::string::npos && at > 0 && text[at - 1] == ']' ? open : at;
      text.erase(from, at + stream.size() - from);
      at = from;
    }
  }
}

/// "12: " at the start of a line.
void remove_task_number(std::string& text) {
  std::size_t at = text.find_first_not_of(' ');
  if (at == std::string::npos || !is_digit(text[at])) return;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at < text.size() && text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ')) text.erase(0, at + 1);
}

/// "[0]" anywhere. Bus ids ("[0x10]", "[0000:10:00]") hold other characters.
void remove_rank_brackets(std::string& text) {
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at)) {
    std::size_t end = at + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end > at + 1 && end < text.size() && text[end] == ']') {
      text.replace(at, end + 1 - at, " ");
    }
    ++at;
  }
}

/// Where the sender "host:pid:tid" of an NCCL message begins, looking back from the word NCCL; the message may be
/// glued to the row it interrupts ("-1node0:812:812 [0] NCCL INFO").
std::size_t sender_start(const std::string& text, std::size_t keyword) {
  std::size_t end = keyword;
  while (end > 0) {
    while (end > 0 && text[end - 1] == ' ') --end;
    std::size_t begin = end;
    while (begin > 0 && text[begin - 1] != ' ') --begin;
    const std::string_view word(text.data() + begin, end - begin);
    const std::size_t last_colon = word.rfind(':');
    if (last_colon != std::string_view::npos && last_colon > 0 && last_colon + 1 < word.size() &&
        std::all_of(word.begin() + static_cast<std::ptrdiff_t>(last_colon) + 1, word.end(), is_digit)) {
      const std::size_t middle = word.rfind(':', last_colon - 1);
      if (middle != std::string_view::npos && middle + 1 < last_colon && is_digit(word[middle + 1])) {
        std::size_t host = 0;
        while (host < middle && !is_letter(word[host])) ++host;
        return begin + (host < middle ? host : 0);
      }
    }
    end = begin;
  }
  return 0;
}

void split_message(LogLine& line) {
  static constexpr std::array<std::string_view, 3> kKeywords{"NCCL INFO", "NCCL WARN", "NCCL TRACE"};
  std::size_t keyword = std::string::npos;
  for (const std::string_view word : kKeywords) keyword = std::min(keyword, line.text.find(word));
  if (keyword == std::string::npos) return;
  const std::size_t start = sender_start(line.text, keyword);
  line.message = line.text.substr(start);
  line.text.erase(start);
}

}  // namespace

std::vector<LogLine> log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    LogLine line;
    line.number = lines.size() + 1;
    line.ended = end != std::string_view::npos;
    line.text = std::string(text.substr(at, line.ended ? end - at : std::string_view::npos));
    normalise_blanks(line.text);
    remove_tags(line.text);
    remove_task_number(line.text);
    split_message(line);
    remove_rank_brackets(line.text);
    at = line.ended ? end + 1 : text.size();
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tpplan
