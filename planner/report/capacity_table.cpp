#include "planner/report/capacity_output.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

std::string lines_of(const std::vector<std::string>& lines, const Terminal& terminal) {
  std::string text;
  for (const std::string& line : lines) {
    text += "  " + wrap(line, terminal.width, 4, 2) + "\n";
  }
  return text;
}

std::string headlines(const CapacityReport& report, const Terminal& terminal) {
  TextTable table;
  table.columns = {{"", false}, {"", false}};
  for (const HeadlineFigure& headline : report.headlines) {
    table.rows.push_back(
        {headline.label, figure_text(headline.figure) + (headline.unit.empty() ? "" : " " + headline.unit)});
  }
  const std::string text = table.render(terminal, 2);
  return text.substr(text.find('\n') + 1);  // without the line of empty headers
}

std::vector<std::string> assumed_lines(const CapacityReport& report) {
  std::vector<std::string> lines;
  for (const ReportAssumption& assumption : report.assumed) {
    std::string line = assumption.what + ": " + assumption.value;
    line += assumption.interval.empty() ? "" : " (" + assumption.interval + ")";
    line += assumption.source.empty() ? "" : ", " + assumption.source;
    lines.push_back(line + " (" + assumption.set_by + ")");
  }
  return lines;
}

}  // namespace

std::string capacity_table(const CapacityReport& report, const Terminal& terminal, std::string& notes) {
  std::string text = terminal.paint(Style::bold, wrap(report.title, terminal.width, 2)) + "\n\n";
  text += terminal.paint(report.answered ? Style::good : Style::bad, wrap(report.decision, terminal.width, 2)) + "\n\n";
  text += report.headlines.empty() ? "" : headlines(report, terminal);
  if (!report.warnings.empty()) {
    text += "\n" + terminal.paint(Style::caution, "warnings") + "\n" + lines_of(report.warnings, terminal);
  }
  std::vector<std::string> dropped;
  for (const ReportSection& section : report.sections) {
    text += "\n" + terminal.paint(Style::bold, section.title) + "\n" + lines_of(section.summary, terminal);
    if (!section.table.rows.empty()) {
      text += text_table(section.table, false).render(terminal, 2, &dropped);
    }
    for (const std::string& note : section.notes) {
      text += terminal.paint(Style::dim, "  " + wrap(note, terminal.width, 4, 2)) + "\n";
    }
  }
  text +=
      "\n" + terminal.paint(Style::bold, "assumed (what sets it)") + "\n" + lines_of(assumed_lines(report), terminal);
  if (!dropped.empty()) {
    notes += "tpplan: note: " + std::to_string(dropped.size()) + " columns left out to fit " +
             std::to_string(terminal.width) + " columns (COLUMNS=N widens the tables; --format json has everything)\n";
  }
  text += terminal.paint(Style::dim,
                         "  " + wrap("tables show the middle of each interval; --format md and json have its ends",
                                     terminal.width, 4, 2)) +
          "\n";
  return text + "\n" + terminal.paint(Style::bold, "repeat with") + "\n  " + report.command + "\n";
}

}  // namespace tpplan
