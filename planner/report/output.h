#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "planner/options.h"

namespace tpplan {

/// Writes a whole text to a file through a temporary beside it and a rename, so that no half-written file is ever seen.
/// Throws EnvironmentError.
void write_file(const std::string& path, std::string_view text);

/// To the file of -o, or to `out` without one.
void write_result(const PlannerOptions& options, std::string_view text, std::ostream& out);

}  // namespace tpplan
