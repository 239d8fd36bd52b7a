#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/import/run_records.h"

namespace tpplan {

/// Spread of relative errors predicted/measured - 1.
struct ErrorStats {
  int n = 0;
  double median = 0;  ///< of |error|
  double mape = 0;    ///< mean of |error|
  double p90 = 0;     ///< of |error|, nearest rank
  double max = 0;     ///< of |error|
  double bias = 0;    ///< median of the signed error
};
ErrorStats error_stats(std::vector<double> errors);

/// One run beside its prediction.
struct RunPrediction {
  const RunRecord* record = nullptr;
  Job job;
  Estimate estimate;
  std::string skipped;
  std::optional<double> step_error;
  std::optional<double> memory_error;           ///< of the reported peak, in the figure the record names
  std::optional<double> reserved_error, device_error;
  double predicted_peak_gib = 0;
  MemoryFigure compared_figure = MemoryFigure::unknown;
  Fits predicted_fits = Fits::fits;
  bool host_bound = false;                      ///< launches take at least 0.8 of the step
  [[nodiscard]] bool counted() const { return skipped.empty() && record->suspect.empty(); }
};

/// Builds the job of every record; a record that cannot be priced keeps the reason.
std::vector<RunPrediction> prepare(const std::vector<RunRecord>& records, const ProfileSet& profiles,
                                   const Calibration& calibration = {});
/// Prices one prepared run with its job's profile and fills in the errors.
void predict(RunPrediction& run);

/// Verdict counts: did the run fit, and did we say so. `tight` counts as fits.
struct FitsStats {
  int n = 0, right = 0, false_fits = 0, false_oom = 0, tight = 0, called_fits = 0;
};
/// Ranking inside sweeps of at least five distinct layouts.
struct RankingStats {
  int sweeps = 0;
  double top1_regret_mean = 0, best3_regret_mean = 0, kendall_tau_median = 0;
};
struct GroupReport {
  std::string group;
  int rows = 0, skipped = 0, suspect = 0;
  ErrorStats step, memory, reserved, device, suspect_step;
  std::optional<double> coverage_step, coverage_memory;  ///< share inside the 80 % interval
  FitsStats fits;
  RankingStats ranking;
  int repeated = 0;           ///< sets of runs with equal inputs
  double repeat_spread = 0;   ///< median of (max - min) / mean over those sets
};

/// Groups predictions by the record's group, or by the given keys (framework, gpu, precision, ...), and the total last.
std::vector<GroupReport> group_reports(const std::vector<RunPrediction>& runs,
                                       const std::vector<std::string>& group_by = {});
/// Name of the group a run belongs to.
std::string group_name(const RunPrediction& run, const std::vector<std::string>& group_by);

/// Text of the free constants of a profile after a fit, with intervals.
struct ProfileFit {
  FrameworkProfile profile;
  std::vector<std::string> names;
  std::vector<double> start, value, low, high;
  int rows = 0;
  double median_before = 0, median_after = 0;
};
/// Refits the free constants of `profile` on the runs that use it (all but those of group `leave_out`).
ProfileFit fit_profile(const std::string& profile, std::vector<RunPrediction>& runs, const std::string& leave_out = "");

}  // namespace tpplan
