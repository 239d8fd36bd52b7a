#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan simulate`: runs one step of a layout event by event; 1 when the layout is illegal or does not fit.
int run_simulate(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
