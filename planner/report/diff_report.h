#pragma once

#include <string>

#include "planner/diff.h"
#include "planner/report/terminal.h"

namespace tpplan {

std::string diff_table(const Difference& difference, const Terminal& terminal);
/// Every term, those that do not differ too, with change and relative change in base units.
std::string diff_json(const Difference& difference);
std::string diff_markdown(const Difference& difference);

}  // namespace tpplan
