#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/report/terminal.h"
#include "planner/report/text_table.h"
#include "planner/validate.h"

namespace tpplan {

/// Errors of runs that were predicted by constants fitted without them.
struct LeftOutStats {
  ErrorStats step, memory;
  std::optional<double> coverage_step, coverage_memory;  ///< share inside the 80 % interval
};
/// Of each group of `group_by`, and of all runs under "all runs".
std::map<std::string, LeftOutStats> left_out_stats(const std::vector<LeftOutError>& errors,
                                                   const std::vector<std::string>& group_by);

/// What `validate` found, for every output format.
struct ValidateReport {
  const std::vector<RunPrediction>& runs;
  std::vector<std::string> group_by = {};
  std::vector<GroupReport> groups = {};
  std::map<std::string, LeftOutStats> left_out = {};  ///< may lack groups
  std::string left_out_meaning = {};                  ///< what was left out; empty when nothing was
  std::size_t worst = 0;                              ///< runs to explain
};

/// One row per run and one object per group: the contract of `validate --format json`.
std::string validate_json(const ValidateReport& report);
/// One row per run.
std::string validate_csv(const ValidateReport& report);
/// The table of groups for a terminal, what was skipped and why, and the worst runs. `notes` receives remarks for
/// standard error.
std::string validate_table(const ValidateReport& report, const Terminal& terminal, std::string& notes);
/// The table of groups as GitHub Markdown, with two decimals.
std::string validate_markdown(const ValidateReport& report);

/// The table of groups, its percentages with that many decimals; columns without a single figure are left out.
TextTable group_table(const ValidateReport& report, int decimals);

/// The `count` runs with the largest error of the step time, then of memory: each predicted term beside what it would
/// have to be, the others kept, for the prediction to equal the measurement.
std::string worst_runs(const ValidateReport& report, const Terminal& terminal);

/// Constants of a fit with their intervals, and the medians before and after.
std::string fit_text(const ProfileFit& fit, const Terminal& terminal);

/// "12.3" of 0.1234; "-" when there is nothing to show.
std::string percent_text(double share, bool known = true, int decimals = 1);

}  // namespace tpplan
