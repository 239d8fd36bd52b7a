#include <algorithm>
#include <array>
#include <cstdint>

#include "cost-model/in_flight.h"
#include "cost-model/pipeline.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

Bytes gib(double value) { return Bytes(value * 1073741824.0); }

/// What a rank holds at one moment beyond its resident bytes.
struct Moment {
  std::uint8_t number;  ///< in kMoments
  double held;          ///< micro-batches
  Bytes extra;          ///< what joins their activations
};

Bytes layer_by_layer(const StageContent& content, Bytes dense, Bytes moe) {
  return dense * static_cast<double>(content.dense) + moe * static_cast<double>(content.moe);
}

}  // namespace

Bytes kept_activations(const Layout& layout, const LayerCosts& costs, const StageContent& content, int chunks) {
  // Full recomputation of n layers per chunk only: the others keep the whole list.
  const double layers = std::max(1, content.dense + content.moe);
  const double recomputed = layout.recompute == RecomputeKind::full && layout.recompute_layers > 0
                                ? std::min<double>(1, layout.recompute_layers * static_cast<double>(chunks) / layers)
                                : 1;
  const double touched = trained_share(costs, content);
  const double kept_whole = std::min(1 - recomputed, touched);
  const double kept_inputs = touched < 1 ? touched - kept_whole : recomputed;
  return layer_by_layer(content, costs.dense_activations, costs.moe_activations) * kept_inputs +
         layer_by_layer(content, costs.dense_activations_all, costs.moe_activations_all) * kept_whole +
         costs.mtp_activations * static_cast<double>(content.mtp);
}

StageTensors stage_tensors(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                           const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  const auto& profile = job.profile;
  const auto& content = group.content;
  StageTensors out;
  auto& m = out.resident;
  m.stage = group.first_rank;
  m.capacity = job.cluster.gpu.usable;
  // The head matrix is a parameter of its own on the last stage unless it is the embedding held there already.
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  const double dense = stage.params + (own_head ? costs.head_params : 0);
  const double experts = stage.expert_params;
  const double params = dense + experts;
  const double dense_shards = layout.zero >= 1 ? groups.dense_shards : 1;
  const double expert_shards = layout.zero >= 1 ? groups.expert_shards : 1;
  const double sharded_params = dense / dense_shards + experts / expert_shards;
  const StateBytes bytes = state_bytes(job, layout.optimizer);
  // Muon treats matrices only: embedding, head and norms are left to Adam.
  const double ends = (content.embedding ? costs.embedding_params : 0) + (own_head ? costs.head_params : 0);
  const double adam_only = layout.optimizer == Optimizer::muon ? ends / dense_shards : 0;
  const double adam_extra = state_bytes(job, Optimizer::adam).optimizer - bytes.optimizer;
  const double state = bytes.optimizer;
  const bool wide = bytes.weight > 2;
  const bool fsdp = layout.zero >= 3;
  // Gradients that wait for the last micro-batch have full size.
  const bool unreduced = micro_batches > 1 && !reduces_each(job, layout);
  if (costs.frozen) {
    frozen_states(job, layout, costs, group, stage, groups, micro_batches, m);
  } else if (fsdp) {
    // The sharded weights are the fp32 ones: the master copy, or the weights themselves.
    const double gathered = wide ? 4 : 2;
    m.weights = Bytes(profile.fsdp_shard_bytes * sharded_params);
    m.optimizer = Bytes((wide ? state + 4 : state) * sharded_params + adam_extra * adam_only);
    m.gradients = Bytes(profile.fsdp_gradient_bytes * sharded_params);
    const double layers = content.dense + content.moe;
    const double layer_params = layers > 0 ? (params - ends) / layers : 0;
    m.gathered = Bytes(gathered * (ends + gathered_layers(job) * layer_params));
    if (groups.secondary.ranks > 1) {
      m.gathered += Bytes(gathered * params / groups.secondary.ranks);
    }
    if (unreduced) {
      m.gradients = Bytes(profile.fsdp_gradient_bytes * params);
    } else if (micro_batches <= 1) {
      m.gradients = Bytes(0);  // freed before the forward pass, made again as the backward pass goes
    }
  } else {
    m.weights = Bytes(bytes.weight * params);
    const bool divided = (layout.zero >= 2 && !unreduced) || (layout.zero == 1 && profile.shards_gradients > 0.5);
    m.gradients =
        Bytes(bytes.gradient * (divided ? sharded_params : params) + profile.sharded_gradient_bytes * sharded_params +
              (job.training.precision == Precision::bf16 ? profile.bf16_gradient_bytes * params : 0) +
              (layout.dp > 1 ? profile.bucket_bytes * params : 0));
    m.optimizer = Bytes(state * sharded_params + adam_extra * adam_only);
  }
  const bool paged = profile.paged_states > 1.5 && layout.zero == 0;
  if ((layout.offload == Offload::optimizer || paged) && !costs.frozen) {
    const OffloadedStates states = offloaded_states(job, layout, sharded_params);
    m.host_bytes = states.host - states.in_storage + m.weights * (fsdp ? 1.0 : 0.0);
    m.host_capacity = states.capacity;
    m.optimizer = Bytes(0);
    m.weights = m.weights * (fsdp ? 0.0 : 1.0);
  }
  m.workspace =
      gib(profile.workspace_gib) + costs.dummy_gradients + (content.head ? costs.head_dummy_gradient : Bytes(0));
  const double constant = profile.constant_gib + (layout.tp > 1 ? profile.constant_tp_gib : 0);
  m.workspace += gib(constant) + costs.dequantised;

  out.one = kept_activations(layout, costs, content, chunks_of(layout.schedule, layout.vpp));
  const double layers = std::max(1, content.dense + content.moe);
  if (layout.offload == Offload::activations) {
    m.activations = layer_by_layer(content, costs.dense_activations, costs.moe_activations) *
                    trained_share(costs, content) * (2.0 / layers);
  }
  if (layout.pp > 1) {
    m.communication = costs.boundary * 4.0;
    out.buffer = costs.layer_input * (profile.stage_buffer_bytes / 2);
  }
  const bool full = layout.recompute == RecomputeKind::full;
  const Bytes whole_layer =
      content.moe > 0 ? max(costs.moe_activations_all, costs.dense_activations_all) : costs.dense_activations_all;
  const bool split = row_of(layout.schedule).splits_backward && layout.schedule != Schedule::dualpipe && !costs.frozen;
  out.first_backward =
      (split ? costs.backward_transient_split : costs.backward_transient) + (full ? whole_layer : Bytes(0));
  // Every prediction module has logits of its own, alive until its backward pass.
  out.at_loss = content.head ? (costs.head_activations + costs.loss_transient) * (1.0 + content.mtp) : Bytes(0);
  if (content.head && !costs.frozen && profile.gradient_bytes == 0 && !fsdp) {
    out.at_loss += Bytes(2 * costs.head_params);  // the optimizer runs in the backward pass: one gradient at a time
  }
  out.embedding_gradient = (content.embedding || content.head) && !costs.frozen
                               ? Bytes((fsdp ? profile.fsdp_gradient_bytes : 2) * costs.embedding_params)
                               : Bytes(0);
  m.context = gib(profile.context_gib + (layout.pp > 1 ? profile.context_p2p_gib : 0));
  m.error = profile.memory_error;
  return out;
}

StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  return stage_memory(job, layout, costs, group, stage, groups, micro_batches,
                      held_by_rule(layout, costs, group.first_rank, micro_batches));
}

StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches,
                         const HeldActivations& held) {
  const auto& profile = job.profile;
  const StageTensors tensors = stage_tensors(job, layout, costs, group, stage, groups, micro_batches);
  StageMemory out;
  auto& m = out.at;
  m = tensors.resident;
  const bool offloaded = layout.offload == Offload::activations;
  const Bytes one = offloaded ? Bytes(0) : tensors.one;
  const std::array<Moment, 4> moments{{{0, held.loss, tensors.at_loss},
                                       {1, held.backward, tensors.first_backward},
                                       {2, held.end, tensors.embedding_gradient},
                                       {5, held.forward, Bytes(0)}}};
  const Bytes each = one + tensors.buffer;
  std::size_t fullest = 0;
  Bytes most = each * held.loss + tensors.at_loss;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    const Bytes bytes = each * moments[i].held + moments[i].extra;
    fullest = bytes > most ? i : fullest;
    most = max(most, bytes);
  }
  const Moment& worst = moments[fullest];
  m.moment = worst.number;
  m.in_flight = worst.held;
  m.activations += one * worst.held;
  m.communication += tensors.buffer * worst.held;
  if (offloaded) {
    m.host_bytes = max(Bytes(0), m.host_bytes + tensors.one * held.forward - m.activations);
  }
  Bytes& owner = worst.number == 0 ? m.loss : worst.number == 1 ? m.activations : m.gathered;
  owner += worst.extra;
  const Bytes allocated = m.allocated();
  m.allocator_slack = allocated * (profile.reserved_factor - 1) +
                      (group.content.head ? costs.loss_transient : Bytes(0)) * profile.reserved_loss_factor;
  if (layout.zero >= 3 && profile.fsdp_gradient_pool > 0.5 && micro_batches <= 1 && !costs.frozen &&
      layout.offload != Offload::optimizer) {
    // Gradient shards that stand in a pool of their own.
    const double experts = group.content.moe * costs.expert_params;
    const bool own_head = group.content.head && (!job.model.tied_embeddings || !group.content.embedding);
    const double dense = stage.params + (own_head ? costs.head_params : 0);
    m.allocator_slack +=
        Bytes(profile.fsdp_gradient_bytes * (dense / groups.dense_shards + experts / groups.expert_shards));
  }
  out.total = m.total();
  return out;
}

}  // namespace tpplan
