#include "cost-model/layer_cost.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

constexpr double kTile = 128;               // rows and columns of the tile that occupancy counts
constexpr Seconds kKernelOverhead = 2_us;   // start and end of one kernel on the GPU
constexpr double kActivationBytes = 2;      // 16-bit activations outside the products

struct KindName {
  OperationKind kind;
  std::string_view name;
};
constexpr std::array<KindName, 7> kKindNames{{{OperationKind::gemm, "gemm"},
                                              {OperationKind::attention, "attention"},
                                              {OperationKind::memory, "memory"},
                                              {OperationKind::tp_comm, "tp comm"},
                                              {OperationKind::cp_comm, "cp comm"},
                                              {OperationKind::ep_comm, "ep comm"},
                                              {OperationKind::host, "host"}}};

double sustained(const GpuConstants& gpu, Precision precision) {
  switch (precision) {
    case Precision::fp32:
    case Precision::tf32:
      return gpu.gemm_tf32;
    case Precision::fp8:
    case Precision::mxfp8:
      return gpu.gemm_fp8;
    case Precision::nvfp4:
      return gpu.gemm_fp4;
    default:
      return gpu.gemm_16bit;
  }
}

bool narrow(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::mxfp8 || precision == Precision::nvfp4;
}

/// The precision of everything that stays out of the narrow products: attention, head, router.
Precision wide_precision(const Job& job) {
  if (!narrow(job.training.precision)) {
    return job.training.precision;
  }
  return job.cluster.gpu.peak_of(Precision::bf16).raw() > 0 ? Precision::bf16 : Precision::fp16;
}

/// Everything about one layer key that the operation lists share.
struct Sizes {
  double tokens = 0;        ///< of one micro-batch on this rank: s * b / cp
  double sequence_tokens = 0;  ///< tokens / tp with sequence parallelism
  double h = 0, tp = 1, sp = 1;
  double q = 0, kv = 0;     ///< whole widths of queries and of keys (or values)
  double q_local = 0, kv_local = 0, ffn_local = 0;
  double heads_local = 0, kv_heads_local = 0;
  double width_qk = 0, width_v = 0;
  double vocab_local = 0;
  Bytes element{kActivationBytes};
};

Sizes sizes_of(const Job& job, const LayerKey& key) {
  const auto& model = job.model;
  Sizes s;
  s.tp = key.tp;
  s.sp = key.sequence_parallel ? key.tp : 1;
  s.tokens = static_cast<double>(job.training.seq) * key.micro_batch / key.cp;
  s.sequence_tokens = s.tokens / s.sp;
  s.h = model.hidden;
  s.q = static_cast<double>(model.heads) * model.head_dim;
  s.kv = static_cast<double>(model.kv_heads) * model.head_dim;
  s.heads_local = static_cast<double>(model.heads) / key.tp;
  s.kv_heads_local = std::max(1.0, static_cast<double>(model.kv_heads) / key.tp);
  s.width_qk = model.head_dim;
  s.width_v = model.head_dim;
  if (model.latent) {
    s.width_qk = model.latent->qk_nope + model.latent->qk_rope;
    s.width_v = model.latent->v;
    s.q = model.heads * s.width_qk;
    s.kv = model.heads * s.width_v;
    s.kv_heads_local = s.heads_local;
  }
  s.q_local = s.q / key.tp;
  s.kv_local = model.latent ? s.kv / key.tp : s.kv_heads_local * model.head_dim;
  s.ffn_local = static_cast<double>(model.ffn_hidden) / key.tp;
  s.vocab_local = static_cast<double>(padded_vocab(job, key.tp)) / key.tp;
  const auto precision = job.training.precision;
  s.element = Bytes(precision == Precision::fp32 || precision == Precision::tf32 ? 4 : kActivationBytes);
  return s;
}

double memory_fraction(const GpuConstants& gpu, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::norm:
      return gpu.memory_norm;
    case MemoryKind::adam:
      return gpu.memory_adam;
    case MemoryKind::dynamic:
      return gpu.memory_dynamic;
    default:
      return gpu.memory_plain;
  }
}

Seconds memory_time(const Job& job, Bytes bytes, MemoryKind kind) {
  return bytes / (job.cluster.gpu.memory_bandwidth * memory_fraction(job.constants, kind));
}

/// One product with both of its backward products: data gradient (m, k, n) and weight gradient (n, k, m).
Operation product(const Job& job, const char* name, const char* formula, double m, double n, double k,
                  Precision precision, double rate, std::uint16_t module) {
  Operation op;
  op.name = name;
  op.formula = formula;
  op.kind = OperationKind::gemm;
  op.m = m;
  op.n = n;
  op.k = k;
  op.module = module;
  op.flops_forward = Flops(2 * m * n * k);
  op.flops_backward = Flops(4 * m * n * k);
  op.forward = gemm_time(job, m, n, k, precision, rate);
  op.input_gradient = gemm_time(job, m, k, n, precision, rate);
  op.weight_gradient = gemm_time(job, n, k, m, precision, rate);
  return op;
}

bool applies(const Job& job, const LayerKey& key, const TokenBytes& row) {
  const auto& training = job.training;
  const bool flash = training.flash_attention;
  return (row.flash < 0 || (row.flash == 1) == flash) &&
         (row.rms_kernel < 0 || (row.rms_kernel == 1) == training.fused_norm) &&
         (row.tp_above_one < 0 || (row.tp_above_one == 1) == (key.tp > 1));
}

double divisor(const Sizes& s, ShardedBy by) {
  return by == ShardedBy::tp ? s.tp : by == ShardedBy::sequence ? s.sp : 1;
}

/// Bytes per token (of the rank's tokens) of one row; `ffn_width_tokens` is FFN width summed over what the token visits.
double bytes_per_token(const Job& job, const Sizes& s, const TokenBytes& row, double ffn_width) {
  const double latent_kv = s.kv;
  const double body = row.h * s.h + row.q * s.q + row.kv * latent_kv + row.heads * job.model.heads +
                      row.scores * job.model.heads * job.training.seq + row.constant;
  const double f = job.model.gated_mlp || row.f_plain < 0 ? row.f : row.f_plain;
  return body / divisor(s, row.sharded_by) + f * ffn_width;
}

/// FFN width per token of this rank: dense f / tp, or what a MoE layer computes per token.
double ffn_width_per_token(const Job& job, const LayerKey& key, const Sizes& s, bool moe_layer) {
  if (!moe_layer) {
    return s.ffn_local;
  }
  const auto& moe = *job.model.moe;
  const double routed = static_cast<double>(moe.top_k) * moe.expert_ffn * job.training.expert_imbalance;
  return routed / s.sp + moe.shared_ffn / s.tp * (key.sequence_parallel ? 1.0 : 1.0);
}

void add_elementwise(const Job& job, const LayerKey& key, const Sizes& s, bool moe_layer, OperationList& list) {
  const double ffn = ffn_width_per_token(job, key, s, moe_layer);
  const auto add = [&](const TokenBytes& row, bool forward) {
    if (!applies(job, key, row)) {
      return;
    }
    const Bytes bytes(bytes_per_token(job, s, row, ffn) * s.tokens);
    const double fraction = row.rate_fraction > 0 ? row.rate_fraction : memory_fraction(job.constants, row.kind);
    const Seconds time = bytes / (job.cluster.gpu.memory_bandwidth * fraction) * job.profile.elementwise_factor;
    Operation op;
    op.name = row.name.c_str();
    op.kind = OperationKind::memory;
    op.module = row.module;
    op.formula = "bytes / (memory bandwidth x fraction of the kind of kernel) x elementwise factor";
    (forward ? op.bytes_forward : op.bytes_backward) = bytes;
    (forward ? op.forward : op.input_gradient) = time;
    list.add(op);
  };
  for (const auto& row : job.profile.elementwise_forward) {
    add(row, true);
  }
  for (const auto& row : job.profile.elementwise_backward) {
    add(row, false);
  }
}

void add_attention(const Job& job, const LayerKey& key, const Sizes& s, OperationList& list) {
  const auto& gpu = job.constants;
  const auto& profile = job.profile;
  const double seq = job.training.seq;
  const double batch_heads = key.micro_batch * s.heads_local;
  const FlopsPerSecond peak = job.cluster.gpu.peak_of(wide_precision(job)) * gpu.power_factor;
  Operation op;
  op.name = "core attention";
  op.kind = OperationKind::attention;
  op.m = seq;
  op.n = batch_heads;
  op.k = s.width_qk;
  op.module = kCoreAttention;
  // Causal: half the square of scores; both products of the forward pass.
  const double causal = batch_heads * seq * seq * (s.width_qk + s.width_v) * job.mean_attended / key.cp;
  op.flops_forward = Flops(causal);
  op.flops_backward = Flops(2.5 * causal);
  if (job.training.flash_attention) {
    const double small_head = s.width_qk <= 64 ? gpu.flash_d64 : 1;
    const double cp_factor = key.cp > 1 ? profile.cp_attention_factor : 1;
    const double kernel = job.training.kernel == AttentionKernel::flash1 ? 0.46 : 1;
    const int sms = job.cluster.gpu.sms > 0 ? job.cluster.gpu.sms : 100;
    const Flops tile(4 * kTile * seq * s.width_qk * sms);
    op.forward = 5_us + (op.flops_forward + tile * gpu.flash_tail_forward) * (small_head * cp_factor) /
                            (peak * (gpu.flash_forward * profile.flash_forward_factor * kernel));
    op.input_gradient = 5_us + (op.flops_backward + tile * (2.5 * gpu.flash_tail_backward)) * (small_head * cp_factor) /
                                   (peak * (gpu.flash_backward * profile.flash_backward_factor * kernel));
    op.formula = "(2 b a s^2 d causal-halved + tail of one query tile per SM) / (peak x flash fraction), backward 2.5 x";
  } else {
    // The whole square is computed: two batched products forward, four backward, and passes over the scores.
    const double full = 2 * causal / job.mean_attended;
    const bool misaligned = job.model.head_dim % 8 != 0;
    const double rate = gpu.batched_gemm * (misaligned ? profile.misaligned_head_factor : 1);
    const double scores = batch_heads * seq * seq / key.cp;
    op.flops_forward = Flops(full);
    op.flops_backward = Flops(2 * full);
    op.bytes_forward = Bytes(profile.score_bytes_forward * scores);
    op.bytes_backward = Bytes(profile.score_bytes_backward * scores);
    const double softmax = job.training.kernel == AttentionKernel::unfused ? 1.9 : 1;
    op.forward = op.flops_forward / (peak * rate) +
                 memory_time(job, op.bytes_forward, MemoryKind::plain) * softmax;
    op.input_gradient = op.flops_backward / (peak * rate) +
                        memory_time(job, op.bytes_backward, MemoryKind::plain) * softmax;
    op.formula = "4 b a s^2 d / (peak x batched product fraction) + bytes per score x b a s^2 / bandwidth";
  }
  list.add(op);
}

/// Bytes one rank sends to other nodes and peers in the dispatch of routed tokens, and their time.
Seconds dispatch_time(const Job& job, Bytes per_copy, double copies_tokens, GroupPlacement group) {
  const auto& moe = *job.model.moe;
  const double nodes = static_cast<double>(group.ranks) / group.inside;
  const bool deduplicated = nodes > 1 && (job.training.dispatcher == Dispatcher::by_profile
                                              ? job.profile.deduplicated_dispatch > 0.5
                                              : job.training.dispatcher != Dispatcher::all_to_all);
  const Bytes payload = per_copy * (copies_tokens * moe.top_k * job.training.expert_imbalance);
  if (!deduplicated) {
    return collective_time(job, Collective::all_to_all, payload, group);
  }
  // One copy per remote node: expected remote nodes hit by top_k experts, fewer when routing is node-limited.
  const double limit = moe.routing_group_limit > 0 ? std::min<double>(moe.routing_group_limit, nodes) : 0;
  const double remote = limit > 0 ? limit * (nodes - 1) / nodes
                                  : (nodes - 1) * (1 - std::pow(1 - 1 / nodes, static_cast<double>(moe.top_k)));
  const Bytes network = per_copy * (copies_tokens * remote);
  const auto& link = job.links[group.tier];
  const Seconds outside = network / (group_bandwidth(job, Collective::all_to_all, group) * job.profile.all_to_all_factor);
  const GroupPlacement inner{group.inside, group.stride, group.inside, 0};
  const Seconds inside = group.inside > 1 ? collective_time(job, Collective::all_to_all, payload, inner) : Seconds(0);
  return link.base + max(outside, inside);
}

int expert_stride(const LayerKey& key) { return key.etp; }

void add_moe(const Job& job, const LayerKey& key, const Sizes& s, Precision precision, OperationList& list) {
  const auto& moe = *job.model.moe;
  const double gate = job.model.gated_mlp ? 2 : 1;
  const double local_tokens = s.sequence_tokens;
  const double imbalance = job.training.expert_imbalance;
  const double experts_local = static_cast<double>(moe.experts) / key.ep;
  const double routed = local_tokens * moe.top_k * key.etp * imbalance;
  const double per_expert = std::max(1.0, routed / experts_local);
  const double ffn_local = static_cast<double>(moe.expert_ffn) / key.etp;
  list.add(product(job, "router", "t' x experts x h", local_tokens, moe.experts, s.h, wide_precision(job), 1, kMoe));
  const double rate = narrow(precision) ? job.profile.expert_gemm_factor : job.profile.expert_gemm_factor_16bit;
  const auto grouped = [&](const char* name, double n, double k, std::uint16_t module) {
    auto op = product(job, name, "per local expert: m = routed tokens / local experts", per_expert, n, k, precision,
                      rate, module);
    op.count = experts_local;
    // A grouped kernel fills the GPU with all experts at once: price one product of all rows, weights read once each.
    const double m = per_expert * experts_local;
    op.forward = gemm_time(job, m, n, k, precision, rate);
    op.input_gradient = gemm_time(job, m, k, n, precision, rate);
    op.weight_gradient = gemm_time(job, m, n, k, precision, rate);
    const Bytes weights(experts_local * n * k * 2);
    const Seconds weights_read = weights / (job.cluster.gpu.memory_bandwidth * job.constants.gemm_bytes);
    op.forward = max(op.forward, weights_read);
    op.input_gradient = max(op.input_gradient, weights_read);
    op.weight_gradient = max(op.weight_gradient, weights_read);
    op.flops_forward = op.flops_forward * experts_local;
    op.flops_backward = op.flops_backward * experts_local;
    return op;
  };
  list.add(grouped("experts up+gate", gate * ffn_local, s.h, kMoe));
  list.add(grouped("experts down", s.h, ffn_local, kMoe));
  if (moe.shared_ffn > 0) {
    const double shared_local = moe.shared_ffn / s.tp;
    list.add(product(job, "shared experts up+gate", "t x 2 fs/tp x h", s.tokens, gate * shared_local, s.h, precision,
                     job.profile.gemm_factor, kSharedExperts));
    list.add(product(job, "shared experts down", "t x h x fs/tp", s.tokens, s.h, shared_local, precision,
                     job.profile.gemm_factor, kSharedExperts));
  }
  Operation permute;
  permute.name = "permute and unpermute";
  permute.kind = OperationKind::memory;
  permute.module = kMoe;
  permute.formula = "permute bytes x h x routed tokens";
  permute.bytes_forward = Bytes(job.profile.permute_bytes_per_routed * s.h * local_tokens * moe.top_k * imbalance);
  permute.bytes_backward = permute.bytes_forward;
  permute.forward = memory_time(job, permute.bytes_forward, MemoryKind::plain);
  permute.input_gradient = permute.forward;
  list.add(permute);
  if (key.ep > 1) {
    const auto group = place_group(job.cluster, key.ep, expert_stride(key));
    const Bytes dispatch_copy(s.h * (narrow(precision) && job.training.dispatcher != Dispatcher::all_to_all ? 1 : 2));
    const Bytes combine_copy(s.h * 2);
    const Seconds dispatch = dispatch_time(job, dispatch_copy, local_tokens, group);
    const Seconds combine = dispatch_time(job, combine_copy, local_tokens, group);
    Operation op;
    op.name = "expert all-to-all";
    op.kind = OperationKind::ep_comm;
    op.module = kMoe;
    op.formula = "dispatch + combine of t' x top_k x h, (ep-1)/ep leaves the rank";
    op.bytes_forward = (dispatch_copy + combine_copy) * (local_tokens * moe.top_k * imbalance);
    op.bytes_backward = op.bytes_forward;
    op.forward = dispatch + combine;
    op.input_gradient = combine * 2.0;
    list.add(op);
  }
  if (key.etp > 1) {
    const auto group = place_group(job.cluster, key.etp, 1);
    const Bytes bytes(local_tokens * key.etp * moe.top_k * s.h * 2);
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

bool switched_on(Switch choice, double habit) { return choice == Switch::by_profile ? habit > 0.5 : choice == Switch::on; }

double tp_exposed(const Job& job) {
  return switched_on(job.training.overlap_tp, job.profile.tp_overlap_default) ? 1 - job.profile.tp_hidden : 1;
}

/// One pair of tensor-parallel collectives around a block of the layer, forward and backward.
void add_tp_pair(const Job& job, const LayerKey& key, const Sizes& s, const char* name, std::uint16_t module,
                 OperationList& list) {
  if (key.tp <= 1) {
    return;
  }
  const auto group = place_group(job.cluster, key.tp, 1);
  const Bytes bytes = s.element * (s.tokens * s.h);
  Operation op;
  op.name = name;
  op.kind = OperationKind::tp_comm;
  op.module = module;
  op.bytes_forward = bytes;
  op.bytes_backward = bytes;
  if (key.sequence_parallel) {
    op.formula = "all-gather + reduce-scatter of t x h, the same backward (the second gather hides beside a product)";
    op.forward = (collective_time(job, Collective::all_gather, bytes, group) +
                  collective_time(job, Collective::reduce_scatter, bytes, group)) *
                 tp_exposed(job);
  } else {
    op.formula = "all-reduce of t x h forward, one backward";
    op.forward = collective_time(job, Collective::all_reduce, bytes, group) * tp_exposed(job);
  }
  op.input_gradient = op.forward;
  list.add(op);
}

void add_cp(const Job& job, const LayerKey& key, const Sizes& s, OperationList& list) {
  if (key.cp <= 1) {
    return;
  }
  const auto group = place_group(job.cluster, key.cp, key.tp);
  const double kv_width = 2 * s.kv_heads_local * (job.model.latent ? s.width_v : job.model.head_dim);
  const Bytes kv = s.element * (s.tokens * kv_width);
  Seconds attention_forward(0);
  Seconds attention_backward(0);
  for (const auto& op : list) {
    if (op.kind == OperationKind::attention) {
      attention_forward += op.forward;
      attention_backward += op.input_gradient;
    }
  }
  Operation op;
  op.kind = OperationKind::cp_comm;
  op.module = kCoreAttention;
  if (key.cp_type == CpType::ring) {
    const Seconds hop = collective_time(job, Collective::send_recv, kv, place_group(job.cluster, 2, key.tp)) ;
    const GroupPlacement crossing{2, key.tp * (key.cp > 1 ? key.cp / 2 : 1), 1, group.tier};
    const Seconds slowest = max(hop, collective_time(job, Collective::send_recv, kv, crossing));
    const Seconds forward = slowest * static_cast<double>(key.cp - 1);
    const Seconds backward = slowest * (2.0 * key.cp - 1);
    op.name = "ring exchange of keys and values";
    op.formula = "cp-1 steps of 2 kv d t forward, 2cp-1 backward, beside attention: only the excess is exposed";
    op.bytes_forward = kv * static_cast<double>(key.cp - 1);
    op.bytes_backward = kv * (2.0 * key.cp - 1);
    op.forward = max(Seconds(0), forward - attention_forward) + slowest / static_cast<double>(key.cp);
    op.input_gradient = max(Seconds(0), backward - attention_backward) + slowest / static_cast<double>(key.cp);
  } else if (key.cp_type == CpType::all_gather) {
    const Bytes whole = kv * static_cast<double>(key.cp);
    op.name = "gather of keys and values";
    op.formula = "all-gather of K,V forward and backward, reduce-scatter of their gradients";
    op.bytes_forward = whole;
    op.bytes_backward = whole * 2.0;
    op.forward = collective_time(job, Collective::all_gather, whole, group);
    op.input_gradient = op.forward + collective_time(job, Collective::reduce_scatter, whole, group);
  } else {
    const double kv_copies = std::max<double>(job.model.kv_heads, static_cast<double>(key.cp) * key.tp);
    const Bytes whole = s.element * (s.tokens * job.model.head_dim * (2.0 * job.model.heads + 2 * kv_copies) / key.tp);
    op.name = "Ulysses all-to-all of queries keys values and output";
    op.formula = "t d (2a + 2 max(k, cp tp)) / tp each way";
    op.bytes_forward = whole;
    op.bytes_backward = whole;
    op.forward = collective_time(job, Collective::all_to_all, whole, group);
    op.input_gradient = op.forward;
  }
  list.add(op);
}

void add_weight_gradients(const Job& job, double params, OperationList& list) {
  Operation op;
  op.name = "weight gradient accumulation";
  op.kind = OperationKind::memory;
  op.formula = "bytes per parameter x parameters of the rank / bandwidth";
  op.bytes_backward = Bytes(job.profile.weight_gradient_bytes * params);
  op.weight_gradient = memory_time(job, op.bytes_backward, MemoryKind::plain);
  list.add(op);
}

void add_fp8_casts(const Job& job, const Sizes& s, double gemm_inputs, OperationList& list) {
  if (!narrow(job.training.precision)) {
    return;
  }
  Operation op;
  op.name = "quantisation of product inputs";
  op.kind = OperationKind::memory;
  op.formula = "bytes per input element, half forward and half backward";
  op.bytes_forward = Bytes(job.profile.fp8_cast_bytes / 2 * gemm_inputs * s.tokens);
  op.bytes_backward = op.bytes_forward;
  op.forward = memory_time(job, op.bytes_forward, MemoryKind::plain);
  op.input_gradient = op.forward;
  list.add(op);
}

/// Parameters of one layer on one rank: divided by tp where the framework divides them.
struct RankParameters {
  double dense = 0, expert = 0;
};
RankParameters rank_parameters(const Job& job, const LayerKey& key, bool moe_layer) {
  const auto& layer = moe_layer ? job.moe_layer : job.dense_layer;
  // Key/value heads fewer than tp are replicated: their weights do not divide further.
  double attention = static_cast<double>(layer.attention) / key.tp;
  if (!job.model.latent && job.model.kv_heads < key.tp) {
    const double kv_weights = 2.0 * job.model.hidden * job.model.kv_heads * job.model.head_dim;
    attention += kv_weights / job.model.kv_heads - kv_weights / key.tp;
  }
  RankParameters out;
  out.dense = attention + static_cast<double>(layer.mlp) / key.tp + static_cast<double>(layer.attention_replicated) +
              static_cast<double>(layer.router) + static_cast<double>(layer.norms);
  out.expert = static_cast<double>(layer.experts) / (static_cast<double>(key.ep) * key.etp);
  return out;
}

bool in_mask(const Operation& op, std::uint16_t mask) { return (op.module & mask) != 0; }

}  // namespace

std::string_view name_of(OperationKind kind) {
  for (const auto& row : kKindNames) {
    if (row.kind == kind) {
      return row.name;
    }
  }
  return "?";
}

LayerKey layer_key(const Layout& layout) {
  LayerKey key;
  key.tp = layout.tp;
  key.cp = layout.cp;
  key.ep = layout.ep;
  key.etp = layout.etp;
  key.micro_batch = layout.micro_batch;
  key.sequence_parallel = layout.sequence_parallel;
  key.recompute = layout.recompute;
  key.recompute_modules = layout.recompute == RecomputeKind::selective ? layout.recompute_modules : std::uint16_t{0};
  key.cp_type = layout.cp_type;
  key.ranks_order = layout.ranks_order;
  return key;
}

Seconds gemm_time(const Job& job, double m, double n, double k, Precision precision, double rate_factor) {
  const auto& gpu = job.constants;
  const double sms = job.cluster.gpu.sms > 0 ? job.cluster.gpu.sms : 100;
  const double tiles = std::ceil(m / kTile) * std::ceil(n / kTile);
  const double occupancy = tiles >= sms ? 1 : std::pow(tiles / sms, gpu.gemm_occupancy);
  const FlopsPerSecond rate = job.cluster.gpu.peak_of(precision) *
                              (gpu.power_factor * sustained(gpu, precision) * occupancy * rate_factor);
  const Seconds compute = Flops(2 * m * n * k * (1 + gpu.gemm_k0 / k)) / rate;
  const double element = kPrecisionTable[static_cast<std::size_t>(precision)].gemm_bytes;
  const Bytes traffic(element * (m * k + k * n) + 2 * m * n);
  const Seconds memory = traffic / (job.cluster.gpu.memory_bandwidth * gpu.gemm_bytes);
  return max(compute, memory) + kKernelOverhead;
}

OperationList layer_operations(const Job& job, const LayerKey& key, bool moe_layer) {
  OperationList list;
  const auto s = sizes_of(job, key);
  const auto precision = job.training.precision;
  const auto& model = job.model;
  const double rate = job.profile.gemm_factor;
  double gemm_inputs = 0;
  if (model.latent) {
    const auto& mla = *model.latent;
    const double heads = s.heads_local;
    if (mla.q_lora > 0) {
      list.add(product(job, "query down", "t x q_lora x h", s.sequence_tokens, mla.q_lora, s.h, precision, rate, 0));
      list.add(product(job, "query up", "t x a(nope+rope)/tp x q_lora", s.tokens, heads * s.width_qk, mla.q_lora,
                       precision, rate, kMlaUpProjection));
    } else {
      list.add(product(job, "query", "t x a(nope+rope)/tp x h", s.tokens, heads * s.width_qk, s.h, precision, rate, 0));
    }
    list.add(product(job, "key/value down", "t x (kv_lora+rope) x h", s.sequence_tokens, mla.kv_lora + mla.qk_rope, s.h,
                     precision, rate, 0));
    list.add(product(job, "key/value up", "t x a(nope+v)/tp x kv_lora", s.tokens,
                     heads * (mla.qk_nope + static_cast<double>(mla.v)), mla.kv_lora, precision, rate, kMlaUpProjection));
    list.add(product(job, "attention output", "t x h x a v/tp", s.tokens, s.h, heads * s.width_v, precision, rate, 0));
    gemm_inputs += 2 * s.h + heads * s.width_v;
  } else {
    const double gate = model.query_gate ? 2 : 1;
    list.add(product(job, "query key value", "t x (a+2k)d/tp x h", s.tokens, gate * s.q_local + 2 * s.kv_local, s.h,
                     precision, rate, 0));
    list.add(product(job, "attention output", "t x h x a d/tp", s.tokens, s.h, s.q_local, precision, rate, 0));
    gemm_inputs += s.h + s.q_local;
  }
  add_attention(job, key, s, list);
  add_cp(job, key, s, list);
  add_tp_pair(job, key, s, "tensor-parallel collectives of attention", 0, list);
  const auto params = rank_parameters(job, key, moe_layer);
  if (moe_layer) {
    add_moe(job, key, s, precision, list);
    if (model.moe->shared_ffn > 0) {
      add_tp_pair(job, key, s, "tensor-parallel collectives of shared experts", 0, list);
    }
    gemm_inputs += (s.h + model.moe->expert_ffn) * model.moe->top_k / s.sp;
  } else {
    const double gate = model.gated_mlp ? 2 : 1;
    list.add(product(job, model.gated_mlp ? "FFN up+gate" : "FFN up", model.gated_mlp ? "t x 2f/tp x h" : "t x f/tp x h",
                     s.tokens, gate * s.ffn_local, s.h, precision, rate, kMlp));
    list.add(product(job, "FFN down", "t x h x f/tp", s.tokens, s.h, s.ffn_local, precision, rate, kMlp));
    add_tp_pair(job, key, s, "tensor-parallel collectives of the FFN", 0, list);
    gemm_inputs += s.h + s.ffn_local;
  }
  add_elementwise(job, key, s, moe_layer, list);
  add_fp8_casts(job, s, gemm_inputs, list);
  add_weight_gradients(job, params.dense + params.expert, list);
  return list;
}

OperationList embedding_operations(const Job& job, const LayerKey& key) {
  OperationList list;
  const auto s = sizes_of(job, key);
  Operation gather;
  gather.name = "embedding";
  gather.kind = OperationKind::memory;
  gather.formula = "gather of t x h forward, scatter-add of its fp32 gradient backward";
  gather.bytes_forward = Bytes(2 * kActivationBytes * s.tokens * s.h);
  gather.bytes_backward = Bytes(5 * kActivationBytes * s.tokens * s.h);
  gather.forward = memory_time(job, gather.bytes_forward, MemoryKind::plain);
  gather.weight_gradient = memory_time(job, gather.bytes_backward, MemoryKind::plain);
  list.add(gather);
  if (key.tp > 1) {
    const auto group = place_group(job.cluster, key.tp, 1);
    const Bytes bytes = s.element * (s.tokens * s.h);
    Operation op;
    op.name = "tensor-parallel collective of the embedding";
    op.kind = OperationKind::tp_comm;
    op.formula = "reduce of t x h forward, gather backward with sequence parallelism";
    op.bytes_forward = bytes;
    op.forward = collective_time(
        job, key.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce, bytes, group);
    if (key.sequence_parallel) {
      op.bytes_backward = bytes;
      op.input_gradient = collective_time(job, Collective::all_gather, bytes, group);
    }
    list.add(op);
  }
  return list;
}

OperationList head_operations(const Job& job, const LayerKey& key) {
  OperationList list;
  const auto s = sizes_of(job, key);
  const auto precision = wide_precision(job);
  list.add(product(job, "head", "t x V/tp x h", s.tokens, s.vocab_local, s.h, precision, job.profile.gemm_factor, 0));
  Operation loss;
  loss.name = "loss";
  loss.kind = OperationKind::memory;
  loss.formula = "bytes per logit x t x V/tp / bandwidth";
  const Bytes traffic(job.profile.loss_bytes_per_logit * s.tokens * s.vocab_local);
  loss.bytes_forward = traffic * 0.5;
  loss.bytes_backward = traffic * 0.5;
  loss.forward = memory_time(job, loss.bytes_forward, MemoryKind::plain);
  loss.input_gradient = loss.forward;
  list.add(loss);
  add_weight_gradients(job, s.vocab_local * s.h, list);
  if (key.tp > 1) {
    const auto group = place_group(job.cluster, key.tp, 1);
    const Bytes bytes = s.element * (s.tokens * s.h);
    Operation op;
    op.name = "tensor-parallel collectives of head and loss";
    op.kind = OperationKind::tp_comm;
    op.formula = "gather of the head's input, its gradient, three all-reduces of 4 t bytes in the loss";
    const Bytes scalars(4 * s.tokens);
    op.bytes_forward = scalars * 3.0;
    op.forward = collective_time(job, Collective::all_reduce, scalars, group) * 3.0;
    op.bytes_backward = bytes;
    if (key.sequence_parallel) {
      op.bytes_forward += bytes;
      op.forward += collective_time(job, Collective::all_gather, bytes, group);
      op.input_gradient = collective_time(job, Collective::reduce_scatter, bytes, group);
    } else {
      op.input_gradient = collective_time(job, Collective::all_reduce, bytes, group);
    }
    list.add(op);
  }
  return list;
}

namespace {

/// Launches of one layer, for the host's side of the step.
struct Launches {
  double forward = 0, backward = 0;
};

PassCosts sum(const Job& job, const LayerKey& key, const OperationList& list, Launches launches) {
  PassCosts costs;
  Seconds gemm_forward(0);
  Seconds memory_forward(0);
  double collectives = 0;
  const auto ep_share = switched_on(job.training.overlap_ep, 0) ? job.profile.ep_exposed_overlapped : job.profile.ep_exposed;
  for (const auto& op : list) {
    const bool again = key.recompute == RecomputeKind::full ||
                       (key.recompute == RecomputeKind::selective && in_mask(op, key.recompute_modules));
    switch (op.kind) {
      case OperationKind::tp_comm:
        costs.tp_forward += op.forward;
        costs.tp_backward += op.input_gradient + (again ? op.forward : Seconds(0));
        collectives += 1;
        break;
      case OperationKind::cp_comm:
        costs.cp_forward += op.forward;
        costs.cp_backward += op.input_gradient + (again ? op.forward : Seconds(0));
        collectives += 1;
        break;
      case OperationKind::ep_comm:
        costs.ep_forward += op.forward * ep_share;
        costs.ep_backward += (op.input_gradient + (again ? op.forward : Seconds(0))) * ep_share;
        collectives += 1;
        break;
      default:
        costs.forward += op.forward;
        costs.backward += op.input_gradient + op.weight_gradient;
        costs.weight_gradient += op.weight_gradient;
        if (again) {
          costs.recompute += op.forward;
        }
        (op.kind == OperationKind::gemm ? gemm_forward : memory_forward) += op.forward;
    }
  }
  if (key.recompute == RecomputeKind::selective_op) {
    costs.recompute = gemm_forward * job.profile.selective_op_share + memory_forward;
  }
  const double repeated = key.recompute == RecomputeKind::full ? launches.forward
                          : costs.recompute.raw() > 0          ? launches.forward * 0.3
                                                               : 0;
  const double graphs = job.training.cuda_graphs ? 0.15 : 1;
  const Seconds launch = Seconds(job.profile.launch_s * graphs);
  const Seconds gap = Seconds(job.profile.kernel_gap_s * graphs);
  const double comm_launches = collectives * job.profile.collective_launches;
  costs.forward_launch = launch * (launches.forward + comm_launches);
  costs.backward_launch = launch * (launches.backward + repeated + comm_launches);
  costs.host_forward = gap * launches.forward;
  costs.host_backward = gap * (launches.backward + repeated);
  const Seconds busy_forward = costs.forward_total();
  const Seconds busy_backward = costs.backward_total();
  costs.host_forward += max(Seconds(0), costs.forward_launch - busy_forward);
  costs.host_backward += max(Seconds(0), costs.backward_launch - busy_backward);
  return costs;
}

Bytes kept(const Job& job, const LayerKey& key, const Sizes& s, const std::vector<TokenBytes>& rows, bool moe_layer,
           std::uint16_t dropped_modules) {
  double per_token = 0;
  const double ffn = ffn_width_per_token(job, key, s, moe_layer);
  for (const auto& row : rows) {
    if (applies(job, key, row) && (row.module & dropped_modules) == 0) {
      per_token += bytes_per_token(job, s, row, ffn) * (narrow(job.training.precision) ? row.narrow : 1);
    }
  }
  if (moe_layer) {
    // Routed copies kept around the experts: dispatched inputs, router state (12 bytes an expert and token).
    const auto& moe = *job.model.moe;
    const double width = narrow(job.training.precision) ? 1 : 2;
    const double copies = static_cast<double>(moe.top_k) * job.training.expert_imbalance / s.sp;
    per_token += 12.0 * moe.experts / s.sp + copies * (width * s.h + 8);
  }
  return Bytes(per_token * s.tokens * job.profile.activation_factor);
}

Bytes layer_activations(const Job& job, const LayerKey& key, const Sizes& s, bool moe_layer) {
  switch (key.recompute) {
    case RecomputeKind::full:
      return Bytes(2 * s.h / s.sp * s.tokens);
    case RecomputeKind::selective_op:
      if (!job.profile.activations_selective_op.empty()) {
        return kept(job, key, s, job.profile.activations_selective_op, moe_layer, 0);
      }
      return kept(job, key, s, job.profile.activations, moe_layer, kCoreAttention | kNorm);
    case RecomputeKind::selective:
      return kept(job, key, s, job.profile.activations, moe_layer, key.recompute_modules);
    default:
      return kept(job, key, s, job.profile.activations, moe_layer, 0);
  }
}

Flops model_flops(const OperationList& list, const Job& job) {
  Flops total(0);
  for (const auto& op : list) {
    if (op.kind == OperationKind::gemm) {
      total += op.flops_forward * 3.0;
    } else if (op.kind == OperationKind::attention) {
      // Causal-halved convention whatever the kernel computes.
      total += op.flops_forward * (job.training.flash_attention ? 3.0 : 1.5 * job.mean_attended);
    }
  }
  return total;
}

}  // namespace

LayerCosts layer_costs(const Job& job, const LayerKey& key) {
  const auto s = sizes_of(job, key);
  const auto& profile = job.profile;
  LayerCosts out;
  const auto dense_list = layer_operations(job, key, false);
  out.dense = sum(job, key, dense_list, {profile.kernels_forward, profile.kernels_backward});
  out.dense_params = rank_parameters(job, key, false).dense;
  out.dense_activations = layer_activations(job, key, s, false);
  out.dense_activations_all = kept(job, key, s, profile.activations, false, 0);
  out.model_flops_dense = model_flops(dense_list, job);
  if (job.moe()) {
    const auto moe_list = layer_operations(job, key, true);
    out.moe = sum(job, key, moe_list, {profile.kernels_forward * 2, profile.kernels_backward * 2});
    if (!job.training.cuda_graphs) {
      const Seconds forward(profile.moe_host_forward_s);
      const Seconds backward = forward * profile.moe_host_backward_factor;
      out.moe.forward_launch += forward;
      out.moe.backward_launch += backward;
      out.moe.host_forward += max(Seconds(0), out.moe.forward_launch - out.moe.forward_total());
      out.moe.host_backward += max(Seconds(0), out.moe.backward_launch - out.moe.backward_total());
    }
    const auto params = rank_parameters(job, key, true);
    out.moe_params = params.dense;
    out.expert_params = params.expert;
    out.moe_activations = layer_activations(job, key, s, true);
    out.moe_activations_all = kept(job, key, s, profile.activations, true, 0);
    out.model_flops_moe = model_flops(moe_list, job);
  }
  // Ends of the pipeline are never recomputed.
  LayerKey ends = key;
  ends.recompute = RecomputeKind::none;
  out.embedding = sum(job, ends, embedding_operations(job, key), {});
  const auto head_list = head_operations(job, key);
  out.head = sum(job, ends, head_list, {});
  out.model_flops_head = model_flops(head_list, job);

  const double padded_rows = s.vocab_local;
  const double other_rows = static_cast<double>(embedding_parameters(job.model)) -
                            static_cast<double>(job.model.vocab) *
                                (job.model.embedding_projection > 0 ? job.model.embedding_projection : s.h);
  out.embedding_params = padded_rows * s.h + std::max(0.0, other_rows);
  out.head_params = padded_rows * s.h + (job.model.head_bias ? padded_rows : 0) + s.h;
  out.layer_input = Bytes(2 * s.h / s.sp * s.tokens);
  const double gather = key.sequence_parallel ? 4 * s.h : 0;
  const double scores = job.training.flash_attention
                            ? 0
                            : std::max(0.0, 4 * s.heads_local * job.training.seq - 19 * s.h);
  out.backward_transient = Bytes((std::max(4 * s.ffn_local, scores) + gather) * s.tokens);
  out.head_activations = Bytes((profile.head_input_bytes / 2 * s.h / s.sp + profile.head_input_bytes / 2 * s.h + gather) *
                               s.tokens);
  const double logit_bytes = job.training.loss == Loss::fused   ? 2
                             : job.training.loss == Loss::chunked ? std::min(9.0, profile.loss_allocated_per_logit)
                                                                : profile.loss_allocated_per_logit;
  out.loss_transient = Bytes(logit_bytes * s.vocab_local * s.tokens);
  out.boundary = Bytes(2 * s.h / s.sp * s.tokens);
  if (profile.dummy_weight_gradients > 0.5) {
    // One shared 16-bit buffer per distinct weight shape of a layer: qkv, projection, up(+gate), down.
    const double gate = job.model.gated_mlp ? 2 : 1;
    out.dummy_gradients = Bytes(2 * (s.h * (s.q_local + 2 * s.kv_local) + s.q_local * s.h +
                                     (gate + 1) * s.h * s.ffn_local));
    out.head_dummy_gradient = Bytes(2 * s.vocab_local * s.h);
  }
  return out;
}

}  // namespace tpplan
