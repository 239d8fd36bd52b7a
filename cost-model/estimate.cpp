#include "cost-model/estimate.h"

#include <algorithm>
#include <optional>

#include "cost-model/data_loading.h"
#include "cost-model/in_flight.h"
#include "cost-model/layer_sizes.h"
#include "cost-model/mixed.h"
#include "cost-model/pipeline.h"
#include "cost-model/schedules.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

std::size_t index_of(const StageGroup& group) { return group.part < 0 ? 0 : static_cast<std::size_t>(group.part); }

}  // namespace

PipelineStages pipeline_stages(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                               const PipelineShape& shape) {
  PipelineStages out;
  out.micro_batches =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  auto& times = out.times;
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const auto stage = stage_costs(costs[index_of(shape.groups[i])], shape.groups[i].content);
    if (i < out.known.size()) {
      out.known[i] = stage;
    }
    const double n = shape.groups[i].count;
    // A micro-batch goes through one of the copies.
    const Seconds forward = stage.forward / shape.copies;
    const Seconds backward = stage.backward / shape.copies;
    const Seconds weight = stage.weight / shape.copies;
    times.forward_sum += forward * n;
    times.backward_sum += backward * n;
    times.weight_sum += weight * n;
    out.hidden_exchanges += (stage.sums.ep_hidden_forward + stage.sums.ep_hidden_backward) * (n / shape.copies);
    if (forward + backward > times.slowest) {
      times.slowest = forward + backward;
      times.slowest_forward = forward;
      times.slowest_backward = backward;
      times.slowest_weight = weight;
    }
  }
  times.weight_share = costs.front().weight_share;
  return out;
}

PipelineSpan pipeline_span(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                           const PipelineStages& stages, const TransferLaws& transfers) {
  const auto& profile = job.profile;
  PipelineSpan out;
  out.span = pipeline_time(layout.schedule, layout.pp, layout.vpp, stages.micro_batches, stages.times);
  if (layout.pp == 1) {
    return out;
  }
  out.lone_exchanges = stages.hidden_exchanges / layout.pp * lone_passes(layout.pp);
  const Seconds hop = transfer_time(job, layout, costs.front(), transfers);
  if (row_of(layout.schedule).splits_backward && layout.schedule != Schedule::dualpipe) {
    // Weight gradients stand in for the waits that the order of passes brings about; further ones stay.
    PipelineTimes times = stages.times;
    times.transfer = hop;
    out.transfers = pipeline_time(layout.schedule, layout.pp, layout.vpp, stages.micro_batches, times) - out.span +
                    hop * (std::max(0.0, profile.pp_exposed_transfers - 2) * stages.micro_batches);
  } else if (layout.schedule == Schedule::interleaved) {
    // The order of passes hides transfers that run beside them; without overlap each pass of a chunk waits for its own,
    // one of two being in each direction.
    const bool overlapped = switched_on(job.training.overlap_pp, profile.pp_overlap_default);
    const double exposed = overlapped ? 0 : profile.pp_exposed_transfers;
    const auto request = rule_request(layout.pp, layout.vpp, stages.micro_batches, layout.vpp_group);
    out.transfers = hop * (exposed * layout.vpp * stages.micro_batches) +
                    interleaved_transfers(request, stages.times, hop, hop * (exposed / 2));
  } else {
    // Two copies of the model run from both ends always have another micro-batch to compute meanwhile.
    const double exposed = layout.schedule == Schedule::dualpipe ? 0 : profile.pp_exposed_transfers;
    out.transfers = hop * (exposed * stages.micro_batches + 2.0 * (layout.pp - 1));
  }
  if (ends_share_embedding(job, layout) && !costs.front().frozen) {
    const double wire = state_bytes(job, layout.optimizer).wire;
    out.tied_reduction = transfers.ends.time(Bytes(costs.front().embedding_params * wire));
  }
  return out;
}

namespace {

/// Stage costs of a group: known, or worked out for the groups beyond.
class GroupCosts {
 public:
  GroupCosts(const PipelineStages& stages, std::size_t i, const LayerCosts& costs, const StageContent& content)
      : stage_(i < stages.known.size() ? &stages.known[i] : &further_.emplace(stage_costs(costs, content))) {}
  GroupCosts(const GroupCosts&) = delete;
  GroupCosts& operator=(const GroupCosts&) = delete;
  ~GroupCosts() = default;
  [[nodiscard]] const StageCosts& stage() const { return *stage_; }

 private:
  std::optional<StageCosts> further_;
  const StageCosts* stage_;
};

}  // namespace

MemoryEstimate fullest_memory(const Job& job, const Layout& layout, std::span<const LayerCosts> all_costs,
                              const PipelineShape& shape, const PipelineStages& stages,
                              std::span<const ShardingLaws> all_sharding, Bytes enough) {
  MemoryEstimate out;
  double fullest = -1;
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const auto& group = shape.groups[i];
    const auto& costs = all_costs[index_of(group)];
    const GroupCosts own(stages, i, costs, group.content);
    const Job& on = job.part(group.part);
    const DataGroups& groups = all_sharding[index_of(group)].groups;
    const auto weigh = [&](const StageMemory& memory) {
      const double share = memory.total.raw() / memory.at.capacity.raw();
      if (share > fullest) {
        fullest = share;
        out = memory.at;
      }
    };
    if (stages.held.empty()) {
      const auto memory = stage_memory(on, layout, costs, group, own.stage(), groups, stages.micro_batches);
      weigh(memory);
      if (memory.total > enough) {
        return memory.at;
      }
      continue;
    }
    // Which of the ranks that hold the same layers is the fullest depends on the order.
    StageGroup rank = group;
    const int layers = group.content.dense + group.content.moe;
    for (int left = group.count; left > 0 && rank.first_rank < layout.pp; ++rank.first_rank) {
      const auto r = static_cast<std::size_t>(rank.first_rank);
      if (shape.layers_per_stage[r] == layers) {
        weigh(stage_memory(on, layout, costs, rank, own.stage(), groups, stages.micro_batches, stages.held[r]));
        --left;
      }
    }
  }
  return out;
}

StepEstimate step_estimate(const Job& job, const Layout& layout, std::span<const LayerCosts> all_costs,
                           const PipelineShape& shape, const PipelineStages& stages, const PipelineSpan& span,
                           std::span<const ShardingLaws> all_sharding) {
  const auto& training = job.training;
  const double all_micro_batches = stages.micro_batches;
  const double micro_batches = all_micro_batches / shape.copies;  // that each chunk of a rank sees

  StepEstimate out;
  Seconds last_end(-1);
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const auto& group = shape.groups[i];
    const Job& on = job.part(group.part);
    const auto& profile = on.profile;
    const auto& costs = all_costs[index_of(group)];
    const auto& sharding = all_sharding[index_of(group)];
    const auto& groups = sharding.groups;
    const bool reduce_beside = switched_on(training.overlap_dp_grad, profile.dp_overlap_default);
    const bool gather_beside = switched_on(training.overlap_dp_param, profile.dp_overlap_default);
    const GroupCosts own(stages, i, costs, group.content);
    const StageCosts& stage = own.stage();
    const bool own_head = group.content.head && (!job.model.tied_embeddings || !group.content.embedding);
    const auto [params, expert_params, matrices] = trained_parameters(costs, group.content, stage, own_head);
    Seconds data_parallel(0);
    if (gathers_by_layer(on, layout)) {
      data_parallel = fsdp_exposed(on, layout, costs, group.content, stage, groups, micro_batches);
    } else if (layout.dp * layout.cp > 1) {
      const auto t = data_parallel_times(on, sharding.laws, params, expert_params);
      const double reductions = reduces_each(on, layout) ? micro_batches : 1;
      data_parallel =
          (reduce_beside ? beside(stage.backward, t.reduce, profile.dp_overlap_cost) : t.reduce) * reductions;
      data_parallel += gather_beside ? beside(stage.forward, t.gather, profile.dp_overlap_cost) : t.gather;
    }
    if (group.content.embedding || group.content.head) {
      data_parallel += span.tied_reduction;
    }
    const double local =
        layout.zero >= 1 ? params / groups.dense_shards + expert_params / groups.expert_shards : params + expert_params;
    const Bytes traffic(std::max(8.0, profile.optimizer_bytes + row_of(layout.optimizer).traffic_bytes) * local);
    Seconds optimizer = traffic / (on.cluster.gpu.memory_bandwidth * on.constants.memory_adam);
    optimizer += optimizer_products(on, layout.optimizer, matrices);
    optimizer += loss_scaling(on, layout, local);
    Seconds offload = paged_update(on, layout, costs, group, stage, groups, all_micro_batches);
    if (layout.offload == Offload::optimizer && on.cluster.host_link.raw() > 0) {
      offload = offloaded_update(on, layout, local);
      optimizer = Seconds(0);
      const Seconds copy = hosted_weights(on, layout, costs, group.content, stage, groups) / on.cluster.host_link;
      offload += (max(Seconds(0), copy - stage.forward) + max(Seconds(0), copy - stage.backward)) * micro_batches;
    } else if (layout.offload == Offload::activations && on.cluster.host_link.raw() > 0) {
      const Bytes moved = (costs.dense_activations * static_cast<double>(group.content.dense) +
                           costs.moe_activations * static_cast<double>(group.content.moe));
      const Seconds copy = moved / on.cluster.host_link;
      offload = (max(Seconds(0), copy - stage.forward) + max(Seconds(0), copy - stage.backward)) * micro_batches;
    }
    const Seconds end = data_parallel + optimizer + offload;
    if (end > last_end) {
      last_end = end;
      const auto& c = stage.sums;
      out.compute = (c.forward + c.backward) * micro_batches;
      out.recompute = c.recompute * micro_batches;
      out.tp_comm = (c.tp_forward + c.tp_backward) * micro_batches;
      out.cp_comm = (c.cp_forward + c.cp_backward) * micro_batches;
      out.ep_comm = (c.ep_forward + c.ep_backward) * micro_batches + span.lone_exchanges;
      out.host = (c.host_forward + c.host_backward) * micro_batches + Seconds(profile.step_fixed_s);
      out.pp_comm = span.transfers;
      out.dp_comm = data_parallel;
      out.bubble = max(Seconds(0), span.span - (stage.forward + stage.backward) * micro_batches);
      out.optimizer = optimizer;
      out.offload = offload;
    }
  }
  out.data = data_loading(job, layout).exposed(all_micro_batches, out.total());
  out.lower_bound = stages.lower_bound();
  const double layers_flops_scale = all_micro_batches / layout.pp;
  const int moe_layers = job.moe() ? job.moe_before.back() : 0;
  const auto& costs = all_costs.front();
  out.model_flops = (costs.model_flops_dense * static_cast<double>(job.model.layers - moe_layers) +
                     costs.model_flops_moe * static_cast<double>(moe_layers) + costs.model_flops_head +
                     costs.model_flops_mtp * static_cast<double>(job.model.mtp_layers)) *
                    layers_flops_scale;
  out.step_error = job.profile.step_error;
  return out;
}

Estimate combine(const Job& job, const Layout& layout, std::span<const LayerCosts> costs, const PipelineShape& shape,
                 std::span<const ShardingLaws> sharding) {
  PipelineStages stages = pipeline_stages(job, layout, costs, shape);
  stages.held = held_by_order(job, layout, costs.front(), stages.micro_batches);
  const PipelineSpan span = pipeline_span(job, layout, costs, stages, transfer_laws(job, layout));
  return {step_estimate(job, layout, costs, shape, stages, span, sharding),
          fullest_memory(job, layout, costs, shape, stages, sharding)};
}

Estimate combine(const Job& job, const Layout& layout, const LayerCosts& costs, const PipelineShape& shape) {
  const ShardingLaws sharding = sharding_laws(job, layout);
  return combine(job, layout, std::span<const LayerCosts>(&costs, 1), shape,
                 std::span<const ShardingLaws>(&sharding, 1));
}

Estimate estimate(const Job& job, const Layout& layout) {
  if (stages_keep_to_parts(job, layout)) {
    return mixed_estimate(job, layout);
  }
  return combine(job, layout, layer_costs(job, layer_key(layout)), pipeline_shape(job, layout));
}

Fits verdict(const MemoryEstimate& memory, double headroom) {
  if (memory.host_capacity > Bytes(0) && memory.host_bytes > memory.host_capacity) {
    return Fits::no;
  }
  if (memory.total() <= memory.capacity * (1 - headroom)) {
    return Fits::fits;
  }
  return memory.allocated() + memory.context <= memory.capacity ? Fits::tight : Fits::no;
}

std::string_view name_of(Fits fits) {
  constexpr std::array<std::string_view, 3> kNames{"fits", "tight", "no"};
  return kNames[static_cast<std::size_t>(fits)];
}

double mfu(const Job& job, const Layout&, const StepEstimate& step) {
  const double total = step.total().raw();
  const double peak = mean_peak(job).raw();
  return total > 0 && peak > 0 ? step.model_flops.raw() / (total * peak) : 0;
}

double tokens_per_second(const Job& job, const StepEstimate& step) {
  const double total = step.total().raw();
  return total > 0 ? static_cast<double>(job.training.seq) * job.training.global_batch / total : 0;
}

std::string_view bound_by(const StepEstimate& step) {
  const Seconds total = step.total();
  if (step.compute >= total * (2.0 / 3)) {
    return "compute";
  }
  const StepTermRow* largest = &kStepTerms[1];
  for (const auto& row : kStepTerms) {
    if (row.key != "compute" && step.*row.field > step.*largest->field) {
      largest = &row;
    }
  }
  return largest->key;
}

}  // namespace tpplan
