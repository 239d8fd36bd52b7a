#include "cost-model/context_parallel.h"

#include <algorithm>
#include <array>

namespace tpplan {
namespace {

/// Keys and values of the rank's own tokens.
Bytes own_keys_and_values(const LayerSizes& s) {
  return s.element * (s.tokens * s.kv_heads_local * (s.width_qk + s.width_v));
}

void ring(const Job& job, const LayerKey& key, const LayerSizes& s, const Operation& attention, Operation& op) {
  const Bytes kv = own_keys_and_values(s);
  // Neighbours on the outermost link that the ring crosses hold up all the others.
  const auto group = place_group(job.cluster, key.cp, key.tp);
  const GroupPlacement crossing{2, key.tp * (key.cp / 2), 1, group.tier};
  const auto hop = [&](Bytes bytes) {
    return max(collective_time(job, Collective::send_recv, bytes, place_group(job.cluster, 2, key.tp)),
               collective_time(job, Collective::send_recv, bytes, crossing));
  };
  const auto shown = [](Seconds transfer, Seconds beside) { return max(Seconds(0), transfer - beside); };
  const double steps = key.cp - 1;
  const Seconds forward_step = attention.forward / static_cast<double>(key.cp);
  const Seconds backward_step = attention.input_gradient / static_cast<double>(key.cp);
  op.name = "ring exchange of keys and values";
  op.formula = "cp-1 steps of t k (dk+dv) forward, 2cp-1 backward; each shows its excess over 1/cp of attention";
  op.bytes_forward = kv * steps;
  op.bytes_backward = kv * (2 * steps + 1);
  op.forward = shown(hop(kv), forward_step) * steps;
  // Keys and values alone beside the first step, their gradients alone beside the last one and after it.
  op.input_gradient = shown(hop(kv), backward_step) * 2.0 + shown(hop(kv * 2.0), backward_step) * (steps - 1) + hop(kv);
}

void gather(const Job& job, const LayerKey& key, const LayerSizes& s, const Operation& /*attention*/, Operation& op) {
  const auto group = place_group(job.cluster, key.cp, key.tp);
  const Bytes whole = own_keys_and_values(s) * static_cast<double>(key.cp);
  op.name = "gather of keys and values";
  op.formula = "all-gather of K,V forward and backward, reduce-scatter of their gradients";
  op.bytes_forward = whole;
  op.bytes_backward = whole * 2.0;
  op.forward = collective_time(job, Collective::all_gather, whole, group);
  op.input_gradient = op.forward + collective_time(job, Collective::reduce_scatter, whole, group);
}

void exchange_heads(const Job& job, const LayerKey& key, const LayerSizes& s, const Operation& /*attention*/,
                    Operation& op) {
  const auto group = place_group(job.cluster, key.cp, key.tp);
  const double kv_heads = attended_kv_heads(job, key) / key.tp;
  op.name = "Ulysses all-to-all of queries keys values and output";
  op.formula = "four all-to-alls of t d x heads / tp each way, keys and values of max(k, cp tp) heads";
  for (const double width :
       {s.heads_local * s.width_qk, kv_heads * s.width_qk, kv_heads * s.width_v, s.heads_local * s.width_v}) {
    const Bytes bytes = s.element * (s.tokens * width);
    op.bytes_forward += bytes;
    op.forward += collective_time(job, Collective::all_to_all, bytes, group);
  }
  op.bytes_backward = op.bytes_forward;
  op.input_gradient = op.forward;
}

Bytes ring_buffers(const Job& /*job*/, const LayerKey& /*key*/, const LayerSizes& s) {
  return own_keys_and_values(s) * 4.0;
}

Bytes gather_buffers(const Job& /*job*/, const LayerKey& key, const LayerSizes& s) {
  return own_keys_and_values(s) * (2.0 * key.cp);
}

Bytes exchange_buffers(const Job& job, const LayerKey& key, const LayerSizes& s) {
  const double width = (s.heads_local + attended_kv_heads(job, key) / key.tp) * (s.width_qk + s.width_v);
  return s.element * (2 * s.tokens * width);
}

struct CpRow {
  CpType type;
  void (*exchange)(const Job&, const LayerKey&, const LayerSizes&, const Operation& attention, Operation& op);
  Bytes (*buffers)(const Job&, const LayerKey&, const LayerSizes&);
};
constexpr std::array<CpRow, 3> kKinds{{{CpType::ring, ring, ring_buffers},
                                       {CpType::all_gather, gather, gather_buffers},
                                       {CpType::ulysses, exchange_heads, exchange_buffers}}};

}  // namespace

double attended_kv_heads(const Job& job, const LayerKey& key) {
  const double ranks = key.cp_type == CpType::ulysses ? static_cast<double>(key.cp) * key.tp : key.tp;
  return job.model.latent ? job.model.heads : std::max<double>(job.model.kv_heads, ranks);
}

Operation context_parallel_exchange(const Job& job, const LayerKey& key, const LayerSizes& s,
                                    const Operation& attention) {
  Operation op;
  op.kind = OperationKind::cp_comm;
  op.module = kCoreAttention;
  kKinds[static_cast<std::size_t>(key.cp_type)].exchange(job, key, s, attention, op);
  return op;
}

Bytes context_parallel_buffers(const Job& job, const LayerKey& key, const LayerSizes& s) {
  if (key.cp <= 1) {
    return Bytes(0);
  }
  return kKinds[static_cast<std::size_t>(key.cp_type)].buffers(job, key, s);
}

}  // namespace tpplan
