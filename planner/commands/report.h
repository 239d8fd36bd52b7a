#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan report`.
int run_report(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
