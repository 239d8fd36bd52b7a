#include "planner/capacity/capacity_report.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cost-model/units.h"

namespace tpplan {
namespace {

std::string figure_text(double value, FigureStyle style) {
  switch (style) {
    case FigureStyle::count:
      return std::abs(value) < 1e15 ? with_separators(std::llround(value)) : brief_number(value);
    case FigureStyle::share:
      return brief_number(100 * value) + " %";
    case FigureStyle::number:
    case FigureStyle::text:
      break;
  }
  return brief_number(value);
}

}  // namespace

std::size_t column_of(const ReportTable& table, std::string_view key) {
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [key](const ReportColumn& column) { return column.key == key; });
  if (found == table.columns.end()) {
    throw std::out_of_range("no column " + std::string(key));
  }
  return static_cast<std::size_t>(found - table.columns.begin());
}

std::string figure_text(const Figure& figure, FigureStyle style) {
  std::string text = figure_text(figure.value, style);
  if (figure.low && figure.high) {
    text += " (" + figure_text(*figure.low, style) + " to " + figure_text(*figure.high, style) + ")";
  }
  return text;
}

std::string cell_text(const ReportColumn& column, const ReportCell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    return *text;
  }
  const auto* figure = std::get_if<Figure>(&cell);
  return figure == nullptr ? "" : figure_text(*figure, column.style);
}

TextTable text_table(const ReportTable& table, bool intervals) {
  TextTable texts;
  for (const ReportColumn& column : table.columns) {
    texts.columns.push_back({column.header, column.style != FigureStyle::text, column.importance});
  }
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto* figure = std::get_if<Figure>(&row[i]);
      cells.push_back(figure != nullptr && !intervals ? figure_text(Figure{figure->value}, table.columns[i].style)
                                                      : cell_text(table.columns[i], row[i]));
    }
    texts.rows.push_back(std::move(cells));
  }
  return texts;
}

}  // namespace tpplan
