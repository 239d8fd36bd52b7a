#pragma once

#include "planner/import/config_file.h"
#include "planner/import/shell_text.h"

namespace tpplan::detail {

/// A command of a script, expanded.
using ShellCommand = std::vector<TracedText>;

/// What a script does, as far as its text decides it.
struct ShellRun {
  std::vector<ShellCommand> commands;  ///< those that would run, in order
  std::vector<TracedText> sbatch;      ///< words of the #SBATCH lines
  std::vector<std::string> remarks;
};

/// Follows a script. Throws SpecError at a quote or bracket that is not closed.
ShellRun follow_script(const ConfigFile& file);

}  // namespace tpplan::detail
