#include "planner/report/capacity_output.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

std::string list(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += "- " + line + "\n";
  }
  return text.empty() ? text : text + "\n";
}

std::string assumed_table(const std::vector<ReportAssumption>& assumed) {
  TextTable table;
  table.columns = {{"assumed", false}, {"value", false}, {"interval", false}, {"source", false}, {"set by", false}};
  for (const ReportAssumption& assumption : assumed) {
    table.rows.push_back(
        {assumption.what, assumption.value, assumption.interval, assumption.source, "`" + assumption.set_by + "`"});
  }
  return github_table(table);
}

}  // namespace

std::string capacity_markdown(const CapacityReport& report) {
  std::string text = "# " + report.title + "\n\n**" + report.decision + "**\n\n";
  if (!report.headlines.empty()) {
    TextTable headlines;
    headlines.columns = {{"", false}, {""}, {"", false}};
    for (const HeadlineFigure& headline : report.headlines) {
      headlines.rows.push_back({headline.label, figure_text(headline.figure), headline.unit});
    }
    text += github_table(headlines) + "\n";
  }
  text += list(report.warnings);
  for (const ReportSection& section : report.sections) {
    text += "## " + section.title + "\n\n";
    for (const std::string& sentence : section.summary) {
      text += sentence + "\n\n";
    }
    if (!section.table.rows.empty()) {
      text += github_table(text_table(section.table)) + "\n";
    }
    text += list(section.notes);
  }
  text += "## Assumed\n\n" + assumed_table(report.assumed) + "\n## To repeat\n\n    " + report.command + "\n\n";
  TextTable inputs;
  inputs.columns = {{"input", false}, {"FNV-1a", false}};
  for (const ReportInput& input : report.inputs) {
    inputs.rows.push_back({input.name, input.fingerprint});
  }
  if (!inputs.rows.empty()) {
    text += github_table(inputs) + "\n";
  }
  return text + "tpplan " + report.version + (report.date.empty() ? "" : ", " + report.date) + "\n";
}

}  // namespace tpplan
