#pragma once

#include <iosfwd>
#include <string>

#include "planner/options.h"

namespace tpplan {

/// One screen: usage, two examples, the options of `command` in groups, one line each.
std::string brief_help(const std::string& command);
/// Every option of `command` with values and defaults, wrapped to `width` columns.
std::string full_help(const std::string& command, int width);
/// The manual page in roff, of every command and option.
std::string manual_page();

/// "tpplan 0.1.0 (COMMIT) release".
std::string version_text();

/// `tpplan help [COMMAND]`, -h and --help.
int run_help(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
