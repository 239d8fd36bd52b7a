#include "planner/report/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cost-model/units.h"

namespace tpplan {
namespace {

constexpr std::size_t kGap = 2;

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
  const std::vector<std::size_t> widths = column_widths(*this);
  const std::size_t margin = static_cast<std::size_t>(indent);
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  const std::vector<bool> shown = fitting_columns(*this, widths, width > margin ? width - margin : 0);
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
  std::vector<std::string> headers;
  headers.reserve(columns.size());
  for (const Column& column : columns) {
    headers.push_back(column.header);
  }
  std::string text = terminal.paint(Style::bold, line(headers)) + "\n";
  for (const auto& row : rows) {
    text += line(row) + "\n";
  }
  return text;
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

std::string brief_number(double value) {
  if (!std::isfinite(value)) {
    return "-";
  }
  const double size = std::fabs(value);
  if (size >= 999.5) {
    return with_separators(std::llround(value));
  }
  const int decimals = size == 0.0 ? 0 : std::max(0, 2 - static_cast<int>(std::floor(std::log10(size))));
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", std::min(decimals, 9), value);
  return buffer.data();
}

}  // namespace tpplan
