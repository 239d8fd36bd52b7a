#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&'   ? std::string("&amp;")
              : c == '<' ? std::string("&lt;")
              : c == '>' ? std::string("&gt;")
              : c == '"' ? std::string("&quot;")
                         : std::string(1, c);
  }
  return result;
}

constexpr std::string_view kStyle =
    ":root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}"
    "body{max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}"
    "th,td{padding:.25rem .75rem;border-bottom:1px solid #8884;text-align:left}"
    "td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}"
    "code{font-family:ui-monospace,monospace}";

std::string html_table(const TextTable& table) {
  const auto cell = [&](std::string_view tag, std::size_t column, std::string_view text) {
    return "<" + std::string(tag) + (table.columns[column].right ? " class=\"number\">" : ">") + escaped(text) + "</" +
           std::string(tag) + ">";
  };
  std::string text = "<table>\n<thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    text += cell("th", i, table.columns[i].header);
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += cell("td", i, row[i]);
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n";
}

std::string list(std::string_view heading, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += "<li>" + escaped(line) + "</li>\n";
  }
  return text.empty() ? text : "<h2>" + std::string(heading) + "</h2>\n<ul>\n" + text + "</ul>\n";
}

}  // namespace

std::string html_report(const PlanReport& report, const Terminal&, std::string&) {
  const std::string title = escaped(job_line(report.job));
  std::string text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>" + title +
                     "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n";
  if (report.result.plans.empty()) {
    text += list("No layout fits", miss_lines(report));
  } else {
    TextTable answer;
    answer.columns = {{"best plan", false, 0}, {"", false, 0}};
    for (const AnswerLine& line : answer_lines(report, Terminal{})) {
      answer.rows.push_back({line.name, line.text});
    }
    std::string common;
    const TextTable table = ranking_table(report, common);
    text += html_table(answer) + html_table(table);
    text += common.empty() ? "" : "<p>All plans: <code>" + escaped(common) + "</code></p>\n";
    text += list("Reading the table", ranking_notes(report));
  }
  text += "<p>" + escaped(searched_line(report.result.stats)) + "</p>\n";
  text += list("Warnings", report.warnings);
  TextTable assumed;
  assumed.columns = {{"assumed", false, 0}, {"value", false, 0}, {"set by", false, 0}};
  for (const Assumption& assumption : report.assumed) {
    assumed.rows.push_back({assumption.what, assumption.value, assumption.set_by});
  }
  text += "<h2>Assumed</h2>\n" + html_table(assumed);
  for (const std::string& command : next_commands(report)) {
    text += "<p>Next: <code>" + escaped(command) + "</code></p>\n";
  }
  return text + "</body>\n</html>\n";
}

}  // namespace tpplan
