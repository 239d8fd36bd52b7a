#include "cost-model/stage_cost.h"

#include <algorithm>

#include "cost-model/mixed.h"
#include "cost-model/peft.h"

namespace tpplan {
namespace {

constexpr std::array<OptimizerRow, 8> kOptimizers{{{Optimizer::adam, 12, 0},
                                                   {Optimizer::adamw, 12, 0},
                                                   {Optimizer::adam_8bit, 6, -12},
                                                   {Optimizer::adam_bf16, 8, -8},
                                                   {Optimizer::sgd, 8, -8},
                                                   {Optimizer::muon, 8, 16},
                                                   {Optimizer::adafactor, 4.1, -8},
                                                   {Optimizer::lion, 8, -8}}};

PassCosts scaled(const PassCosts& c, double n) {
  PassCosts out;
  out.forward = c.forward * n;
  out.backward = c.backward * n;
  out.weight_gradient = c.weight_gradient * n;
  out.recompute = c.recompute * n;
  out.tp_forward = c.tp_forward * n;
  out.tp_backward = c.tp_backward * n;
  out.cp_forward = c.cp_forward * n;
  out.cp_backward = c.cp_backward * n;
  out.ep_forward = c.ep_forward * n;
  out.ep_backward = c.ep_backward * n;
  out.host_forward = c.host_forward * n;
  out.host_backward = c.host_backward * n;
  return out;
}

void accumulate(PassCosts& sum, const PassCosts& c) {
  sum.forward += c.forward;
  sum.backward += c.backward;
  sum.weight_gradient += c.weight_gradient;
  sum.recompute += c.recompute;
  sum.tp_forward += c.tp_forward;
  sum.tp_backward += c.tp_backward;
  sum.cp_forward += c.cp_forward;
  sum.cp_backward += c.cp_backward;
  sum.ep_forward += c.ep_forward;
  sum.ep_backward += c.ep_backward;
  sum.host_forward += c.host_forward;
  sum.host_backward += c.host_backward;
}

}  // namespace

const OptimizerRow& row_of(Optimizer optimizer) { return kOptimizers[static_cast<std::size_t>(optimizer)]; }

StageCosts stage_costs(const LayerCosts& costs, const StageContent& content) {
  StageCosts out;
  out.params = content.dense * costs.dense_params + content.moe * costs.moe_params;
  out.expert_params = content.moe * costs.expert_params;
  out.adapters = content.dense * costs.dense_adapters + content.moe * costs.moe_adapters;
  out.quantised = content.dense * costs.dense_quantised + content.moe * costs.moe_quantised;
  out.sums = scaled(costs.dense, content.dense);
  if (content.moe > 0) {
    accumulate(out.sums, scaled(costs.moe, content.moe));
  }
  if (content.embedding) {
    accumulate(out.sums, costs.embedding);
    out.params += costs.embedding_params;
  }
  if (content.head) {
    accumulate(out.sums, costs.head);
  }
  out.forward = out.sums.forward_total();
  out.backward = out.sums.backward_total();
  out.weight = out.sums.weight_gradient;
  return out;
}

DataGroups data_groups(const Job& job, const Layout& layout) {
  DataGroups groups;
  const int data_ranks = layout.dp * layout.cp;
  const bool pipeline_inside = layout.ranks_order == RanksOrder::tp_cp_pp_dp;
  const int stride = layout.tp * (pipeline_inside ? layout.pp : 1);
  groups.dense = place_group(job.cluster, data_ranks, stride);
  const int shard = layout.shard_group > 0 ? std::min(layout.shard_group, data_ranks) : data_ranks;
  groups.dense_shard = shard == data_ranks ? groups.dense : place_group(job.cluster, shard, stride);
  groups.dense_replicas =
      shard == data_ranks ? GroupPlacement{} : place_group(job.cluster, data_ranks / shard, stride * shard);
  groups.dense_shards = shard;
  if (job.moe()) {
    const int edp =
        std::max(1, static_cast<int>(std::int64_t{data_ranks} * layout.tp / (std::int64_t{layout.ep} * layout.etp)));
    groups.expert = place_group(job.cluster, edp, layout.ep * layout.etp);
    groups.expert_shards = edp;
  }
  return groups;
}

DataParallelLaws data_parallel_laws(const Job& job, const Layout& layout, const DataGroups& groups) {
  DataParallelLaws laws;
  if (layout.zero == 0) {
    laws.reduce = collective_law(job, Collective::all_reduce, groups.dense);
    laws.expert_reduce = collective_law(job, Collective::all_reduce, groups.expert);
    return laws;
  }
  laws.shard_ranks = groups.dense_shard.ranks;
  laws.reduce = collective_law(job, Collective::reduce_scatter, groups.dense_shard);
  laws.replicas = collective_law(job, Collective::all_reduce, groups.dense_replicas);
  laws.expert_reduce = collective_law(job, Collective::reduce_scatter, groups.expert);
  if (layout.zero < 3) {
    laws.gather = collective_law(job, Collective::all_gather, groups.dense_shard);
    laws.expert_gather = collective_law(job, Collective::all_gather, groups.expert);
  }
  return laws;
}

ShardingLaws sharding_laws(const Job& job, const Layout& layout) {
  ShardingLaws out;
  out.groups = data_groups(job, layout);
  if (layout.zero < 3) {
    out.laws = data_parallel_laws(job, layout, out.groups);
  }
  return out;
}

GroupPlacement stage_pair(const Job& job, const Layout& layout, int distance) {
  const int stride =
      layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp : layout.tp * layout.cp * layout.dp;
  if (stages_keep_to_parts(job, layout)) {
    return {2, stride * distance, 1, job.cluster.tiers.size() - 1};
  }
  return place_group(job.cluster, 2, stride * distance);
}

TransferLaws transfer_laws(const Job& job, const Layout& layout) {
  TransferLaws laws;
  if (layout.pp == 1) {
    return laws;
  }
  laws.neighbours = collective_law(job, Collective::send_recv, stage_pair(job, layout, 1));
  if (job.profile.pp_scatter_gather > 0.5) {
    laws.gather = collective_law(job, Collective::all_gather, place_group(job.cluster, layout.tp, 1));
  }
  if (job.model.tied_embeddings) {
    laws.ends = collective_law(job, Collective::all_reduce, stage_pair(job, layout, layout.pp - 1));
  }
  return laws;
}

DataParallelTimes data_parallel_times(const Job& job, const DataParallelLaws& laws, double params,
                                      double expert_params) {
  const double wire = job.profile.gradient_wire_bytes;
  const double weight = job.profile.weight_bytes;
  DataParallelTimes t;
  t.reduce = laws.reduce.time(Bytes(params * wire)) + laws.replicas.time(Bytes(params * wire) / laws.shard_ranks) +
             laws.expert_reduce.time(Bytes(expert_params * wire));
  t.gather = laws.gather.time(Bytes(params * weight)) + laws.expert_gather.time(Bytes(expert_params * weight));
  return t;
}

DataParallelTimes data_parallel_times(const Job& job, const Layout& layout, const StageCosts& stage,
                                      const DataGroups& groups) {
  return data_parallel_times(job, data_parallel_laws(job, layout, groups), stage.params, stage.expert_params);
}

FsdpTimes fsdp_times(const Job& job, const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                     const DataGroups& groups) {
  FsdpTimes times;
  const double layers = content.dense + content.moe;
  if (layers < 1 || groups.dense_shard.ranks <= 1) {
    return times;
  }
  const double layer_params = (content.dense * costs.dense_params + content.moe * costs.moe_params) / layers;
  const double root_params =
      stage.params - layer_params * layers + (content.head && !job.model.tied_embeddings ? costs.head_params : 0);
  // Frozen weights travel as they are held, 4-bit ones packed, and have no gradients.
  const double packed =
      stage.quantised > 0 ? quantised_weight_bytes(job.training.double_quantisation) * stage.quantised : 0;
  const double gather_bytes = stage.quantised > 0 ? (packed + 2 * (layer_params * layers - stage.quantised)) /
                                                        std::max(1.0, layer_params * layers)
                                                  : 2;
  const double wire = job.profile.gradient_wire_bytes;
  const CollectiveLaw gather_law = collective_law(job, Collective::all_gather, groups.dense_shard);
  const CollectiveLaw scatter_law = collective_law(job, Collective::reduce_scatter, groups.dense_shard);
  const CollectiveLaw replicas_law = collective_law(job, Collective::all_reduce, groups.dense_replicas);
  const auto gather = [&](double params, double bytes) { return gather_law.time(Bytes(params * bytes)); };
  const auto scatter = [&](double params) {
    return scatter_law.time(Bytes(params * wire)) + replicas_law.time(Bytes(params * wire / groups.dense_shards));
  };
  times.layer_gather = gather(layer_params, gather_bytes);
  times.layer_scatter = scatter(costs.frozen ? stage.adapters / layers : layer_params);
  times.root_gather = gather(root_params, 2);
  times.root_scatter = scatter(costs.frozen ? (content.head ? costs.head_adapters : 0) : root_params);
  if (content.moe > 0 && groups.expert.ranks > 1) {
    const double params = costs.expert_params * content.moe / layers;
    times.expert_gather = collective_time(job, Collective::all_gather, Bytes(params * gather_bytes), groups.expert);
    if (!costs.frozen) {
      times.expert_scatter = collective_time(job, Collective::reduce_scatter, Bytes(params * wire), groups.expert);
    }
  }
  return times;
}

Seconds fsdp_exposed(const Job& job, const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                     const DataGroups& groups, double micro_batches) {
  const double layers = content.dense + content.moe;
  if (layers < 1 || groups.dense_shard.ranks <= 1) {
    return Seconds(0);
  }
  const FsdpTimes t = fsdp_times(job, costs, content, stage, groups);
  const double share = job.profile.fsdp_overlap_cost;
  const bool every = job.profile.unsynced_gradients < 0.5;
  const double reductions = every ? micro_batches : 1;
  const Seconds forward = beside(stage.forward, (t.layer_gather + t.expert_gather) * layers, share);
  const Seconds backward_gather = (t.layer_gather + t.expert_gather) * layers;
  const Seconds backward_scatter = (t.layer_scatter + t.expert_scatter) * layers;
  const Seconds backward_reduced = beside(stage.backward, backward_gather + backward_scatter, share);
  const Seconds backward_plain = beside(stage.backward, backward_gather, share);
  // The first gather and the last scatter of a pass have nothing to hide behind, nor has the root unit.
  const Seconds ends = t.root_gather + t.layer_gather;
  return (forward + ends) * micro_batches + backward_reduced * reductions +
         backward_plain * (micro_batches - reductions) + (t.layer_scatter + t.root_scatter) * reductions;
}

}  // namespace tpplan
