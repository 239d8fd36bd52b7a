#pragma once

#include <string>
#include <vector>

#include "planner/inputs.h"
#include "planner/pareto.h"
#include "planner/report/format.h"
#include "planner/report/terminal.h"

namespace tpplan {

/// The plans of a front as a table, Markdown, CSV or JSON (`plans` with "gpus" beside the members of a ranked plan).
/// Throws UsageError for any other format.
std::string pareto_report(const Job& job, const ParetoFront& front, const std::vector<Assumption>& assumed,
                          OutputFormat format, const Terminal& terminal);

}  // namespace tpplan
