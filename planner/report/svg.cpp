#include "planner/report/svg.h"

#include <array>
#include <cstdio>

namespace tpplan::svg {
namespace {

constexpr std::array<std::string_view, kMarkShapes> kShapes{
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",  // circle
    "m-3 -3h6v6h-6z",                      // square
    "m0 -4l4 7h-8z",                       // triangle up
    "m0 -4l4 4l-4 4l-4 -4z",               // diamond
    "m0 4l4 -7h-8z",                       // triangle down
    "m-3 -3l6 6m0 -6l-6 6",                // cross
    "m-4 0h8m-4 -4v8",                     // plus
    "m-3 -4h6v8h-6z",                      // upright bar
    "m-4 -4h8l-8 8h8z",                    // hourglass
    "m-4 -2l4 -3l4 3v4l-4 3l-4 -3z",       // hexagon
};
constexpr std::array<std::string_view, 3> kAnchors{"start", "middle", "end"};

}  // namespace

std::string number(double value) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  return buffer.data();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&'   ? std::string("&amp;")
           : c == '<' ? std::string("&lt;")
           : c == '>' ? std::string("&gt;")
           : c == '"' ? std::string("&quot;")
                      : std::string(1, c);
  }
  return out;
}

std::string text(double x, double y, Anchor anchor, std::string_view content, std::string_view more) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" +
         std::string(kAnchors[static_cast<std::size_t>(anchor)]) + "\"" + std::string(more) + ">" + escaped(content) +
         "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\"/>\n";
}

std::string rectangle(double x, double y, double width, double height, std::string_view kind, std::string_view inside) {
  return "<rect class=\"" + std::string(kind) + "\" x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" +
         number(width) + "\" height=\"" + number(height) + "\"" +
         (inside.empty() ? "/>\n" : ">" + std::string(inside) + "</rect>\n");
}

std::string title(std::string_view content) { return "<title>" + escaped(content) + "</title>"; }

double text_width(std::string_view content, double size) {
  double width = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0U) == 0x80U;
    const bool narrow = std::string_view("iljtfr.,:;|!()[]' ").find(c) != std::string_view::npos;
    const bool widest = std::string_view("mwMW%").find(c) != std::string_view::npos;
    const bool capital = c >= 'A' && c <= 'Z';
    width += continues ? 0 : narrow ? 0.38 : widest ? 0.95 : capital ? 0.7 : 0.62;
  }
  return width * size;
}

std::string_view mark_shape(std::size_t index) { return kShapes[index % kShapes.size()]; }

}  // namespace tpplan::svg
