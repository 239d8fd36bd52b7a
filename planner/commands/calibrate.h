#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// Turns files of measurements into a calibration (-o FILE) and a drawing (--plot); prints how good each fit is. 3 when
/// nothing usable is left. Throws SpecError for files that are no measurements.
int run_calibrate(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
