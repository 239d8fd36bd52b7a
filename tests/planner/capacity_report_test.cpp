#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "planner/report/capacity_output.h"

using namespace tpplan;

namespace {

CapacityReport small_report() {
  CapacityReport report;
  report.title = "A model";
  report.version = "1.2.3";
  report.command = "tpplan report --model a";
  report.currency = "USD";
  report.decision = "Rent it.";
  report.headlines = {{"time to train", "time_days", {12.345, 10.0, 14.5}, "days"}};
  report.assumed = {{"PUE", "1.2", "1.08 to 1.56", "a survey", "--pue"}};
  report.warnings = {"slow disk"};
  report.inputs = {{"a.json", "0123456789abcdef"}};
  ReportSection section{.id = "sizes", .title = "Sizes"};
  section.table.columns = {{"nodes", "nodes", FigureStyle::count},
                           {"share", "share", FigureStyle::share},
                           {"cost", "cost"},
                           {"remark", "remark", FigureStyle::text}};
  section.table.rows = {{Figure{1024}, Figure{0.123}, Figure{5, 4, 6}, "a|b"}, {Figure{2}, {}, {}, {}}};
  report.sections = {section};
  return report;
}

}  // namespace

TEST_CASE("figures are shown in the style of their column") {
  const ReportTable table = small_report().sections.front().table;
  CHECK(cell_text(table.columns[0], table.rows[0][0]) == "1,024");
  CHECK(cell_text(table.columns[1], table.rows[0][1]) == "12.3 %");
  CHECK(cell_text(table.columns[2], table.rows[0][2]) == "5.00 (4.00 to 6.00)");
  CHECK(cell_text(table.columns[2], table.rows[1][2]).empty());
  CHECK(column_of(table, "cost") == 2);
  CHECK_THROWS(column_of(table, "money"));
}

TEST_CASE("the JSON of a report holds every figure with the ends of its interval") {
  const nlohmann::json json = nlohmann::json::parse(capacity_json(small_report()));
  CHECK(json["schema_version"] == 1);
  CHECK(json["decision"] == "Rent it.");
  CHECK(json["headlines"]["time_days"] == 12.345);
  CHECK(json["headlines"]["time_days_high"] == 14.5);
  CHECK(json["assumed"][0]["source"] == "a survey");
  CHECK(json["inputs"][0]["fnv1a64"] == "0123456789abcdef");
  const auto& rows = json["sections"][0]["rows"];
  CHECK(rows[0]["cost_low"] == 4);
  CHECK(rows[0]["remark"] == "a|b");
  CHECK(rows[1]["cost"].is_null());
  CHECK_FALSE(json.contains("date"));
}

TEST_CASE("Markdown and text of a report hold decision and figures and assumptions and command") {
  CapacityReport report = small_report();
  report.date = "2026-11-30";
  std::string notes;
  for (const std::string& text : {capacity_markdown(report), capacity_table(report, Terminal{}, notes)}) {
    for (const std::string_view part : {"A model", "Rent it.", "12.3 (10.0 to 14.5)", "PUE", "1.08 to 1.56", "a survey",
                                        "slow disk", "1,024", "tpplan report --model a"}) {
      CHECK_MESSAGE(text.find(part) != std::string::npos, part);
    }
  }
  CHECK(capacity_markdown(report).find("a\\|b") != std::string::npos);
  CHECK(capacity_markdown(report).find("2026-11-30") != std::string::npos);
}
