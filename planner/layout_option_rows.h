#pragma once

#include <vector>

#include "planner/option_table.h"

namespace tpplan {

/// Options that restrict an axis of the layouts, to stand among the rows of the option table.
std::vector<OptionRow> layout_rows();

}  // namespace tpplan
