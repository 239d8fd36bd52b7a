#include "cost-model/moe_operations.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

/// What a product of one expert costs beyond its share of one large product where each expert has kernels of its own:
/// its last wave of tiles is not full. 108 grouped products on B200 (128 to 9,832 rows an expert) and 12 on A100 PCIe,
/// kernels of SimuMax: median 5 us forward and 6 us for the data gradient, quarter to quarter 3 to 8 us. PyTorch's
/// programs have one kernel for all experts, which fills the waves of one with tiles of the next: 80 products of
/// torch._grouped_mm on H200 with 4 to 32 experts of 512 and 1,024 rows show none forward and backward, 170 with more
/// or fewer rows -3 to 2 us.
Seconds expert_tail(Framework framework) {
  const bool torch =
      framework == Framework::fsdp || framework == Framework::torchtitan || framework == Framework::plain;
  return torch ? 0_us : 5_us;
}

/// Libraries that send a token once to each rank (and across the network once to each node) and sum its results on the
/// way back, instead of one copy per expert.
struct DispatcherRow {
  Dispatcher dispatcher;
  bool deduplicates;
  bool eight_bits;      ///< dispatches 8-bit activations where products take them; results and gradients stay 16-bit
  double network_rate;  ///< of the NIC's line rate
};
/// 0.88: DeepEP's normal kernels on H800 at 400 Gbit/s (docs/legacy.md), less the share that stays on the node: 58 x
/// 3/4 = 43.5 GB/s on 4 nodes, 51 x 7/8 = 44.6 (dispatch) and 50 x 7/8 = 43.8 (combine) on 8, of 50. 0.65: DeepEP over
/// processes of the host on EFA (awsome-distributed-ai, RESULTS.md and RESULTS-p5.md): 0.45 to 0.76 on 4 and 8 nodes.
/// Megatron's dispatchers send 16 bits whatever the products take (fused_a2a.py: "does not support fp8 dispatch").
constexpr std::array<DispatcherRow, 6> kDispatchers{{{Dispatcher::by_profile, false, false, 0},
                                                     {Dispatcher::all_to_all, false, false, 0},
                                                     {Dispatcher::deepep, true, false, 0.88},
                                                     {Dispatcher::deepep_fp8, true, true, 0.88},
                                                     {Dispatcher::deepep_proxied, true, false, 0.65},
                                                     {Dispatcher::hybridep, true, false, 0.88}}};
const DispatcherRow& row_of(Dispatcher dispatcher) {
  for (const auto& row : kDispatchers) {
    if (row.dispatcher == dispatcher) {
      return row;
    }
  }
  return kDispatchers.front();
}

/// Of a link inside the fast domain, what these libraries reach, a token's own rank counted as they do. Kernel times,
/// 7,168 wide: DeepEP with 24 multiprocessors 335 (dispatch) and 326 (combine) and HybridEP 367 and 364 of 450 GB/s on
/// 8 x H100 (NeMo Automodel, deepep_vs_hybridep_benchmark.md); HybridEP with 16 on GB200 750 and 684 of 900 GB/s over 8
/// ranks, 662 and 601 over 16, 630 and 547 over 32, 613 and 543 over 36 (DeepEP,
/// Hybrid-EP_Intra-node_Implementation.md).
double domain_rate(int ranks) { return ranks <= 8 ? 0.77 : 0.66; }

/// What a measured group delivers of what its link's constants promise, at most 1: a large all-to-all. A link that is
/// slower than its kind slows every library.
double delivered(const Job& job, GroupPlacement group) {
  if (job.calibration.curves.empty() || group.ranks <= 1) {
    return 1;
  }
  constexpr Bytes kLarge(256.0 * (1 << 20));
  const Seconds rated = rated_law(job, Collective::all_to_all, group).time(kLarge);
  return std::min(1.0, rated / collective_law(job, Collective::all_to_all, group).time(kLarge));
}

/// Time of one exchange (dispatch or combine) of one rank's tokens, each copy of so many bytes.
Seconds exchange_time(const Job& job, Bytes per_copy, double tokens, GroupPlacement group) {
  const auto& moe = *job.model.moe;
  const auto& dispatcher = row_of(job.training.dispatcher);
  if (!dispatcher.deduplicates) {
    return collective_time(job, Collective::all_to_all, per_copy * (tokens * moe.top_k * job.routed_factor()), group);
  }
  const double nodes = static_cast<double>(group.ranks) / group.inside;
  const double limit = moe.routing_group_limit > 0 ? std::min<double>(moe.routing_group_limit, nodes) : nodes;
  // Every rank receives as many copies as it sends, over the links of the domain the last step of the way.
  const double copies = distinct_ranks(limit * group.inside, moe.top_k) * job.routed_factor();
  const std::size_t tier = nodes > 1 ? group.tier - 1 : group.tier;
  const auto& domain = job.cluster.tiers[tier];
  const double domain_share = delivered(job, {group.inside, group.stride, group.inside, tier});
  const Seconds inside =
      group.inside > 1 ? per_copy * (tokens * copies) / (domain.bandwidth * (domain_rate(group.inside) * domain_share))
                       : Seconds(0);
  if (nodes <= 1) {
    return job.links[group.tier].base + inside;
  }
  // One copy per remote node: those hit by top_k experts, or as many as the routing is limited to.
  const double remote = moe.routing_group_limit > 0 ? limit * (nodes - 1) / nodes
                                                    : distinct_ranks(nodes, moe.top_k) * (nodes - 1) / nodes;
  const auto& network = job.cluster.tiers[group.tier];
  const Seconds outside = per_copy * (tokens * remote) /
                          (network.bandwidth * (dispatcher.network_rate * std::min(1.0, job.profile.network_factor) *
                                                job.profile.all_to_all_factor * delivered(job, group) /
                                                std::max(1.0, network.oversubscription)));
  return job.links[group.tier].base + max(outside, inside);
}

/// Bytes of memory traffic that sorting a token's rows for its experts and summing them back costs one forward pass,
/// in units of the hidden size and of routed copies: with one copy per expert on the wire the tokens are copied out
/// (2 + 2/k) and sorted again on arrival (4), and back; a deduplicating library copies out itself and leaves one
/// sorting pass: reads of the received tokens, writes of the routed rows.
double permute_bytes(const Job& job, int ranks) {
  const double top_k = job.model.moe->top_k;
  if (!row_of(job.training.dispatcher).deduplicates) {
    return 12 + 4 / top_k;
  }
  return 4 * (1 + distinct_ranks(ranks, top_k) / top_k);
}

/// The products of all local experts with one weight each; the inner size of the weight gradient is one expert's rows.
Operation grouped(const Job& job, const char* name, double rows, double experts, double n, double k,
                  Precision precision, std::uint16_t module) {
  const double rate = narrow(precision) ? job.profile.expert_gemm_factor : job.profile.expert_gemm_factor_16bit;
  const double per_expert = std::max(1.0, rows / experts);
  Operation op =
      gemm_operation(name, "per local expert: m = routed tokens / local experts", rows, n, k, module);  // of them all
  op.m = per_expert;
  op.count = experts;
  const Bytes weights(experts * n * k * 2);
  const Seconds weights_read = weights / (job.cluster.gpu.memory_bandwidth * job.constants.gemm_bytes);
  const Seconds tails = expert_tail(job.training.framework) * experts;
  op.forward = max(gemm_time(job, rows, n, k, precision, rate) + tails, weights_read);
  op.input_gradient = max(gemm_time(job, rows, k, n, precision, rate) + tails, weights_read);
  op.weight_gradient = max(gemm_time(job, n, k * experts, per_expert, precision, rate), weights_read);
  return op;
}

}  // namespace

double distinct_ranks(double ranks, double top_k) { return ranks * (1 - std::pow(1 - 1 / ranks, top_k)); }

void add_moe(const Job& job, const LayerKey& key, const LayerSizes& s, Precision precision, OperationList& list) {
  const auto& moe = *job.model.moe;
  const double gate = job.model.gated_mlp ? 2 : 1;
  const double local_tokens = s.sequence_tokens;
  const double experts_local = static_cast<double>(moe.experts) / key.ep;
  const double routed = local_tokens * moe.top_k * job.routed_factor();
  const double rows = std::max(experts_local, routed * key.etp);
  const double ffn_local = static_cast<double>(moe.expert_ffn) / key.etp;
  list.add(product(job, kRouter, "t' x experts x h", local_tokens, moe.experts, s.h, wide_precision(job), 1, kMoe));
  list.add(grouped(job, "experts up+gate", rows, experts_local, gate * ffn_local, s.h, precision, kMoe));
  list.add(grouped(job, "experts down", rows, experts_local, s.h, ffn_local, precision, kMoe));
  if (moe.shared_ffn > 0) {
    const double shared_local = moe.shared_ffn / s.tp;
    list.add(product(job, "shared experts up+gate", "t x 2 fs/tp x h", s.tokens, gate * shared_local, s.h, precision,
                     job.profile.gemm_factor, kSharedExperts | kMoe));
    list.add(product(job, "shared experts down", "t x h x fs/tp", s.tokens, s.h, shared_local, precision,
                     job.profile.gemm_factor, kSharedExperts | kMoe));
  }
  Operation permute;
  permute.name = "permute and unpermute";
  permute.kind = OperationKind::memory;
  permute.module = kMoe;
  permute.formula = "permute bytes x h x routed tokens";
  permute.bytes_forward = Bytes(permute_bytes(job, key.ep) * s.widening * s.h * routed);
  permute.bytes_backward = permute.bytes_forward;
  permute.forward = memory_time(job, permute.bytes_forward, MemoryKind::plain) * job.profile.permute_factor;
  permute.input_gradient = permute.forward;
  list.add(permute);
  if (key.ep > 1) {
    const auto group = place_group(job.cluster, key.ep, key.etp);
    const bool in_eight_bits = narrow(precision) && row_of(job.training.dispatcher).eight_bits;
    const Bytes combine_copy = s.element * s.h;
    const Bytes dispatch_copy = in_eight_bits ? Bytes(s.h) : combine_copy;
    const Seconds dispatch = exchange_time(job, dispatch_copy, local_tokens, group);
    const Seconds combine = exchange_time(job, combine_copy, local_tokens, group);
    Operation op;
    op.name = "expert all-to-all";
    op.kind = OperationKind::ep_comm;
    op.module = kMoe;
    op.formula = "dispatch + combine of t' x h, a copy per expert or per rank";
    op.bytes_forward = (dispatch_copy + combine_copy) * routed;
    op.bytes_backward = op.bytes_forward;
    op.forward = dispatch + combine;
    op.input_gradient = combine * 2.0;
    list.add(op);
  }
  if (key.etp > 1) {
    const auto group = place_group(job.cluster, key.etp, 1);
    const Bytes bytes = s.element * (local_tokens * key.etp * moe.top_k * s.h);
    Operation op;
    op.name = "expert tensor-parallel gather and scatter";
    op.kind = OperationKind::tp_comm;
    op.module = kMoe;
    op.formula = "all-gather + reduce-scatter of the routed tokens over etp";
    op.bytes_forward = bytes * 2.0;
    op.bytes_backward = bytes * 2.0;
    op.forward = collective_time(job, Collective::all_gather, bytes, group) +
                 collective_time(job, Collective::reduce_scatter, bytes, group);
    op.input_gradient = op.forward;
    list.add(op);
  }
}

}  // namespace tpplan
