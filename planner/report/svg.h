#pragma once

#include <string>
#include <string_view>

namespace tpplan::svg {

/// One decimal: positions in a drawing.
std::string number(double value);

/// Text safe inside an element or a quoted attribute of XML and HTML.
std::string escaped(std::string_view text);

enum class Anchor { start, middle, end };

/// `more` are further attributes, each with a blank before it.
std::string text(double x, double y, Anchor anchor, std::string_view content, std::string_view more = "");
std::string line(double x1, double y1, double x2, double y2, std::string_view kind);
/// `inside` goes between the tags, such as a title that a pointer shows.
std::string rectangle(double x, double y, double width, double height, std::string_view kind,
                      std::string_view inside = "");
std::string title(std::string_view content);

/// Width of a text in a wide sans-serif font (DejaVu Sans) of `size` pixels, estimated from its characters.
double text_width(std::string_view content, double size);

/// A drawing's mark for series `index`, relative to its point: series differ by shape where colour is lost.
std::string_view mark_shape(std::size_t index);
inline constexpr std::size_t kMarkShapes = 10;

}  // namespace tpplan::svg
