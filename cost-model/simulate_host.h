#pragma once

#include "cost-model/profile.h"

namespace tpplan {

/// Whether the host waits for the GPU at the end of every pass, so that no launch of the next one is ready when it
/// starts. With a pipeline Megatron-LM and the programs that took its communication over synchronise the device around
/// batched sends and receives (batch_p2p_sync, megatron/core/pipeline_parallel/p2p_communication.py), and nanotron
/// reads the sizes of what it receives; the timers that Megatron-DeepSpeed has around forward and backward synchronise
/// too (megatron/timers.py). The others wait at the end of a step alone, for loss and gradient norm.
bool drains_every_pass(Framework framework, int pp);

}  // namespace tpplan
