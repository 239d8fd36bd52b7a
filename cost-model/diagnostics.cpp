// How problems in input files are shown, and the search for the name that was meant.

#include <algorithm>
#include <cctype>

#include "cost-model/document_state.h"

namespace tpplan {
namespace {

constexpr std::size_t kMaxShown = 20;        // problems printed of one file
constexpr std::size_t kMaxLineLength = 120;  // characters of a source line printed
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct Place {
  std::size_t line = 1;
  std::size_t column = 1;  ///< in characters, a tab being one
  std::string_view text;   ///< the whole source line
};

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

Place locate(std::string_view source, std::size_t offset) {
  offset = std::min(offset, source.size());
  // The end of a text that ends in blank lines is shown after its last character: that is where a text was cut off.
  if (offset == source.size() && offset > 0) {
    const std::size_t last = source.find_last_not_of(" \t\r\n");
    offset = last == std::string_view::npos ? 0 : last + 1;
  }
  Place place;
  const std::string_view before = source.substr(0, offset);
  place.line += static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  std::size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  if (begin == 0 && source.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    begin = std::min(kByteOrderMark.size(), offset);
  }
  std::size_t end = std::min(source.find('\n', begin), source.size());
  if (end > begin && source[end - 1] == '\r') {
    --end;
  }
  place.text = source.substr(begin, end - begin);
  place.column += characters(source.substr(begin, offset - begin));
  return place;
}

/// The part of a long line around a column (counted from 1), and the column inside that part. What no terminal shows is
/// a question mark: control characters and bytes that are no UTF-8.
std::string excerpt(std::string_view line, std::size_t& column) {
  std::string out;
  const std::size_t count = characters(line);
  const std::size_t first = count <= kMaxLineLength || column <= kMaxLineLength / 2 ? 0 : column - kMaxLineLength / 2;
  std::size_t index = 0;
  for (std::size_t at = 0, length = 0; at < line.size(); at += length) {
    length = std::max<std::size_t>(1, detail::utf8_length(line, at));
    const char c = line[at];
    if (length == 1 && continues_character(c)) {
      continue;  // counts as no character, as in columns
    }
    ++index;
    if (index > first && index <= first + kMaxLineLength) {
      const auto code = static_cast<unsigned char>(c);
      const bool shown = length > 1 || c == '\t' || (code >= 0x20 && code < 0x7F);
      out += shown ? line.substr(at, length) : "?";
    }
  }
  if (first > 0) {
    out.insert(0, "...");
    column = column - first + 3;
  }
  if (count > first + kMaxLineLength) {
    out += "...";
  }
  return out;
}

std::string_view word_for(Diagnostic::Severity severity) {
  return severity == Diagnostic::Severity::error     ? "error"
         : severity == Diagnostic::Severity::warning ? "warning"
                                                     : "note";
}

void append(std::string& out, const std::string& file, std::string_view source, const Diagnostic& diagnostic) {
  Place place = locate(source, diagnostic.offset);
  out += file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) + ": " +
         std::string(word_for(diagnostic.severity)) + ": " + diagnostic.message + "\n";
  const bool blank_line = place.text.find_first_not_of(" \t") == std::string_view::npos;
  if (blank_line && diagnostic.hint.empty()) {
    return;
  }
  std::size_t column = place.column;
  const std::string shown = excerpt(place.text, column);
  const std::string number = std::to_string(place.line);
  out += std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number + " | " + shown + "\n";
  out += "      | ";
  std::size_t index = 1;
  for (std::size_t at = 0; index < column; ++at) {
    if (at < shown.size() && continues_character(shown[at])) {
      continue;
    }
    out.push_back(at < shown.size() && shown[at] == '\t' ? '\t' : ' ');
    ++index;
  }
  out += "^" + (diagnostic.hint.empty() ? std::string() : " " + diagnostic.hint) + "\n";
}

}  // namespace

std::size_t detail::edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0U : 1U)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

SpecError::SpecError(const std::string& file, std::string_view source, std::vector<Diagnostic> diagnostics)
    : std::runtime_error(render(file, source, diagnostics)), diagnostics_(std::move(diagnostics)) {}

SpecError::SpecError(const std::string& message) : std::runtime_error(message) {}

std::string render(const std::string& file, std::string_view source, std::vector<Diagnostic> diagnostics) {
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.offset < b.offset; });
  std::string out;
  std::size_t shown = 0;
  std::size_t errors = 0;
  for (const Diagnostic& diagnostic : diagnostics) {
    errors += diagnostic.severity == Diagnostic::Severity::error ? 1 : 0;
    if (shown < kMaxShown) {
      append(out, file, source, diagnostic);
      ++shown;
    }
  }
  if (errors > 0) {
    out += std::to_string(errors) + (errors == 1 ? " error in " : " errors in ") + file;
    if (shown < diagnostics.size()) {
      out += ", the first " + std::to_string(shown) + " shown";
    }
    out += "\n";
  }
  if (!out.empty()) {
    out.pop_back();
  }
  return out;
}

std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  std::size_t best_distance = (word.size() <= 4 ? 1 : word.size() <= 7 ? 2 : 3) + 1;
  std::optional<std::string> best;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = detail::edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best || word.size() < 3) {
    return best;
  }
  // A word that is a part of one name ("h100" of "h100-80gb-sxm"): the shortest such name.
  for (const std::string& candidate : candidates) {
    if (candidate.find(word) != std::string::npos && (!best || candidate.size() < best->size())) {
      best = candidate;
    }
  }
  return best;
}

}  // namespace tpplan
