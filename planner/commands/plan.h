#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan plan`: searches and writes the ranking; 1 when nothing fits.
int run_plan(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
