#pragma once

#include <optional>

#include "cost-model/estimate.h"
#include "cost-model/step_trace.h"

namespace tpplan {

/// Tensor sizes of pipeline rank `stage` under a layout. Each layer keeps as many bytes as the profile's list of kept
/// tensors says. Nothing for programs whose order of allocations is not described: interleaved and zero-bubble
/// schedules, offloading, per-operation recomputation.
std::optional<StepSizes> step_sizes(const Job& job, const Layout& layout, int stage);

/// Where the profile asks for it (`replay_allocator`) and the program is described: the memory of the rank that is
/// fullest once the allocator's slack of each kind of rank is what a replay reserves beyond what it allocates. Else
/// changes nothing, nor where GPipe holds more micro-batches than can be replayed in a moment. About a millisecond for
/// each kind of rank: for plans that are shown, not for the search.
void refine_memory(const Job& job, const Layout& layout, MemoryEstimate& memory);

}  // namespace tpplan
