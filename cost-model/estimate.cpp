#include "cost-model/estimate.h"

#include <algorithm>

#include "cost-model/layer_sizes.h"
#include "cost-model/pipeline.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

Estimate combine(const Job& job, const Layout& layout, const LayerCosts& costs, const PipelineShape& shape) {
  const auto& profile = job.profile;
  const auto& training = job.training;
  const double micro_batches =
      static_cast<double>(training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  const auto groups = data_groups(job, layout);

  // Ends, middle and uneven ranks: rarely more kinds than the array holds; those are added up again.
  std::array<StageCosts, 6> known;
  const auto stage_at = [&](std::size_t i) {
    return i < known.size() ? known[i] : stage_costs(costs, shape.groups[i].content);
  };
  for (std::size_t i = 0; i < std::min(known.size(), shape.groups.size()); ++i) {
    known[i] = stage_costs(costs, shape.groups[i].content);
  }
  PipelineTimes pipeline;
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const auto stage = stage_at(i);
    const double n = shape.groups[i].count;
    pipeline.forward_sum += stage.forward * n;
    pipeline.backward_sum += stage.backward * n;
    pipeline.weight_sum += stage.weight * n;
    if (stage.forward + stage.backward > pipeline.slowest) {
      pipeline.slowest = stage.forward + stage.backward;
      pipeline.slowest_forward = stage.forward;
      pipeline.slowest_backward = stage.backward;
      pipeline.slowest_weight = stage.weight;
    }
  }
  const Seconds span = pipeline_time(layout.schedule, layout.pp, layout.vpp, micro_batches, pipeline);

  // Transfers between stages.
  Seconds transfers(0);
  if (layout.pp > 1) {
    const int stride =
        layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp : layout.tp * layout.cp * layout.dp;
    const auto neighbours = place_group(job.cluster, 2, stride);
    const bool parts = profile.pp_scatter_gather > 0.5 && layout.tp > 1 && !layout.sequence_parallel;
    Seconds hop =
        collective_time(job, Collective::send_recv, parts ? costs.boundary / layout.tp : costs.boundary, neighbours);
    if (parts) {
      hop += collective_time(job, Collective::all_gather, costs.boundary, place_group(job.cluster, layout.tp, 1));
    }
    const bool overlapped =
        layout.schedule == Schedule::interleaved && switched_on(training.overlap_pp, profile.pp_overlap_default);
    const double per_micro_batch =
        overlapped ? profile.pp_exposed_overlapped * layout.vpp : profile.pp_exposed_transfers * layout.vpp;
    transfers = hop * (per_micro_batch * micro_batches + 2.0 * (layout.pp - 1));
  }

  Estimate out;
  Seconds last_end(-1);
  Bytes fullest(-1);
  const bool reduce_beside = switched_on(training.overlap_dp_grad, profile.dp_overlap_default);
  const bool gather_beside = switched_on(training.overlap_dp_param, profile.dp_overlap_default);
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const auto& group = shape.groups[i];
    auto stage = stage_at(i);
    const bool own_head = group.content.head && (!job.model.tied_embeddings || !group.content.embedding);
    const double layer_params = stage.params;
    if (own_head) {
      stage.params += costs.head_params;
    }
    Seconds data_parallel(0);
    if (layout.zero >= 3) {
      StageCosts body = stage;
      body.params = layer_params;
      data_parallel = fsdp_exposed(job, costs, group.content, body, groups, micro_batches);
    } else if (layout.dp * layout.cp > 1) {
      const auto t = data_parallel_times(job, layout, stage, groups);
      const double reductions = layout.zero >= 2 ? micro_batches : 1;
      data_parallel =
          (reduce_beside ? beside(stage.backward, t.reduce, profile.dp_overlap_cost) : t.reduce) * reductions;
      data_parallel += gather_beside ? beside(stage.forward, t.gather, profile.dp_overlap_cost) : t.gather;
    }
    if (job.model.tied_embeddings && layout.pp > 1 && (group.content.embedding || group.content.head)) {
      const int stride =
          layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp : layout.tp * layout.cp * layout.dp;
      data_parallel +=
          collective_time(job, Collective::all_reduce, Bytes(costs.embedding_params * profile.gradient_wire_bytes),
                          place_group(job.cluster, 2, stride * (layout.pp - 1)));
    }
    const double local = layout.zero >= 1
                             ? stage.params / groups.dense_shards + stage.expert_params / groups.expert_shards
                             : stage.params + stage.expert_params;
    const Bytes traffic(std::max(8.0, profile.optimizer_bytes + row_of(layout.optimizer).traffic_bytes) * local);
    Seconds optimizer = traffic / (job.cluster.gpu.memory_bandwidth * job.constants.memory_adam);
    Seconds offload(0);
    if (layout.offload == Offload::optimizer && job.cluster.host_link.raw() > 0) {
      // Gradients go down and updated weights come back; the update itself runs at host memory speed beside them.
      offload = Bytes((4 + profile.weight_bytes) * local) / job.cluster.host_link;
      optimizer = Seconds(0);
    } else if (layout.offload == Offload::activations && job.cluster.host_link.raw() > 0) {
      const Bytes moved = (costs.dense_activations * static_cast<double>(group.content.dense) +
                           costs.moe_activations * static_cast<double>(group.content.moe));
      const Seconds copy = moved / job.cluster.host_link;
      offload = (max(Seconds(0), copy - stage.forward) + max(Seconds(0), copy - stage.backward)) * micro_batches;
    }
    const Seconds end = data_parallel + optimizer + offload;
    if (end > last_end) {
      last_end = end;
      const auto& c = stage.sums;
      auto& s = out.step;
      s.compute = (c.forward + c.backward) * micro_batches;
      s.recompute = c.recompute * micro_batches;
      s.tp_comm = (c.tp_forward + c.tp_backward) * micro_batches;
      s.cp_comm = (c.cp_forward + c.cp_backward) * micro_batches;
      s.ep_comm = (c.ep_forward + c.ep_backward) * micro_batches;
      s.host = (c.host_forward + c.host_backward) * micro_batches + Seconds(profile.step_fixed_s);
      s.pp_comm = transfers;
      s.dp_comm = data_parallel;
      s.bubble = max(Seconds(0), span - (stage.forward + stage.backward) * micro_batches);
      s.optimizer = optimizer;
      s.offload = offload;
    }
    const auto memory = stage_memory(job, layout, costs, group, stage_at(i), groups, micro_batches);
    if (memory.total > fullest) {
      fullest = memory.total;
      out.memory = memory.at;
    }
  }
  out.step.lower_bound = pipeline.slowest * micro_batches;
  const double layers_flops_scale = micro_batches / layout.pp;
  const int moe_layers = job.moe() ? job.moe_before.back() : 0;
  out.step.model_flops = (costs.model_flops_dense * static_cast<double>(job.model.layers - moe_layers) +
                          costs.model_flops_moe * static_cast<double>(moe_layers) + costs.model_flops_head) *
                         layers_flops_scale;
  out.step.step_error = profile.step_error;
  return out;
}

Estimate estimate(const Job& job, const Layout& layout) {
  return combine(job, layout, layer_costs(job, layer_key(layout)), pipeline_shape(job, layout.pp, layout.vpp));
}

Fits verdict(const MemoryEstimate& memory, double headroom) {
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
  const double peak = job.cluster.gpu.peak_of(job.training.precision).raw();
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
