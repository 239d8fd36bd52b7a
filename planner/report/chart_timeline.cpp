#include <algorithm>

#include "planner/report/chart_parts.h"
#include "planner/report/svg.h"

namespace tpplan {
namespace {

constexpr double kLane = 22, kGap = 5, kBottomRoom = 52;
constexpr double kSeen = 14;  ///< pixels that the median bar gets at least

struct Box {
  std::size_t lane = 0, kind = 0;
  double from = 0, to = 0;
  std::string label;  ///< "F 3"
};

struct Timeline {
  std::vector<std::string> lanes, kinds;
  std::vector<Box> boxes;
  double end = 0;
};

std::size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) {
    names.push_back(name);
    return names.size() - 1;
  }
  return static_cast<std::size_t>(at - names.begin());
}

/// Bars of one first word ("F" of "F 3") are of one kind and share a colour.
Timeline read_timeline(const ReportTable& table, const ReportChart& chart) {
  Timeline timeline;
  const std::size_t lane = column_of(table, chart.x);
  const std::size_t from = column_of(table, chart.series[0]), to = column_of(table, chart.series[1]);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const Figure* start = figure_at(table, row, from);
    const Figure* end = figure_at(table, row, to);
    if (start == nullptr || end == nullptr) {
      continue;
    }
    Box box{index_of(timeline.lanes, cell_text(table.columns[lane], table.rows[row][lane])), 0, start->value,
            end->value, ""};
    if (!chart.group_by.empty()) {
      const std::size_t column = column_of(table, chart.group_by);
      box.label = cell_text(table.columns[column], table.rows[row][column]);
      box.kind = index_of(timeline.kinds, box.label.substr(0, box.label.find(' ')));
    }
    timeline.end = std::max(timeline.end, box.to);
    timeline.boxes.push_back(std::move(box));
  }
  return timeline;
}

/// From the start so far that the bars can still be told apart.
double shown_until(const Timeline& timeline, double width) {
  std::vector<double> lengths;
  for (const Box& box : timeline.boxes) {
    lengths.push_back(box.to - box.from);
  }
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle > 0 ? std::min(timeline.end, width / kSeen * *middle) : timeline.end;
}

}  // namespace

void draw_timeline(ChartDrawing& drawing) {
  const ReportChart& chart = drawing.chart;
  if (chart.series.size() < 2) {
    drawing.empty = true;
    return;
  }
  const Timeline timeline = read_timeline(drawing.table, chart);
  if (timeline.boxes.empty() || timeline.end <= 0) {
    drawing.empty = true;
    return;
  }
  double left = 0;
  for (const std::string& lane : timeline.lanes) {
    left = std::max(left, svg::text_width(lane, kChartFont) + 12);
  }
  const double right = kChartWidth - 12;
  const double until = shown_until(timeline, right - left);
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < timeline.kinds.size(); ++i) {
    legend.push_back({timeline.kinds[i], i, 0, LegendEntry::Sign::lane});
  }
  const double top = draw_legend(drawing, legend) + 8;
  const double bottom = top + kGap + static_cast<double>(timeline.lanes.size()) * (kLane + kGap);
  drawing.height = bottom + kBottomRoom;
  ChartScale scale = ChartScale::exact(0, until);
  scale.place(left, right);
  std::vector<double> ticks;
  const ChartScale round = ChartScale::linear(0, until);
  for (const double tick : round.ticks()) {
    if (tick <= until) {
      ticks.push_back(tick);
    }
  }
  scale.set_ticks(ticks);
  const bool whole = until >= timeline.end;
  draw_bottom_axis(drawing, scale, FigureStyle::number, chart.y_label + (whole ? "" : ", the start"), left, right, top,
                   bottom);
  for (std::size_t i = 0; i < timeline.lanes.size(); ++i) {
    const double middle = top + kGap + static_cast<double>(i) * (kLane + kGap) + kLane / 2;
    drawing.body += svg::text(left - 8, middle + 4, svg::Anchor::end, timeline.lanes[i]);
  }
  for (const Box& box : timeline.boxes) {
    if (box.from >= until) {
      continue;
    }
    const double y = top + kGap + static_cast<double>(box.lane) * (kLane + kGap);
    const double a = scale.at(box.from), b = scale.at(box.to);
    const std::string words =
        box.label + ": " + tick_text(box.from, FigureStyle::number) + " to " + tick_text(box.to, FigureStyle::number);
    drawing.body +=
        svg::rectangle(a, y, std::max(b - a, 0.3), kLane, colour_class(box.kind) + " lane", svg::title(words));
    // The number alone where the whole label has no room: the colour says the rest.
    const std::string number = box.label.substr(box.label.find(' ') + 1);
    const std::string text = svg::text_width(box.label, 11) + 4 < b - a ? box.label : number;
    if (svg::text_width(text, 11) + 2 < b - a) {
      drawing.body += svg::text((a + b) / 2, y + kLane / 2 + 4, svg::Anchor::middle, text,
                                " class=\"in-lane\" aria-hidden=\"true\"");
    }
  }
  drawing.words = "Timeline of " + std::to_string(timeline.lanes.size()) + " lanes and " +
                  std::to_string(timeline.boxes.size()) + " bars, shown to " + tick_text(until, FigureStyle::number) +
                  " of " + tick_text(timeline.end, FigureStyle::number) + " " + chart.y_label + ".";
}

}  // namespace tpplan
