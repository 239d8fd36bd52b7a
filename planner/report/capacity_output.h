#pragma once

#include <string>

#include "planner/capacity/capacity_report.h"
#include "planner/report/terminal.h"

namespace tpplan {

/// The report as one JSON object; a figure with an interval has KEY, KEY_low and KEY_high.
std::string capacity_json(const CapacityReport& report);
/// The report as GitHub Markdown, its charts left to their tables.
std::string capacity_markdown(const CapacityReport& report);
/// The report as one HTML page that needs nothing else.
std::string capacity_html(const CapacityReport& report);
/// The report for a terminal. `notes` receives remarks for standard error (columns left out).
std::string capacity_table(const CapacityReport& report, const Terminal& terminal, std::string& notes);

}  // namespace tpplan
