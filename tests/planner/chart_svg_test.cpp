#include "planner/report/chart_svg.h"

#include <doctest/doctest.h>

#include "planner/report/chart_scale.h"
#include "planner/report/svg.h"

namespace {

using namespace tpplan;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

ReportTable sizes() {
  ReportTable table;
  table.columns = {{"gpus", "GPUs", FigureStyle::count},
                   {"days", "days", FigureStyle::number},
                   {"efficiency", "efficiency", FigureStyle::share},
                   {"note", "note", FigureStyle::text}};
  table.rows = {{Figure{8}, Figure{40, 35, 46}, Figure{1}, "a < b & \"c\""},
                {Figure{16}, Figure{21, 18, 25}, Figure{0.95}, {}},
                {Figure{32}, {}, Figure{0.8}, "does not fit"}};
  return table;
}

}  // namespace

TEST_CASE("ticks of a linear scale are round and hold the values") {
  const ChartScale scale = ChartScale::linear(0, 87);
  CHECK(scale.ticks() == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(scale.low() == 0);
  CHECK(scale.high() == 100);
  const ChartScale narrow = ChartScale::linear(51.9, 53.8);
  CHECK(narrow.ticks().front() == doctest::Approx(51.5));
  CHECK(narrow.ticks().back() == doctest::Approx(54));
  const ChartScale flat = ChartScale::linear(7, 7);
  CHECK(flat.low() < 7);
  CHECK(flat.high() > 7);
}

TEST_CASE("equal factors are equal lengths on a logarithmic scale") {
  ChartScale scale = ChartScale::logarithmic(8, 8192);
  scale.place(0, 1000);
  CHECK(scale.at(64) - scale.at(8) == doctest::Approx(scale.at(512) - scale.at(64)));
  CHECK(scale.ticks() == std::vector<double>{10, 100, 1000});
  // A short range gets more than its decades, one within a decade round steps.
  CHECK(ChartScale::logarithmic(1, 10).ticks() == std::vector<double>{1, 2, 5, 10});
  CHECK(ChartScale::logarithmic(35, 88).ticks() == std::vector<double>{40, 60, 80});
}

TEST_CASE("ticks are written as people read them") {
  CHECK(tick_text(0.2, FigureStyle::share) == "20 %");
  CHECK(tick_text(0.125, FigureStyle::share) == "12.5 %");
  CHECK(tick_text(1024, FigureStyle::count) == "1,024");
  CHECK(tick_text(250000, FigureStyle::count) == "250 k");
  CHECK(tick_text(3.2e6, FigureStyle::number) == "3.2 M");
  CHECK(tick_text(0.30000000000000004, FigureStyle::number) == "0.3");
}

TEST_CASE("a line chart has a line a band a mark per figure and words") {
  const ReportChart chart{.kind = ChartKind::lines,
                          .title = "Days over GPUs",
                          .x = "gpus",
                          .series = {"days"},
                          .x_label = "GPUs",
                          .y_label = "days",
                          .x_logarithmic = true,
                          .lines = {{30, "deadline"}},
                          .marked_row = 1};
  const std::string svg = chart_svg(sizes(), chart, "sizes-chart1");
  CHECK(count(svg, "class=\"c0 curve d0\"") == 1);
  CHECK(count(svg, "class=\"c0 band\"") == 1);
  CHECK(count(svg, "class=\"c0 mark\"") == 2);  // the third row has no days
  CHECK(count(svg, "class=\"chosen\"") == 1);
  CHECK(contains(svg, "role=\"img\""));
  CHECK(contains(svg, "<title id=\"sizes-chart1-title\">Days over GPUs</title>"));
  CHECK(contains(svg, "days: 2 points, from 40.0 (35.0 to 46.0) at 8 to 21.0 (18.0 to 25.0) at 16."));
  CHECK(contains(svg, ">deadline</text>"));
  CHECK(contains(svg, "note: a &lt; b &amp; &quot;c&quot;</title>"));
  // Sizes that occur are the ticks.
  CHECK(contains(svg, ">16</text>"));
  CHECK(!contains(svg, "nan"));
}

TEST_CASE("lines are told apart by colour dash and mark") {
  ReportTable table = sizes();
  table.columns.push_back({"goodput", "goodput", FigureStyle::share});
  for (auto& row : table.rows) {
    row.emplace_back(Figure{0.9});
  }
  const ReportChart chart{.kind = ChartKind::lines,
                          .title = "Shares",
                          .x = "gpus",
                          .series = {"efficiency", "goodput"},
                          .x_label = "GPUs",
                          .y_label = "share"};
  const std::string svg = chart_svg(table, chart, "a");
  CHECK(contains(svg, "c1 curve d1"));
  CHECK(contains(svg, std::string(svg::mark_shape(1))));
  CHECK(contains(svg, ">efficiency</text>"));
  CHECK(contains(svg, ">goodput</text>"));
  CHECK(contains(svg, ">100 %</text>"));
}

TEST_CASE("a group is a line of its own") {
  ReportTable table;
  table.columns = {{"speed", "speed"}, {"family", "family", FigureStyle::text}, {"s", "seconds"}};
  table.rows = {{Figure{1}, "dp", Figure{9}},
                {Figure{1}, "tp", Figure{7}},
                {Figure{2}, "dp", Figure{5}},
                {Figure{2}, "tp", Figure{6}}};
  const ReportChart chart{.kind = ChartKind::lines,
                          .title = "t",
                          .x = "speed",
                          .series = {"s"},
                          .group_by = "family",
                          .x_label = "x",
                          .y_label = "y"};
  const std::string svg = chart_svg(table, chart, "g");
  CHECK(count(svg, "class=\"c0 curve d0\" d=") == 1);
  CHECK(count(svg, "class=\"c1 curve d0\" d=") == 1);
  CHECK(contains(svg, "dp: 2 points"));
}

TEST_CASE("parts of a stacked bar follow each other and those that are 0 everywhere are left out") {
  ReportTable table;
  table.columns = {{"rank", "rank", FigureStyle::count}, {"a", "a"}, {"b", "b"}, {"c", "c"}};
  table.rows = {{Figure{1}, Figure{3}, Figure{0}, Figure{1}}, {Figure{2}, Figure{2}, Figure{0}, Figure{2}}};
  const ReportChart chart{.kind = ChartKind::stacked,
                          .title = "t",
                          .x = "rank",
                          .series = {"a", "b", "c"},
                          .x_label = "plan",
                          .y_label = "s",
                          .lines = {{3.5, "capacity"}}};
  const std::string svg = chart_svg(table, chart, "s");
  CHECK(count(svg, "class=\"c0 fill\"") == 3);  // the key and two bars
  CHECK(count(svg, "class=\"c1 fill\"") == 3);
  CHECK(count(svg, "class=\"hatch\"") == 3);  // every other part, so that parts differ without colour
  CHECK(count(svg, "class=\"c2 fill\"") == 0);
  CHECK(!contains(svg, ">b</text>"));
  CHECK(contains(svg, "1: 4.00 in all. 2: 4.00 in all."));
  CHECK(contains(svg, ">capacity</text>"));
}

TEST_CASE("a bar without a figure says why") {
  ReportTable table;
  table.columns = {{"gpu", "GPU", FigureStyle::text}, {"days", "days"}};
  table.rows = {{"A", Figure{10, 8, 13}}, {"B", "has no bf16"}, {"C", {}}};
  const ReportChart chart{
      .kind = ChartKind::bars, .title = "t", .x = "gpu", .series = {"days"}, .x_label = "GPU", .y_label = "days"};
  const std::string svg = chart_svg(table, chart, "b");
  CHECK(count(svg, " fill\"") == 1);
  CHECK(count(svg, "class=\"whisker\"") == 3);
  CHECK(contains(svg, ">has no bf16</text>"));
  CHECK(contains(svg, ">no answer</text>"));
}

TEST_CASE("a tornado starts at what is unchanged") {
  ReportTable table;
  table.columns = {{"part", "part", FigureStyle::text}, {"half", "halved"}, {"twice", "doubled"}};
  table.rows = {{"memory", "does not fit", Figure{9}}, {"network", Figure{12}, Figure{10}}};
  const ReportChart chart{.kind = ChartKind::tornado,
                          .title = "t",
                          .x = "part",
                          .series = {"half", "twice"},
                          .x_label = "",
                          .y_label = "days",
                          .lines = {{10, "as it is"}}};
  const std::string svg = chart_svg(table, chart, "t");
  CHECK(contains(svg, "network, halved: 12.0."));
  CHECK(contains(svg, ">does not fit</text>"));
  CHECK(contains(svg, ">as it is</text>"));
}

TEST_CASE("marks of a scatter plot are labelled and its further series are lines") {
  ReportTable table;
  table.columns = {{"kernel", "kernel", FigureStyle::text}, {"x", "x"}, {"rate", "rate"}, {"roof", "roof"}};
  table.rows = {{"a", Figure{1}, Figure{1}, Figure{2}}, {"b", Figure{10}, Figure{5}, Figure{9}}};
  const ReportChart chart{.kind = ChartKind::scatter,
                          .title = "t",
                          .x = "x",
                          .series = {"rate", "roof"},
                          .group_by = "kernel",
                          .x_label = "x",
                          .y_label = "y",
                          .x_logarithmic = true,
                          .y_logarithmic = true};
  const std::string svg = chart_svg(table, chart, "r");
  CHECK(contains(svg, ">a</text>"));
  CHECK(contains(svg, ">b</text>"));
  CHECK(count(svg, "class=\"c0 curve") == 0);
  CHECK(count(svg, "class=\"c1 curve d1\" d=") == 1);
}

TEST_CASE("a timeline shows as much from the start as can be told apart") {
  ReportTable table;
  table.columns = {{"stage", "stage", FigureStyle::text}, {"pass", "pass", FigureStyle::text}, {"a", "a"}, {"b", "b"}};
  for (int i = 0; i < 1000; ++i) {
    table.rows.push_back({i % 2 == 0 ? "stage 0" : "stage 1", (i % 3 == 0 ? "B " : "F ") + std::to_string(i),
                          Figure{1.0 * i}, Figure{i + 1.0}});
  }
  const ReportChart chart{.kind = ChartKind::timeline,
                          .title = "t",
                          .x = "stage",
                          .series = {"a", "b"},
                          .group_by = "pass",
                          .x_label = "stage",
                          .y_label = "seconds"};
  const std::string svg = chart_svg(table, chart, "l");
  // 760 pixels hold some fifty bars of 14.
  CHECK(count(svg, " lane\"") > 40);
  CHECK(count(svg, " lane\"") < 70);
  CHECK(contains(svg, ">stage 1</text>"));
  CHECK(contains(svg, "2 lanes and 1000 bars"));
  CHECK(contains(svg, "seconds, the start"));
}

TEST_CASE("nothing to draw is no drawing") {
  ReportTable table;
  table.columns = {{"gpu", "GPU", FigureStyle::text}, {"days", "days"}};
  const ReportChart chart{
      .kind = ChartKind::bars, .title = "t", .x = "gpu", .series = {"days"}, .x_label = "GPU", .y_label = "days"};
  CHECK(chart_svg(table, chart, "x").empty());
  table.rows = {{"A", "no"}};
  CHECK(chart_svg(table, chart, "x").empty());
}
