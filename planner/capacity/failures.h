#pragma once

#include <cstdint>

#include "cost-model/units.h"

namespace tpplan {

/// Llama 3 (arXiv:2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384 GPUs.
inline constexpr double kLlama3Interruptions = 419;
inline constexpr Seconds kLlama3Snapshot{54 * 86400.0};
inline constexpr double kLlama3Gpus = 16384;
/// Mean time between interruptions of one GPU with its share of everything around it: 54 d x 16,384 / 419 = 50,677 h.
inline constexpr Seconds kUsualGpuMtbf{54 * 86400.0 * kLlama3Gpus / kLlama3Interruptions};

/// How a job is interrupted and what it costs it. Failures are a Poisson process: independent, at a constant rate.
struct FailureModel {
  Seconds mtbf;        ///< mean time between interruptions of the whole job
  Seconds checkpoint;  ///< training stands still for one checkpoint
  Seconds restart;     ///< from an interruption to training again, the checkpoint read
};

/// Training time between checkpoints that wastes least, of a first-order model: sqrt(2 C M) (Young, CACM 17 (1974)).
Seconds young_interval(const FailureModel& model);
/// The same with two more terms: sqrt(2 C M) (1 + sqrt(C/2M)/3 + (C/2M)/9) - C below C = 2 M, else M (Daly, FGCS 22
/// (2006), equation 37).
Seconds daly_interval(const FailureModel& model);
/// The interval at which wasted_share() is least: M (1 + W(-exp(-C/M - 1))), W the main branch of Lambert's function.
Seconds best_interval(const FailureModel& model);

/// Share of the wall time that is no training when a checkpoint is written after every `interval` of training:
/// 1 - t / (M e^(R/M) (e^((t + C)/M) - 1)), exact for Poisson failures, which may also strike during a checkpoint or a
/// restart (Daly, equation 20).
double wasted_share(const FailureModel& model, Seconds interval);
/// Young's first-order estimate of the same: C/t + (t/2 + R)/M.
double wasted_share_first_order(const FailureModel& model, Seconds interval);

/// The exact share taken apart; the three add up to wasted_share().
struct WastedTime {
  double checkpoints = 0;  ///< writing checkpoints that were finished
  double lost_work = 0;    ///< training and writing done again after an interruption
  double restarts = 0;
};
WastedTime wasted_time(const FailureModel& model, Seconds interval);

/// Interruptions, those of restarts too, that a segment meets on average before it is done.
double interruptions_per_segment(const FailureModel& model, Seconds interval);

/// Mean of the wasted share over `histories` random ones, each `segments` intervals of training long: draws failures
/// one after another and walks through training, checkpoints and restarts. The same for the same seed everywhere.
double simulated_waste(const FailureModel& model, Seconds interval, int segments, int histories, std::uint64_t seed);

/// Fewest spare nodes with which a failed node finds a spare at least `confidence` of the time: nodes in repair are
/// Poisson with mean failures x repair time.
int spare_nodes(double mean_in_repair, double confidence);

}  // namespace tpplan
