#pragma once

#include "cost-model/estimate.h"

namespace tpplan {

/// Bytes of optimizer state per parameter relative to Adam with fp32 master, momentum and variance (12).
struct OptimizerRow {
  Optimizer optimizer;
  double state_bytes;    ///< resident per parameter, master weights included
  double traffic_bytes;  ///< read and written per parameter and step beyond Adam's
};
const OptimizerRow& row_of(Optimizer optimizer);

/// What one pipeline rank costs per micro-batch, and what it holds.
struct StageCosts {
  double params = 0;  ///< dense parameters of the rank
  double expert_params = 0;
  Seconds forward, backward, weight;
  PassCosts sums;  ///< of the rank's layers and ends, one micro-batch
};

StageCosts stage_costs(const LayerCosts& costs, const StageContent& content);

/// Groups over which gradients are reduced and states sharded.
struct DataGroups {
  GroupPlacement dense;        ///< dp x cp
  GroupPlacement dense_shard;  ///< ranks that share ZeRO states
  GroupPlacement dense_replicas;
  GroupPlacement expert;
  double dense_shards = 1, expert_shards = 1;
};

DataGroups data_groups(const Job& job, const Layout& layout);

/// Isolated times of a rank's data-parallel collectives, once per step.
struct DataParallelTimes {
  Seconds reduce;  ///< gradients, isolated
  Seconds gather;  ///< parameters, isolated (ZeRO-1/2)
};

DataParallelTimes data_parallel_times(const Job& job, const Layout& layout, const StageCosts& stage,
                                      const DataGroups& groups);

/// Exposed cost of collectives that run beside compute: slowed compute plus what sticks out.
Seconds beside(Seconds compute, Seconds communication, double share);

/// FSDP (ZeRO-3): per micro-batch gathers forward and backward and a reduce-scatter, prefetched beside the layers.
Seconds fsdp_exposed(const Job& job, const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                     const DataGroups& groups, double micro_batches);

/// Memory of the first rank of a stage group at its worst moment.
struct StageMemory {
  MemoryEstimate at;
  Bytes total;
};

StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches);

}  // namespace tpplan
