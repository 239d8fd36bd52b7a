#pragma once

#include "cost-model/layer_sizes.h"

namespace tpplan {

/// What context parallelism adds to the attention of a layer, per GPU and micro-batch; `attention` is one layer's. Keys
/// are as wide as queries, values as wide as the output, which differ in latent attention.
/// - ring: keys and values go round in cp - 1 steps, each beside the attention to what came before; backward they go
///   round again, followed by their gradients, which need one more step to come home. Slices are dealt out so that
///   every rank has the same causal work in every step (an early and a late slice each, arXiv 2311.09431), so that a
///   step shows what its transfer exceeds 1 / cp of the attention by.
/// - all-gather: keys and values are gathered in both passes, their gradients reduce-scattered.
/// - Ulysses: four all-to-alls a pass exchange parts of the sequence for heads, before attention of queries, keys and
///   values, after it of the output (arXiv 2309.14509); fewer key/value heads than cp x tp are copied.
Operation context_parallel_exchange(const Job& job, const LayerKey& key, const LayerSizes& s,
                                    const Operation& attention);

/// Bytes of exchange buffers beside what a layer holds while attention runs backward: of a ring the block in work
/// and the one on its way, of keys, values and both gradients; all of them whole after a gather; what is sent and what
/// arrives of an all-to-all.
Bytes context_parallel_buffers(const Job& job, const LayerKey& key, const LayerSizes& s);

/// Key/value heads of a tensor-parallel group while attention runs, copies included.
double attended_kv_heads(const Job& job, const LayerKey& key);

}  // namespace tpplan
