#pragma once

#include <vector>

#include "planner/option_table.h"

namespace tpplan {

/// Options of one or two commands each but `report`'s, to stand among the rows of the option table.
std::vector<OptionRow> command_rows();

}  // namespace tpplan
