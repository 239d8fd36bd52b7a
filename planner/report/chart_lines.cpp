#include <algorithm>
#include <cmath>
#include <map>

#include "planner/report/chart_parts.h"
#include "planner/report/svg.h"

namespace tpplan {
namespace {

constexpr double kBottomRoom = 52, kRightRoom = 16, kPlotHeight = 300;

struct Point {
  double x = 0;
  const Figure* y = nullptr;
  std::size_t row = 0;
};

struct Series {
  std::string name;
  std::size_t colour = 0;  ///< and mark
  std::size_t dash = 0;
  FigureStyle style = FigureStyle::number;
  std::vector<Point> points;  ///< by x
};

/// What is drawn, read from the table.
struct Lines {
  std::vector<Series> series;
  std::vector<LegendEntry> legend;
  std::vector<std::string> categories;  ///< texts that stand for 0, 1, 2 ... on the horizontal axis
  FigureStyle x_style = FigureStyle::number;
};

std::string group_of(const ReportTable& table, const ReportChart& chart, std::size_t row) {
  if (chart.group_by.empty()) {
    return "";
  }
  const std::size_t column = column_of(table, chart.group_by);
  return cell_text(table.columns[column], table.rows[row][column]);
}

/// Groups by colour and mark, series by dash; a chart of one line needs none.
std::vector<LegendEntry> legend_of(const Lines& lines, const std::map<std::string, std::size_t>& groups,
                                   const ReportTable& table, const ReportChart& chart) {
  std::vector<LegendEntry> legend;
  if (lines.series.size() < 2) {
    return legend;
  }
  const auto sign = chart.kind == ChartKind::scatter ? LegendEntry::Sign::mark : LegendEntry::Sign::line;
  legend.resize(groups.size());
  for (const auto& [name, colour] : groups) {
    legend[colour] = {name, colour, 0, sign};
  }
  for (std::size_t i = 0; i < chart.series.size() && (groups.empty() || chart.series.size() > 1); ++i) {
    const std::string& header = table.columns[column_of(table, chart.series[i])].header;
    if (groups.empty()) {
      legend.push_back({header, i, i, i > 0 ? LegendEntry::Sign::line : sign});
    } else {
      legend.push_back({header, kChartColours, i, LegendEntry::Sign::dash});
    }
  }
  return legend;
}

Lines read_lines(const ReportTable& table, const ReportChart& chart) {
  Lines lines;
  const std::size_t x_column = column_of(table, chart.x);
  lines.x_style = table.columns[x_column].style;
  std::map<std::string, std::size_t> positions, groups;
  for (std::size_t key_index = 0; key_index < chart.series.size(); ++key_index) {
    const std::size_t column = column_of(table, chart.series[key_index]);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const Figure* y = figure_at(table, row, column);
      if (y == nullptr || (chart.y_logarithmic && y->value <= 0)) {
        continue;
      }
      double x = 0;
      if (const Figure* figure = figure_at(table, row, x_column)) {
        x = figure->value;
      } else {
        const std::string text = cell_text(table.columns[x_column], table.rows[row][x_column]);
        x = static_cast<double>(positions.emplace(text, positions.size()).first->second);
        if (lines.categories.size() < positions.size()) {
          lines.categories.push_back(text);
        }
      }
      if (chart.x_logarithmic && x <= 0) {
        continue;
      }
      // Lines are grouped by a column; marks are labelled by it.
      const std::string group = chart.kind == ChartKind::lines ? group_of(table, chart, row) : "";
      const std::string header = table.columns[column].header;
      const std::string name = group.empty() ? header : group + ": " + header;
      auto at = std::find_if(lines.series.begin(), lines.series.end(), [&](const Series& s) { return s.name == name; });
      if (at == lines.series.end()) {
        if (!group.empty()) {
          groups.emplace(group, groups.size());
        }
        const std::size_t colour = group.empty() ? key_index : groups[group];
        lines.series.push_back({name, colour, key_index, table.columns[column].style, {}});
        at = lines.series.end() - 1;
      }
      at->points.push_back({x, y, row});
    }
  }
  for (Series& series : lines.series) {
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
  }
  lines.legend = legend_of(lines, groups, table, chart);
  return lines;
}

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

ChartScale horizontal(const Lines& lines, const ReportChart& chart) {
  Range range;
  std::vector<double> values;
  for (const Series& series : lines.series) {
    for (const Point& point : series.points) {
      range.add(point.x);
      values.push_back(point.x);
    }
  }
  for (const ReferenceLine& line : chart.lines) {
    if (line.vertical && (!chart.x_logarithmic || line.value > 0)) {
      range.add(line.value);
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  constexpr std::size_t kFew = 9;
  if (!lines.categories.empty()) {
    ChartScale scale = ChartScale::exact(-0.5, static_cast<double>(lines.categories.size()) - 0.5);
    return scale;
  }
  ChartScale scale =
      chart.x_logarithmic ? ChartScale::logarithmic(range.low, range.high) : ChartScale::linear(range.low, range.high);
  // Sizes of clusters are worth naming, values that are measured or computed are not.
  const bool round = std::all_of(values.begin(), values.end(), [](double v) { return v == std::floor(v); });
  if (chart.x_logarithmic && round && values.size() <= kFew) {
    scale.set_ticks(values);
  }
  return scale;
}

ChartScale vertical(const Lines& lines, const ReportChart& chart) {
  Range range;
  for (const Series& series : lines.series) {
    for (const Point& point : series.points) {
      range.add(point.y->value);
      range.add(point.y->high.value_or(point.y->value));
      const double low = point.y->low.value_or(point.y->value);
      range.add(chart.y_logarithmic && low <= 0 ? point.y->value : low);
    }
  }
  for (const ReferenceLine& line : chart.lines) {
    if (!line.vertical && (!chart.y_logarithmic || line.value > 0)) {
      range.add(line.value);
    }
  }
  if (chart.y_logarithmic) {
    return ChartScale::logarithmic(range.low, range.high);
  }
  // A line's height is read as a quantity, a mark's as a place.
  if (chart.kind == ChartKind::lines) {
    range.add(0);
  }
  return ChartScale::linear(range.low, range.high);
}

std::string position(const ChartScale& x, const ChartScale& y, double at, double value) {
  return svg::number(x.at(at)) + " " + svg::number(y.at(value));
}

void draw_band(ChartDrawing& drawing, const Series& series, const ChartScale& x, const ChartScale& y) {
  std::string upper, lower;
  std::size_t count = 0;
  for (const Point& point : series.points) {
    if (point.y->low && point.y->high) {
      upper += (upper.empty() ? "M" : "L") + position(x, y, point.x, *point.y->high);
      lower = "L" + position(x, y, point.x, std::max(*point.y->low, y.low())) + lower;
      ++count;
    }
  }
  if (count > 1) {
    drawing.body += "<path class=\"" + colour_class(series.colour) + " band\" d=\"" + upper + lower + "z\"/>\n";
  }
}

/// The labels of marks, those left out that would lie on another.
void draw_labels(ChartDrawing& drawing, const Series& series, const ChartScale& x, const ChartScale& y) {
  struct Box {
    double left, right, middle;
  };
  std::vector<Box> taken;
  for (const Point& point : series.points) {
    const std::string label = group_of(drawing.table, drawing.chart, point.row);
    const double width = svg::text_width(label, 12);
    const double at = x.at(point.x), middle = y.at(point.y->value);
    const bool to_left = at + 8 + width > kChartWidth - kRightRoom;
    const Box box{to_left ? at - 8 - width : at + 8, to_left ? at - 8 : at + 8 + width, middle};
    const bool free = std::none_of(taken.begin(), taken.end(), [&box](const Box& other) {
      return box.left < other.right + 4 && other.left < box.right + 4 && std::abs(box.middle - other.middle) < 14;
    });
    if (free && !label.empty()) {
      drawing.body += svg::text(to_left ? box.right : box.left, middle + 4,
                                to_left ? svg::Anchor::end : svg::Anchor::start, label, " class=\"note\"");
      taken.push_back(box);
    }
  }
}

/// Of a scatter plot the first series are marks; those after it are limits to compare with, drawn as lines.
void draw_series(ChartDrawing& drawing, const Series& series, const ChartScale& x, const ChartScale& y) {
  const bool scatter = drawing.chart.kind == ChartKind::scatter;
  const bool line = !scatter || series.dash > 0;
  std::string path;
  for (const Point& point : series.points) {
    path += (path.empty() ? "M" : "L") + position(x, y, point.x, point.y->value);
  }
  if (line && series.points.size() > 1) {
    drawing.body += "<path class=\"" + colour_class(series.colour) + " curve d" + std::to_string(series.dash % 4) +
                    "\" d=\"" + path + "\"/>\n";
  }
  // A curve of many points is a curve; marks would hide it.
  constexpr std::size_t kMostMarks = 40;
  const std::size_t every = !line ? 1 : 1 + series.points.size() / kMostMarks;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const Point& point = series.points[i];
    const bool chosen = drawing.chart.marked_row == point.row;
    if (i % every != 0 && !chosen) {
      continue;
    }
    const std::string words = svg::title(row_words(drawing.table, point.row));
    if (scatter && point.y->low && point.y->high) {
      drawing.body += svg::line(x.at(point.x), y.at(*point.y->low), x.at(point.x), y.at(*point.y->high), "whisker");
    }
    if (chosen) {
      drawing.body += "<circle class=\"chosen\" cx=\"" + svg::number(x.at(point.x)) + "\" cy=\"" +
                      svg::number(y.at(point.y->value)) + "\" r=\"8\"/>\n";
    }
    drawing.body += "<path class=\"" + colour_class(series.colour) + " mark\" d=\"M" +
                    position(x, y, point.x, point.y->value) + std::string(svg::mark_shape(series.colour)) + "\">" +
                    words + "</path>\n";
  }
  if (scatter && series.dash == 0 && !drawing.chart.group_by.empty()) {
    draw_labels(drawing, series, x, y);
  }
}

void draw_left_axis(ChartDrawing& drawing, const ChartScale& y, FigureStyle style, double left, double right,
                    double top, double bottom) {
  for (const double tick : y.ticks()) {
    drawing.body += svg::line(left, y.at(tick), right, y.at(tick), "grid");
    drawing.body += svg::text(left - 8, y.at(tick) + 4, svg::Anchor::end, tick_text(tick, style));
  }
  drawing.body += svg::line(left, top, left, bottom, "axis");
  drawing.body += svg::text(0, 0, svg::Anchor::middle, drawing.chart.y_label,
                            " transform=\"translate(12 " + svg::number((top + bottom) / 2) + ") rotate(-90)\"");
}

void draw_references(ChartDrawing& drawing, const ChartScale& x, const ChartScale& y, double left, double right,
                     double top, double bottom) {
  std::size_t upright = 0;
  double last = -1e9;
  for (const ReferenceLine& line : drawing.chart.lines) {
    if (line.vertical) {
      draw_upright(drawing, line, x.at(line.value), top, bottom, upright++);
      continue;
    }
    const double at = y.at(line.value);
    const double label = std::abs(at - last) < 14 ? at + 14 : at - 5;
    last = at;
    drawing.body += svg::line(left, at, right, at, "reference");
    drawing.body += svg::text(right, label, svg::Anchor::end, line.label, " class=\"note\"");
  }
}

std::string described(const Lines& lines, const ReportChart& chart) {
  std::string words = chart.kind == ChartKind::scatter ? "Scatter plot of " : "Line chart of ";
  words += chart.y_label + " over " + chart.x_label + ".";
  const auto x_text = [&](double x) {
    const auto index = static_cast<std::size_t>(std::max(0.0, x));
    return index < lines.categories.size() ? lines.categories[index] : tick_text(x, lines.x_style);
  };
  for (const Series& series : lines.series) {
    const Point& first = series.points.front();
    const Point& last = series.points.back();
    words += " " + series.name + ": " + std::to_string(series.points.size()) + " points, from " +
             figure_text(*first.y, series.style) + " at " + x_text(first.x) + " to " +
             figure_text(*last.y, series.style) + " at " + x_text(last.x) + ".";
  }
  for (const ReferenceLine& line : chart.lines) {
    words += " Line at " + tick_text(line.value, FigureStyle::number) + ": " + line.label + ".";
  }
  return words;
}

}  // namespace

void draw_lines(ChartDrawing& drawing) {
  const ReportChart& chart = drawing.chart;
  const Lines lines = read_lines(drawing.table, chart);
  if (lines.series.empty()) {
    drawing.empty = true;
    return;
  }
  ChartScale x = horizontal(lines, chart);
  ChartScale y = vertical(lines, chart);
  const FigureStyle style = lines.series.front().style;
  double widest = 0;
  for (const double tick : y.ticks()) {
    widest = std::max(widest, svg::text_width(tick_text(tick, style), kChartFont));
  }
  const auto labels = static_cast<double>(
      std::count_if(chart.lines.begin(), chart.lines.end(), [](const ReferenceLine& line) { return line.vertical; }));
  const double left = 36 + widest, right = kChartWidth - kRightRoom;
  const double top = draw_legend(drawing, lines.legend) + 12 + 15 * labels, bottom = top + kPlotHeight;
  drawing.height = bottom + kBottomRoom;
  x.place(left, right);
  y.place(bottom, top);
  draw_left_axis(drawing, y, style, left, right, top, bottom);
  draw_bottom_axis(drawing, x, lines.x_style, chart.x_label, left, right, top, bottom);
  for (std::size_t i = 0; i < lines.categories.size(); ++i) {
    drawing.body += svg::text(x.at(static_cast<double>(i)), bottom + 18, svg::Anchor::middle, lines.categories[i]);
  }
  for (const Series& series : lines.series) {
    if (chart.kind == ChartKind::lines) {
      draw_band(drawing, series, x, y);
    }
  }
  for (const Series& series : lines.series) {
    draw_series(drawing, series, x, y);
  }
  draw_references(drawing, x, y, left, right, top, bottom);
  drawing.words = described(lines, chart);
}

}  // namespace tpplan
