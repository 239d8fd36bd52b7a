#pragma once

#include <iosfwd>
#include <string>

#include "planner/options.h"

namespace tpplan {

/// The completion script of a shell ("bash", "zsh", "fish"), empty for another; made from the tables of commands and
/// options, asking the program itself for names of models, clusters and GPUs.
std::string completion_script(const std::string& shell);

/// `tpplan completion SHELL`.
int run_completion(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
