#pragma once

#include <string>

#include "cost-model/simulate.h"

namespace tpplan {

/// A part of a step, seconds since its start; `to` 0 is its end.
struct TimeWindow {
  double from = 0, to = 0;
};
/// When the last operation of any stage ends.
double end_of(const SimulatedStep& step);
/// The window with its end filled in and kept inside the step.
TimeWindow within(const SimulatedStep& step, TimeWindow window);

/// A simulated step drawn in characters, a line per pipeline stage, `width` columns wide: each character is what ran on
/// the stage for most of its slice of time (F, B, W, g gather, r reduce, o optimizer, . nothing). Passes of both
/// gradients at once are B. Ends with a time axis and the legend.
std::string text_gantt(const SimulatedStep& step, int width, TimeWindow window = {});

}  // namespace tpplan
