#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/capacity/amounts.h"
#include "planner/capacity/capacity_options.h"
#include "planner/capacity/capacity_report.h"
#include "planner/capacity/failures.h"
#include "planner/capacity/power.h"
#include "planner/capacity/prices.h"
#include "planner/capacity/storage.h"
#include "planner/capacity/workload.h"

namespace tpplan {

/// Everything about the run that is no plan: prices, power, failures, storage. Made once, with every default listed.
struct Circumstances {
  PriceList prices;
  PowerModel power;
  std::optional<Money> electricity;  ///< per kWh
  std::optional<Kilograms> grid;     ///< per kWh
  std::optional<double> goodput;     ///< given; else the failure model says
  Seconds gpu_mtbf;                  ///< of one GPU and its share of everything around it; 0 when only nodes count
  Seconds node_mtbf;                 ///< of one node, 0 when the GPUs' rate covers it
  Seconds restart;                   ///< without reading the checkpoint
  Seconds repair;                    ///< a broken node is away
  double broken_share = 0.78;        ///< of interruptions that take a node out (hardware, Llama 3, section 3.3.4)
  BytesPerSecond write_per_node;     ///< checkpoint bandwidth where the cluster does not say
  std::optional<BytesPerSecond> write, read;  ///< of the whole file system, given
  std::optional<Seconds> checkpoint_every;
  double checkpoint_stall = 1;
  double evaluation = 0;
  std::optional<int> spares;
};
Circumstances circumstances_from(const CapacityOptions& options, PriceList prices,
                                 std::vector<ReportAssumption>& assumed);

/// How the job on that cluster is interrupted.
FailureModel failure_model(const Circumstances& around, const ClusterSpec& cluster, Bytes checkpoint);
/// The share of the wall time that is training: given, or what interruptions, checkpoints and evaluation leave.
double goodput_of(const Circumstances& around, const FailureModel& failures);
/// Checkpoint interval: given, or the best.
Seconds interval_of(const Circumstances& around, const FailureModel& failures);

/// A whole training run on one cluster.
struct TrainingRun {
  double tokens = 0;
  double tokens_per_second = 0;  ///< while training
  double goodput = 1;
  double step_error = 0;     ///< half width of the step time's 80 % interval, relative
  Between<Hours> wall;       ///< from start to end
  Between<Hours> gpu_hours;  ///< of all GPUs that are paid for, spares too
  std::optional<Between<Money>> rent;
  const Price* price = nullptr;
  Between<KilowattHours> energy;
  std::optional<Between<Money>> electricity;
  std::optional<Between<Kilograms>> carbon;
  FailureModel failures;
  Seconds interval;
  Bytes checkpoint;
  int spares = 0;
};
TrainingRun training_run(const Circumstances& around, const PricedPlan& plan, double tokens);

/// Nodes with which 99 % of the interruptions that take a node out find a replacement while others are in repair.
int recommended_spares(const Circumstances& around, const TrainingRun& run);

/// Tokens per hour of the wall clock, and the money of such an hour.
double tokens_per_hour(const TrainingRun& run);
std::optional<Money> money_per_hour(const TrainingRun& run);

/// For a table: the raw values of an interval.
template <class T>
Figure figure_of(const Between<T>& between, double scale = 1) {
  return {between.value.raw() * scale, between.low.raw() * scale, between.high.raw() * scale};
}

}  // namespace tpplan
