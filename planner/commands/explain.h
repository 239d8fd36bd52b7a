#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan explain`: takes one layout apart; 1 when it is illegal or does not fit.
int run_explain(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
