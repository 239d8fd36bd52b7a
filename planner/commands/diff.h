#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan diff A B`: two plans, clusters, models or calibrations, term by term.
int run_diff(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
