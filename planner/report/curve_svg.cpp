#include "planner/report/curve_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace tpplan {

namespace {

constexpr std::size_t kMostCurves = 12;
constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 72, kTop = 56, kRight = 700, kBottom = 480;
constexpr double kLegendLeft = 722;
constexpr int kFitSamples = 160;

/// Okabe and Ito's palette, told apart under every colour blindness.
constexpr std::array<const char*, 6> kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
constexpr std::array<const char*, 2> kDashes{"none", "7 4"};
constexpr std::array<double, 4> kTickSteps{1, 2, 2.5, 5};

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

double wire(const CollectiveCurve& curve) { return row_of(curve.collective).wire_factor(curve.placement.ranks()); }
double gigabytes_per_second(const CollectiveCurve& curve, Bytes size, Seconds time) {
  return time.raw() > 0 ? wire(curve) * size.raw() / time.raw() * 1e-9 : 0;
}

std::string label(const CollectiveCurve& curve) {
  const Placement& p = curve.placement;
  std::string text(row_of(curve.collective).name);
  text += " " + std::to_string(p.nodes) + "x" + std::to_string(p.gpus_per_node);
  if (p.stride > 1) text += " stride " + std::to_string(p.stride);
  if (curve.concurrent_groups > 1) text += ", " + std::to_string(curve.concurrent_groups) + " at once";
  if (!curve.dtype.empty()) text += " " + curve.dtype;
  return text + (curve.in_place ? " in place" : "");
}

/// Maps sizes (logarithmic) and bandwidths (linear from 0) onto the drawing.
struct Axes {
  double low_exponent = 10, high_exponent = 30;  // powers of two of the size
  double top = 1;                                // GB/s
  double step = 1;

  [[nodiscard]] double x(double bytes) const {
    return kLeft + (std::log2(bytes) - low_exponent) / (high_exponent - low_exponent) * (kRight - kLeft);
  }
  [[nodiscard]] double y(double gbs) const { return kBottom - std::min(gbs / top, 1.0) * (kBottom - kTop); }
};

Axes axes_for(const std::vector<CollectiveCurve>& curves) {
  double smallest = 1e30;
  double largest = 1;
  double fastest = 0;
  for (const CollectiveCurve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      smallest = std::min(smallest, point.size.raw());
      largest = std::max(largest, point.size.raw());
      fastest = std::max(fastest, gigabytes_per_second(curve, point.size, point.time));
    }
  }
  Axes axes;
  if (smallest > largest) smallest = largest;
  axes.low_exponent = std::floor(std::log2(smallest));
  axes.high_exponent = std::max(axes.low_exponent + 1, std::ceil(std::log2(largest)));
  if (fastest <= 0) fastest = 1;
  const double magnitude = std::pow(10, std::floor(std::log10(fastest / 5)));
  axes.step = 10 * magnitude;
  for (const double multiple : kTickSteps) {
    if (multiple * magnitude * 7 >= fastest) {
      axes.step = multiple * magnitude;
      break;
    }
  }
  axes.top = std::ceil(fastest * 1.02 / axes.step) * axes.step;
  return axes;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor, const char* extra = "") {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\"" + extra + ">" +
         escaped(text) + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" +
         fixed(x2) + "\" y2=\"" + fixed(y2) + "\"/>\n";
}

std::string frame(const Axes& axes) {
  std::string svg;
  for (double value = 0; value <= axes.top * 1.0001; value += axes.step) {
    svg += line_at(kLeft, axes.y(value), kRight, axes.y(value), "grid");
    svg += text_at(kLeft - 8, axes.y(value) + 4, shortest(value), "end");
  }
  const double span = axes.high_exponent - axes.low_exponent;
  const double every = span > 20 ? 4 : span > 9 ? 2 : 1;
  for (double exponent = axes.low_exponent; exponent <= axes.high_exponent; exponent += every) {
    const double x = axes.x(std::exp2(exponent));
    svg += line_at(x, kTop, x, kBottom, "grid");
    svg += text_at(x, kBottom + 20, format(Bytes(std::exp2(exponent))), "middle");
  }
  svg += line_at(kLeft, kBottom, kRight, kBottom, "axis") + line_at(kLeft, kTop, kLeft, kBottom, "axis");
  svg += text_at((kLeft + kRight) / 2, kBottom + 46, "message size (logarithmic)", "middle");
  svg += text_at(kLeft, kTop - 14, "bus bandwidth, GB/s", "start");
  return svg;
}

/// A mark around a point; the shape changes with the curve.
std::string mark(std::size_t index, double x, double y) {
  const char* const colour = kColours[index % kColours.size()];
  const std::string paint =
      std::string("\" fill=\"") + (index < kColours.size() ? colour : "none") + "\" stroke=\"" + colour + "\"/>";
  constexpr double r = 3.2;
  switch (index % 4) {
    case 0:
      return "<circle cx=\"" + fixed(x) + "\" cy=\"" + fixed(y) + "\" r=\"" + fixed(r) + paint;
    case 1:
      return "<rect x=\"" + fixed(x - r) + "\" y=\"" + fixed(y - r) + "\" width=\"" + fixed(2 * r) + "\" height=\"" +
             fixed(2 * r) + paint;
    case 2:
      return "<path d=\"M" + fixed(x) + " " + fixed(y - r - 1) + "L" + fixed(x + r + 1) + " " + fixed(y + r) + "L" +
             fixed(x - r - 1) + " " + fixed(y + r) + "Z" + paint;
    default:
      return "<path d=\"M" + fixed(x) + " " + fixed(y - r - 1) + "L" + fixed(x + r + 1) + " " + fixed(y) + "L" +
             fixed(x) + " " + fixed(y + r + 1) + "L" + fixed(x - r - 1) + " " + fixed(y) + "Z" + paint;
  }
}

std::string stroke(std::size_t index) {
  return std::string("\" stroke=\"") + kColours[index % kColours.size()] + "\" stroke-dasharray=\"" +
         kDashes[index / kColours.size() % kDashes.size()] + "\"/>\n";
}

std::string fitted_line(const CollectiveCurve& curve, std::size_t index, const Axes& axes) {
  if (curve.points.empty() || curve.pieces.empty()) return "";
  const double from = std::log2(curve.points.front().size.raw());
  const double to = std::log2(curve.points.back().size.raw());
  std::string path;
  for (int i = 0; i <= kFitSamples; ++i) {
    const Bytes size(std::exp2(from + (to - from) * i / kFitSamples));
    const double gbs = gigabytes_per_second(curve, size, time_of(curve.pieces, wire(curve), size));
    path += (i == 0 ? "M" : "L") + fixed(axes.x(size.raw())) + " " + fixed(axes.y(gbs));
  }
  return "<path class=\"fit\" d=\"" + path + stroke(index);
}

std::string series(const CollectiveCurve& curve, std::size_t index, const Axes& axes) {
  std::string svg = "<g><title>" + escaped(label(curve)) + "</title>\n" + fitted_line(curve, index, axes);
  for (const CurvePoint& point : curve.points) {
    svg += mark(index, axes.x(point.size.raw()), axes.y(gigabytes_per_second(curve, point.size, point.time)));
  }
  return svg + "\n</g>\n";
}

std::string legend(const std::vector<CollectiveCurve>& curves, std::size_t left_out) {
  std::string svg = text_at(kLegendLeft, kTop, "marks: measured; lines: fitted", "start", " class=\"small\"");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const double y = kTop + 24 + 22 * static_cast<double>(i);
    svg += "<path class=\"fit\" d=\"M" + fixed(kLegendLeft) + " " + fixed(y) + "L" + fixed(kLegendLeft + 28) + " " +
           fixed(y) + stroke(i) + mark(i, kLegendLeft + 14, y) + "\n";
    svg += text_at(kLegendLeft + 36, y + 4, label(curves[i]), "start", " class=\"small\"");
  }
  if (left_out > 0) {
    const double y = kTop + 28 + 22 * static_cast<double>(curves.size());
    svg += text_at(kLegendLeft, y, "and " + std::to_string(left_out) + " more, not drawn", "start", " class=\"small\"");
  }
  return svg;
}

}  // namespace

std::string curve_svg(const std::vector<CollectiveCurve>& curves, const std::string& title) {
  std::vector<CollectiveCurve> drawn = curves;
  std::vector<std::string> hidden;
  while (drawn.size() > kMostCurves) {
    hidden.insert(hidden.begin(), label(drawn.back()));
    drawn.pop_back();
  }
  const Axes axes = axes_for(drawn);
  std::string description = "Measured and fitted bus bandwidth over message size:";
  for (const CollectiveCurve& curve : drawn) {
    if (curve.points.empty()) continue;
    const CurvePoint& last = curve.points.back();
    description += " " + label(curve) + " reaches " +
                   format(BytesPerSecond(gigabytes_per_second(curve, last.size, last.time) * 1e9)) + " at " +
                   format(last.size) + ".";
  }
  if (!hidden.empty()) {
    description += " Not drawn:";
    for (std::size_t i = 0; i < hidden.size(); ++i) description += (i > 0 ? ", " : " ") + hidden[i];
    description += ".";
  }
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + fixed(kWidth) + " " + fixed(kHeight) +
                    "\" width=\"" + fixed(kWidth) + "\" height=\"" + fixed(kHeight) +
                    "\" role=\"img\" aria-labelledby=\"title description\">\n";
  svg += "<title id=\"title\">" + escaped(title) + "</title>\n";
  svg += "<desc id=\"description\">" + escaped(description) + "</desc>\n";
  svg +=
      "<style>\n"
      "text { font: 13px sans-serif; fill: #222222 }\n"
      ".small { font-size: 12px }\n"
      ".heading { font-size: 16px; font-weight: bold }\n"
      ".grid { stroke: #dddddd }\n"
      ".axis { stroke: #444444 }\n"
      ".fit { fill: none; stroke-width: 1.6 }\n"
      ".paper { fill: #ffffff }\n"
      "@media (prefers-color-scheme: dark) {\n"
      "  text { fill: #e6e6e6 } .grid { stroke: #3a3a3a } .axis { stroke: #bbbbbb } .paper { fill: #16181c }\n"
      "}\n"
      "</style>\n";
  svg += "<rect class=\"paper\" width=\"" + fixed(kWidth) + "\" height=\"" + fixed(kHeight) + "\"/>\n";
  svg += text_at(kLeft, 24, title, "start", " class=\"heading\"");
  svg += frame(axes);
  for (std::size_t i = 0; i < drawn.size(); ++i) svg += series(drawn[i], i, axes);
  return svg + legend(drawn, hidden.size()) + "</svg>\n";
}

}  // namespace tpplan
