#include "cost-model/peft.h"

#include <algorithm>

#include "cost-model/layer_sizes.h"
#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

/// One adapted matrix on one rank: widths of its input and output, and how often the layer holds it.
struct AdaptedMatrix {
  std::uint16_t target = 0;
  double in = 0, out = 0;
  double count = 1;  ///< copies with weights of their own: routed experts
  double rows = 1;   ///< tokens that pass it over tokens of the rank
};
struct AdaptedMatrices {
  std::array<AdaptedMatrix, 12> items{};
  std::size_t size = 0;
  void add(const Job& job, AdaptedMatrix matrix) {
    if ((job.adapters & matrix.target) != 0) {
      items[size++] = matrix;
    }
  }
  [[nodiscard]] const AdaptedMatrix* begin() const { return items.data(); }
  [[nodiscard]] const AdaptedMatrix* end() const { return items.data() + size; }
};

void add_ffn(const Job& job, AdaptedMatrices& list, double hidden, double width, double count, double rows) {
  if (job.model.gated_mlp) {
    list.add(job, {kAdaptGate, hidden, width, count, rows});
  }
  list.add(job, {kAdaptUp, hidden, width, count, rows});
  list.add(job, {kAdaptDown, width, hidden, count, rows});
}

AdaptedMatrices adapted_matrices(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer) {
  AdaptedMatrices list;
  const auto& model = job.model;
  if (model.latent) {
    const auto& mla = *model.latent;
    if (mla.q_lora > 0) {
      list.add(job, {kAdaptQuery, s.h, static_cast<double>(mla.q_lora)});
      list.add(job, {kAdaptQuery, static_cast<double>(mla.q_lora), s.q_local});
    } else {
      list.add(job, {kAdaptQuery, s.h, s.q_local});
    }
    list.add(job, {kAdaptKey, s.h, static_cast<double>(mla.kv_lora) + mla.qk_rope});
    list.add(job, {kAdaptValue, static_cast<double>(mla.kv_lora),
                   s.heads_local * (static_cast<double>(mla.qk_nope) + mla.v)});
    list.add(job, {kAdaptOutput, s.heads_local * s.width_v, s.h});
  } else {
    list.add(job, {kAdaptQuery, s.h, s.q_local * (model.query_gate ? 2 : 1)});
    list.add(job, {kAdaptKey, s.h, s.kv_local});
    list.add(job, {kAdaptValue, s.h, s.kv_local});
    list.add(job, {kAdaptOutput, s.q_local, s.h});
  }
  if (!moe_layer) {
    add_ffn(job, list, s.h, s.ffn_local, 1, 1);
    return list;
  }
  const auto& moe = *model.moe;
  const double local = static_cast<double>(moe.experts) / key.ep;
  const double copies = moe.top_k * job.training.expert_imbalance / s.sp;
  add_ffn(job, list, s.h, static_cast<double>(moe.expert_ffn) / key.etp, local, copies);
  if (moe.shared_ffn > 0) {
    add_ffn(job, list, s.h, moe.shared_ffn / s.tp, 1, 1);
  }
  return list;
}

bool quantised_head(const Job& job) { return job.training.holds_nf4() && job.profile.quantised_head > 0.5; }

bool low_rank(const Job& job) { return (job.adapters & (kAdaptPrompts | kAdaptOutputs)) == 0; }

/// Share of the layers that have prompts.
double prompted_share(const Job& job) {
  const double layers = job.model.layers;
  return (job.adapters & kAdaptPrompts) != 0 ? std::max(0.0, layers - kLayersWithoutPrompts) / layers : 0;
}

/// Share of the layers that take part in the backward pass.
double touched_share(const Job& job) { return job.adapters == kAdaptPrompts ? prompted_share(job) : 1; }

/// Parameters beside one matrix.
double parameters_beside(const Job& job, const AdaptedMatrix& matrix) {
  return (low_rank(job) ? job.training.peft_rank * (matrix.in + matrix.out) : 2 * matrix.out) * matrix.count;
}

/// The low-rank products of one matrix: t x r x in and t x out x r, each with both of its gradients.
void add_low_rank(const Job& job, double tokens, const AdaptedMatrix& matrix, Operation& op) {
  const double rank = job.training.peft_rank;
  const double rows = std::max(1.0, tokens * matrix.rows);
  const auto precision = wide_precision(job);
  const auto product = [&](double n, double k) {
    op.flops_forward += Flops(2 * rows * n * k);
    op.flops_backward += Flops(4 * rows * n * k);
    op.forward += gemm_time(job, rows, n, k, precision);
    op.input_gradient += gemm_time(job, rows, k, n, precision);
    op.weight_gradient += gemm_time(job, n, k, rows, precision);
  };
  product(rank, matrix.in);
  product(matrix.out, rank);
}

/// The sums and drop-outs around the adapters: the output is read twice and written once, in both passes the input of a
/// drop-out is read and a copy with its mask written.
void add_traffic(const Job& job, double tokens, const AdaptedMatrix& matrix, Operation& op) {
  const double dropout = job.profile.adapter_dropout > 0.5 ? 5 * matrix.in : 0;
  const Bytes bytes((6 * matrix.out + dropout) * tokens * matrix.rows);
  op.bytes_forward += bytes;
  op.bytes_backward += bytes;
}

void freeze(OperationList& list) {
  for (std::size_t i = 0; i < list.size; ++i) {
    auto& op = list.items[i];
    if (op.kind == OperationKind::gemm) {
      op.flops_backward = op.flops_backward * 0.5;
    } else if (op.weight_gradient.raw() > 0) {
      op.bytes_backward = Bytes(0);  // accumulation of weight gradients, scatter of the embedding's
    }
    op.weight_gradient = Seconds(0);
  }
}

/// Times of an operation whose bytes per pass are known, and the fp32 gradients of its parameters, read and written: 8
/// bytes each.
void price_traffic(const Job& job, double parameters, Operation& op) {
  op.forward = memory_time(job, op.bytes_forward, MemoryKind::plain);
  op.input_gradient = memory_time(job, op.bytes_backward, MemoryKind::plain);
  const Bytes gradients(8 * parameters);
  op.bytes_backward += gradients;
  op.weight_gradient = memory_time(job, gradients, MemoryKind::plain);
}

/// Kernels of adapters without products: per output a bias and a scale (each reads and writes it; backward reads the
/// gradient and the output before scaling, writes the gradient and reduces both), and per prompted layer the attention
/// over the prompts, gated and added.
void add_prompts_and_scales(const Job& job, double tokens, double outputs, double query, double parameters,
                            OperationList& list) {
  Operation op;
  op.name = "prompts, biases and scales of adapters, their gradients";
  op.kind = OperationKind::memory;
  op.formula = "(8 forward, 12 backward) bytes an output, (10 and 14) a query element, 8 a parameter / bandwidth";
  op.bytes_forward = Bytes((8 * outputs + 10 * query) * tokens);
  op.bytes_backward = Bytes((12 * outputs + 14 * query) * tokens);
  price_traffic(job, parameters, op);
  list.add(op);
}

void add_adapters(const Job& job, double tokens, const AdaptedMatrices& matrices, double parameters,
                  OperationList& list) {
  if (matrices.size == 0) {
    return;
  }
  if (!low_rank(job)) {
    double outputs = 0;
    for (const auto& matrix : matrices) {
      outputs += matrix.out * matrix.rows;
    }
    add_prompts_and_scales(job, tokens, outputs, 0, parameters, list);
    return;
  }
  Operation low_rank;
  low_rank.name = "adapters";
  low_rank.kind = OperationKind::memory;  // their launches and sizes are those of small kernels
  low_rank.formula = "per adapted matrix t x r x in and t x out x r, with both gradients";
  low_rank.m = tokens;
  low_rank.n = job.training.peft_rank;
  Operation traffic;
  traffic.name = "sums and drop-outs of adapters, their gradients";
  traffic.kind = OperationKind::memory;
  traffic.formula = "(6 out + 5 in with drop-out) bytes a token, and 8 bytes an adapter parameter / bandwidth";
  for (const auto& matrix : matrices) {
    add_low_rank(job, tokens, matrix, low_rank);
    add_traffic(job, tokens, matrix, traffic);
  }
  price_traffic(job, parameters, traffic);
  list.add(low_rank);
  list.add(traffic);
}

void add_dequantisation(const Job& job, double weights, OperationList& list) {
  if (weights <= 0) {
    return;
  }
  Operation op;
  op.name = "dequantisation of 4-bit weights";
  op.kind = OperationKind::memory;
  op.formula = "weights x (4-bit bytes read + 2 written) / bandwidth, before each forward and each backward product";
  op.bytes_forward = Bytes((quantised_weight_bytes(job.training.double_quantisation) + 2) * weights);
  op.bytes_backward = op.bytes_forward;
  op.forward = memory_time(job, op.bytes_forward, MemoryKind::plain);
  op.input_gradient = op.forward;
  list.add(op);
}

}  // namespace

double hidden_bytes(const Job& job) {
  return job.training.holds_nf4() ? std::max(2.0, job.profile.unquantised_bytes) : 2;
}

std::uint16_t adapted_parts(const TrainingSpec& training) {
  switch (training.peft) {
    case PeftMethod::none:
      return 0;
    case PeftMethod::adapter:
      return kAdaptPrompts;
    case PeftMethod::adapter_v2:
      return static_cast<std::uint16_t>(kAdapterTargets[0].mask | kAdaptHead | kAdaptPrompts | kAdaptOutputs);
    default:
      return adapter_targets(training.peft_targets).mask;
  }
}

AdapterTargets adapter_targets(const std::vector<std::string>& words) {
  AdapterTargets out;
  std::vector<std::string> known;
  for (const auto& row : kAdapterTargets) {
    known.emplace_back(row.name);
  }
  for (const auto& word : words) {
    const auto row = std::find_if(kAdapterTargets.begin(), kAdapterTargets.end(),
                                  [&](const AdapterTargetRow& candidate) { return candidate.name == word; });
    if (row != kAdapterTargets.end()) {
      out.mask = static_cast<std::uint16_t>(out.mask | row->mask);
      continue;
    }
    const auto near = nearest_name(word, known);
    out.problems.push_back("no matrix \"" + word + "\" to adapt" + (near ? "; did you mean \"" + *near + "\"?" : "") +
                           " (--peft targets=)");
  }
  if (words.empty()) {
    out.mask = kAdapterTargets[0].mask;
  }
  return out;
}

double layer_adapters(const Job& job, const LayerKey& key, bool moe_layer) {
  double sum = 0;
  const auto s = sizes_of(job, key);
  for (const auto& matrix : adapted_matrices(job, key, s, moe_layer)) {
    sum += parameters_beside(job, matrix);
  }
  if ((job.adapters & kAdaptOutputs) != 0) {
    sum += static_cast<double>((moe_layer ? job.moe_layer : job.dense_layer).norms);
  }
  return sum + prompted_share(job) * (kPromptLength * s.h + s.heads_local);
}

double head_adapters(const Job& job, const LayerSizes& s) {
  if ((job.adapters & kAdaptHead) == 0) {
    return 0;
  }
  const double last_norm = static_cast<double>(job.dense_layer.norms) / std::max(1, job.model.norms_per_layer);
  return parameters_beside(job, {kAdaptHead, s.h, s.vocab_local}) + (low_rank(job) ? 0 : last_norm);
}

double layer_quantised(const Job& job, const LayerKey& key, bool moe_layer) {
  if (!job.training.holds_nf4()) {
    return 0;
  }
  const auto& layer = moe_layer ? job.moe_layer : job.dense_layer;
  const auto params = rank_parameters(job, key, moe_layer);
  return params.dense + params.expert - static_cast<double>(layer.norms) - static_cast<double>(layer.router);
}

double adapter_token_bytes(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer,
                           std::uint16_t dropped) {
  const auto& profile = job.profile;
  const bool products = low_rank(job);
  const auto mask = products ? job.adapters : std::uint16_t{0};  // matrices whose input an adapter reads
  const bool dropout = products && profile.adapter_dropout > 0.5;
  const double ffn = ffn_width_per_token(job, s, moe_layer);
  // Norm outputs are gathered or stay divided, as the profile's list says.
  double spread = s.sp;
  for (const auto& row : profile.activations) {
    if (row.module == kNorm && row.sharded_by == ShardedBy::nothing) {
      spread = 1;
    }
  }
  const double norm_output = 2 * s.h / spread;
  const bool reads_first = (mask & (kAdaptQuery | kAdaptKey | kAdaptValue)) != 0 && !dropout;
  const bool reads_second = (mask & (kAdaptGate | kAdaptUp)) != 0 && !dropout;
  const bool reads_product = (mask & kAdaptDown) != 0 && !dropout;
  double bytes = 0;
  if ((dropped & kNorm) == 0) {
    bytes -= (reads_first ? 0 : norm_output) + (reads_second || moe_layer ? 0 : norm_output);
  }
  if ((dropped & (kMlp | kMoe | kMoeActivation)) == 0) {
    bytes -= reads_product ? 0 : 2 * ffn;
  }
  // The attention over the prompts keeps its output for the gate, and a statistic per head.
  bytes += prompted_share(job) / touched_share(job) * (2 * s.q_local + 4 * s.heads_local);
  // Fused query/key/value adapters share one input; others hold a copy each when they drop out.
  const bool fused = profile.adapter_output_bytes > 0;
  bool fused_input_held = false;
  for (const auto& matrix : adapted_matrices(job, key, s, moe_layer)) {
    if (!products) {
      bytes += 2 * matrix.out * matrix.rows;  // the output before it is scaled
      continue;
    }
    const bool first = (matrix.target & (kAdaptQuery | kAdaptKey | kAdaptValue)) != 0;
    bytes += 2.0 * job.training.peft_rank * matrix.rows;
    if (dropout && !(fused && first && fused_input_held)) {
      bytes += 3 * matrix.in * matrix.rows;
      fused_input_held = fused_input_held || first;
    }
    if (fused && first) {
      bytes += profile.adapter_output_bytes * matrix.out + 2.0 * job.training.peft_rank;
    }
  }
  if (job.training.holds_nf4()) {
    bytes += profile.quantised_input_bytes * (2 * s.h / s.sp + s.q_local + ffn);
    if ((dropped & (kMlp | kMoe | kMoeActivation)) == 0) {
      // 4-bit products return the type they got: gate, its activation and up are as wide as the hidden state.
      bytes += (hidden_bytes(job) - 2) * (job.model.gated_mlp ? 3 : 1) * ffn;
    }
  }
  return bytes;
}

void freeze_layer(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer, OperationList& list) {
  freeze(list);
  add_dequantisation(job, layer_quantised(job, key, moe_layer), list);
  add_adapters(job, s.tokens, adapted_matrices(job, key, s, moe_layer), layer_adapters(job, key, moe_layer), list);
  if ((job.adapters & kAdaptPrompts) != 0) {
    add_prompts_and_scales(job, s.tokens, 0, prompted_share(job) / touched_share(job) * s.q_local, 0, list);
  }
}

void freeze_ends(const Job& job, const LayerSizes& s, bool head, OperationList& list) {
  freeze(list);
  if (!head) {
    return;
  }
  if (quantised_head(job)) {
    add_dequantisation(job, s.vocab_local * s.h, list);
  }
  AdaptedMatrices matrices;
  matrices.add(job, {kAdaptHead, s.h, s.vocab_local});
  add_adapters(job, s.tokens, matrices, head_adapters(job, s), list);
}

void add_adapter_sizes(const Job& job, const LayerKey& key, const LayerSizes& s, LayerCosts& costs) {
  const auto& profile = job.profile;
  costs.frozen = true;
  costs.dense_adapters = layer_adapters(job, key, false);
  costs.dense_quantised = layer_quantised(job, key, false);
  if (job.moe()) {
    costs.moe_adapters = layer_adapters(job, key, true);
    costs.moe_quantised = layer_quantised(job, key, true);
  }
  costs.head_adapters = head_adapters(job, s);
  if (quantised_head(job)) {
    costs.head_quantised = s.vocab_local * s.h;
  }
  if (job.adapters == kAdaptPrompts) {
    costs.untouched_layers = std::min(kLayersWithoutPrompts, job.model.layers);
  }
  if (job.training.holds_nf4()) {
    const double expert = job.model.moe ? s.h * job.model.moe->expert_ffn / key.etp : 0;
    const double largest = std::max({s.h * s.q_local, s.h * s.ffn_local, expert, costs.head_quantised});
    costs.dequantised = Bytes(2 * profile.dequantised_copies * largest);
  }
  if ((job.adapters & kAdaptHead) != 0) {
    const double kept = low_rank(job) ? (profile.adapter_dropout > 0.5 ? 3 * s.h : 0) : 2 * s.vocab_local;
    costs.head_activations += Bytes(kept * s.tokens);
  }
}

}  // namespace tpplan
