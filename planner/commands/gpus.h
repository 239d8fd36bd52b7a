#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// Lists the GPU catalogue, or those of its rows that fit the operands ("a100 sxm"): table or JSON.
int run_gpus(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
