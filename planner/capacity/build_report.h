#pragma once

#include <functional>

#include "planner/capacity/capacity_report.h"
#include "planner/capacity/sections.h"

namespace tpplan {

/// A section by its id; `build` answers it for the run that was chosen.
struct SectionRow {
  std::string_view id;
  std::string_view meaning;
  bool (*usual)(const Subject& subject);  ///< shown although nobody asked for it
  ReportSection (*build)(const Subject& subject, std::vector<std::string>& warnings);
};
const std::vector<SectionRow>& section_rows();

/// Answers a command line of `report`: plans every model on every cluster (with a deadline in the size it needs),
/// chooses, and fills the sections that were asked for. `date` is printed as it is. `tick` is called before every
/// search with what is being worked on. `file_warnings` receives rendered warnings about files. Throws SpecError and
/// UsageError.
CapacityReport build_report(const PlannerOptions& options, const std::string& date,
                            const std::function<void(std::string_view)>& tick, std::string& file_warnings);

}  // namespace tpplan
