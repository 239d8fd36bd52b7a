#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/report/plan_report.h"

namespace tpplan {

/// One output format of plan. `notes` receives remarks for standard error (columns left out).
struct FormatRow {
  std::string_view name;
  std::string_view suffix;  ///< of -o, with its dot
  OutputFormat format;
  std::string (*write)(const PlanReport& report, const Terminal& terminal, std::string& notes);
};

/// Every output format, a row each.
const std::vector<FormatRow>& formats();

std::optional<OutputFormat> format_from(std::string_view name);
std::optional<OutputFormat> format_of_suffix(std::string_view path);
std::string_view name_of(OutputFormat format);
std::vector<std::string> format_names();

}  // namespace tpplan
