#include "planner/report/chart_svg.h"

#include <algorithm>

#include "planner/report/chart_parts.h"
#include "planner/report/svg.h"

namespace tpplan {

const Figure* figure_at(const ReportTable& table, std::size_t row, std::size_t column) {
  return column < table.rows[row].size() ? std::get_if<Figure>(&table.rows[row][column]) : nullptr;
}

std::string row_words(const ReportTable& table, std::size_t row) {
  std::string words;
  for (std::size_t i = 0; i < table.rows[row].size(); ++i) {
    const std::string text = cell_text(table.columns[i], table.rows[row][i]);
    if (!text.empty()) {
      words += (words.empty() ? "" : "; ") + table.columns[i].header + ": " + text;
    }
  }
  return words;
}

std::string colour_class(std::size_t series) { return "c" + std::to_string(series % kChartColours); }

double draw_legend(ChartDrawing& drawing, const std::vector<LegendEntry>& entries) {
  constexpr double kRow = 20, kSwatch = 28, kGap = 18;
  double x = 0, y = kRow / 2;
  for (const LegendEntry& entry : entries) {
    const double width = kSwatch + 6 + svg::text_width(entry.name, kChartFont) + kGap;
    if (x > 0 && x + width > kChartWidth) {
      x = 0;
      y += kRow;
    }
    const std::string colour = colour_class(entry.series);
    if (entry.sign == LegendEntry::Sign::lane) {
      drawing.body += svg::rectangle(x + 8, y - 6, kSwatch - 8, 12, colour + " lane");
    } else if (entry.sign == LegendEntry::Sign::box) {
      drawing.body += svg::rectangle(x + 8, y - 6, kSwatch - 8, 12, colour + " fill");
      drawing.body += hatched(entry.series) ? svg::rectangle(x + 8, y - 6, kSwatch - 8, 12, "hatch") : "";
    } else {
      if (entry.sign != LegendEntry::Sign::mark) {
        const std::string dashed = " curve d" + std::to_string(entry.dash % 4);
        drawing.body += svg::line(x, y, x + kSwatch, y, (entry.sign == LegendEntry::Sign::dash ? "" : colour) + dashed);
      }
      drawing.body += entry.sign == LegendEntry::Sign::dash
                          ? ""
                          : "<path class=\"" + colour + " mark\" d=\"M" + svg::number(x + kSwatch / 2) + " " +
                                svg::number(y) + std::string(svg::mark_shape(entry.series)) + "\"/>\n";
    }
    drawing.body += svg::text(x + kSwatch + 6, y + 4, svg::Anchor::start, entry.name);
    x += width;
  }
  return entries.empty() ? 0 : y + kRow / 2 + 8;
}

void draw_upright(ChartDrawing& drawing, const ReferenceLine& line, double x, double top, double bottom,
                  std::size_t index) {
  const double y = top - 6 - 15 * static_cast<double>(index);
  const double width = svg::text_width(line.label, kChartFont);
  const bool to_left = x + width > kChartWidth;
  drawing.body += svg::line(x, y + 3, x, bottom, "reference");
  drawing.body += svg::text(to_left ? x - 4 : x + 4, y, to_left ? svg::Anchor::end : svg::Anchor::start, line.label,
                            " class=\"note\"");
}

void draw_bottom_axis(ChartDrawing& drawing, const ChartScale& scale, FigureStyle style, const std::string& label,
                      double left, double right, double top, double bottom) {
  double free_from = -1e9;
  for (const double tick : scale.ticks()) {
    const double x = scale.at(tick);
    const std::string text = tick_text(tick, style);
    const double half = svg::text_width(text, kChartFont) / 2;
    drawing.body += svg::line(x, top, x, bottom, "grid");
    if (x - half > free_from) {
      drawing.body += svg::text(x, bottom + 18, svg::Anchor::middle, text);
      free_from = x + half + 6;
    }
  }
  drawing.body += svg::line(left, bottom, right, bottom, "axis");
  drawing.body += svg::text((left + right) / 2, bottom + 40, svg::Anchor::middle, label);
}

std::string chart_svg(const ReportTable& table, const ReportChart& chart, const std::string& id) {
  ChartDrawing drawing{table, chart, "", "", 0, false};
  if (table.rows.empty()) {
    return "";
  }
  if (chart.kind == ChartKind::lines || chart.kind == ChartKind::scatter) {
    draw_lines(drawing);
  } else if (chart.kind == ChartKind::timeline) {
    draw_timeline(drawing);
  } else {
    draw_bars(drawing);
  }
  if (drawing.empty) {
    return "";
  }
  const std::string title = id + "-title", words = id + "-words";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-labelledby=\"" + title +
         "\" aria-describedby=\"" + words + "\" viewBox=\"0 0 " + svg::number(kChartWidth) + " " +
         svg::number(drawing.height) + "\">\n<title id=\"" + title + "\">" + svg::escaped(chart.title) +
         "</title>\n<desc id=\"" + words + "\">" + svg::escaped(drawing.words) + "</desc>\n" + drawing.body +
         "</svg>\n";
}

std::string_view chart_style() {
  // Colours: Okabe and Ito, told apart by people with any kind of colour vision; series differ by mark, dash or hatch
  // too.
  return ":root{--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b5609c;--c4:#c98a00;--c5:#3f9bd0;--c6:#555;--c7:#7a6900;"
         "--grid:#ddd;--axis:#555;--reference:#b00020}\n"
         "@media screen and (prefers-color-scheme:dark){:root{--c0:#56b4e9;--c1:#ff8c42;--c2:#35c99a;--c3:#e08ac6;"
         "--c4:#f0b429;--c5:#8fd0f5;--c6:#b5b5b5;--c7:#d6c545;--grid:#3a3d42;--axis:#9aa0a6;--reference:#ff7b7b}}\n"
         ".chart{display:block;width:100%;min-width:36rem;max-width:56rem;height:auto;font:13px system-ui,sans-serif}\n"
         ".chart "
         "text{fill:currentColor;paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}.chart "
         ".note{font-size:12px}.chart .bold{font-weight:600}\n"
         ".chart .in-lane{font-size:11px;stroke:none}.chart .on-fill{font-size:11px;fill:var(--paper);stroke:none}\n"
         ".c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}"
         ".c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}\n"
         ".lane{fill:currentColor;fill-opacity:.45;stroke:var(--paper);stroke-width:.5}\n"
         ".fill{fill:currentColor;stroke:var(--paper);stroke-width:1}.hatch{fill:url(#hatch)}\n"
         ".curve{fill:none;stroke:currentColor;stroke-width:2}.d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 3}"
         ".d3{stroke-dasharray:9 3 2 3}\n"
         ".mark{fill:currentColor;stroke:currentColor;stroke-width:1.5}.band{fill:currentColor;fill-opacity:.18}\n"
         ".chosen{fill:none;stroke:var(--ink);stroke-width:2}.whisker{stroke:var(--ink);stroke-width:1.3}\n"
         ".grid{stroke:var(--grid)}.axis{stroke:var(--axis)}"
         ".reference{stroke:var(--reference);stroke-width:1.5;stroke-dasharray:6 4}\n";
}

std::string_view chart_patterns() {
  return "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\" style=\"position:absolute\"><defs>"
         "<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
         "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#fff\" "
         "stroke-opacity=\".6\" stroke-width=\"3\"/></pattern></defs></svg>\n";
}

}  // namespace tpplan
