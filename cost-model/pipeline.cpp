#include "cost-model/pipeline.h"

#include <algorithm>

#include "cost-model/mixed.h"

namespace tpplan {

int chunks_of(Schedule schedule, int vpp) {
  return schedule == Schedule::zb_v || schedule == Schedule::dualpipe ? 2 : vpp;
}

int depth_of(Schedule schedule, int pp, int vpp) {
  return schedule == Schedule::dualpipe ? pp : pp * chunks_of(schedule, vpp);
}

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
    case Schedule::zb_h2:  // what weight gradients left for later keep makes all ranks alike
    case Schedule::zb_2p:
      return std::min(2 * p - 1, micro_batches);
    case Schedule::dualpipe:
      // p + 1 chunks; a micro-batch fills one of the rank's two.
      return std::min(p + 1, micro_batches) / 2;
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

std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth) {
  const int layers = job.model.layers;
  const auto by_cost =
      job.training.framework == Framework::nanotron && job.training.layers_per_stage.empty() && ranks > 1
          ? layers_by_cost(job, depth)
          : std::vector<int>{};
  const auto& given = by_cost.empty() ? job.training.layers_per_stage : by_cost;
  const auto size = static_cast<int>(given.size());
  std::vector<StageContent> contents(static_cast<std::size_t>(depth));
  int begin = 0;
  for (int stage = 0; stage < depth; ++stage) {
    int count = 0;
    if (size == depth) {
      count = given[static_cast<std::size_t>(stage)];
    } else if (size == ranks) {
      count = stage_layers(given[static_cast<std::size_t>(stage % ranks)], depth / ranks, stage / ranks);
    } else {
      count = stage_layers(layers, depth, stage);
    }
    const int end = std::min(layers, begin + count);
    auto& content = contents[static_cast<std::size_t>(stage)];
    content.moe = job.moe_in(begin, end);
    content.dense = end - begin - content.moe;
    begin = end;
  }
  contents.front().embedding = true;
  contents.back().head = true;
  return contents;
}

PipelineShape pipeline_shape(const Job& job, int pp, int vpp, Schedule schedule) {
  PipelineShape shape;
  shape.pp = pp;
  shape.vpp = vpp;
  shape.copies = schedule == Schedule::dualpipe ? 2 : 1;
  shape.down_and_up = schedule == Schedule::zb_v;
  const int depth = depth_of(schedule, pp, vpp);
  const auto contents = stage_contents(job, pp, depth);
  std::vector<StageContent> ranks(static_cast<std::size_t>(pp));
  const auto add = [&ranks](int rank, const StageContent& content) {
    auto& sum = ranks[static_cast<std::size_t>(rank)];
    sum.dense += content.dense;
    sum.moe += content.moe;
    sum.embedding = sum.embedding || content.embedding;
    sum.head = sum.head || content.head;
  };
  for (int stage = 0; stage < depth; ++stage) {
    const auto& content = contents[static_cast<std::size_t>(stage)];
    const bool upwards = shape.down_and_up && stage >= pp;
    add(upwards ? 2 * pp - 1 - stage : stage % pp, content);
    if (schedule == Schedule::dualpipe) {
      add(pp - 1 - stage, content);
    }
  }
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
  return stages_keep_to_parts(job, layout) ? mixed_shape(job, layout)
                                           : pipeline_shape(job, layout.pp, layout.vpp, layout.schedule);
}

}  // namespace tpplan
