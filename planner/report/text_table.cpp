#include "planner/report/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cost-model/units.h"

namespace tpplan {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kHang = 2;  ///< by which the second and later lines of a wrapped cell are indented

std::vector<std::size_t> column_widths(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = display_width(table.columns[i].header);
    for (const auto& row : table.rows) {
      width = std::max(width, display_width(row[i]));
    }
    widths.push_back(width);
  }
  return widths;
}

/// Which columns are shown: the least important go first, of equals the rightmost.
std::vector<bool> fitting_columns(const TextTable& table, const std::vector<std::size_t>& widths, std::size_t room) {
  std::vector<bool> shown(widths.size(), true);
  while (true) {
    std::size_t used = 0;
    std::size_t least = widths.size();
    std::size_t count = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (!shown[i]) {
        continue;
      }
      ++count;
      used += widths[i] + (used == 0 ? 0 : kGap);
      if (least == widths.size() || table.columns[i].importance <= table.columns[least].importance) {
        least = i;
      }
    }
    if (used <= room || count <= 1) {
      return shown;
    }
    shown[least] = false;
  }
}

std::size_t used_width(const std::vector<std::size_t>& widths, const std::vector<bool>& shown) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    used += shown[i] ? widths[i] + (used == 0 ? 0 : kGap) : 0;
  }
  return used;
}

/// The widest column of text, columns.size() when none is wider than `narrow`.
std::size_t widest_text(const TextTable& table, const std::vector<std::size_t>& widths, std::size_t narrow) {
  std::size_t widest = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (!table.columns[i].right && widths[i] > (widest == widths.size() ? narrow : widths[widest])) {
      widest = i;
    }
  }
  return widest;
}

/// Where the line that starts `text` ends when it may have `width` columns: at a blank, else behind a slash of a path,
/// else where it is full.
std::size_t line_end(std::string_view text, std::size_t width) {
  std::size_t full = 0;
  for (std::size_t columns = 0; full < text.size(); ++full) {
    columns += (static_cast<unsigned char>(text[full]) & 0xC0U) != 0x80U ? 1 : 0;
    if (columns > width) {
      break;
    }
  }
  if (full == text.size()) {
    return full;
  }
  const std::size_t blank = text.rfind(' ', full);
  if (blank != std::string_view::npos && blank > 0) {
    return blank;
  }
  const std::size_t slash = text.substr(0, full).rfind('/');
  return slash == std::string_view::npos || slash == 0 ? full : slash + 1;
}

std::vector<std::string> cell_lines(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  do {
    const std::size_t hang = lines.empty() || width <= 2 * kHang ? 0 : kHang;
    const std::size_t end = line_end(text, width - hang);
    lines.push_back(std::string(hang, ' ') + std::string(text.substr(0, end)));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  } while (!text.empty());
  return lines;
}

/// A cell of a GitHub table: bars and line feeds would end it.
std::string cell_of(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    cell += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  }
  while (!cell.empty() && cell.back() == ' ') {
    cell.pop_back();
  }
  return cell;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += " " + cell_of(cell) + " |";
  }
  return line + "\n";
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string TextTable::render(const Terminal& terminal, int indent, std::vector<std::string>* dropped) const {
  std::vector<std::size_t> widths = column_widths(*this);
  const std::size_t margin = static_cast<std::size_t>(indent);
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  const std::size_t room = width > margin ? width - margin : 0;
  // A cell of text takes half of the width at most before columns are left out.
  const std::size_t narrow = width / 2;
  const std::size_t wrapped = widest_text(*this, widths, narrow);
  std::vector<bool> shown(widths.size(), true);
  if (used_width(widths, shown) > room) {
    const std::size_t whole = wrapped < widths.size() ? std::exchange(widths[wrapped], narrow) : 0;
    shown = fitting_columns(*this, widths, room);
    if (wrapped < widths.size()) {
      const std::size_t left = room - std::min(room, used_width(widths, shown));
      widths[wrapped] = std::min(whole, widths[wrapped] + left);
    }
  }
  if (dropped != nullptr) {
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (!shown[i]) {
        dropped->push_back(columns[i].header);
      }
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(margin, ' ');
    bool first = true;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!shown[i]) {
        continue;
      }
      const std::string pad(widths[i] - display_width(cells[i]), ' ');
      text += (first ? "" : std::string(kGap, ' ')) + (columns[i].right ? pad + cells[i] : cells[i] + pad);
      first = false;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const auto lines = [&](std::vector<std::string> cells) {
    if (wrapped >= widths.size() || !shown[wrapped] || display_width(cells[wrapped]) <= widths[wrapped]) {
      return line(cells) + "\n";
    }
    std::string text;
    for (const std::string& part : cell_lines(cells[wrapped], widths[wrapped])) {
      cells[wrapped] = part;
      text += line(cells) + "\n";
      cells.assign(cells.size(), "");
    }
    return text;
  };
  std::vector<std::string> headers;
  headers.reserve(columns.size());
  for (const Column& column : columns) {
    headers.push_back(column.header);
  }
  std::string text = terminal.paint(Style::bold, line(headers)) + "\n";
  for (const auto& row : rows) {
    text += lines(row);
  }
  return text;
}

std::string left_out_note(const std::vector<std::string>& dropped, const Terminal& terminal, std::string_view full) {
  if (dropped.empty()) {
    return "";
  }
  std::string note = "tpplan: note: left out to fit " + std::to_string(terminal.width) + " columns:";
  for (auto name = dropped.begin(); name != dropped.end(); ++name) {
    if (std::find(dropped.begin(), name, *name) == name) {
      note += (name == dropped.begin() ? " " : ", ") + *name;
    }
  }
  return note + " (COLUMNS=N widens the table; --format " + std::string(full) + " everything)\n";
}

std::string github_table(const TextTable& table) {
  std::vector<std::string> headers;
  std::string rule = "|";
  for (const Column& column : table.columns) {
    headers.push_back(column.header);
    rule += column.right ? " ---: |" : " --- |";
  }
  std::string text = row_of(headers) + rule + "\n";
  for (const auto& row : table.rows) {
    text += row_of(row);
  }
  return text;
}

std::string wrap(std::string_view text, int width, int indent, int start) {
  const std::size_t room = static_cast<std::size_t>(std::max(width, indent + 20));
  std::string wrapped;
  std::size_t column = static_cast<std::size_t>(start);
  bool line_start = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t length = display_width(word);
    if (!line_start && column + 1 + length > room) {
      wrapped += '\n';
      wrapped.append(static_cast<std::size_t>(indent), ' ');
      column = static_cast<std::size_t>(indent);
    } else if (!line_start) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += length;
    line_start = false;
  }
  return wrapped;
}

std::string percent(double share, int decimals) {
  if (decimals == 0) {
    return std::to_string(std::lround(share * 100)) + " %";
  }
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %%", decimals, share * 100);
  return buffer.data();
}

std::string brief_percent(double share) { return brief_number(100 * share) + " %"; }

std::string brief_number(double value) {
  if (!std::isfinite(value)) {
    return "-";
  }
  const double size = std::fabs(value);
  std::array<char, 64> buffer{};
  if (size >= 1e15) {
    std::snprintf(buffer.data(), buffer.size(), "%.2e", value);
    return buffer.data();
  }
  if (size >= 999.5) {
    return with_separators(std::llround(value));
  }
  const int decimals = size == 0.0 ? 0 : std::max(0, 2 - static_cast<int>(std::floor(std::log10(size))));
  std::snprintf(buffer.data(), buffer.size(), "%.*f", std::min(decimals, 9), value);
  return buffer.data();
}

}  // namespace tpplan
