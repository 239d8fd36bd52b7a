#include <algorithm>

#include "cost-model/peft.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

TrainedParameters trained_parameters(const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                                     bool own_head) {
  if (costs.frozen) {
    return {stage.adapters + (content.head ? costs.head_adapters : 0), 0};
  }
  return {stage.params + (own_head ? costs.head_params : 0), stage.expert_params};
}

void frozen_states(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                   const StageCosts& stage, const DataGroups& groups, double micro_batches, MemoryEstimate& m) {
  const auto& profile = job.profile;
  const auto& content = group.content;
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  const double root = (content.embedding ? costs.embedding_params : 0) + (own_head ? costs.head_params : 0);
  const double layer_params = stage.params - (content.embedding ? costs.embedding_params : 0) + stage.expert_params;
  const double root_quantised = own_head ? costs.head_quantised : 0;
  const double trained = trained_parameters(costs, content, stage, own_head).dense;
  const bool qlora = job.training.peft == PeftMethod::qlora;
  const double plain_bytes = qlora ? profile.unquantised_bytes : 2;
  const double packed = quantised_weight_bytes(job.training.double_quantisation);
  const double layer_bytes = packed * stage.quantised + plain_bytes * (layer_params - stage.quantised);
  const double root_bytes = packed * root_quantised + plain_bytes * (root - root_quantised);
  const double weights = layer_bytes + root_bytes + profile.adapter_bytes * trained;
  // Adam's two moments per adapter; other optimizers hold their share of them.
  const double state = profile.adapter_state_bytes * std::max(0.0, row_of(layout.optimizer).state_bytes - 4) / 8;
  const double shards = layout.zero >= 1 ? groups.dense_shards : 1;
  const bool whole = layout.zero < 2 || (micro_batches > 1 && !reduces_each(job, layout));
  Bytes gradients(profile.adapter_gradient_bytes * trained);
  if (layout.zero >= 3 && shards > 1) {
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
  if (layout.offload == Offload::optimizer || (qlora && profile.paged_states > 0.5)) {
    m.host_bytes = m.optimizer;
    m.optimizer = Bytes(0);
  }
}

}  // namespace tpplan
