#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan validate`: predicts every run record of the given files and compares; 1 when a file has no usable record.
int run_validate(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
