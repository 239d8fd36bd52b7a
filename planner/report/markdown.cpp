#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

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

}  // namespace

std::string markdown_report(const PlanReport& report, const Terminal&, std::string&) {
  std::string text = "## " + job_line(report.job) + "\n\n";
  if (report.result.plans.empty()) {
    text += "No layout fits.\n\n";
    for (const std::string& line : miss_lines(report)) {
      text += "- " + line + "\n";
    }
  } else {
    TextTable answer;
    answer.columns = {{"best plan", false, 0}, {"", false, 0}};
    for (const AnswerLine& line : answer_lines(report, Terminal{})) {
      answer.rows.push_back({line.name, line.name == "layout" ? "`" + line.text + "`" : line.text});
    }
    std::string common;
    const TextTable table = ranking_table(report, common);
    text += github_table(answer) + "\n" + github_table(table) + "\n";
    if (!common.empty()) {
      text += "All plans: `" + common + "`.\n\n";
    }
    for (const std::string& note : ranking_notes(report)) {
      text += "- " + note + "\n";
    }
  }
  text += "\n" + searched_line(report.result.stats) + "\n";
  if (!report.warnings.empty()) {
    text += "\n### Warnings\n\n";
    for (const std::string& warning : report.warnings) {
      text += "- " + warning + "\n";
    }
  }
  if (!report.assumed.empty()) {
    TextTable assumed;
    assumed.columns = {{"assumed", false, 0}, {"value", false, 0}, {"set by", false, 0}};
    for (const Assumption& assumption : report.assumed) {
      assumed.rows.push_back({assumption.what, assumption.value, "`" + assumption.set_by + "`"});
    }
    text += "\n" + github_table(assumed);
  }
  for (const std::string& command : next_commands(report)) {
    text += "\n    " + command + "\n";
  }
  return text;
}

}  // namespace tpplan
