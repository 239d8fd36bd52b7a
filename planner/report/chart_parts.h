#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/capacity/capacity_report.h"
#include "planner/report/chart_scale.h"

namespace tpplan {

inline constexpr double kChartWidth = 760;
inline constexpr double kChartFont = 13;
inline constexpr std::size_t kChartColours = 8;

/// What the parts of a chart share while it is drawn.
struct ChartDrawing {
  const ReportTable& table;
  const ReportChart& chart;
  std::string body;   ///< SVG so far
  std::string words;  ///< description for those who cannot see it
  double height = 0;
  bool empty = false;  ///< nothing to draw
};

/// The figure of a cell, nothing for a text or an empty cell.
const Figure* figure_at(const ReportTable& table, std::size_t row, std::size_t column);
/// "GPUs: 8; days: 12.3 (11 to 14)": every cell of a row, for a pointer.
std::string row_words(const ReportTable& table, std::size_t row);
/// "c0" to "c7": class of the colour of a series.
std::string colour_class(std::size_t series);

/// Every other series of a bar is hatched, so that neighbours differ without colour.
constexpr bool hatched(std::size_t series) { return series % 2 == 1; }

/// The key to colours and marks above the drawing, in as many rows as it takes; gives back the height it took.
struct LegendEntry {
  enum class Sign { box, line, mark, dash, lane };
  std::string name;
  std::size_t series = 0;  ///< colour, mark and hatch
  std::size_t dash = 0;
  Sign sign = Sign::box;
};
double draw_legend(ChartDrawing& drawing, const std::vector<LegendEntry>& entries);

/// A reference line's label, and the line, at a position along the horizontal axis between two heights.
void draw_upright(ChartDrawing& drawing, const ReferenceLine& line, double x, double top, double bottom,
                  std::size_t index);
/// The horizontal axis with ticks, grid lines up to `top` and its label.
void draw_bottom_axis(ChartDrawing& drawing, const ChartScale& scale, FigureStyle style, const std::string& label,
                      double left, double right, double top, double bottom);

void draw_lines(ChartDrawing& drawing);  ///< lines and scatter
void draw_bars(ChartDrawing& drawing);   ///< bars, stacked and tornado
void draw_timeline(ChartDrawing& drawing);

}  // namespace tpplan
