#include "cost-model/memory_replay.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "cost-model/layer_sizes.h"
#include "cost-model/mixed.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;

/// The kept tensors that may be narrower or wider in a profile's list than in the plain program.
constexpr std::array<Bytes LayerTensors::*, 8> kInnerTensors{
    &LayerTensors::linear_input, &LayerTensors::qkv,        &LayerTensors::query, &LayerTensors::key,
    &LayerTensors::attention,    &LayerTensors::statistics, &LayerTensors::up,    &LayerTensors::product};

/// Makes the layer keep `listed` bytes: one more tensor for what is missing, all scaled down for what is too much.
void match(LayerTensors& l, Bytes listed) {
  const Bytes outer = l.residual * 2.0 + l.norm_statistic * 2.0;
  const Bytes inner = l.kept() - outer;
  if (listed >= l.kept()) {
    // Differences of rounding make no tensor.
    l.extra = listed - l.kept() > listed * 1e-6 ? listed - l.kept() : Bytes(0);
  } else if (inner > Bytes(0)) {
    const double scale = std::max(0.0, (listed - outer) / inner);
    for (const auto field : kInnerTensors) {
      l.*field *= scale;
    }
  }
}

/// Splits the parameters of a layer into its matrices; what a formula of a plain layer does not account for is one
/// more.
void set_weights(LayerTensors& l, const LayerSizes& s, double ffn, double products, double params) {
  l.norm_weight = s.h;
  l.qkv_weight = s.h * (s.q_local + 2 * s.kv_local);
  l.output_weight = s.q_local * s.h;
  l.up_weight = products * s.h * ffn;
  l.down_weight = s.h * ffn;
  const double rest = params - l.weights();
  if (rest >= 0) {
    l.other_weights = rest;
    return;
  }
  const double matrices = l.weights() - 2 * l.norm_weight;
  const double scale = matrices > 0 ? std::max(0.0, (params - 2 * l.norm_weight) / matrices) : 0;
  for (const auto field : {&LayerTensors::qkv_weight, &LayerTensors::output_weight, &LayerTensors::up_weight,
                           &LayerTensors::down_weight}) {
    l.*field *= scale;
  }
}

LayerTensors layer_tensors(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe,
                           const LayerCosts& costs) {
  LayerTensors l;
  const double t = s.tokens;
  const double ffn = ffn_width_per_token(job, s, moe);
  const double products = job.model.gated_mlp ? 2 : 1;
  l.residual = Bytes(2 * s.h / s.sp * t);
  l.linear_input = Bytes(2 * s.h * t);
  l.norm_statistic = Bytes(4 * t);
  l.qkv = Bytes(2 * (s.q_local + 2 * s.kv_local) * t);
  l.query = Bytes(2 * s.q_local * t);
  l.key = Bytes(2 * s.kv_local * t);
  l.attention = Bytes(2 * s.q_local * t);
  l.statistics = Bytes(4 * s.heads_local * t);
  l.up = Bytes(2 * products * ffn * t);
  l.product = Bytes(2 * ffn * t);
  const bool full = key.recompute == RecomputeKind::full;
  if (!full) {
    l.keeps_linear_input = (key.recompute_modules & kNorm) == 0 || key.recompute != RecomputeKind::selective;
    l.keeps_ffn = (key.recompute_modules & kMlp) == 0 || key.recompute != RecomputeKind::selective;
  }
  match(l, moe ? (full ? costs.moe_activations_all : costs.moe_activations)
               : (full ? costs.dense_activations_all : costs.dense_activations));
  // Weights of a MoE layer's experts are one block of their own.
  const double dense_ffn = moe ? (job.model.moe ? job.model.moe->shared_ffn / s.tp : 0) : s.ffn_local;
  set_weights(l, s, dense_ffn, products, moe ? costs.moe_params + costs.expert_params : costs.dense_params);
  return l;
}

/// Micro-batches that GPipe may hold for its steps to be replayed, each of which takes as long as a step of 1F1B.
constexpr double kMostReplayed = 64;

}  // namespace

std::optional<StepSizes> step_sizes(const Job& job, const Layout& layout, int stage) {
  const bool described = job.adapters == 0 &&
                         (layout.schedule == Schedule::f1b1 || layout.schedule == Schedule::gpipe) && layout.vpp == 1 &&
                         layout.offload == Offload::none && layout.recompute != RecomputeKind::selective_op &&
                         job.model.mtp_layers == 0;
  if (!described || stage < 0 || stage >= layout.pp) {
    return std::nullopt;
  }
  const auto& profile = job.profile;
  const auto key = layer_key(layout);
  const auto s = sizes_of(job, key);
  const auto costs = layer_costs(job, key);
  const auto shape = pipeline_shape(job, layout);
  StepSizes out;
  out.embedding = stage == 0;
  out.head = stage == layout.pp - 1;
  StageContent content;
  for (const auto& group : shape.groups) {
    const int layers = group.content.dense + group.content.moe;
    if (group.content.embedding == out.embedding && group.content.head == out.head &&
        layers == shape.layers_per_stage[static_cast<std::size_t>(stage)]) {
      content = group.content;
    }
  }
  out.dense_layers = content.dense;
  out.moe_layers = content.moe;
  out.dense = layer_tensors(job, key, s, false, costs);
  out.moe = content.moe > 0 ? layer_tensors(job, key, s, true, costs) : LayerTensors{};
  if (layout.recompute == RecomputeKind::full) {
    out.recomputed_layers = layout.recompute_layers > 0 ? layout.recompute_layers : content.dense + content.moe;
  }
  const bool own_head = out.head && (!job.model.tied_embeddings || !out.embedding);
  out.embedding_weight = costs.embedding_params;
  out.head_weight = own_head ? costs.head_params - s.h : 0;
  out.tokens = s.tokens;
  out.logits = min(costs.loss_transient, Bytes(2 * s.vocab_local * s.tokens));
  out.softmax = costs.loss_transient - out.logits;
  out.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
  out.tensor_parallel = layout.tp > 1;
  out.pp = layout.pp;
  out.rank = stage;
  out.all_forward_first = layout.schedule == Schedule::gpipe;
  out.micro_batches = std::max(1, job.training.global_batch / std::max(1, layout.dp * layout.micro_batch));

  const auto groups = data_groups(job, layout);
  const double dense = content.dense * costs.dense_params + content.moe * costs.moe_params +
                       (content.embedding ? costs.embedding_params : 0) + (own_head ? costs.head_params : 0);
  const double experts = content.moe * costs.expert_params;
  const double sharded =
      layout.zero >= 1 ? dense / groups.dense_shards + experts / std::max(1.0, groups.expert_shards) : dense + experts;
  out.shards = sharded > 0 ? (dense + experts) / sharded : 1;
  out.fully_sharded = layout.zero >= 3;
  out.accumulates_unsharded = !reduces_each(job, layout);
  const bool divided = (layout.zero == 2 && (out.micro_batches == 1 || !out.accumulates_unsharded)) ||
                       (layout.zero == 1 && profile.shards_gradients > 0.5);
  const bool bf16 = job.training.precision == Precision::bf16;
  const StateBytes bytes = state_bytes(job, layout.optimizer);
  out.weight_bytes = bytes.weight;
  out.gradient_bytes = bytes.gradient / (divided ? out.shards : 1) + profile.sharded_gradient_bytes / out.shards +
                       (bf16 ? profile.bf16_gradient_bytes : 0) + (layout.dp > 1 ? profile.bucket_bytes : 0);
  const double state = bytes.optimizer;
  out.master_bytes = bytes.weight > 2 ? 0 : std::min(4.0, state);
  out.moment_bytes = state - out.master_bytes;
  out.workspace = Bytes(profile.workspace_gib * kGib);
  return out;
}

void refine_memory(const Job& job, const Layout& layout, MemoryEstimate& memory) {
  const double micro_batches =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  if (layout.schedule == Schedule::gpipe && micro_batches > kMostReplayed) {
    return;
  }
  if (job.profile.replay_allocator < 0.5 || stages_keep_to_parts(job, layout) ||
      !step_sizes(job, layout, memory.stage)) {
    return;
  }
  // The slack may decide which rank is the fullest.
  const auto costs = layer_costs(job, layer_key(layout));
  const auto groups = data_groups(job, layout);
  Bytes fullest(-1);
  for (const auto& group : pipeline_shape(job, layout).groups) {
    auto at = stage_memory(job, layout, costs, group, stage_costs(costs, group.content), groups, micro_batches).at;
    auto sizes = *step_sizes(job, layout, group.first_rank);
    // Larger models are made on the meta device and sharded before they hold memory.
    sizes.builds_whole = Bytes(4 * sizes.parameters() * (1 + 1 / sizes.shards)) <= at.allocated();
    const auto peaks = replay_steps(sizes);
    at.allocator_slack = peaks.reserved - peaks.allocated;
    if (at.total() > fullest) {
      fullest = at.total();
      memory = at;
    }
  }
}

}  // namespace tpplan
