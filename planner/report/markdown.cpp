#include "planner/report/plan_report.h"

namespace tpplan {

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
