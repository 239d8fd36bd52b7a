#include "cost-model/pipeline.h"

#include <algorithm>

#include "cost-model/mixed.h"

namespace tpplan {

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
    case Schedule::zb_h1:
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

PipelineShape pipeline_shape(const Job& job, const Layout& layout) {
  return stages_keep_to_parts(job, layout) ? mixed_shape(job, layout) : pipeline_shape(job, layout.pp, layout.vpp);
}

}  // namespace tpplan
