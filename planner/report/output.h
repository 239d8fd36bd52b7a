#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "planner/options.h"

namespace tpplan {

/// Writes a whole text to a file through a temporary beside it and a rename, so that no half-written file is ever seen
/// (a device or pipe is written directly). Throws UsageError when the place cannot be written, EnvironmentError when
/// writing fails.
void write_file(const std::string& name, std::string_view text);

/// To the file of -o, or to `out` without one.
void write_result(const PlannerOptions& options, std::string_view text, std::ostream& out);

}  // namespace tpplan
