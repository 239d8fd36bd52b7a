#pragma once

#include <string>

#include "cost-model/simulate.h"

namespace tpplan {

/// A simulated step drawn in characters, a line per pipeline stage, `width` columns wide: each character is what ran on
/// the stage for most of its slice of time (F, B, W, g gather, r reduce, o optimizer, . nothing). Passes of both
/// gradients at once are B. Ends with a time axis and the legend.
std::string text_gantt(const SimulatedStep& step, int width);

}  // namespace tpplan
