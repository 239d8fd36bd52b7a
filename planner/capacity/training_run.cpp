#include "planner/capacity/training_run.h"

#include <algorithm>

#include "cost-model/model_spec.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

/// Llama 3 (section 3.1): 2 TB/s sustained over the 2,048 nodes of the 405B run.
constexpr BytesPerSecond kUsualWritePerNode(2e12 / 2048);
constexpr Seconds kUsualRestart(900);
constexpr Seconds kUsualRepair(86400);
constexpr double kSpareConfidence = 0.99;

std::string text_of(Seconds time) {
  constexpr double kHour = 3600;
  return time.raw() >= kHour ? brief_number(time.raw() / kHour) + " h" : brief_number(time.raw() / 60) + " min";
}

void assume_power(Circumstances& around, const CapacityOptions& options, std::vector<ReportAssumption>& assumed) {
  PowerModel& power = around.power;
  if (const auto kw = options.node_kw            ? options.node_kw
                      : around.prices.node_power ? std::optional(around.prices.node_power->raw())
                                                 : std::nullopt) {
    power.node = Kilowatts(*kw);
  } else {
    assumed.push_back({"power of GPUs at work", "their rated power", "",
                       "as energy figures of BLOOM (arXiv:2211.02001) and Llama count", "--node-power"});
    assumed.push_back({"power of hosts, fans and NICs", shortest(power.host_share) + " of the GPUs'",
                       shortest(power.host_share_low) + " to " + shortest(power.host_share_high),
                       "up to 8.4 kW of a node of 8 H100 in training, 10.2 kW rated (arXiv:2412.08602)",
                       "--node-power"});
  }
  if (const auto pue = options.pue ? options.pue : around.prices.pue) {
    power.pue = power.pue_low = power.pue_high = *pue;
  } else {
    assumed.push_back({"PUE", shortest(power.pue), shortest(power.pue_low) + " to " + shortest(power.pue_high),
                       "BLOOM's site (arXiv:2211.02001); a large cloud; mean of Uptime Institute's survey of 2024",
                       "--pue"});
  }
}

void assume_failures(Circumstances& around, const CapacityOptions& options, std::vector<ReportAssumption>& assumed) {
  around.gpu_mtbf = options.gpu_mtbf.value_or(options.node_mtbf ? Seconds(0) : kUsualGpuMtbf);
  around.node_mtbf = options.node_mtbf.value_or(Seconds(0));
  around.restart = options.restart.value_or(kUsualRestart);
  around.repair = options.repair.value_or(kUsualRepair);
  around.write_per_node = kUsualWritePerNode;
  around.write = options.checkpoint_write;
  around.read = options.storage_read;
  around.checkpoint_every = options.checkpoint_every;
  around.checkpoint_stall = options.checkpoint_stall;
  around.evaluation = options.evaluation;
  around.spares = options.spares;
  around.goodput = options.goodput;
  if (around.goodput) {
    return;
  }
  if (!options.gpu_mtbf && !options.node_mtbf) {
    assumed.push_back({"time between interruptions of one GPU", text_of(kUsualGpuMtbf), "",
                       "Llama 3 (arXiv:2407.21783): 419 in 54 days on 16,384 GPUs", "--gpu-mtbf, --node-mtbf"});
  }
  if (!options.restart) {
    assumed.push_back({"restart after an interruption", text_of(kUsualRestart) + " and reading the checkpoint", "",
                       "MegaScale (arXiv:2402.15627): back in training within 15 minutes", "--restart-time"});
  }
  if (!options.spares) {
    assumed.push_back(
        {"replacements of broken nodes", "at hand, not paid for while they wait", "", "", "--spare-nodes"});
  }
  if (options.evaluation <= 0) {
    assumed.push_back({"pauses for evaluation", "0 % of the time", "", "evaluation on other GPUs", "--evaluation"});
  }
  if (!options.checkpoint_write) {
    assumed.push_back({"checkpoint bandwidth", format(kUsualWritePerNode) + " per node where the cluster file has none",
                       "", "Llama 3: 2 TB/s sustained for 2,048 nodes", "--checkpoint-write"});
  }
}

}  // namespace

Circumstances circumstances_from(const CapacityOptions& options, PriceList prices,
                                 std::vector<ReportAssumption>& assumed) {
  Circumstances around;
  around.prices = std::move(prices);
  around.electricity = options.electricity ? std::optional(Money(*options.electricity)) : around.prices.electricity;
  around.grid = options.grid ? std::optional(Kilograms(*options.grid)) : around.prices.grid;
  assume_power(around, options, assumed);
  assume_failures(around, options, assumed);
  return around;
}

FailureModel failure_model(const Circumstances& around, const ClusterSpec& cluster, Bytes checkpoint) {
  double rate = 0;
  if (around.gpu_mtbf.raw() > 0) {
    rate += cluster.gpus() / around.gpu_mtbf.raw();
  }
  if (around.node_mtbf.raw() > 0) {
    rate += cluster.nodes / around.node_mtbf.raw();
  }
  const BytesPerSecond usual = around.write_per_node * cluster.nodes;
  const BytesPerSecond write = around.write                      ? *around.write
                               : cluster.storage_write.raw() > 0 ? cluster.storage_write
                                                                 : usual;
  const BytesPerSecond read = around.read                      ? *around.read
                              : cluster.storage_read.raw() > 0 ? cluster.storage_read
                                                               : write;
  return {Seconds(1 / rate), checkpoint / write * around.checkpoint_stall, around.restart + checkpoint / read};
}

Seconds interval_of(const Circumstances& around, const FailureModel& failures) {
  return around.checkpoint_every.value_or(best_interval(failures));
}

double goodput_of(const Circumstances& around, const FailureModel& failures) {
  if (around.goodput) {
    return *around.goodput;
  }
  const double wasted = wasted_share(failures, interval_of(around, failures));
  return std::max(0.0, (1 - wasted) * (1 - around.evaluation));
}

TrainingRun training_run(const Circumstances& around, const PricedPlan& plan, double tokens) {
  const ClusterSpec& cluster = plan.job.cluster;
  TrainingRun run;
  run.tokens = tokens;
  run.tokens_per_second = plan.tokens_per_second();
  run.step_error = plan.plan.estimate.step.step_error;
  const double params = static_cast<double>(parameter_counts(plan.job.model).total);
  run.checkpoint = checkpoint_bytes(params, row_of(plan.plan.layout.optimizer).state_bytes);
  run.failures = failure_model(around, cluster, run.checkpoint);
  run.interval = interval_of(around, run.failures);
  run.goodput = goodput_of(around, run.failures);
  run.spares = around.spares.value_or(0);

  constexpr double kHour = 3600;
  const Hours wall(tokens / run.tokens_per_second / run.goodput / kHour);
  const Interval<double> spread = interval80(1.0, run.step_error);
  run.wall = {wall, wall * spread.low, wall * spread.high};
  const double paid = static_cast<double>(cluster.gpus()) + static_cast<double>(run.spares) * cluster.gpus_per_node;
  run.gpu_hours = {run.wall.value * paid, run.wall.low * paid, run.wall.high * paid};
  run.price = around.prices.hourly(cluster);
  if (run.price != nullptr) {
    const Between<Money>& hour = *run.price->hour;
    run.rent = Between<Money>{hour.value * run.gpu_hours.value.raw(), hour.low * run.gpu_hours.low.raw(),
                              hour.high * run.gpu_hours.high.raw()};
  }
  const Between<Kilowatts> power = site_power(around.power, cluster);
  run.energy = {power.value * run.wall.value, power.low * run.wall.low, power.high * run.wall.high};
  if (around.electricity) {
    run.electricity =
        Between<Money>{*around.electricity * run.energy.value.raw(), *around.electricity * run.energy.low.raw(),
                       *around.electricity * run.energy.high.raw()};
  }
  if (around.grid) {
    run.carbon = Between<Kilograms>{*around.grid * run.energy.value.raw(), *around.grid * run.energy.low.raw(),
                                    *around.grid * run.energy.high.raw()};
  }
  return run;
}

int recommended_spares(const Circumstances& around, const TrainingRun& run) {
  return spare_nodes(around.repair / run.failures.mtbf * around.broken_share, kSpareConfidence);
}

double tokens_per_hour(const TrainingRun& run) {
  constexpr double kHour = 3600;
  return run.tokens_per_second * run.goodput * kHour;
}

std::optional<Money> money_per_hour(const TrainingRun& run) {
  return run.rent ? std::optional(run.rent->value / run.wall.value.raw()) : std::nullopt;
}

}  // namespace tpplan
