#include "planner/report/scatter_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cost-model/units.h"
#include "planner/report/validate_report.h"

namespace tpplan {
namespace {

constexpr double kLeft = 70, kTop = 60, kSide = 560, kLegend = 330, kBottom = 60;

std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  return buffer.data();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? std::string("&lt;") : c == '&' ? std::string("&amp;") : std::string(1, c);
  }
  return out;
}

std::string path_of(std::string_view shape, double x, double y) {
  return "M" + number(x) + " " + number(y) + std::string(shape);
}

/// A series' colour and mark: strokes relative to the point, so that series differ without colour too.
struct MarkRow {
  std::string_view color;
  std::string_view shape;
};
constexpr std::array<MarkRow, 10> kMarks{{
    {"#0072B2", "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"},  // circle
    {"#D55E00", "m-3 -3h6v6h-6z"},                      // square
    {"#009E73", "m0 -4l4 7h-8z"},                       // triangle up
    {"#CC79A7", "m0 -4l4 4l-4 4l-4 -4z"},               // diamond
    {"#E69F00", "m0 4l4 -7h-8z"},                       // triangle down
    {"#56B4E9", "m-3 -3l6 6m0 -6l-6 6"},                // cross
    {"#000000", "m-4 0h8m-4 -4v8"},                     // plus
    {"#8F7700", "m-3 -4h6v8h-6z"},                      // upright bar
    {"#332288", "m-4 -4h8l-8 8h8z"},                    // hourglass
    {"#882255", "m-4 -2l4 -3l4 3v4l-4 3l-4 -3z"},       // hexagon
}};

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // measured, predicted seconds
  std::vector<double> errors;
};

std::vector<Series> series_of(const std::vector<RunPrediction>& runs) {
  std::vector<Series> all;
  for (const auto& run : runs) {
    if (!run.counted() || !run.step_error) {
      continue;
    }
    const auto& name = run.record->framework;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.name == name; });
    if (found == all.end()) {
      all.push_back({name, {}, {}});
      found = all.end() - 1;
    }
    found->points.emplace_back(*run.record->measured.step_s, run.estimate.step.total().raw());
    found->errors.push_back(*run.step_error);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.points.size() != b.points.size() ? a.points.size() > b.points.size() : a.name < b.name;
  });
  return all;
}

/// Both axes share their decades, so that the diagonal is where prediction and measurement agree.
class LogAxes {
 public:
  explicit LogAxes(const std::vector<Series>& all) {
    double low = 1e300;
    double high = 1e-300;
    for (const auto& series : all) {
      for (const auto& [measured, predicted] : series.points) {
        low = std::min({low, measured, predicted});
        high = std::max({high, measured, predicted});
      }
    }
    first_ = low > high ? 0 : static_cast<int>(std::floor(std::log10(low)));
    last_ = low > high ? 1 : std::max(first_ + 1, static_cast<int>(std::ceil(std::log10(high))));
  }
  [[nodiscard]] double x(double seconds) const { return kLeft + kSide * share(seconds); }
  [[nodiscard]] double y(double seconds) const { return kTop + kSide * (1 - share(seconds)); }
  [[nodiscard]] int first() const { return first_; }
  [[nodiscard]] int last() const { return last_; }

 private:
  [[nodiscard]] double share(double seconds) const {
    return std::clamp((std::log10(seconds) - first_) / (last_ - first_), 0.0, 1.0);
  }
  int first_ = 0, last_ = 1;
};

std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\"/>\n";
}

std::string text(double x, double y, std::string_view anchor, std::string_view content, std::string_view more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string(anchor) + "\"" +
         std::string(more) + ">" + escaped(content) + "</text>\n";
}

std::string grid(const LogAxes& axes) {
  std::string svg;
  for (int decade = axes.first(); decade <= axes.last(); ++decade) {
    const double seconds = std::pow(10.0, decade);
    const auto label = shortest(seconds);
    svg += line(axes.x(seconds), kTop, axes.x(seconds), kTop + kSide, "grid");
    svg += line(kLeft, axes.y(seconds), kLeft + kSide, axes.y(seconds), "grid");
    svg += text(axes.x(seconds), kTop + kSide + 18, "middle", label);
    svg += text(kLeft - 8, axes.y(seconds) + 4, "end", label);
  }
  const double low = std::pow(10.0, axes.first());
  const double high = std::pow(10.0, axes.last());
  svg += line(axes.x(low), axes.y(low), axes.x(high), axes.y(high), "equal");
  constexpr double kBand = 1.2;
  svg += line(axes.x(low), axes.y(low * kBand), axes.x(high / kBand), axes.y(high), "band");
  svg += line(axes.x(low * kBand), axes.y(low), axes.x(high), axes.y(high / kBand), "band");
  svg += text(kLeft + kSide / 2, kTop + kSide + 42, "middle", "measured step time, s");
  svg += text(0, 0, "middle", "predicted step time, s",
              " transform=\"translate(20 " + number(kTop + kSide / 2) + ") rotate(-90)\"");
  return svg;
}

}  // namespace

std::string scatter_svg(const std::vector<RunPrediction>& runs) {
  const auto all = series_of(runs);
  const LogAxes axes(all);
  std::vector<double> errors;
  for (const auto& series : all) {
    errors.insert(errors.end(), series.errors.begin(), series.errors.end());
  }
  const auto stats = error_stats(errors);
  const double width = kLeft + kSide + kLegend;
  const double height = kTop + kSide + kBottom;
  const auto summary = std::to_string(stats.n) + " runs, median error " + percent_text(stats.median) + " %";
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"t d\" viewBox=\"0 0 " +
                    number(width) + " " + number(height) + "\" font-family=\"sans-serif\" font-size=\"12\">\n";
  svg += "<title id=\"t\">Predicted against measured step time</title>\n";
  svg += "<desc id=\"d\">Scatter plot with logarithmic axes: " + summary +
         ". The solid line is equality, the dashed lines are 20 % off.</desc>\n";
  svg +=
      "<style>text{fill:#222}.grid{stroke:#ddd}.equal{stroke:#222}.band{stroke:#777;stroke-dasharray:5 4}"
      ".mark{fill-opacity:.45;stroke-width:1;stroke-opacity:.8}.back{fill:#fff}"
      "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.equal{stroke:#eee}.band{stroke:#999}"
      ".back{fill:#1b1b1b}.m6{stroke:#fff;fill:#fff}}</style>\n";
  svg += "<rect class=\"back\" width=\"" + number(width) + "\" height=\"" + number(height) + "\"/>\n";
  svg += text(kLeft, 28, "start", "Predicted against measured step time: " + summary, " font-size=\"15\"");
  svg += grid(axes);
  double legend_y = kTop + 10;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& mark = kMarks[i % kMarks.size()];
    const auto style = "class=\"mark m" + std::to_string(i % kMarks.size()) + "\" fill=\"" + std::string(mark.color) +
                       "\" stroke=\"" + std::string(mark.color) + "\"";
    // One path holds all marks of a series: the file stays small.
    std::string d;
    for (const auto& [measured, predicted] : all[i].points) {
      d += path_of(mark.shape, axes.x(measured), axes.y(predicted));
    }
    svg += "<path " + style + " d=\"" + d + "\"/>\n";
    svg += "<path " + style + " d=\"" + path_of(mark.shape, kLeft + kSide + 22, legend_y) + "\"/>\n";
    svg += text(kLeft + kSide + 34, legend_y + 4, "start",
                all[i].name + ": " + std::to_string(all[i].points.size()) + " runs, median " +
                    percent_text(error_stats(all[i].errors).median) + " %");
    legend_y += 22;
  }
  legend_y += 8;
  svg += line(kLeft + kSide + 12, legend_y, kLeft + kSide + 32, legend_y, "equal");
  svg += text(kLeft + kSide + 38, legend_y + 4, "start", "prediction = measurement");
  legend_y += 20;
  svg += line(kLeft + kSide + 12, legend_y, kLeft + kSide + 32, legend_y, "band");
  svg += text(kLeft + kSide + 38, legend_y + 4, "start", "20 % off");
  return svg + "</svg>\n";
}

}  // namespace tpplan
