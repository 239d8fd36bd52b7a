#include "planner/report/format.h"

namespace tpplan {

const std::vector<FormatRow>& formats() {
  static const std::vector<FormatRow> rows{
      {"table", ".txt", OutputFormat::table, table_report},        {"json", ".json", OutputFormat::json, json_report},
      {"jsonl", ".jsonl", OutputFormat::jsonl, json_lines_report}, {"csv", ".csv", OutputFormat::csv, csv_report},
      {"md", ".md", OutputFormat::markdown, markdown_report},      {"html", ".html", OutputFormat::html, html_report},
  };
  return rows;
}

std::optional<OutputFormat> format_from(std::string_view name) {
  for (const FormatRow& row : formats()) {
    if (row.name == name) {
      return row.format;
    }
  }
  return std::nullopt;
}

std::optional<OutputFormat> format_of_suffix(std::string_view path) {
  for (const FormatRow& row : formats()) {
    if (path.size() > row.suffix.size() && path.substr(path.size() - row.suffix.size()) == row.suffix) {
      return row.format;
    }
  }
  return std::nullopt;
}

std::string_view name_of(OutputFormat format) {
  for (const FormatRow& row : formats()) {
    if (row.format == format) {
      return row.name;
    }
  }
  return "?";
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const FormatRow& row : formats()) {
    names.emplace_back(row.name);
  }
  return names;
}

}  // namespace tpplan
