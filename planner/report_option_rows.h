#pragma once

#include <vector>

#include "planner/option_table.h"

namespace tpplan {

/// Options of `report` alone, to stand among the rows of the option table.
std::vector<OptionRow> report_rows();

}  // namespace tpplan
