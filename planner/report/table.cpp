#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

std::string paragraph(std::string_view heading, const std::vector<std::string>& lines, const Terminal& terminal,
                      Style style) {
  std::string text;
  for (const std::string& line : lines) {
    text += "  " + wrap(line, terminal.width, 4, 2) + "\n";
  }
  return text.empty() ? text : "\n" + terminal.paint(style, heading) + "\n" + text;
}

std::string answer(const PlanReport& report, const Terminal& terminal) {
  constexpr std::size_t kNameWidth = 12;
  constexpr int kTextColumn = 2 + static_cast<int>(kNameWidth);
  std::string text;
  for (const AnswerLine& line : answer_lines(report, terminal)) {
    const std::string pad(kNameWidth - line.name.size(), ' ');
    text += "  " + line.name + pad +
            terminal.paint(line.style, wrap(line.text, terminal.width, kTextColumn, kTextColumn)) + "\n";
  }
  return text;
}

std::vector<std::string> assumed_lines(const std::vector<Assumption>& assumed) {
  std::vector<std::string> lines;
  for (const Assumption& assumption : assumed) {
    std::string line = assumption.what;
    if (!assumption.value.empty()) {
      line += ": " + assumption.value;
    }
    lines.push_back(line + " (" + assumption.set_by + ")");
  }
  return lines;
}

std::string ranking(const PlanReport& report, const Terminal& terminal, std::string& notes) {
  std::string common;
  std::vector<std::string> dropped;
  const TextTable table = ranking_table(report, common);
  std::string text = "\n" + table.render(terminal, 0, &dropped);
  if (!common.empty()) {
    text += terminal.paint(Style::dim, wrap("all plans: " + common, terminal.width, 2)) + "\n";
  }
  for (const std::string& note : ranking_notes(report)) {
    text += terminal.paint(Style::dim, wrap(note, terminal.width, 2)) + "\n";
  }
  notes += left_out_note(dropped, terminal, "csv has");
  return text;
}

}  // namespace

std::string table_report(const PlanReport& report, const Terminal& terminal, std::string& notes) {
  std::string text = terminal.paint(Style::bold, wrap(job_line(report.job), terminal.width, 2)) + "\n\n";
  if (report.result.plans.empty()) {
    text += terminal.paint(Style::bad, "no layout fits") + "\n";
    for (const std::string& line : miss_lines(report)) {
      text += "  " + wrap(line, terminal.width, 4, 2) + "\n";
    }
  } else {
    text += answer(report, terminal) + ranking(report, terminal, notes);
  }
  text += "\n" + wrap(searched_line(report.result.stats), terminal.width, 2) + "\n";
  text += paragraph("warnings", report.warnings, terminal, Style::caution);
  text += paragraph("assumed (what sets it)", assumed_lines(report.assumed), terminal, Style::bold);
  text += "\n" + terminal.paint(Style::bold, "next") + "\n";
  // Never wrapped: a command is there to be pasted.
  for (const std::string& command : next_commands(report)) {
    text += "  " + command + "\n";
  }
  return text;
}

}  // namespace tpplan
