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

/// Middle value, the mean of the middle two of an even number; 0 of none.
double median_of(std::vector<double> values);

/// One run beside its prediction.
struct RunPrediction {
  const RunRecord* record = nullptr;
  Job job;
  Estimate estimate;
  std::string skipped;
  std::optional<double> step_error;
  std::optional<double> memory_error;  ///< of the reported peak, in the figure the record names
  std::optional<double> reserved_error, device_error;
  double predicted_peak_gib = 0;
  MemoryFigure compared_figure = MemoryFigure::unknown;
  Fits predicted_fits = Fits::fits;
  bool host_bound = false;  ///< the GPU waits for launches in at least a fifth of the step

  /// Neither skipped nor suspect: the runs that error figures are made of.
  [[nodiscard]] bool counted() const { return skipped.empty() && record->suspect.empty(); }
  /// The memory error counts only where the record says which figure it reports.
  [[nodiscard]] bool memory_counted() const { return memory_error && compared_figure != MemoryFigure::unknown; }
};

/// Builds the job of every record; a record that cannot be priced keeps the reason. `calibration` is used for runs on
/// its kind of GPU, on no more nodes and GPUs per node than it was measured on.
std::vector<RunPrediction> prepare(const std::vector<RunRecord>& records, const ProfileSet& profiles,
                                   const Calibration& calibration = {});
/// Prices one prepared run with its job's profile and fills in the errors.
void predict(RunPrediction& run);

/// Name of the group a run belongs to: the record's own, or its values of the given keys.
std::string group_name(const RunPrediction& run, const std::vector<std::string>& group_by);
/// Keys that group_name knows.
std::vector<std::string> group_keys();

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
  ErrorStats step, memory, reserved, device;
  ErrorStats step_with_suspect, memory_with_suspect;  ///< the same with the suspect runs
  FitsStats fits_with_suspect;
  std::optional<double> coverage_step, coverage_memory;  ///< share inside the 80 % interval
  FitsStats fits;
  RankingStats ranking;
  int repeated = 0;          ///< sets of runs with equal inputs
  double repeat_spread = 0;  ///< median of (max - min) / mean over those sets
  std::map<std::string, int> skip_reasons, suspect_reasons;
};

/// Groups predictions by the record's group, or by the given keys (framework, gpu, precision, ...), and the total last.
std::vector<GroupReport> group_reports(const std::vector<RunPrediction>& runs,
                                       const std::vector<std::string>& group_by = {});

/// Runs of one sweep that differ only in layout: measured seconds and prediction of each distinct layout.
struct LayoutTimes {
  double measured = 0, predicted = 0;
};
/// (concordant - discordant) / (concordant + discordant) over all pairs (Kendall 1938, pairs with a tie left out).
double kendall_tau(const std::vector<LayoutTimes>& rows);
/// Measured time over the best measured, minus 1, that a user meets who tries the first `tried` layouts in the order of
/// prediction and keeps the fastest; where a tie in prediction crosses the limit, the mean over the ways to break it.
double regret(const std::vector<LayoutTimes>& rows, std::size_t tried);

/// The free constants of a profile after a fit, with 80 % intervals.
struct ProfileFit {
  FrameworkProfile profile;
  std::vector<std::string> names;
  std::vector<double> start, value, low, high;
  std::vector<bool> at_bound;
  int rows = 0;                                ///< runs with a measured step time
  int memory_rows = 0;                         ///< memory figures
  double median_before = 0, median_after = 0;  ///< of the step time's |error|: shipped values, fitted values
  double memory_before = 0, memory_after = 0;
};
/// Refits the free constants of `profile` on the counted runs that use it (all but those of group `leave_out`): those
/// of time on the step times, those of memory on the memory figures, by robust least squares in the logarithm. The
/// search starts from the shipped values, the program's defaults and the middle of the bounds and keeps the best end;
/// with a group left out the shipped values, which know that group, are no start. The runs keep the fitted profile.
/// Throws SpecError when no run uses the profile.
ProfileFit fit_profile(const std::string& profile, std::vector<RunPrediction>& runs, const std::string& leave_out = "");

/// What is left out at a time: a whole group, or the runs of one model in a group.
enum class LeaveOut : std::uint8_t { group, model };

/// Errors of one run predicted by constants that never saw it.
struct LeftOutError {
  const RunPrediction* run = nullptr;
  std::optional<double> step_error, memory_error;
};
/// Refits `profile` once per left-out part of its runs and predicts that part; the runs end as they were. No fit starts
/// from the shipped values. A profile
/// with one model only is split into five parts by inputs. With LeaveOut::group, a group that is a profile's only one
/// is predicted by the framework's nearest other profile in `profiles`; without such a one it is missing from the
/// result.
std::vector<LeftOutError> left_out_errors(const std::string& profile, std::vector<RunPrediction>& runs, LeaveOut part,
                                          const ProfileSet& profiles);
/// The same for every profile that the runs use.
std::vector<LeftOutError> left_out_errors(std::vector<RunPrediction>& runs, LeaveOut part, const ProfileSet& profiles);

/// Half widths e of the 80 % intervals [x / (1 + e), x (1 + e)] that hold four fifths of the left-out residuals; empty
/// without at least five of them.
struct IntervalWidths {
  std::optional<double> step, memory;
};
IntervalWidths interval_widths(const std::vector<LeftOutError>& errors);

}  // namespace tpplan
