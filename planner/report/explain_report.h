#pragma once

#include <string>
#include <vector>

#include "planner/explain.h"
#include "planner/report/plan_report.h"

namespace tpplan {

/// What `explain` found out about one layout.
struct ExplainReport {
  const Job& job;
  const Explanation& explanation;
  std::vector<Assumption> assumed = {};
  std::string inputs_text = {};  ///< the options that name the job again
};

/// Sections of text: the verdict, then the terms of time and memory, the operations, what to do next.
std::string explain_table(const ExplainReport& report, const Terminal& terminal, std::string& notes);
std::string explain_json(const ExplainReport& report);

}  // namespace tpplan
