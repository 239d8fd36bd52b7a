#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan import`: reads the files of a training job back to a layout, and sets it beside the best plan when the
/// options name a cluster; 1 when the layout breaks a rule or does not fit.
int run_import(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
