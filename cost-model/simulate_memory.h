#pragma once

#include <vector>

#include "cost-model/simulate.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

/// When a pass ran.
struct PassTime {
  double start = 0, end = 0;
};

/// Follows what rank `r` holds through its passes in order of time, tensor class by tensor class: activations from the
/// forward pass of a chunk to the pass that ends its backward, logits and loss around the turn of the last stage, what
/// a backward pass adds in its first layer, the embedding's gradient at its end. `times` are per pass of the schedule,
/// the same for two that run together; `offloaded`: activations leave for host memory. Fills peak, samples and the
/// activation figures of `rank`, whose chunk_activations are known.
void follow_memory(const PipelineSchedule& schedule, int r, const std::vector<PassTime>& times,
                   const StageTensors& tensors, const std::vector<StageContent>& stages, bool offloaded,
                   SimulatedRank& rank);

}  // namespace tpplan
