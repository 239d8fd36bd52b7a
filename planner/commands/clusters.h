#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// Lists shipped clusters (or describes those named), turns query files into a cluster file (`--from FILE...`), or asks
/// this machine for one (`--detect`; 3 when it has no nvidia-smi).
int run_clusters(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
