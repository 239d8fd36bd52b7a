#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan sweep` as one of several ranks: rank 0 hands out cells one by one, computes some itself, and writes; its
/// rows are those of a single process. A rank that dies or hangs ends the sweep with 3 and is named with its host.
int run_sweep_over_ranks(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
