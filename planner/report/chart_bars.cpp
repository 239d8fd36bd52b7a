#include <algorithm>
#include <cmath>

#include "planner/report/chart_parts.h"
#include "planner/report/svg.h"

namespace tpplan {
namespace {

constexpr double kBar = 22, kThinBar = 14, kGap = 8, kBottomRoom = 52;
constexpr double kMostLabel = 200;

/// A piece of a bar between two values.
struct Piece {
  double from = 0, to = 0;
  std::size_t series = 0;
  std::string words;  ///< for a pointer
  std::string label;  ///< inside, where it has room
};

struct Bar {
  std::vector<Piece> pieces;
  const Figure* interval = nullptr;  ///< drawn as a whisker when it has ends
  std::string end_label;
  bool marked = false;
};

/// Bars with one label on the axis: the values of one text of `x`.
struct Category {
  std::string label;
  std::vector<Bar> bars;
};

struct Bars {
  std::vector<Category> categories;
  std::vector<LegendEntry> legend;
  FigureStyle style = FigureStyle::number;
  std::string words;
};

std::string label_of(const ReportTable& table, const ReportChart& chart, std::size_t row) {
  const std::size_t column = column_of(table, chart.x);
  return cell_text(table.columns[column], table.rows[row][column]);
}

std::size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) {
    return static_cast<std::size_t>(at - names.begin());
  }
  names.push_back(name);
  return names.size() - 1;
}

/// One bar per row and series; rows of one label stand together.
Bars simple_bars(const ReportTable& table, const ReportChart& chart) {
  Bars bars;
  std::vector<std::string> labels, groups;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    std::string group;
    if (!chart.group_by.empty()) {
      const std::size_t column = column_of(table, chart.group_by);
      group = cell_text(table.columns[column], table.rows[row][column]);
    }
    const std::size_t at = chart.group_by.empty() ? row : index_of(labels, label_of(table, chart, row));
    if (at >= bars.categories.size()) {
      bars.categories.push_back({label_of(table, chart, row), {}});
    }
    for (const std::string& key : chart.series) {
      const std::size_t column = column_of(table, key);
      bars.style = table.columns[column].style;
      const std::string name = group.empty()              ? table.columns[column].header
                               : chart.series.size() == 1 ? group
                                                          : group + ": " + table.columns[column].header;
      const std::size_t series = index_of(groups, name);
      Bar bar;
      bar.marked = chart.marked_row == row;
      if (const Figure* figure = figure_at(table, row, column)) {
        bar.pieces.push_back({0, figure->value, series, row_words(table, row), ""});
        bar.interval = figure;
        bar.end_label = figure_text(*figure, bars.style);
        bars.words +=
            " " + bars.categories[at].label + (group.empty() ? "" : ", " + group) + ": " + bar.end_label + ".";
      } else {
        bar.end_label = cell_text(table.columns[column], table.rows[row][column]);
        bar.end_label = bar.end_label.empty() ? "no answer" : bar.end_label;
      }
      bars.categories[at].bars.push_back(std::move(bar));
    }
  }
  for (std::size_t i = 0; i < groups.size() && groups.size() > 1; ++i) {
    bars.legend.push_back({groups[i], i, 0});
  }
  return bars;
}

/// One bar per row, made of the series that are not 0 everywhere.
Bars stacked_bars(const ReportTable& table, const ReportChart& chart) {
  Bars bars;
  std::vector<std::size_t> columns;
  for (const std::string& key : chart.series) {
    const std::size_t column = column_of(table, key);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const Figure* figure = figure_at(table, row, column);
      if (figure != nullptr && figure->value > 0) {
        columns.push_back(column);
        break;
      }
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    bars.style = table.columns[columns[i]].style;
    bars.legend.push_back({table.columns[columns[i]].header, i, 0});
  }
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    Bar bar;
    bar.marked = chart.marked_row == row;
    double total = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Figure* figure = figure_at(table, row, columns[i]);
      if (figure == nullptr || figure->value <= 0) {
        continue;
      }
      const std::string text = figure_text(Figure{figure->value}, bars.style);
      bar.pieces.push_back({total, total + figure->value, i,
                            table.columns[columns[i]].header + ": " + text + " (" + row_words(table, row) + ")", text});
      total += figure->value;
    }
    bar.end_label = figure_text(Figure{total}, bars.style);
    bars.categories.push_back({label_of(table, chart, row), {}});
    bars.words += " " + bars.categories.back().label + ": " + bar.end_label + " in all.";
    bars.categories.back().bars.push_back(std::move(bar));
  }
  return bars;
}

/// One row per input: from the unchanged result to the result at each of its two values.
Bars tornado_bars(const ReportTable& table, const ReportChart& chart) {
  Bars bars;
  const double base = chart.lines.empty() ? 0 : chart.lines.front().value;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    Category category{label_of(table, chart, row), {}};
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      const std::size_t column = column_of(table, chart.series[i]);
      bars.style = table.columns[column].style;
      const std::string text = cell_text(table.columns[column], table.rows[row][column]);
      Bar bar;
      if (const Figure* figure = figure_at(table, row, column)) {
        bar.pieces.push_back({base, figure->value, i,
                              table.columns[column].header + ": " + text + " (" + row_words(table, row) + ")", ""});
      }
      bar.end_label = text;
      bars.words += " " + category.label + ", " + table.columns[column].header + ": " + text + ".";
      category.bars.push_back(std::move(bar));
    }
    bars.categories.push_back(std::move(category));
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    bars.legend.push_back({table.columns[column_of(table, chart.series[i])].header, i, 0});
  }
  return bars;
}

ChartScale value_scale(const Bars& bars, const ReportChart& chart) {
  double low = chart.kind == ChartKind::tornado ? HUGE_VAL : 0, high = -HUGE_VAL;
  const auto add = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const Category& category : bars.categories) {
    for (const Bar& bar : category.bars) {
      for (const Piece& piece : bar.pieces) {
        add(piece.from);
        add(piece.to);
      }
      if (bar.interval != nullptr) {
        add(bar.interval->low.value_or(bar.interval->value));
        add(bar.interval->high.value_or(bar.interval->value));
      }
    }
  }
  for (const ReferenceLine& line : chart.lines) {
    add(line.value);
  }
  if (chart.kind == ChartKind::tornado) {
    low -= 0.08 * (high - low);  // room for the labels of bars to the left
  }
  return ChartScale::linear(low, high);
}

/// A label in one or two lines that keep within the room, cut off with dots where even two do not.
std::vector<std::string> label_lines(const std::string& label) {
  const auto fits = [](std::string_view text) { return svg::text_width(text, kChartFont) <= kMostLabel; };
  const auto cut = [&](std::string text) {
    while (!fits(text) && text.size() > 4) {
      text.resize(text.size() - 4);
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) {
        text.pop_back();  // never half of a character
      }
      text += "...";
    }
    return text;
  };
  if (fits(label)) {
    return {label};
  }
  std::size_t split = std::string::npos;
  for (std::size_t at = label.find(' '); at != std::string::npos && fits(label.substr(0, at));
       at = label.find(' ', at + 1)) {
    split = at;
  }
  return split == std::string::npos ? std::vector<std::string>{cut(label)}
                                    : std::vector<std::string>{label.substr(0, split), cut(label.substr(split + 1))};
}

void draw_label(ChartDrawing& drawing, const std::string& label, double right, double middle, bool bold) {
  const std::vector<std::string> lines = label_lines(label);
  const std::string style = bold ? " class=\"bold\"" : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double shift = 4 + 7 * (2 * static_cast<double>(i) - static_cast<double>(lines.size()) + 1);
    drawing.body += svg::text(right, middle + shift, svg::Anchor::end, lines[i], style);
  }
}

void draw_bar(ChartDrawing& drawing, const Bar& bar, const ChartScale& scale, double y, double thickness) {
  double end = scale.at(scale.low());
  for (const Piece& piece : bar.pieces) {
    const double a = scale.at(std::min(piece.from, piece.to));
    const double b = scale.at(std::max(piece.from, piece.to));
    drawing.body += "<g>" + svg::title(piece.words) + "\n" +
                    svg::rectangle(a, y, std::max(b - a, 0.5), thickness, colour_class(piece.series) + " fill");
    if (hatched(piece.series)) {
      drawing.body += svg::rectangle(a, y, std::max(b - a, 0.5), thickness, "hatch");
    }
    drawing.body += "</g>\n";
    if (!piece.label.empty() && b - a > svg::text_width(piece.label, 11) + 10 && !hatched(piece.series)) {
      drawing.body += svg::text((a + b) / 2, y + thickness / 2 + 4, svg::Anchor::middle, piece.label,
                                " class=\"on-fill\" aria-hidden=\"true\"");
    }
    end = std::max(end, b);
  }
  const double middle = y + thickness / 2;
  if (bar.interval != nullptr && bar.interval->low && bar.interval->high) {
    const double a = scale.at(*bar.interval->low), b = scale.at(*bar.interval->high);
    drawing.body += svg::line(a, middle, b, middle, "whisker") + svg::line(a, middle - 4, a, middle + 4, "whisker") +
                    svg::line(b, middle - 4, b, middle + 4, "whisker");
    end = std::max(end, b);
  }
  const bool leftward = bar.pieces.size() == 1 && bar.pieces.front().to < bar.pieces.front().from;
  drawing.body += leftward ? svg::text(scale.at(bar.pieces.front().to) - 6, middle + 4, svg::Anchor::end, bar.end_label,
                                       " class=\"note\"")
                           : svg::text(end + 6, middle + 4, svg::Anchor::start, bar.end_label, " class=\"note\"");
}

/// Thickness of the bars of one category together.
double height_of(const Category& category) {
  const auto count = static_cast<double>(category.bars.size());
  return category.bars.size() == 1 ? kBar : kThinBar * count;
}

double label_room(const Bars& bars) {
  double widest = 0;
  for (const Category& category : bars.categories) {
    for (const std::string& line : label_lines(category.label)) {
      widest = std::max(widest, svg::text_width(line, kChartFont));
    }
  }
  return widest;
}

double end_room(const Bars& bars) {
  double widest = 0;
  for (const Category& category : bars.categories) {
    for (const Bar& bar : category.bars) {
      widest = std::max(widest, svg::text_width(bar.end_label, 12));
    }
  }
  return std::min(widest + 12, kChartWidth / 3);
}

}  // namespace

void draw_bars(ChartDrawing& drawing) {
  const ReportChart& chart = drawing.chart;
  const Bars bars = chart.kind == ChartKind::stacked   ? stacked_bars(drawing.table, chart)
                    : chart.kind == ChartKind::tornado ? tornado_bars(drawing.table, chart)
                                                       : simple_bars(drawing.table, chart);
  const bool any = std::any_of(bars.categories.begin(), bars.categories.end(), [](const Category& category) {
    return std::any_of(category.bars.begin(), category.bars.end(), [](const Bar& bar) { return !bar.pieces.empty(); });
  });
  if (!any) {
    drawing.empty = true;
    return;
  }
  const double legend = draw_legend(drawing, bars.legend);
  const double top = legend + 8 + 15 * static_cast<double>(chart.lines.size());
  const double left = label_room(bars) + 12, right = kChartWidth - end_room(bars);
  double bottom = top + kGap;
  for (const Category& category : bars.categories) {
    bottom += height_of(category) + kGap;
  }
  drawing.height = bottom + kBottomRoom;
  ChartScale scale = value_scale(bars, chart);
  scale.place(left, right);
  draw_bottom_axis(drawing, scale, bars.style, chart.y_label, left, right, top, bottom);
  double y = top + kGap;
  for (const Category& category : bars.categories) {
    const double height = height_of(category);
    const double thickness = height / static_cast<double>(std::max<std::size_t>(1, category.bars.size()));
    const bool marked =
        std::any_of(category.bars.begin(), category.bars.end(), [](const Bar& bar) { return bar.marked; });
    draw_label(drawing, category.label, left - 8, y + height / 2, marked);
    double at = y;
    for (const Bar& bar : category.bars) {
      draw_bar(drawing, bar, scale, at, thickness);
      at += thickness;
    }
    y += height + kGap;
  }
  drawing.body += svg::line(left, top, left, bottom, "axis");
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    draw_upright(drawing, chart.lines[i], scale.at(chart.lines[i].value), top, bottom, i);
  }
  drawing.words =
      "Bar chart of " + chart.y_label + " by " + (chart.x_label.empty() ? chart.x : chart.x_label) + "." + bars.words;
  for (const ReferenceLine& line : chart.lines) {
    drawing.words += " Line at " + tick_text(line.value, bars.style) + ": " + line.label + ".";
  }
}

}  // namespace tpplan
