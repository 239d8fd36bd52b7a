#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// Lists the shipped models, or counts the parameters of the files named (own format, config.json, a folder that holds
/// one, a shipped name, "-"). Each file is tried; the exit code is 2 when any could not be read.
int run_models(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
