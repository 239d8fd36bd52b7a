#include <algorithm>
#include <array>

#include "planner/report/capacity_output.h"
#include "planner/report/html_page.h"
#include "planner/report/svg.h"

namespace tpplan {
namespace {

using svg::escaped;

std::string headlines(const CapacityReport& report) {
  std::string text;
  for (const HeadlineFigure& headline : report.headlines) {
    const Figure& figure = headline.figure;
    text += "<div><dt>" + escaped(headline.label) + "</dt><dd>" + escaped(figure_text(Figure{figure.value})) +
            " <span class=\"unit\">" + escaped(headline.unit) + "</span>";
    if (figure.low && figure.high) {
      text += "<small>" + escaped(figure_text(Figure{*figure.low})) + " to " +
              escaped(figure_text(Figure{*figure.high})) + " (80 %)</small>";
    }
    text += "</dd></div>\n";
  }
  return text.empty() ? text : "<dl class=\"numbers\">\n" + text + "</dl>\n";
}

/// Without the columns that nothing is in.
std::string assumed(const std::vector<ReportAssumption>& assumptions) {
  struct AssumedColumn {
    const char* header;
    std::string ReportAssumption::*field;
  };
  constexpr std::array<AssumedColumn, 5> kColumns{{{"assumed", &ReportAssumption::what},
                                                   {"value", &ReportAssumption::value},
                                                   {"interval", &ReportAssumption::interval},
                                                   {"source", &ReportAssumption::source},
                                                   {"set by", &ReportAssumption::set_by}}};
  TextTable table;
  table.rows.resize(assumptions.size());
  for (const AssumedColumn& column : kColumns) {
    const bool used = std::any_of(assumptions.begin(), assumptions.end(),
                                  [&column](const ReportAssumption& row) { return !(row.*column.field).empty(); });
    if (used) {
      table.columns.push_back({column.header, false});
      for (std::size_t i = 0; i < assumptions.size(); ++i) {
        table.rows[i].push_back(assumptions[i].*column.field);
      }
    }
  }
  return "<section class=\"panel\" aria-labelledby=\"assumed\">\n" + html_heading(3, "Assumed", "assumed") +
         html_table(table, "What was assumed, and what sets it") + "</section>\n";
}

std::string warnings(const std::vector<std::string>& lines) {
  return lines.empty() ? ""
                       : "<div class=\"warnings\" role=\"note\">\n<p>Warnings</p>\n" + html_list(lines) + "</div>\n";
}

std::string footer(const CapacityReport& report) {
  std::string text = "<footer>\n<p>tpplan " + escaped(report.version);
  text += report.date.empty() ? "" : ", " + escaped(report.date);
  text += ". Intervals and bands hold four of five cases.";
  text += report.inputs.empty() ? "" : " Files this report rests on (FNV-1a of their bytes):";
  for (const ReportInput& input : report.inputs) {
    text += " " + escaped(input.name) + " <code>" + escaped(input.fingerprint) + "</code>";
    text += &input == &report.inputs.back() ? "." : ",";
  }
  return text + "</p>\n</footer>\n";
}

}  // namespace

std::string capacity_html(const CapacityReport& report) {
  std::string body = html_heading(1, report.title);
  body += "<p class=\"decision" + std::string(report.answered ? "" : " unmet") + "\">" + escaped(report.decision) +
          "</p>\n" + headlines(report);
  body += assumed(report.assumed) + "<section aria-labelledby=\"repeat\">\n" +
          html_heading(3, "To repeat this report", "repeat") + html_command(report.command) + "</section>\n";
  body += warnings(report.warnings);
  std::vector<std::pair<std::string, std::string>> contents;
  for (const ReportSection& section : report.sections) {
    contents.emplace_back(section.id, section.title);
    body += html_section(section);
  }
  return html_page(report.title, contents, body + footer(report));
}

}  // namespace tpplan
