#include "planner/report/html_page.h"

#include <doctest/doctest.h>

#include "planner/report/capacity_output.h"

namespace {

using namespace tpplan;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

CapacityReport report() {
  CapacityReport page;
  page.title = "A <model> on 1 T tokens";
  page.version = "0.1.0";
  page.date = "2026-11-30";
  page.command = "tpplan report --model \"a b\"";
  page.decision = "Take 8 & be done.";
  page.headlines = {{"time to train", "time_days", {12.5, 11, 15}, "days"}};
  page.assumed = {{"goodput", "0.9", "", "a source", "--goodput"}};
  page.inputs = {{"models/7b.json", "00ff"}};
  ReportSection section{.id = "sizes", .title = "Sizes"};
  section.table.columns = {{"gpus", "GPUs", FigureStyle::count}, {"days", "days"}, {"why", "why", FigureStyle::text}};
  section.table.rows = {{Figure{8}, Figure{12.5, 11, 15}, "a, \"b\""}, {Figure{16}, Figure{7}, {}}};
  section.charts = {{.kind = ChartKind::lines,
                     .title = "Days",
                     .x = "gpus",
                     .series = {"days"},
                     .x_label = "GPUs",
                     .y_label = "days"}};
  page.sections = {section};
  return page;
}

}  // namespace

TEST_CASE("figures as CSV have their intervals beside them and texts are quoted") {
  CHECK(report_csv(report().sections[0].table) ==
        "gpus,days,days_low,days_high,why\r\n"
        "8,12.5,11,15,\"a, \"\"b\"\"\"\r\n"
        "16,7,,,\r\n");
}

TEST_CASE("a page holds everything it needs") {
  const std::string page = capacity_html(report());
  CHECK(page.rfind("<!DOCTYPE html>", 0) == 0);
  CHECK(contains(page, "default-src 'none'"));
  for (const std::string outside : {"src=\"http", "href=\"http", "url(http", "@import", "<link rel=\"stylesheet"}) {
    CAPTURE(outside);
    CHECK(!contains(page, outside));
  }
  CHECK(contains(page, "@media print"));
  CHECK(contains(page, "prefers-color-scheme:dark"));
}

TEST_CASE("texts cannot break out of a page") {
  const std::string page = capacity_html(report());
  CHECK(contains(page, "<h1>A &lt;model&gt; on 1 T tokens</h1>"));
  CHECK(contains(page, "Take 8 &amp; be done."));
  CHECK(contains(page, "tpplan report --model &quot;a b&quot;"));
}

TEST_CASE("the first screen has decision numbers assumptions and the command in this order") {
  const std::string page = capacity_html(report());
  const std::size_t decision = page.find("Take 8");
  const std::size_t numbers = page.find("11.0 to 15.0 (80 %)");
  const std::size_t assumed = page.find("a source");
  const std::size_t command = page.find("tpplan report --model");
  const std::size_t section = page.find("<h2 id=\"sizes\">");
  CHECK(decision < numbers);
  CHECK(numbers < assumed);
  CHECK(assumed < command);
  CHECK(command < section);
  CHECK(section < page.size());
  CHECK(contains(page, "models/7b.json <code>00ff</code>"));
  CHECK(contains(page, "2026-11-30"));
}

TEST_CASE("a chart stands with its table and its figures as CSV") {
  const std::string page = capacity_html(report());
  CHECK(contains(page, "<figure id=\"sizes-chart1\">"));
  CHECK(contains(page, "<table class=\"sortable\" id=\"sizes-table\">"));
  CHECK(contains(page, "data-value=\"12.5\""));
  CHECK(contains(page, "<details class=\"csv\">"));
  CHECK(contains(page, "days_low,days_high"));
  CHECK(contains(page, "<caption class=\"unseen\">Sizes</caption>"));
}

TEST_CASE("a page depends on its report alone") { CHECK(capacity_html(report()) == capacity_html(report())); }

TEST_CASE("a drawing made elsewhere keeps its style to itself") {
  ReportSection section{.id = "s", .title = "Drawn \"elsewhere\""};
  section.svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><style>text{fill:red}</style></svg>";
  const std::string html = html_section(section);
  CHECK(contains(html, "<img alt=\"Drawn &quot;elsewhere&quot;\" src=\"data:image/svg+xml,%3Csvg"));
  CHECK(!contains(html, "<style>"));
}
