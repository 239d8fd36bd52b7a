#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// `tpplan export`: writes a layout as a framework's configuration and launch script; 1 when the framework cannot run
/// it (nothing is written then) or it does not fit.
int run_export(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
