#include <algorithm>
#include <array>
#include <cmath>

#include "cost-model/context_parallel.h"
#include "cost-model/layer_sizes.h"
#include "cost-model/moe_operations.h"
#include "cost-model/peft.h"

namespace tpplan {
namespace {

constexpr double kTile = 128;              // rows and columns of the tile that occupancy counts
constexpr Seconds kKernelOverhead = 2_us;  // start and end of one kernel on the GPU

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

/// Sustained share of the peak of each precision, in the order of the enumeration.
constexpr std::array<double GpuConstants::*, kPrecisions> kSustained{
    &GpuConstants::gemm_tf32, &GpuConstants::gemm_tf32, &GpuConstants::gemm_16bit, &GpuConstants::gemm_16bit,
    &GpuConstants::gemm_fp8,  &GpuConstants::gemm_fp8,  &GpuConstants::gemm_fp4};

double sustained(const GpuConstants& gpu, Precision precision) {
  return gpu.*kSustained[static_cast<std::size_t>(precision)];
}

/// How scaling of narrow products costs: passes over a 16-bit input relative to one that reads it (2 bytes) and writes
/// it and its transpose (2 x 1 byte) with a scale known beforehand, and the rate of the products.
struct RecipeRow {
  std::string_view name;
  double cast_bytes;
  double product_rate;
};
constexpr std::array<RecipeRow, 6> kRecipes{{
    {"", 4, 1},            // the framework's usual one
    {"delayed", 4, 1},     // scale of earlier steps
    {"tensorwise", 6, 1},  // reads once more for the largest value
    {"rowwise", 6, 0.94},  // rows and columns each with their own scale; rate: H200, 1,001-1,128 of 1,082-1,197 TFLOP/s
    {"blockwise", 4, 1},   // the scale of a tile is found while it is on chip
    {"mxfp8", 4, 1},       // the same for 32 values
}};
const RecipeRow& recipe_of(const Job& job) {
  for (const auto& row : kRecipes) {
    if (row.name == job.training.fp8_recipe) {
      return row;
    }
  }
  return kRecipes.front();
}

void add_elementwise(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer, OperationList& list) {
  const double ffn = ffn_width_per_token(job, s, moe_layer);
  const auto add = [&](const TokenBytes& row, bool forward) {
    if (!applies(job, key, row)) {
      return;
    }
    const Bytes bytes(bytes_per_token(job, s, row, ffn) * s.widening * s.tokens);
    const double fraction = row.rate_fraction > 0 ? row.rate_fraction : memory_fraction(job.constants, row.kind);
    const Seconds time = bytes / (job.cluster.gpu.memory_bandwidth * fraction) * job.profile.elementwise_factor;
    Operation op;
    op.name = row.name.c_str();
    op.kind = OperationKind::memory;
    // The activation of experts is a module of its own.
    op.module = moe_layer && row.module == kMlp ? std::uint16_t{kMoeActivation | kMoe} : row.module;
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

void add_attention(const Job& job, const LayerKey& key, const LayerSizes& s, OperationList& list) {
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
    const double small_factor = profile.small_head_factor > 0 ? profile.small_head_factor : gpu.flash_d64;
    const double small_head = s.width_qk <= 64 ? small_factor : 1;
    const double cp_factor = key.cp > 1 ? profile.cp_attention_factor : 1;
    const double kernel = job.training.kernel == AttentionKernel::flash1 ? 0.46 : 1;
    const int sms = job.cluster.gpu.sms > 0 ? job.cluster.gpu.sms : 100;
    const Flops tile(4 * kTile * seq * s.width_qk * sms);
    op.forward = 5_us + (op.flops_forward + tile * gpu.flash_tail_forward) * (small_head * cp_factor) /
                            (peak * (gpu.flash_forward * profile.flash_forward_factor * kernel));
    op.input_gradient = 5_us + (op.flops_backward + tile * (2.5 * gpu.flash_tail_backward)) * (small_head * cp_factor) /
                                   (peak * (gpu.flash_backward * profile.flash_backward_factor * kernel));
    if (!job.tables.empty() && kernel == 1 && key.cp == 1) {
      const auto rate = job.tables.attention(seq, batch_heads, static_cast<int>(s.width_qk));
      if (rate.forward.raw() > 0 && job.mean_attended == 1) {
        op.forward = op.flops_forward / (rate.forward * profile.flash_forward_factor);
        op.input_gradient = op.flops_backward / (rate.backward * profile.flash_backward_factor);
      }
    }
    op.formula =
        "(2 b a s^2 d causal-halved + tail of one query tile per SM) / (peak x flash fraction), backward 2.5 x";
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
    op.forward = op.flops_forward / (peak * rate) + memory_time(job, op.bytes_forward, MemoryKind::plain) * softmax;
    op.input_gradient =
        op.flops_backward / (peak * rate) + memory_time(job, op.bytes_backward, MemoryKind::plain) * softmax;
    op.formula = "4 b a s^2 d / (peak x batched product fraction) + bytes per score x b a s^2 / bandwidth";
  }
  list.add(op);
}

double tp_exposed(const Job& job) {
  return switched_on(job.training.overlap_tp, job.profile.tp_overlap_default) ? 1 - job.profile.tp_hidden : 1;
}

/// One pair of tensor-parallel collectives around a block of the layer, forward and backward.
void add_tp_pair(const Job& job, const LayerKey& key, const LayerSizes& s, const char* name, std::uint16_t module,
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

void add_weight_gradients(const Job& job, double params, OperationList& list) {
  Operation op;
  op.name = "weight gradient accumulation";
  op.kind = OperationKind::memory;
  op.formula = "bytes per parameter x parameters of the rank / bandwidth";
  op.bytes_backward = Bytes(job.profile.weight_gradient_bytes * params);
  op.weight_gradient = memory_time(job, op.bytes_backward, MemoryKind::plain);
  list.add(op);
}

/// Inputs of the narrow products are scaled and rounded in the forward pass, gradients of their outputs in the backward
/// pass; each is written twice, along both of its sides, for the products of either direction.
void add_fp8_casts(const Job& job, OperationList& list) {
  if (!narrow(job.training.precision)) {
    return;
  }
  double inputs = 0;
  double outputs = 0;
  for (const auto& product : list) {
    if (product.kind == OperationKind::gemm && std::string_view(product.name) != kRouter) {
      inputs += product.count * product.m * product.k;
      outputs += product.count * product.m * product.n;
    }
  }
  Operation op;
  op.name = "quantisation of product inputs";
  op.kind = OperationKind::memory;
  op.formula = "bytes per element of inputs forward, of gradients of outputs backward";
  const double bytes = job.profile.fp8_cast_bytes / 2 * recipe_of(job).cast_bytes / kRecipes.front().cast_bytes;
  op.bytes_forward = Bytes(bytes * inputs);
  op.bytes_backward = Bytes(bytes * outputs);
  op.forward = memory_time(job, op.bytes_forward, MemoryKind::plain);
  op.input_gradient = memory_time(job, op.bytes_backward, MemoryKind::plain);
  list.add(op);
}

}  // namespace

std::string_view name_of(OperationKind kind) {
  for (const auto& row : kKindNames) {
    if (row.kind == kind) {
      return row.name;
    }
  }
  return "?";
}

Seconds gemm_time(const Job& job, double m, double n, double k, Precision precision, double rate_factor) {
  const auto& gpu = job.constants;
  const double sms = job.cluster.gpu.sms > 0 ? job.cluster.gpu.sms : 100;
  const double tiles = std::ceil(m / kTile) * std::ceil(n / kTile);
  const double occupancy = tiles >= sms ? 1 : std::pow(tiles / sms, gpu.gemm_occupancy);
  const FlopsPerSecond rate =
      job.cluster.gpu.peak_of(precision) * (gpu.power_factor * sustained(gpu, precision) * occupancy * rate_factor);
  const double k0 = narrow(precision) ? gpu.gemm_k0_narrow : gpu.gemm_k0;
  Seconds compute = Flops(2 * m * n * k * (1 + k0 / k)) / rate;
  if (!job.tables.empty()) {
    if (const double shape = job.tables.relative_rate(m, n, k, precision); shape > 0) {
      compute = Flops(2 * m * n * k) / (job.cluster.gpu.peak_of(precision) *
                                        (gpu.power_factor * sustained(gpu, precision) * shape * rate_factor));
    }
  }
  const double element = kPrecisionTable[static_cast<std::size_t>(precision)].gemm_bytes;
  const Bytes traffic(element * (m * k + k * n) + 2 * m * n);
  const Seconds memory = traffic / (job.cluster.gpu.memory_bandwidth * gpu.gemm_bytes);
  return max(compute, memory) + kKernelOverhead;
}

Operation gemm_operation(const char* name, const char* formula, double m, double n, double k, std::uint16_t module) {
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
  return op;
}

Operation product(const Job& job, const char* name, const char* formula, double m, double n, double k,
                  Precision precision, double rate, std::uint16_t module) {
  Operation op = gemm_operation(name, formula, m, n, k, module);
  if (narrow(precision)) {
    rate *= recipe_of(job).product_rate;
  }
  op.forward = gemm_time(job, m, n, k, precision, rate);
  op.input_gradient = gemm_time(job, m, k, n, precision, rate);
  op.weight_gradient = gemm_time(job, n, k, m, precision, rate);
  return op;
}

OperationList layer_operations(const Job& job, const LayerKey& key, bool moe_layer) {
  OperationList list;
  const auto s = sizes_of(job, key);
  const auto precision = job.training.precision;
  const auto& model = job.model;
  const double rate = job.profile.gemm_factor;
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
                     heads * (mla.qk_nope + static_cast<double>(mla.v)), mla.kv_lora, precision, rate,
                     kMlaUpProjection));
    list.add(product(job, "attention output", "t x h x a v/tp", s.tokens, s.h, heads * s.width_v, precision, rate, 0));
  } else {
    const double gate = model.query_gate ? 2 : 1;
    list.add(product(job, "query key value", "t x (a+2k)d/tp x h", s.tokens, gate * s.q_local + 2 * s.kv_local, s.h,
                     precision, rate, 0));
    list.add(product(job, "attention output", "t x h x a d/tp", s.tokens, s.h, s.q_local, precision, rate, 0));
  }
  add_attention(job, key, s, list);
  if (key.cp > 1) {
    list.add(context_parallel_exchange(job, key, s, list.items[list.size - 1]));
  }
  add_tp_pair(job, key, s, "tensor-parallel collectives of attention", 0, list);
  const auto params = rank_parameters(job, key, moe_layer);
  if (moe_layer) {
    add_moe(job, key, s, precision, list);
    if (model.moe->shared_ffn > 0) {
      add_tp_pair(job, key, s, "tensor-parallel collectives of shared experts", 0, list);
    }
  } else {
    const double gate = model.gated_mlp ? 2 : 1;
    list.add(product(job, model.gated_mlp ? "FFN up+gate" : "FFN up",
                     model.gated_mlp ? "t x 2f/tp x h" : "t x f/tp x h", s.tokens, gate * s.ffn_local, s.h, precision,
                     rate, kMlp));
    list.add(product(job, "FFN down", "t x h x f/tp", s.tokens, s.h, s.ffn_local, precision, rate, kMlp));
    add_tp_pair(job, key, s, "tensor-parallel collectives of the FFN", 0, list);
  }
  add_elementwise(job, key, s, moe_layer, list);
  add_fp8_casts(job, list);
  add_weight_gradients(job, params.dense + params.expert, list);
  if (job.adapters != 0) {
    freeze_layer(job, key, s, moe_layer, list);
  }
  return list;
}

OperationList mtp_operations(const Job& job, const LayerKey& key) {
  OperationList list;
  const auto s = sizes_of(job, key);
  Operation norms;
  norms.name = "norms of hidden state and next embedding";
  norms.kind = OperationKind::memory;
  norms.formula = "two norms and a last one, each reading and writing t h";
  norms.bytes_forward = s.element * (6 * s.sequence_tokens * s.h);
  norms.bytes_backward = norms.bytes_forward * 1.5;
  norms.forward = memory_time(job, norms.bytes_forward, MemoryKind::norm);
  norms.input_gradient = memory_time(job, norms.bytes_backward, MemoryKind::norm);
  list.add(norms);
  list.add(product(job, "prediction projection", "t x h/tp x 2h", s.tokens, s.h / s.tp, 2 * s.h, job.training.precision,
                   job.profile.gemm_factor, 0));
  add_tp_pair(job, key, s, "tensor-parallel collectives of the prediction projection", 0, list);
  add_weight_gradients(job, 2 * s.h * s.h / s.tp, list);
  return list;
}

OperationList embedding_operations(const Job& job, const LayerKey& key) {
  OperationList list;
  const auto s = sizes_of(job, key);
  Operation gather;
  gather.name = "embedding";
  gather.kind = OperationKind::memory;
  gather.formula = "gather of t x h forward, scatter-add of its fp32 gradient backward";
  gather.bytes_forward = s.element * (2 * s.tokens * s.h);
  gather.bytes_backward = s.element * (5 * s.tokens * s.h);
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
    op.forward =
        collective_time(job, key.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce, bytes, group);
    if (key.sequence_parallel) {
      op.bytes_backward = bytes;
      op.input_gradient = collective_time(job, Collective::all_gather, bytes, group);
    }
    list.add(op);
  }
  if (job.adapters != 0) {
    freeze_ends(job, s, false, list);
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
  if (job.adapters != 0) {
    freeze_ends(job, s, true, list);
  }
  return list;
}

}  // namespace tpplan
