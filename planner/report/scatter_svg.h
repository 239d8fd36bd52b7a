#pragma once

#include <string>
#include <vector>

#include "planner/validate.h"

namespace tpplan {

/// Predicted over measured step time of every counted run, both axes logarithmic, one mark and colour per framework
/// (the palette of Okabe and Ito, which the common forms of colour blindness tell apart, and three more), as one SVG
/// text that needs nothing else.
std::string scatter_svg(const std::vector<RunPrediction>& runs);

}  // namespace tpplan
