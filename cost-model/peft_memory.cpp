#include <algorithm>

#include "cost-model/peft.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

TrainedParameters trained_parameters(const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                                     bool own_head) {
  if (costs.frozen) {
    const double adapters = stage.adapters + (content.head ? costs.head_adapters : 0);
    return {adapters, 0, adapters};
  }
  const double head = own_head ? costs.head_params : 0;
  const double embedding = content.embedding ? costs.embedding_params : 0;
  return {stage.params + head, stage.expert_params, stage.params + head - embedding - head + stage.expert_params};
}

namespace {

/// Bytes of the frozen weights of a rank as they are held: of its layers, and of embedding and head.
struct FrozenBytes {
  Bytes layers, root;
};

FrozenBytes frozen_bytes(const Job& job, const LayerCosts& costs, const StageContent& content,
                         const StageCosts& stage) {
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  const double embedding = content.embedding ? costs.embedding_params : 0;
  const double root = embedding + (own_head ? costs.head_params : 0);
  const double layers = stage.params - embedding + stage.expert_params;
  const double root_quantised = own_head ? costs.head_quantised : 0;
  const double plain = job.training.holds_nf4() ? job.profile.unquantised_bytes : training_in_fp32(job) ? 4 : 2;
  const double packed = quantised_weight_bytes(job.training.double_quantisation);
  return {Bytes(packed * stage.quantised + plain * (layers - stage.quantised)),
          Bytes(packed * root_quantised + plain * (root - root_quantised))};
}

/// ZeRO-3 that offloads keeps weights in host memory besides, and gathers them on one GPU too.
bool hosts_weights(const LayerCosts& costs, const Layout& layout) {
  return costs.frozen && layout.zero >= 3 && layout.offload == Offload::optimizer;
}

}  // namespace

Seconds paged_update(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                     const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  if (job.profile.paged_states < 1.5 || layout.zero > 0 || costs.frozen || layout.offload != Offload::none ||
      job.cluster.host_link.raw() <= 0) {
    return Seconds(0);
  }
  const MemoryEstimate memory = stage_memory(job, layout, costs, group, stage, groups, micro_batches).at;
  const Bytes room = max(Bytes(0), memory.capacity - memory.total());
  return max(Bytes(0), memory.host_bytes - room) * 2.0 / job.cluster.host_link;
}

Bytes hosted_weights(const Job& job, const Layout& layout, const LayerCosts& costs, const StageContent& content,
                     const StageCosts& stage, const DataGroups& groups) {
  if (!hosts_weights(costs, layout)) {
    return Bytes(0);
  }
  const FrozenBytes held = frozen_bytes(job, costs, content, stage);
  return (held.layers + held.root) / groups.dense_shards;
}

void frozen_states(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                   const StageCosts& stage, const DataGroups& groups, double micro_batches, MemoryEstimate& m) {
  const auto& profile = job.profile;
  const auto& content = group.content;
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  const double root = (content.embedding ? costs.embedding_params : 0) + (own_head ? costs.head_params : 0);
  const double layer_params = stage.params - (content.embedding ? costs.embedding_params : 0) + stage.expert_params;
  const double trained = trained_parameters(costs, content, stage, own_head).dense;
  const FrozenBytes held = frozen_bytes(job, costs, content, stage);
  const double layer_bytes = held.layers.raw();
  const double root_bytes = held.root.raw();
  const double weights = layer_bytes + root_bytes + profile.adapter_bytes * trained;
  // Adam's two moments per adapter; other optimizers hold their share of them.
  const double state = profile.adapter_state_bytes * std::max(0.0, row_of(layout.optimizer).state_bytes - 4) / 8;
  const double shards = layout.zero >= 1 ? groups.dense_shards : 1;
  const bool whole = layout.zero < 2 || (micro_batches > 1 && !reduces_each(job, layout));
  Bytes gradients(profile.adapter_gradient_bytes * trained);
  const bool hosted = hosts_weights(costs, layout);
  if (layout.zero >= 3 && (shards > 1 || hosted)) {
    m.weights = Bytes(weights / shards);
    const double layers = std::max(1, content.dense + content.moe);
    // One layer less than in training of all weights: no layer has a gradient in the making.
    m.gathered = Bytes(root_bytes + std::max(1.0, gathered_layers(job) - 1) * layer_bytes / layers);
    if (profile.flat_gradients > 0.5) {
      // One flat parameter per unit: its gradient covers the frozen weights, whole between micro-batches.
      gradients = Bytes(2 * (layer_params + root + trained));
    }
  } else {
    m.weights = Bytes(weights);
  }
  m.gradients = whole ? gradients : gradients / shards;
  m.optimizer = Bytes(state * trained / shards);
  if (layout.offload == Offload::optimizer || (job.training.holds_nf4() && profile.paged_states > 0.5)) {
    m.host_bytes = m.optimizer;
    m.optimizer = Bytes(0);
  }
  if (hosted) {
    m.host_bytes += m.weights;
    m.host_capacity = job.cluster.host_memory / std::max(1, job.cluster.gpus_per_node);
    m.weights = Bytes(0);
  }
}

}  // namespace tpplan
