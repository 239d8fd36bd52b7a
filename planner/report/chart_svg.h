#pragma once

#include <string>

#include "planner/capacity/capacity_report.h"

namespace tpplan {

/// Draws a chart of a table as an SVG element for a page with chart_style(): a title, a description in words for those
/// who cannot see it, and a remark on every mark for a pointer. `id` starts the ids of its parts and must be unique on
/// the page. Empty when the table has nothing to draw. The bytes depend on the table and the chart alone.
std::string chart_svg(const ReportTable& table, const ReportChart& chart, const std::string& id);

/// Colours (light, dark, print), lines and fonts of every chart.
std::string_view chart_style();

/// Patterns that the charts refer to; stands once on a page, before the first chart.
std::string_view chart_patterns();

}  // namespace tpplan
