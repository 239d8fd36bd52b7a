#include "cost-model/stage_cost.h"

#include <algorithm>

#include "cost-model/layer_sizes.h"
#include "cost-model/mixed.h"
#include "cost-model/peft.h"

namespace tpplan {
namespace {

constexpr std::array<OptimizerRow, 8> kOptimizers{{{Optimizer::adam, 12, 0},
                                                   {Optimizer::adamw, 12, 0},
                                                   {Optimizer::adam_8bit, 6.03125, -12},
                                                   {Optimizer::adam_bf16, 8, -8},
                                                   {Optimizer::sgd, 8, -8},
                                                   {Optimizer::muon, 8, 16},
                                                   {Optimizer::adafactor, 4, -8},
                                                   {Optimizer::lion, 8, -8}}};

/// Memory bandwidth of a host, assumed: two sockets of eight DDR4-3200 channels (409.6 GB/s), half of it reached.
constexpr BytesPerSecond kHostMemory{200e9};

/// DeepSpeed's third stage keeps a second copy of the weights inside small groups (ZeRO++ hpZ); other programs shard
/// all states inside the group and replicate across groups (HSDP).
bool second_copy(const Job& job, const Layout& layout) {
  const Framework framework = job.training.framework;
  return layout.zero >= 3 && layout.shard_group > 0 &&
         (framework == Framework::deepspeed || framework == Framework::megatron_deepspeed);
}

bool in_torch(const Job& job) {
  return job.training.framework == Framework::fsdp || job.training.framework == Framework::torchtitan;
}

}  // namespace

bool training_in_fp32(const Job& job) {
  return job.training.precision == Precision::fp32 || job.training.precision == Precision::tf32;
}

bool reduces_each(const Job& job, const Layout& layout) {
  if (layout.grad_reduce != GradReduce::by_framework) {
    return layout.grad_reduce == GradReduce::each;
  }
  return gathers_by_layer(job, layout) ? job.profile.unsynced_gradients < 0.5 : layout.zero == 2;
}

bool gathers_by_layer(const Job& job, const Layout& layout) {
  return layout.zero >= 3 || (layout.zero == 2 && in_torch(job));
}

bool keeps_gathered(const Job& job, const Layout& layout) { return layout.zero == 2 && in_torch(job); }

double gathered_layers(const Job& job) {
  return job.training.prefetch < 0 ? job.profile.fsdp_prefetch_layers : job.training.prefetch + 1.0;
}

const OptimizerRow& row_of(Optimizer optimizer) { return kOptimizers[static_cast<std::size_t>(optimizer)]; }

StateBytes state_bytes(const Job& job, Optimizer optimizer) {
  const auto& profile = job.profile;
  const double own = row_of(optimizer).state_bytes;
  StateBytes bytes;
  if (training_in_fp32(job)) {
    bytes = {4, 4, own - 4, 4};
  } else {
    bytes = {profile.weight_bytes, profile.gradient_bytes, profile.optimizer_state_bytes * own / 12,
             profile.gradient_wire_bytes};
  }
  if (job.training.gradient_bytes > 0) {
    bytes.gradient = job.training.gradient_bytes;
    bytes.wire = job.training.gradient_bytes;
  }
  return bytes;
}

Seconds optimizer_products(const Job& job, Optimizer optimizer, double matrix_params) {
  if (optimizer != Optimizer::muon) {
    return Seconds(0);
  }
  const auto rate =
      job.cluster.gpu.peak_of(wide_precision(job)) * (job.constants.power_factor * job.constants.gemm_16bit);
  return Flops(5 * 6.0 * job.model.hidden * matrix_params) / rate;
}

Seconds loss_scaling(const Job& job, const Layout& layout, double local) {
  if (job.training.precision != Precision::fp16 || layout.offload == Offload::optimizer) {
    return Seconds(0);
  }
  const Bytes gradients(std::max(2.0, state_bytes(job, layout.optimizer).gradient) * local);
  const auto world = std::min<std::int64_t>(layout.world(), job.cluster.gpus());
  return memory_time(job, gradients * 2.0, MemoryKind::plain) +
         collective_time(job, Collective::all_reduce, Bytes(4), place_group(job.cluster, static_cast<int>(world), 1)) +
         Seconds(2 * job.profile.launch_s);
}

OffloadedStates offloaded_states(const Job& job, const Layout& layout, double local) {
  OffloadedStates out;
  out.host = Bytes(state_bytes(job, layout.optimizer).optimizer * local);
  const auto& cluster = job.cluster;
  out.capacity = cluster.host_memory / std::max(1, cluster.gpus_per_node);
  if (out.capacity > Bytes(0) && out.host > out.capacity && cluster.storage_read.raw() > 0 &&
      cluster.storage_write.raw() > 0) {
    out.in_storage = out.host - out.capacity;
  }
  return out;
}

Seconds offloaded_update(const Job& job, const Layout& layout, double local) {
  const StateBytes bytes = state_bytes(job, layout.optimizer);
  const auto& cluster = job.cluster;
  const Seconds link = Bytes((bytes.gradient + bytes.weight) * local) / cluster.host_link;
  // States are read and written, gradients read and weights written; every GPU of a node at once.
  const BytesPerSecond host_rate = kHostMemory / static_cast<double>(std::max(1, cluster.gpus_per_node));
  const Seconds update = Bytes((2 * bytes.optimizer + bytes.gradient + bytes.weight) * local) / host_rate;
  const OffloadedStates states = offloaded_states(job, layout, local);
  Seconds storage(0);
  if (states.in_storage > Bytes(0)) {
    const double gpus = cluster.gpus();
    storage = states.in_storage * gpus / cluster.storage_read + states.in_storage * gpus / cluster.storage_write;
  }
  return max(max(link, update), storage);
}

double trained_share(const LayerCosts& costs, const StageContent& content) {
  const double layers = content.dense + content.moe;
  return content.embedding && layers > 0 ? std::max(0.0, layers - costs.untouched_layers) / layers : 1;
}

namespace {

/// What a layer costs beyond its forward pass.
PassCosts backward_alone(PassCosts costs) {
  for (Seconds PassCosts::*forward : {&PassCosts::forward, &PassCosts::tp_forward, &PassCosts::cp_forward,
                                      &PassCosts::ep_forward, &PassCosts::host_forward, &PassCosts::forward_launch}) {
    costs.*forward = Seconds(0);
  }
  return costs;
}

}  // namespace

StageCosts stage_costs(const LayerCosts& costs, const StageContent& content) {
  StageCosts out;
  const int layers = content.dense + content.moe;
  out.params = content.dense * costs.dense_params + content.moe * costs.moe_params + content.mtp * costs.mtp_params;
  out.expert_params = (content.moe + content.mtp) * costs.expert_params;
  out.adapters = content.dense * costs.dense_adapters + content.moe * costs.moe_adapters;
  out.quantised = content.dense * costs.dense_quantised + content.moe * costs.moe_quantised;
  // Full recomputation of so many layers of each chunk only.
  const double again = costs.recompute_layers > 0 && layers > 0
                           ? std::min(1.0, static_cast<double>(costs.recompute_layers) * content.chunks / layers)
                           : 1;
  out.sums = costs.dense * (content.dense * again);
  if (content.moe > 0) {
    out.sums += costs.moe * (content.moe * again);
  }
  if (again < 1) {
    out.sums += costs.dense_once * (content.dense * (1 - again));
    out.sums += costs.moe_once * (content.moe * (1 - again));
  }
  if (const double idle = (1 - trained_share(costs, content)) * layers; idle > 0) {
    // They are the first of the stage, as are those that are recomputed.
    const double idle_again = std::min(idle, again * layers);
    out.sums += backward_alone(content.dense > 0 ? costs.dense : costs.moe) * -idle_again;
    if (idle > idle_again) {
      out.sums += backward_alone(content.dense > 0 ? costs.dense_once : costs.moe_once) * (idle_again - idle);
    }
  }
  if (content.embedding) {
    out.sums += costs.embedding;
    out.params += costs.embedding_params;
  }
  if (content.head) {
    out.sums += costs.head;
  }
  if (content.mtp > 0) {
    out.sums += costs.mtp * content.mtp;
    out.params += content.embedding ? 0 : costs.embedding_params;
  }
  out.forward = out.sums.forward_total();
  out.backward = out.sums.backward_total();
  out.weight = out.sums.weight_gradient;
  return out;
}

DataGroups data_groups(const Job& job, const Layout& layout) {
  DataGroups groups;
  const int data_ranks = layout.dp * layout.cp * (layout.schedule == Schedule::dualpipe ? 2 : 1);
  const bool pipeline_inside = layout.ranks_order == RanksOrder::tp_cp_pp_dp;
  const int stride = layout.tp * (pipeline_inside ? layout.pp : 1);
  groups.dense = place_group(job.cluster, data_ranks, stride);
  const bool hierarchical = second_copy(job, layout);
  const int shard = layout.shard_group > 0 && !hierarchical ? std::min(layout.shard_group, data_ranks) : data_ranks;
  if (hierarchical) {
    groups.secondary = place_group(job.cluster, std::min(layout.shard_group, data_ranks), stride);
  }
  groups.dense_shard = shard == data_ranks ? groups.dense : place_group(job.cluster, shard, stride);
  groups.dense_replicas =
      shard == data_ranks ? GroupPlacement{} : place_group(job.cluster, data_ranks / shard, stride * shard);
  groups.dense_shards = shard;
  if (job.moe()) {
    // Experts that may span tp lie on a grid of their own; else ep divides dp x cp, and tp divides each expert or none.
    const bool spans = row_of(job.training.framework).experts_span_tp;
    const std::int64_t holders = spans ? std::int64_t{data_ranks} * layout.tp / (std::int64_t{layout.ep} * layout.etp)
                                       : std::int64_t{data_ranks} / layout.ep;
    const int edp = std::max(1, static_cast<int>(holders));
    const int expert_stride = layout.ep * (spans ? layout.etp : layout.tp);
    const int expert_shard = std::max(1, edp / std::max(1, data_ranks / shard));
    groups.expert = place_group(job.cluster, expert_shard, expert_stride);
    groups.expert_replicas = expert_shard == edp
                                 ? GroupPlacement{}
                                 : place_group(job.cluster, edp / expert_shard, expert_stride * expert_shard);
    groups.expert_shards = expert_shard;
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
  laws.expert_shard_ranks = groups.expert.ranks;
  laws.expert_reduce = collective_law(job, Collective::reduce_scatter, groups.expert);
  laws.expert_replicas = collective_law(job, Collective::all_reduce, groups.expert_replicas);
  if (layout.zero < 3) {
    const bool broadcasts = job.profile.owner_broadcast > 0.5;
    laws.gather = collective_law(job, broadcasts ? Collective::broadcast : Collective::all_gather, groups.dense_shard);
    laws.gather_rounds = broadcasts ? laws.shard_ranks : 1;
    laws.expert_gather = collective_law(job, Collective::all_gather, groups.expert);
  }
  return laws;
}

ShardingLaws sharding_laws(const Job& job, const Layout& layout) {
  ShardingLaws out;
  out.groups = data_groups(job, layout);
  if (!gathers_by_layer(job, layout)) {
    out.laws = data_parallel_laws(job, layout, out.groups);
  }
  return out;
}

bool ends_share_embedding(const Job& job, const Layout& layout) {
  return layout.pp > 1 && (job.model.tied_embeddings || job.model.mtp_layers > 0);
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
  if (ends_share_embedding(job, layout)) {
    laws.ends = collective_law(job, Collective::all_reduce, stage_pair(job, layout, layout.pp - 1));
  }
  return laws;
}

Seconds transfer_time(const Job& job, const Layout& layout, const LayerCosts& costs, const TransferLaws& laws) {
  if (job.profile.pp_scatter_gather > 0.5 && layout.tp > 1 && !layout.sequence_parallel) {
    return laws.neighbours.time(costs.boundary / layout.tp) + laws.gather.time(costs.boundary);
  }
  return laws.neighbours.time(costs.boundary);
}

DataParallelTimes data_parallel_times(const Job& job, const DataParallelLaws& laws, double params,
                                      double expert_params) {
  const StateBytes state = state_bytes(job, Optimizer::adam);
  const double wire = state.wire;
  const double weight = state.weight;
  DataParallelTimes t;
  t.reduce = laws.reduce.time(Bytes(params * wire)) + laws.replicas.time(Bytes(params * wire) / laws.shard_ranks) +
             laws.expert_reduce.time(Bytes(expert_params * wire)) +
             laws.expert_replicas.time(Bytes(expert_params * wire) / laws.expert_shard_ranks);
  t.gather = laws.gather.time(Bytes(params * weight) / laws.gather_rounds) * laws.gather_rounds +
             laws.expert_gather.time(Bytes(expert_params * weight));
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
  const double held_bytes = training_in_fp32(job) ? 4 : 2;
  const double packed =
      stage.quantised > 0 ? quantised_weight_bytes(job.training.double_quantisation) * stage.quantised : 0;
  const double gather_bytes = stage.quantised > 0 ? (packed + 2 * (layer_params * layers - stage.quantised)) /
                                                        std::max(1.0, layer_params * layers)
                                                  : held_bytes;
  const double wire = state_bytes(job, Optimizer::adam).wire;
  const CollectiveLaw gather_law = collective_law(job, Collective::all_gather, groups.dense_shard);
  const CollectiveLaw scatter_law = collective_law(job, Collective::reduce_scatter, groups.dense_shard);
  const CollectiveLaw replicas_law = collective_law(job, Collective::all_reduce, groups.dense_replicas);
  const CollectiveLaw again_law =
      groups.secondary.ranks > 1 ? collective_law(job, Collective::all_gather, groups.secondary) : gather_law;
  const auto gather = [&](double params, double bytes) { return gather_law.time(Bytes(params * bytes)); };
  const auto scatter = [&](double params) {
    return scatter_law.time(Bytes(params * wire)) + replicas_law.time(Bytes(params * wire / groups.dense_shards));
  };
  times.layer_gather = gather(layer_params, gather_bytes);
  times.layer_gather_again = again_law.time(Bytes(layer_params * gather_bytes));
  times.layer_scatter = scatter(costs.frozen ? stage.adapters / layers : layer_params);
  times.root_gather = gather(root_params, held_bytes);
  times.root_scatter = scatter(costs.frozen ? (content.head ? costs.head_adapters : 0) : root_params);
  if (content.moe > 0 && groups.expert.ranks > 1) {
    const double params = costs.expert_params * content.moe / layers;
    times.expert_gather = collective_time(job, Collective::all_gather, Bytes(params * gather_bytes), groups.expert);
    if (!costs.frozen) {
      times.expert_scatter = collective_time(job, Collective::reduce_scatter, Bytes(params * wire), groups.expert) +
                             collective_time(job, Collective::all_reduce, Bytes(params * wire / groups.expert_shards),
                                             groups.expert_replicas);
    }
  }
  return times;
}

Seconds fsdp_exposed(const Job& job, const Layout& layout, const LayerCosts& costs, const StageContent& content,
                     const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  const double layers = content.dense + content.moe;
  if (layers < 1 || groups.dense_shard.ranks <= 1) {
    return Seconds(0);
  }
  const FsdpTimes t = fsdp_times(job, costs, content, stage, groups);
  const double share = job.profile.fsdp_overlap_cost;
  const bool ahead = job.training.prefetch != 0;
  const double again = keeps_gathered(job, layout) ? 0 : layers;
  const double reductions = reduces_each(job, layout) ? micro_batches : 1;
  const Seconds forward_gather = (t.layer_gather + t.expert_gather) * layers;
  const Seconds backward_gather = (t.layer_gather_again + t.expert_gather) * again;
  const Seconds backward_scatter = (t.layer_scatter + t.expert_scatter) * layers;
  const Seconds forward = ahead ? beside(stage.forward, forward_gather, share) : forward_gather;
  const Seconds backward_reduced = ahead ? beside(stage.backward, backward_gather + backward_scatter, share)
                                         : backward_gather + beside(stage.backward, backward_scatter, share);
  const Seconds backward_plain = ahead ? beside(stage.backward, backward_gather, share) : backward_gather;
  // The first gather and the last scatter of a pass have nothing to hide behind, nor has the root unit.
  const Seconds ends = t.root_gather + (ahead ? t.layer_gather : Seconds(0));
  return (forward + ends) * micro_batches + backward_reduced * reductions +
         backward_plain * (micro_batches - reductions) + (t.layer_scatter + t.root_scatter) * reductions;
}

}  // namespace tpplan
