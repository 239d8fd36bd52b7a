#pragma once

#include <string>

#include "planner/report/gantt.h"

namespace tpplan {

/// A simulated step as a self-contained SVG: per stage a row of its passes, with the micro-batch's number where there
/// is room, and below it thin rows of its transfers and collectives; a time axis, a legend of what occurs, title and
/// description for screen readers. Fits light and dark pages. `id` keeps several drawings of one page apart.
std::string gantt_svg(const SimulatedStep& step, const std::string& title, TimeWindow window = {},
                      const std::string& id = "gantt");

}  // namespace tpplan
