#include "cost-model/estimate.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

bool switched_on(Switch choice, double habit) { return choice == Switch::by_profile ? habit > 0.5 : choice == Switch::on; }

/// Bytes of optimizer state per parameter relative to Adam with fp32 master, momentum and variance (12).
struct OptimizerRow {
  Optimizer optimizer;
  double state_bytes;    ///< resident per parameter, master weights included
  double traffic_bytes;  ///< read and written per parameter and step beyond Adam's
};
constexpr std::array<OptimizerRow, 8> kOptimizers{{{Optimizer::adam, 12, 0},
                                                   {Optimizer::adamw, 12, 0},
                                                   {Optimizer::adam_8bit, 6, -12},
                                                   {Optimizer::adam_bf16, 8, -8},
                                                   {Optimizer::sgd, 8, -8},
                                                   {Optimizer::muon, 8, 16},
                                                   {Optimizer::adafactor, 4.1, -8},
                                                   {Optimizer::lion, 8, -8}}};

const OptimizerRow& row_of(Optimizer optimizer) { return kOptimizers[static_cast<std::size_t>(optimizer)]; }

/// Micro-batches (in units of all layers of the rank) whose activations rank r holds at once.
double in_flight(Schedule schedule, int pp, int vpp, int rank, double micro_batches) {
  const double p = pp;
  const double v = vpp;
  const double r = rank;
  switch (schedule) {
    case Schedule::gpipe:
      return micro_batches;
    case Schedule::interleaved: {
      const double chunks = std::min(2 * (p - r - 1) + (v - 1) * p + 1, micro_batches * v);
      return chunks / v;
    }
    case Schedule::zb_1p:
    case Schedule::zb_v:
      return std::min(p, micro_batches);
    case Schedule::zb_h2:
      return std::min(2 * (p - r) - 1, micro_batches);
    case Schedule::zb_2p:
      return std::min(2 * p - 1, micro_batches);
    case Schedule::dualpipe:
      return std::min(p + 1, micro_batches);
    default:
      return std::min(p - r, micro_batches);
  }
}

/// Idle time of a pipeline rank over a step: `others` sums the stages beyond the slowest one.
struct PipelineTimes {
  Seconds forward_sum, backward_sum, weight_sum;  ///< over stages, per micro-batch; backward includes the weight part
  Seconds slowest, slowest_forward, slowest_backward, slowest_weight;
};

Seconds pipeline_time(Schedule schedule, int pp, int vpp, double micro_batches, const PipelineTimes& t) {
  const Seconds sum = t.forward_sum + t.backward_sum;
  const Seconds others = sum - t.slowest;
  const Seconds busy = t.slowest * micro_batches;
  if (pp == 1) {
    return busy;
  }
  const Seconds other_weight = t.weight_sum - t.slowest_weight;
  // Down and up again of the first micro-batch through the other stages, weight gradients left for later.
  const Seconds round_trip = others - other_weight;
  // A rank fills that time with the forward passes of later micro-batches, as far as there are any.
  const Seconds unfilled = max(Seconds(0), round_trip - t.slowest_forward * (micro_batches - 1));
  switch (schedule) {
    case Schedule::interleaved:
      return busy + others / static_cast<double>(vpp);
    case Schedule::zb_h1:
    case Schedule::zb_1p:
      return busy + max(round_trip - other_weight, unfilled);
    case Schedule::zb_h2:
    case Schedule::zb_2p:
    case Schedule::zb_v:
      return busy + unfilled;
    case Schedule::dualpipe: {
      // (p/2 - 1)(F&B + B - 3W), B here the whole backward pass (DeepSeek-V3 report, table 2).
      const Seconds fb = t.slowest;
      return busy + max(Seconds(0), (fb + t.slowest_backward - t.slowest_weight * 3.0) * (pp / 2.0 - 1));
    }
    default:
      return busy + others;
  }
}

struct StageCosts {
  double params = 0;         ///< dense parameters of the rank
  double expert_params = 0;
  Seconds forward, backward, weight;
  PassCosts sums;            ///< of the rank's layers and ends, one micro-batch
  Seconds fsdp;              ///< exposed FSDP collectives of the step
};

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

/// Full recompute of only n layers per stage: the others keep everything and run once.
struct RecomputeSplit {
  double share = 1;  ///< layers recomputed over layers of the rank
};

StageCosts stage_costs(const LayerCosts& costs, const StageContent& content) {
  StageCosts out;
  out.params = content.dense * costs.dense_params + content.moe * costs.moe_params;
  out.expert_params = content.moe * costs.expert_params;
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

/// Groups over which gradients are reduced and states sharded.
struct DataGroups {
  GroupPlacement dense;        ///< dp x cp
  GroupPlacement dense_shard;  ///< ranks that share ZeRO states
  GroupPlacement dense_replicas;
  GroupPlacement expert;
  double dense_shards = 1, expert_shards = 1;
};

DataGroups data_groups(const Job& job, const Layout& layout) {
  DataGroups groups;
  const int data_ranks = layout.dp * layout.cp;
  const bool pipeline_inside = layout.ranks_order == RanksOrder::tp_cp_pp_dp;
  const int stride = layout.tp * (pipeline_inside ? layout.pp : 1);
  groups.dense = place_group(job.cluster, data_ranks, stride);
  const int shard = layout.shard_group > 0 ? std::min(layout.shard_group, data_ranks) : data_ranks;
  groups.dense_shard = shard == data_ranks ? groups.dense : place_group(job.cluster, shard, stride);
  groups.dense_replicas = shard == data_ranks ? GroupPlacement{} : place_group(job.cluster, data_ranks / shard, stride * shard);
  groups.dense_shards = shard;
  if (job.moe()) {
    const int edp = std::max(1, static_cast<int>(std::int64_t{data_ranks} * layout.tp /
                                                 (std::int64_t{layout.ep} * layout.etp)));
    groups.expert = place_group(job.cluster, edp, layout.ep * layout.etp);
    groups.expert_shards = edp;
  }
  return groups;
}

struct DataParallelTimes {
  Seconds reduce;   ///< gradients, isolated
  Seconds gather;   ///< parameters, isolated (ZeRO-1/2)
};

DataParallelTimes data_parallel_times(const Job& job, const Layout& layout, const StageCosts& stage,
                                      const DataGroups& groups) {
  DataParallelTimes t;
  const double wire = job.profile.gradient_wire_bytes;
  const double weight = job.profile.weight_bytes;
  const auto add = [&](double params, GroupPlacement all, GroupPlacement shard, GroupPlacement replicas) {
    if (params <= 0) {
      return;
    }
    const Bytes gradients(params * wire);
    if (layout.zero == 0) {
      t.reduce += collective_time(job, Collective::all_reduce, gradients, all);
      return;
    }
    t.reduce += collective_time(job, Collective::reduce_scatter, gradients, shard);
    if (replicas.ranks > 1) {
      t.reduce += collective_time(job, Collective::all_reduce, gradients / static_cast<double>(shard.ranks), replicas);
    }
    if (layout.zero < 3) {
      t.gather += collective_time(job, Collective::all_gather, Bytes(params * weight), shard);
    }
  };
  add(stage.params, groups.dense, groups.dense_shard, groups.dense_replicas);
  add(stage.expert_params, groups.expert, groups.expert, GroupPlacement{});
  return t;
}

/// Exposed cost of collectives that run beside compute: slowed compute plus what sticks out.
Seconds beside(Seconds compute, Seconds communication, double share) {
  return min(compute, communication) * share + max(Seconds(0), communication - compute);
}

/// FSDP (ZeRO-3): per micro-batch gathers forward and backward and a reduce-scatter, prefetched beside the layers.
Seconds fsdp_exposed(const Job& job, const LayerCosts& costs, const StageContent& content,
                     const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  const double gather_bytes = 2;
  const double layers = content.dense + content.moe;
  if (layers < 1 || groups.dense_shard.ranks <= 1) {
    return Seconds(0);
  }
  const double layer_params = (content.dense * costs.dense_params + content.moe * costs.moe_params) / layers;
  const double root_params = stage.params - layer_params * layers + (content.head && !job.model.tied_embeddings ? costs.head_params : 0);
  const auto gather = [&](double params) {
    return collective_time(job, Collective::all_gather, Bytes(params * gather_bytes), groups.dense_shard);
  };
  const auto scatter = [&](double params) {
    Seconds t = collective_time(job, Collective::reduce_scatter, Bytes(params * job.profile.gradient_wire_bytes),
                                groups.dense_shard);
    if (groups.dense_replicas.ranks > 1) {
      t += collective_time(job, Collective::all_reduce,
                           Bytes(params * job.profile.gradient_wire_bytes / groups.dense_shards), groups.dense_replicas);
    }
    return t;
  };
  const Seconds layer_gather = gather(layer_params);
  const Seconds layer_scatter = scatter(layer_params);
  Seconds expert_gather(0);
  Seconds expert_scatter(0);
  if (content.moe > 0 && groups.expert.ranks > 1) {
    const double params = costs.expert_params * content.moe / layers;
    expert_gather = collective_time(job, Collective::all_gather, Bytes(params * gather_bytes), groups.expert);
    expert_scatter = collective_time(job, Collective::reduce_scatter, Bytes(params * job.profile.gradient_wire_bytes),
                                     groups.expert);
  }
  const Seconds root_gather = gather(root_params);
  const double share = job.profile.fsdp_overlap_cost;
  const bool every = job.profile.unsynced_gradients < 0.5;
  const double reductions = every ? micro_batches : 1;
  const Seconds forward = beside(stage.forward, (layer_gather + expert_gather) * layers, share);
  const Seconds backward_gather = (layer_gather + expert_gather) * layers;
  const Seconds backward_scatter = (layer_scatter + expert_scatter) * layers;
  const Seconds backward_reduced = beside(stage.backward, backward_gather + backward_scatter, share);
  const Seconds backward_plain = beside(stage.backward, backward_gather, share);
  // The first gather and the last scatter of a pass have nothing to hide behind, nor has the root unit.
  const Seconds ends = root_gather + layer_gather;
  return (forward + ends) * micro_batches + backward_reduced * reductions + backward_plain * (micro_batches - reductions) +
         (layer_scatter + scatter(root_params)) * reductions;
}

struct StageMemory {
  MemoryEstimate at;
  Bytes total;
};

Bytes gib(double value) { return Bytes(value * 1073741824.0); }

StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches) {
  const auto& profile = job.profile;
  const auto& content = group.content;
  StageMemory out;
  auto& m = out.at;
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
  const double state = profile.optimizer_state_bytes * row_of(layout.optimizer).state_bytes / 12;
  const bool fsdp = layout.zero >= 3;
  if (fsdp) {
    m.optimizer = Bytes(state * sharded_params);
    m.gradients = Bytes(4 * sharded_params);
    const double layers = content.dense + content.moe;
    const double layer_params = layers > 0 ? (params - (content.embedding ? costs.embedding_params : 0) -
                                              (own_head ? costs.head_params : 0)) / layers : 0;
    const double root = (content.embedding ? costs.embedding_params : 0) + (own_head ? costs.head_params : 0);
    m.gathered = Bytes(2 * root + 2 * profile.fsdp_prefetch_layers * layer_params);
    if (profile.unsynced_gradients > 0.5 && micro_batches > 1) {
      m.gradients = Bytes(4 * params);
    } else if (micro_batches <= 1) {
      m.gradients = Bytes(0);  // freed before the forward pass, made again as the backward pass goes
    }
  } else {
    m.weights = Bytes(profile.weight_bytes * params);
    const bool divided = layout.zero >= 2 || (layout.zero == 1 && profile.shards_gradients > 0.5);
    m.gradients = Bytes(profile.gradient_bytes * (divided ? sharded_params : params) +
                        profile.sharded_gradient_bytes * sharded_params +
                        (job.training.precision == Precision::bf16 ? profile.bf16_gradient_bytes * params : 0) +
                        (layout.dp > 1 ? profile.bucket_bytes * params : 0));
    m.optimizer = Bytes(state * sharded_params);
  }
  if (layout.offload == Offload::optimizer) {
    m.host_bytes = m.optimizer;
    m.optimizer = Bytes(0);
  }
  m.workspace = gib(profile.workspace_gib) + costs.dummy_gradients + (content.head ? costs.head_dummy_gradient : Bytes(0));
  const double constant = profile.constant_gib + (layout.tp > 1 ? profile.constant_tp_gib : 0);
  m.workspace += gib(constant);

  const double held = in_flight(layout.schedule, layout.pp, layout.vpp, group.first_rank, micro_batches);
  // Full recomputation of n layers per stage only: the others keep the whole list.
  const double layers = std::max(1, content.dense + content.moe);
  const double recomputed = layout.recompute == RecomputeKind::full && layout.recompute_layers > 0
                                ? std::min<double>(1, layout.recompute_layers * static_cast<double>(layout.vpp) / layers)
                                : 1;
  const auto per_micro_batch = [&](Bytes kept_dense, Bytes kept_moe) {
    return kept_dense * static_cast<double>(content.dense) + kept_moe * static_cast<double>(content.moe);
  };
  const Bytes one = per_micro_batch(costs.dense_activations, costs.moe_activations) * recomputed +
                    per_micro_batch(costs.dense_activations_all, costs.moe_activations_all) * (1 - recomputed);
  Bytes activations = one * held;
  if (layout.offload == Offload::activations) {
    m.host_bytes += activations;
    activations = per_micro_batch(costs.dense_activations, costs.moe_activations) * (2.0 / layers);
    m.host_bytes = max(Bytes(0), m.host_bytes - activations);
  }
  if (layout.pp > 1) {
    m.communication = costs.boundary * 4.0 + costs.layer_input * (profile.stage_buffer_bytes / 2 * held);
  }
  const bool full = layout.recompute == RecomputeKind::full;
  const Bytes whole_layer = content.moe > 0 ? max(costs.moe_activations_all, costs.dense_activations_all)
                                            : costs.dense_activations_all;
  const Bytes backward = costs.backward_transient + (full ? whole_layer : Bytes(0));
  const Bytes at_loss = content.head ? costs.head_activations + costs.loss_transient : Bytes(0);
  const Bytes embedding_gradient = content.embedding || content.head
                                       ? Bytes((fsdp ? 4 : 2) * costs.embedding_params)
                                       : Bytes(0);
  const Bytes at_end = embedding_gradient - one;
  const std::array<Bytes, 3> extra{at_loss, backward, at_end};
  std::size_t worst = 0;
  for (std::size_t i = 1; i < extra.size(); ++i) {
    if (extra[i] > extra[worst]) {
      worst = i;
    }
  }
  m.moment = static_cast<std::uint8_t>(worst);
  m.activations = activations;
  if (worst == 0) {
    m.loss = at_loss;
  } else if (worst == 1) {
    m.activations += backward;
  } else {
    m.activations = max(Bytes(0), activations - one);
    m.gathered += embedding_gradient;
  }
  const Bytes allocated = m.allocated();
  m.allocator_slack = allocated * (profile.reserved_factor - 1) +
                      (content.head ? costs.loss_transient : Bytes(0)) * profile.reserved_loss_factor;
  if (fsdp && profile.fsdp_gradient_pool > 0.5 && micro_batches <= 1) {
    m.allocator_slack += Bytes(4 * sharded_params);
  }
  m.context = gib(profile.context_gib + (layout.pp > 1 ? profile.context_p2p_gib : 0));
  m.error = profile.memory_error;
  out.total = m.total();
  return out;
}

}  // namespace

namespace {

/// Layers per stage where blocks are dealt out by cost, the head counting as its share of a layer's weights: a stage
/// takes blocks until the running cost exceeds (stage + 1) / pp of the whole (nanotron's rule).
std::vector<int> layers_by_cost(const Job& job, int stages) {
  const int layers = job.model.layers;
  const double layer = static_cast<double>(job.dense_layer.total());
  const double head = static_cast<double>(job.model.vocab) * job.model.hidden;
  const double total = layers * layer + head;
  std::vector<int> out(static_cast<std::size_t>(stages), 0);
  double cost = 0;
  int stage = 0;
  for (int i = 0; i < layers; ++i) {
    ++out[static_cast<std::size_t>(stage)];
    cost += layer;
    if (stage + 1 < stages && cost > total * (stage + 1) / stages) {
      ++stage;
    }
  }
  return out;
}

}  // namespace

PipelineShape pipeline_shape(const Job& job, int pp, int vpp) {
  PipelineShape shape;
  shape.pp = pp;
  shape.vpp = vpp;
  const int layers = job.model.layers;
  const int virtual_stages = pp * vpp;
  const auto by_cost = job.training.framework == Framework::nanotron && job.training.layers_per_stage.empty() && pp > 1
                           ? layers_by_cost(job, virtual_stages)
                           : std::vector<int>{};
  const auto& given = by_cost.empty() ? job.training.layers_per_stage : by_cost;
  const bool by_user = static_cast<int>(given.size()) == pp || static_cast<int>(given.size()) == virtual_stages;
  std::vector<StageContent> ranks(static_cast<std::size_t>(pp));
  int begin = 0;
  for (int stage = 0; stage < virtual_stages; ++stage) {
    int count = 0;
    if (by_user && static_cast<int>(given.size()) == virtual_stages) {
      count = given[static_cast<std::size_t>(stage)];
    } else if (by_user) {
      count = stage_layers(given[static_cast<std::size_t>(stage % pp)], vpp, stage / pp);
    } else {
      count = stage_layers(layers, virtual_stages, stage);
    }
    const int end = std::min(layers, begin + count);
    auto& rank = ranks[static_cast<std::size_t>(stage % pp)];
    const int moe = job.moe_in(begin, end);
    rank.moe += moe;
    rank.dense += end - begin - moe;
    begin = end;
  }
  ranks.front().embedding = true;
  ranks.back().head = true;
  for (int rank = 0; rank < pp; ++rank) {
    const auto& content = ranks[static_cast<std::size_t>(rank)];
    shape.layers_per_stage.push_back(content.dense + content.moe);
    const auto same = std::find_if(shape.groups.begin(), shape.groups.end(),
                                   [&](const StageGroup& group) { return group.content == content; });
    if (same != shape.groups.end()) {
      ++same->count;
    } else {
      shape.groups.push_back({content, rank, 1});
    }
  }
  return shape;
}

Estimate combine(const Job& job, const Layout& layout, const LayerCosts& costs, const PipelineShape& shape) {
  const auto& profile = job.profile;
  const auto& training = job.training;
  const double micro_batches = static_cast<double>(training.global_batch) /
                               (static_cast<double>(layout.dp) * layout.micro_batch);
  const auto groups = data_groups(job, layout);

  PipelineTimes pipeline;
  for (const auto& group : shape.groups) {
    const auto stage = stage_costs(costs, group.content);
    const double n = group.count;
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
    const int stride = layout.ranks_order == RanksOrder::tp_cp_pp_dp
                           ? layout.tp * layout.cp
                           : layout.tp * layout.cp * layout.dp;
    const auto neighbours = place_group(job.cluster, 2, stride);
    const bool parts = profile.pp_scatter_gather > 0.5 && layout.tp > 1 && !layout.sequence_parallel;
    Seconds hop = collective_time(job, Collective::send_recv, parts ? costs.boundary / layout.tp : costs.boundary,
                                  neighbours);
    if (parts) {
      hop += collective_time(job, Collective::all_gather, costs.boundary, place_group(job.cluster, layout.tp, 1));
    }
    const bool overlapped = layout.schedule == Schedule::interleaved &&
                            switched_on(training.overlap_pp, profile.pp_overlap_default);
    const double per_micro_batch = overlapped ? profile.pp_exposed_overlapped * layout.vpp
                                              : profile.pp_exposed_transfers * layout.vpp;
    transfers = hop * (per_micro_batch * micro_batches + 2.0 * (layout.pp - 1));
  }

  Estimate out;
  Seconds last_end(-1);
  Bytes fullest(-1);
  const bool reduce_beside = switched_on(training.overlap_dp_grad, profile.dp_overlap_default);
  const bool gather_beside = switched_on(training.overlap_dp_param, profile.dp_overlap_default);
  for (const auto& group : shape.groups) {
    auto stage = stage_costs(costs, group.content);
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
      data_parallel = (reduce_beside ? beside(stage.backward, t.reduce, profile.dp_overlap_cost) : t.reduce) * reductions;
      data_parallel += gather_beside ? beside(stage.forward, t.gather, profile.dp_overlap_cost) : t.gather;
    }
    if (job.model.tied_embeddings && layout.pp > 1 && (group.content.embedding || group.content.head)) {
      const int stride = layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp
                                                                       : layout.tp * layout.cp * layout.dp;
      data_parallel += collective_time(job, Collective::all_reduce, Bytes(costs.embedding_params * profile.gradient_wire_bytes),
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
    const auto memory = stage_memory(job, layout, costs, group, stage_costs(costs, group.content), groups, micro_batches);
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
