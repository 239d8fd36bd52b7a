#include "cost-model/pipeline.h"

#include <algorithm>
#include <cmath>

#include "cost-model/mixed.h"
#include "cost-model/schedules.h"
#include "cost-model/stage_balance.h"

namespace tpplan {

int chunks_of(Schedule schedule, int vpp) {
  return schedule == Schedule::zb_v || schedule == Schedule::dualpipe ? 2 : vpp;
}

int depth_of(Schedule schedule, int pp, int vpp) {
  return schedule == Schedule::dualpipe ? pp : pp * chunks_of(schedule, vpp);
}

ScheduleRequest rule_request(int pp, int vpp, double micro_batches, int vpp_group) {
  ScheduleRequest request;
  request.ranks = pp;
  request.chunks = vpp;
  request.micro_batches = static_cast<int>(micro_batches);
  request.group = vpp_group;
  return request;
}

double in_flight(Schedule schedule, int pp, int vpp, int rank, double micro_batches, int vpp_group) {
  const ScheduleRequest request = rule_request(pp, vpp, micro_batches, vpp_group);
  const ScheduleRow& row = row_of(schedule);
  return row.most_held(request, rank) / static_cast<double>(chunks_of(schedule, vpp));
}

namespace {

/// What an order of split passes allows a rank.
struct SplitLimits {
  double most_held = 1;                              ///< activations, in those of a micro-batch
  double (*lead)(double pp, double rank) = nullptr;  ///< forward passes before the first backward pass; null: best
};

/// Idle time of the rank that idles most when F, B and W (gradient of the weights) are ordered within limits. A rank
/// starts n forward passes, its first gradient arrives a round trip R after the first of them began, and later it does
/// one F and one B in turn; activations that the n leave free hold D delayed weight gradients. Three bounds follow, of
/// which the longest holds (arXiv 2401.10241 section 3.1 has the heuristic that comes close to them):
/// - the rank waits R - n F before its first B, and as its last F is followed by a round trip filled with n - 1 (B + W)
///   and the D weight gradients, for what is left of that;
/// - the gradient of the last micro-batch comes to rank 0 after all F and B of any rank, the weight gradients that the
///   rank could not delay, and the way down to the rank and up again, beside which rank 0 has M - 1 W to do;
/// - the same with everything delayed, for the last rank. Where ranks start with no more forward passes than there are
///   stages from them on (ZB-H1 and ZB-1p), each gradient that a rank sends up releases a forward pass that comes back
///   down as many turns later, so that the last rank waits for both transfers at every rank that the two pass. Few
///   micro-batches show it: with many, weight gradients fill these gaps.
Seconds split_idle(double p, double micro_batches, const PipelineTimes& t, const SplitLimits& limits) {
  const Seconds forward = t.slowest_forward;
  const Seconds weight = t.slowest_weight;
  const Seconds whole = t.slowest_backward;
  const Seconds weights = weight * (micro_batches - 1);
  // Down one other stage and up again.
  const Seconds hop =
      (t.forward_sum - forward + t.backward_sum - whole - (t.weight_sum - weight)) / (p - 1) + t.transfer * 2.0;
  const auto rank_idle = [&](double rank, double lead) {
    const double n = std::min(lead, micro_batches);
    const Seconds way = hop * rank - weights;
    if (n >= micro_batches) {
      return way;
    }
    const Seconds round_trip = forward + hop * (p - 1 - rank);
    const double free = std::max(0.0, limits.most_held - n);
    const double delayed = std::min(micro_batches - n, std::floor(free / t.weight_share + 1e-9));
    const Seconds before = max(Seconds(0), round_trip - forward * n);
    const Seconds idle = way + before + weight * (micro_batches - n - delayed);
    const Seconds drain = round_trip - forward - whole * (n - 1) - weight * delayed;
    return rank > 0 ? idle : max(idle, before + max(Seconds(0), drain));
  };
  // Trips of the last rank's turns: k ranks up and down again take k + 1 turns where rank p - k starts with as many
  // forward passes.
  Seconds late(0);
  if (limits.most_held <= p && micro_batches > 1) {
    const double turns = micro_batches - 1;
    const double longest = std::min(p, turns);
    const double trips = std::floor(turns / longest);
    const double ranks_passed = trips * (longest - 1) + std::max(0.0, turns - trips * longest - 1);
    late = max(Seconds(0), hop - (forward + whole - weight)) * ranks_passed;
  }
  Seconds idle = max(Seconds(0), hop * (p - 1) - weights + late);
  for (double rank = 0; rank < p; ++rank) {
    if (limits.lead != nullptr) {
      idle = max(idle, rank_idle(rank, limits.lead(p, rank)));
      continue;
    }
    const double most = std::min(limits.most_held - rank, micro_batches);
    const double fitting = std::max(p - rank, std::floor((forward + hop * (p - 1 - rank)) / forward + 1e-9));
    idle = max(idle, min(rank_idle(rank, std::min(fitting, most)), rank_idle(rank, std::min(fitting + 1, most))));
  }
  return idle;
}

/// The same for ZB-V, whose rank r computes the stages r and 2 p - 1 - r, each half of a rank's layers; f, b and w are
/// times of one such chunk. Rank 0 waits for the first micro-batch to come back after at most 2 p - 1 forward passes.
/// Two chains bound what follows: the micro-batches through all 2 p stages and back, where a further one costs rank 0
/// its last F and first B, and a rank that the gradients pass both of its B, whichever is longer; and the way to the
/// bend, all F and B there, and the way back. Rank 0 has M - 1/2 W to do beside either. From p micro-batches on, the
/// phases of the schedule run in full, which fit f = b = w; a step of one of them on the way down, at the bend or on
/// the way up comes late by what b is longer than f and w shorter, and by each transfer.
Seconds v_shape_idle(double p, double micro_batches, const PipelineTimes& t) {
  const Seconds own = t.slowest - t.slowest_weight;  // F and B of a rank
  const Seconds others = t.forward_sum + t.backward_sum - t.slowest - (t.weight_sum - t.slowest_weight);
  const Seconds beside = t.slowest_weight * (micro_batches - 0.5);
  const Seconds chain = others - min(own * 0.5, t.slowest_forward) * (micro_batches - 1) + t.transfer * (4 * (p - 1));
  const Seconds bend = others * 0.5 + t.transfer * (2 * (p - 1));
  const double ahead = std::min(micro_batches, 2 * p - 1);
  const Seconds first = t.slowest_forward * (0.5 * (2 * p - 1 - ahead)) + t.transfer * (2 * (p - 1));
  const Seconds idle = max(first, max(chain, bend) - beside);
  if (micro_batches < p) {
    return idle;
  }
  const Seconds longer = max(Seconds(0), own - t.slowest_forward * 2.0) * (p - 1);
  const Seconds shorter = max(Seconds(0), t.slowest_forward - t.slowest_weight) * (p - 1.5);
  return max(idle, longer + shorter + t.transfer * (6 * (p - 1)));
}

}  // namespace

Seconds pipeline_time(Schedule schedule, int pp, int vpp, double micro_batches, const PipelineTimes& t) {
  const Seconds others = t.forward_sum + t.backward_sum - t.slowest;
  const Seconds busy = t.slowest * micro_batches;
  if (pp == 1) {
    return busy;
  }
  const double p = pp;
  switch (schedule) {
    case Schedule::interleaved: {
      // With fewer micro-batches than stages the first one passes through every chunk alone, and each further one
      // follows a chunk behind.
      const double chunks = vpp;
      return max(busy + others / chunks, others + t.slowest * (1 + (micro_batches - 1) / chunks));
    }
    case Schedule::zb_h1:
    case Schedule::zb_1p:
      return busy + split_idle(p, micro_batches, t, {p, nullptr});
    case Schedule::zb_h2:
      return busy + split_idle(p, micro_batches, t,
                               {2 * p - 1, [](double ranks, double rank) { return 2 * (ranks - rank) - 1; }});
    case Schedule::zb_2p:
      return busy + split_idle(p, micro_batches, t, {2 * p - 1, nullptr});
    case Schedule::zb_v:
      return busy + v_shape_idle(p, micro_batches, t);
    case Schedule::dualpipe: {
      // (p/2 - 1)(F&B + B - 3W), B here the whole backward pass (DeepSeek-V3 report, table 2).
      const Seconds fb = t.slowest;
      return busy + max(Seconds(0), (fb + t.slowest_backward - t.slowest_weight * 3.0) * (pp / 2.0 - 1));
    }
    default:
      return busy + others;
  }
}

Seconds interleaved_transfers(const ScheduleRequest& request, const PipelineTimes& t, Seconds transfer, Seconds wait) {
  const double p = request.ranks;
  const double chunks = request.chunks;
  const int first = first_group(request);
  const int group = request.group > 0 ? request.group : request.ranks;
  const int left = (request.micro_batches - first) % group;
  const int last = request.micro_batches == first ? first : left > 0 ? left : group;
  // Passes with their waits, and what a transfer takes beyond the wait of the pass that it follows.
  const Seconds forward = t.forward_sum / (p * chunks) + wait;
  const Seconds backward = t.backward_sum / (p * chunks) + wait;
  const Seconds beyond = max(Seconds(0), transfer - wait);
  const auto wrap = [&](int micro_batches, Seconds pass) {
    return max(Seconds(0), beyond * p - pass * std::max(0.0, micro_batches - p));
  };
  const Seconds ends = transfer * (2 * (p - 1)) + (wrap(first, forward) + wrap(last, backward)) * (chunks - 1);
  const double further = std::ceil(static_cast<double>(request.micro_batches - first) / group);
  const Seconds round = max(Seconds(0), (beyond - min(forward, backward)) * p - (forward + backward) * (group - p));
  const Seconds turn = max(Seconds(0), beyond * 2.0 - forward - backward) * ((p - 1) / (2 * p - 1));
  const double turns = std::max(0.0, chunks * (request.micro_batches - first) + first - 2 * (p - 1) - 1);
  return ends + max(round * (further * (chunks - 1)), turn * turns);
}

double lone_passes(int pp) { return (5.0 * pp - 2) / 4 + 2.0 / pp; }

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

/// Layers per stage of a model with prediction modules: Megatron-Bridge's recipes count a module as two layers and the
/// head as one, so that 61 layers on 16 stages become 4 each and 1 on the last (recipes/deepseek/deepseek_v3.py).
std::vector<int> layers_beside_predictions(const Job& job, int stages) {
  return deal_layers(job.model.layers, stages, [&](int stage, int begin, int end) {
    return end - begin + (stage + 1 == stages ? 1.0 + 2 * job.model.mtp_layers : 0.0);
  });
}

}  // namespace

std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth) {
  const bool open = job.training.layers_per_stage.empty() && ranks > 1;
  if (open && job.training.framework == Framework::nanotron) {
    return stage_contents(job, ranks, depth, layers_by_cost(job, depth));
  }
  if (open && job.model.mtp_layers > 0) {
    return stage_contents(job, ranks, depth, layers_beside_predictions(job, depth));
  }
  return stage_contents(job, ranks, depth, job.training.layers_per_stage);
}

std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth, const std::vector<int>& given) {
  const int layers = job.model.layers;
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
  contents.back().mtp = job.model.mtp_layers;
  return contents;
}

namespace {

/// Lays the stages of a schedule on its ranks.
PipelineShape shape_of(int pp, int vpp, Schedule schedule, const std::vector<StageContent>& contents) {
  PipelineShape shape;
  shape.pp = pp;
  shape.vpp = vpp;
  shape.copies = schedule == Schedule::dualpipe ? 2 : 1;
  shape.down_and_up = schedule == Schedule::zb_v;
  const auto depth = static_cast<int>(contents.size());
  std::vector<StageContent> ranks(static_cast<std::size_t>(pp));
  const int chunks = chunks_of(schedule, vpp);
  const auto add = [&ranks, chunks](int rank, const StageContent& content) {
    auto& sum = ranks[static_cast<std::size_t>(rank)];
    sum.dense += content.dense;
    sum.moe += content.moe;
    sum.embedding = sum.embedding || content.embedding;
    sum.head = sum.head || content.head;
    sum.mtp += content.mtp;
    sum.chunks = chunks;
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

}  // namespace

PipelineShape pipeline_shape(const Job& job, int pp, int vpp, Schedule schedule) {
  return shape_of(pp, vpp, schedule, stage_contents(job, pp, depth_of(schedule, pp, vpp)));
}

PipelineShape pipeline_shape(const Job& job, const Layout& layout) {
  if (stages_keep_to_parts(job, layout)) {
    return mixed_shape(job, layout);
  }
  return stages_are_balanced(job, layout.pp) ? pipeline_shape(job, layout, layer_costs(job, layer_key(layout)))
                                             : pipeline_shape(job, layout.pp, layout.vpp, layout.schedule);
}

PipelineShape pipeline_shape(const Job& job, const Layout& layout, const LayerCosts& costs) {
  if (!stages_are_balanced(job, layout.pp)) {
    return pipeline_shape(job, layout.pp, layout.vpp, layout.schedule);
  }
  const int depth = depth_of(layout.schedule, layout.pp, layout.vpp);
  return shape_of(layout.pp, layout.vpp, layout.schedule,
                  stage_contents(job, layout.pp, depth, balanced_stages(job, layout, costs)));
}

bool stages_are_balanced(const Job& job, int pp) {
  return pp > 1 && job.training.balance != StageBalance::framework && job.training.layers_per_stage.empty();
}

}  // namespace tpplan
