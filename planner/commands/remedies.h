#pragma once

#include <string>
#include <vector>

#include "planner/inputs.h"

namespace tpplan {

/// Changes of the command line after which a layout fits, each tried by a search of its own, with the step time it
/// leads to: a restriction taken back, optimizer states in host memory or fewer bytes, shorter sequences, more servers.
std::vector<std::string> remedies(const PlannerOptions& options, const Job& job);

}  // namespace tpplan
