#include "planner/layout_scan.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "cost-model/mixed.h"

namespace tpplan {
namespace {

/// A lower bound and the step that it bounds are sums in different orders, which rounding may put the wrong way round:
/// a step takes at least this share of its bound.
constexpr double kSurely = 1 - 1e-9;

const AxisChoice& choice_of(const SearchSpace& space, std::int32_t Layout::*axis) {
  std::size_t i = 0;
  while (kAxes[i].field != axis) {
    ++i;
  }
  return space.axes[i];
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      all.push_back(divisor);
    }
  }
  return all;
}

/// What was asked for, in ascending order without repeats and without numbers below one; else `open`.
std::vector<int> values_or(const AxisChoice& choice, std::vector<int> open) {
  if (choice.values.empty()) {
    return open;
  }
  std::vector<int> values;
  for (const int value : choice.values) {
    if (value >= 1) {
      values.push_back(value);
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

template <class T>
std::vector<T> values_or(const std::vector<T>& values, std::vector<T> open) {
  return values.empty() ? open : values;
}

std::vector<int> open_micro_batches(int global_batch) {
  std::vector<int> sizes;
  for (int size = 1; size <= std::min(64, global_batch); ++size) {
    const bool power_of_two = (size & (size - 1)) == 0;
    if (global_batch % size == 0 && (power_of_two || size <= 8)) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

/// Chunks per rank that leave no virtual stage a layer short, or only the ends, which hold embedding and head.
std::vector<int> open_chunks(int layers, int pp) {
  std::vector<int> chunks;
  for (int vpp = 2; vpp <= (layers + 2) / pp; ++vpp) {
    const int stages = pp * vpp;
    if (layers % stages == 0 || (layers + 1) % stages == 0 || (layers + 2) % stages == 0) {
      chunks.push_back(vpp);
    }
  }
  return chunks;
}

/// Whether layers can be laid out on so many stages: beyond the layers only a few may be empty, and a given list has to
/// name them all. Rules refuse the others before their shape is asked for.
bool has_shape(const Job& job, int pp, int vpp) {
  constexpr std::int64_t kMostEmpty = 5;  // embedding, head, and nanotron's three further blocks
  if (std::int64_t{pp} * vpp > job.model.layers + kMostEmpty) {
    return false;
  }
  const auto& given = job.training.layers_per_stage;
  return given.empty() || static_cast<int>(given.size()) == pp || static_cast<int>(given.size()) == pp * vpp;
}

std::vector<LayoutSpace::Pipeline> open_pipelines(const Job& job, const SearchSpace& space, int pp) {
  const AxisChoice& asked = choice_of(space, &Layout::vpp);
  const auto& offered = habits_of(job.training.framework).schedules;
  const bool interleaves = std::find(offered.begin(), offered.end(), Schedule::interleaved) != offered.end();
  const std::vector<int> even = pp > 1 ? open_chunks(job.model.layers, pp) : std::vector<int>{};
  std::vector<LayoutSpace::Pipeline> pipelines;
  const auto add = [&](int vpp, Schedule schedule) {
    const bool grouped = schedule == Schedule::interleaved && !space.vpp_group.empty();
    for (const int group : grouped ? space.vpp_group : std::vector<int>{0}) {
      pipelines.push_back({pp, vpp, schedule, group, 0});
    }
  };
  if (space.schedules.empty()) {
    std::vector<int> open{1};
    if (interleaves) {
      open.insert(open.end(), even.begin(), even.end());
    }
    for (const int vpp : values_or(asked, open)) {
      add(vpp, vpp > 1 ? Schedule::interleaved : Schedule::f1b1);
    }
    return pipelines;
  }
  for (const Schedule schedule : space.schedules) {
    const std::vector<int> open = schedule == Schedule::interleaved ? even
                                  : schedule == Schedule::zb_v      ? std::vector<int>{2}
                                                                    : std::vector<int>{1};
    for (const int vpp : values_or(asked, open)) {
      add(vpp, schedule);
    }
  }
  return pipelines;
}

std::vector<LayoutSpace::Sharding> shardings(const SearchSpace& space, const std::vector<int>& zero) {
  std::vector<LayoutSpace::Sharding> all;
  for (const int stage : zero) {
    for (const int group : values_or<int>(space.shard_group, {0})) {
      for (const Offload offload : values_or<Offload>(space.offloads, {Offload::none})) {
        for (const Optimizer optimizer : values_or<Optimizer>(space.optimizers, {Optimizer::adam})) {
          for (const GradReduce reduce : values_or<GradReduce>(space.grad_reduces, {GradReduce::by_framework})) {
            all.push_back({static_cast<std::uint8_t>(stage), group, offload, optimizer, reduce});
          }
        }
      }
    }
  }
  return all;
}

/// What the search tries when nothing is asked for. Fused attention stores no scores, so that recomputing it saves
/// nothing: other modules take its place where the framework can drop them (Megatron-Core).
std::vector<std::string> open_recompute(const Job& job) {
  std::vector<std::string> choices = habits_of(job.training.framework).recompute;
  const auto selective = std::find(choices.begin(), choices.end(), "selective");
  if (!job.training.flash_attention || selective == choices.end()) {
    return choices;
  }
  if (job.training.framework != Framework::megatron) {
    choices.erase(selective);
  } else if (!job.model.moe) {
    *selective = "selective:mlp";
  } else {
    *selective = job.model.latent ? "selective:norm+moe_act+mla_up_proj" : "selective:norm+moe_act";
  }
  return choices;
}

/// Layer keys of one (tp, cp): experts, micro-batch, sequence parallelism, recomputation, kind and order of ranks.
void add_layers(const Job& job, const SearchSpace& space, int tp, int cp, std::vector<Layout>& layers) {
  const FrameworkHabits& habits = habits_of(job.training.framework);
  Layout layout = usual_layout(job);
  layout.zero = 0;
  layout.tp = tp;
  layout.cp = cp;
  const bool moe = job.model.moe.has_value();
  const bool slices = job.training.seq % (std::int64_t{cp} * tp) == 0;
  const std::vector<bool> sequence_parallel = values_or<bool>(space.sequence_parallel, {tp > 1 && slices});
  std::vector<CpType> cp_types = values_or<CpType>(space.cp_types, {habits.cp_types.front()});
  if (cp == 1) {
    cp_types.resize(1);
  }
  const std::vector<int> expert_splits = moe && tp > 1 ? std::vector<int>{1, tp} : std::vector<int>{1};
  for (const int ep :
       values_or(choice_of(space, &Layout::ep), moe ? divisors(job.model.moe->experts) : std::vector<int>{1})) {
    for (const int etp : values_or(choice_of(space, &Layout::etp), expert_splits)) {
      for (const int micro_batch :
           values_or(choice_of(space, &Layout::micro_batch), open_micro_batches(job.training.global_batch))) {
        for (const bool split : sequence_parallel) {
          for (const std::string& recompute : values_or<std::string>(space.recompute, open_recompute(job))) {
            for (const CpType cp_type : cp_types) {
              for (const RanksOrder order : values_or<RanksOrder>(space.ranks_orders, {RanksOrder::tp_cp_dp_pp})) {
                layout.ep = ep;
                layout.etp = etp;
                layout.micro_batch = micro_batch;
                layout.sequence_parallel = split;
                (void)set_recompute(layout, recompute);
                layout.cp_type = cp_type;
                layout.ranks_order = order;
                layers.push_back(layout);
              }
            }
          }
        }
      }
    }
  }
}

const std::vector<LayoutSpace::Sharding>& shardings_of(const LayoutSpace& space, const Layout& layout) {
  return layout.dp * layout.cp == 1 ? space.alone : space.shardings;
}

}  // namespace

LayoutSpace layout_space(const Job& job, const SearchSpace& space) {
  LayoutSpace result;
  const int world = job.cluster.gpus();
  const std::vector<int> world_divisors = divisors(world);
  const AxisChoice& tp_choice = choice_of(space, &Layout::tp);
  const AxisChoice& cp_choice = choice_of(space, &Layout::cp);
  const AxisChoice& pp_choice = choice_of(space, &Layout::pp);
  for (const int tp : values_or(tp_choice, world_divisors)) {
    for (const int cp : values_or(cp_choice, world % tp == 0 ? divisors(world / tp) : std::vector<int>{1})) {
      add_layers(job, space, tp, cp, result.layers);
    }
  }
  result.pipelines_given = !pp_choice.values.empty();
  for (const int pp : values_or(pp_choice, world_divisors)) {
    for (LayoutSpace::Pipeline pipeline : open_pipelines(job, space, pp)) {
      pipeline.shape = result.shapes.size();
      const double copies = pipeline.schedule == Schedule::dualpipe ? 2 : 1;
      const bool down_and_up = pipeline.schedule == Schedule::zb_v;
      const auto same = std::find_if(result.shapes.begin(), result.shapes.end(), [&](const PipelineShape& shape) {
        return shape.pp == pipeline.pp && shape.vpp == pipeline.vpp && shape.copies == copies &&
               shape.down_and_up == down_and_up;
      });
      if (same != result.shapes.end()) {
        pipeline.shape = static_cast<std::size_t>(same - result.shapes.begin());
      } else if (has_shape(job, pipeline.pp, pipeline.vpp)) {
        result.shapes.push_back(pipeline_shape(job, pipeline.pp, pipeline.vpp, pipeline.schedule));
      } else {
        result.shapes.push_back({pipeline.pp, pipeline.vpp, {}, {}, copies, down_and_up});
      }
      result.pipelines.push_back(pipeline);
    }
  }
  const std::vector<int> tried = values_or<int>(space.zero, habits_of(job.training.framework).tried_zero);
  result.shardings = shardings(space, tried);
  result.alone = shardings(space, space.zero.empty() ? std::vector<int>{0} : tried);
  result.dp = choice_of(space, &Layout::dp);
  result.fewest_recomputed = space.recompute.empty();
  return result;
}

LayoutScan::LayoutScan(const Job& job, const LayoutSpace& space, Objective objective, std::size_t top_k,
                       bool keeps_front)
    : job_(job), space_(space), rules_(rules()), objective_(objective), top_k_(top_k), keeps_front_(keeps_front) {
  const auto first_at = [this](RuleDepth depth) {
    return static_cast<std::size_t>(
        std::find_if(rules_.begin(), rules_.end(), [depth](const Rule& rule) { return rule.depth >= depth; }) -
        rules_.begin());
  };
  first_pipeline_rule_ = first_at(RuleDepth::pipeline);
  first_data_rule_ = first_at(RuleDepth::data);
  stats_.rejected.assign(rules_.size(), 0);
  heap_.reserve(top_k + 1);
  pipeline_laws_.resize(space.pipelines.size());
  data_laws_.resize(space.pipelines.size() * std::max(space.shardings.size(), space.alone.size()));
  grid_.tp = 0;  // of no layer key
}

template <class StepSeconds>
void LayoutScan::price(const Layout& layout, const MemoryEstimate& memory, double lower_bound,
                       const StepSeconds& seconds) {
  const double bytes = memory.total().raw();
  if (verdict(memory, job_.training.memory_headroom) == Fits::no) {
    ++stats_.out_of_memory;
    if (closest_ && bytes > closest_->value) {
      return;
    }
    const Ranked candidate{bytes, seconds(), layout};
    if (!closest_ || candidate < *closest_) {
      closest_ = candidate;
    }
    return;
  }
  ++stats_.ranked;
  if (cannot_be_kept(bytes, lower_bound)) {
    left_out_bound_ = std::min(left_out_bound_, lower_bound);
    return;
  }
  const double step = seconds();
  if (keeps_front_) {
    keep_on_front({step, bytes, layout, lower_bound});
  }
  keep(objective_ == Objective::memory ? Ranked{bytes, step, layout, lower_bound}
                                       : Ranked{step, bytes, layout, lower_bound});
}

/// Whether a layout of at least so many seconds is behind all that are kept.
bool LayoutScan::cannot_be_kept(double bytes, double lower_bound) const {
  if (heap_.size() < top_k_) {
    return false;
  }
  const double least = kSurely * lower_bound;
  if (keeps_front_) {
    const auto slower = std::partition_point(front_.begin(), front_.end(),
                                             [least](const Ranked& faster) { return faster.value < least; });
    if (slower == front_.begin() || std::prev(slower)->second > bytes) {
      return false;
    }
  }
  return top_k_ == 0 || heap_.front().value < (objective_ == Objective::memory ? bytes : least);
}

/// When one rank holds more than this, then the fullest one does not fit, whatever of it stage_memory() counts as kept
/// in reserve by the allocator.
Bytes LayoutScan::too_much(const Layout& layout, const LayerCosts& costs) const {
  const auto& profile = job_.profile;
  if (layout.zero >= 3 && profile.fsdp_gradient_pool > 0.5) {
    return Bytes(std::numeric_limits<double>::infinity());
  }
  return job_.cluster.gpu.usable * (std::max(1.0, profile.reserved_factor) * (1 + 1e-9)) +
         costs.loss_transient * profile.reserved_loss_factor;
}

void LayoutScan::visit(std::size_t layer_key) {
  Layout layout = space_.layers[layer_key];
  const std::size_t layer_rule = first_broken(layout, 0, first_pipeline_rule_);
  const std::int64_t world = job_.cluster.gpus();
  const std::int64_t inside = std::int64_t{layout.tp} * layout.cp;
  enter_grid(layout);
  std::optional<LayerCosts> costs;
  std::optional<LayerCosts> paired_costs;  // under a schedule that pairs passes
  for (std::size_t i = 0; i < space_.pipelines.size(); ++i) {
    const LayoutSpace::Pipeline& pipeline = space_.pipelines[i];
    const std::int64_t product = inside * pipeline.pp;
    const bool divides = world % product == 0;
    // Axes left open take only values that divide; one impossible combination stands for those that were asked for.
    if (!divides && !space_.pipelines_given && (world % inside == 0 || pipeline.pp > 1)) {
      continue;
    }
    layout.dp = static_cast<std::int32_t>(std::max<std::int64_t>(1, world / product));
    if (divides && !space_.dp.allows(layout.dp)) {
      continue;
    }
    const auto count = static_cast<std::int64_t>(shardings_of(space_, layout).size());
    stats_.enumerated += count;
    if (layer_rule < first_pipeline_rule_) {
      stats_.rejected[layer_rule] += count;
      continue;
    }
    layout.pp = pipeline.pp;
    layout.vpp = pipeline.vpp;
    layout.schedule = pipeline.schedule;
    layout.vpp_group = pipeline.vpp_group;
    const std::size_t pipeline_rule = first_broken(layout, first_pipeline_rule_, first_data_rule_);
    if (pipeline_rule < first_data_rule_) {
      stats_.rejected[pipeline_rule] += count;
      continue;
    }
    visit_shardings(layout, i, tpplan::layer_key(layout).paired ? paired_costs : costs);
  }
}

void LayoutScan::visit_shardings(Layout layout, std::size_t pipeline, std::optional<LayerCosts>& costs) {
  const auto& shardings = shardings_of(space_, layout);
  const auto next_legal = [&](std::size_t i) {
    for (; i < shardings.size(); ++i) {
      layout.zero = shardings[i].zero;
      layout.shard_group = shardings[i].shard_group;
      layout.offload = shardings[i].offload;
      layout.optimizer = shardings[i].optimizer;
      layout.grad_reduce = shardings[i].grad_reduce;
      const std::size_t broken = first_broken(layout, first_data_rule_, rules_.size());
      if (broken == rules_.size()) {
        break;
      }
      ++stats_.rejected[broken];
    }
    return i;
  };
  std::size_t sharding = next_legal(0);
  if (sharding == shardings.size()) {
    return;
  }
  if (!costs) {
    const LayerKey key = tpplan::layer_key(layout);
    if (!lists_ || !lists_->serve(key)) {
      lists_.emplace(layer_lists(job_, key));
    }
    costs = layer_costs(job_, key, *lists_);
  }
  PipelineLaws& laws = pipeline_laws_[pipeline];
  if (!laws.known) {
    laws = {true, transfer_laws(job_, layout)};
  }
  std::optional<PipelineShape> balanced;
  if (stages_are_balanced(job_, layout.pp)) {
    balanced = pipeline_shape(job_, layout, *costs);
  }
  const PipelineShape& shape = balanced ? *balanced : space_.shapes[space_.pipelines[pipeline].shape];
  const std::span<const LayerCosts> one(&*costs, 1);
  const bool by_parts = stages_keep_to_parts(job_, layout);
  Candidates all{*costs, shape, laws.transfers, {}, {}, {}};
  if (!by_parts) {
    all.stages = pipeline_stages(job_, layout, one, shape);
  }
  const bool by_fewest = space_.fewest_recomputed && layout.recompute == RecomputeKind::full &&
                         layout.recompute_layers == 0 && objective_ != Objective::memory;
  for (; sharding < shardings.size(); sharding = next_legal(sharding + 1)) {
    if (by_parts) {
      const Estimate mixed = mixed_estimate(job_, layout);
      price(layout, mixed.memory, mixed.step.lower_bound.raw(), [&] { return mixed.step.total().raw(); });
      continue;
    }
    const std::span<const ShardingLaws> sharded(&laws_of(layout, pipeline, sharding), 1);
    const Bytes enough = closest_ ? max(Bytes(closest_->value), too_much(layout, all.costs))
                                  : Bytes(std::numeric_limits<double>::infinity());
    const MemoryEstimate memory = fullest_memory(job_, layout, one, shape, all.stages, sharded, enough);
    if (!by_fewest || !price_fewest(layout, memory, all, sharded)) {
      price(layout, memory, all.stages.lower_bound().raw(), [&] { return seconds_of(layout, all, sharded); });
    }
  }
}

double LayoutScan::seconds_of(const Layout& layout, Candidates& all, std::span<const ShardingLaws> sharding) const {
  const std::span<const LayerCosts> one(&all.costs, 1);
  if (!all.span) {
    all.span = pipeline_span(job_, layout, one, all.stages, all.transfers);
  }
  return step_estimate(job_, layout, one, all.shape, all.stages, *all.span, sharding).total().raw();
}

/// Prices the candidate with as few recomputed layers in each stage as fit, when it fits with all of them and could
/// still be among the best: fewer recomputed layers take less time and more memory. False when it is left to the
/// caller.
bool LayoutScan::price_fewest(Layout layout, const MemoryEstimate& memory, Candidates& all,
                              std::span<const ShardingLaws> sharding) {
  const double headroom = job_.training.memory_headroom;
  if (verdict(memory, headroom) != Fits::fits) {
    return false;
  }
  const std::span<const LayerCosts> one(&all.costs, 1);
  if (heap_.size() == top_k_) {
    if (!all.most_saved) {
      if (!all.span) {
        all.span = pipeline_span(job_, layout, one, all.stages, all.transfers);
      }
      all.costs.recompute_layers = 1;
      const PipelineStages least = pipeline_stages(job_, layout, one, all.shape);
      all.most_saved = all.span->span - pipeline_span(job_, layout, one, least, all.transfers).span;
      all.costs.recompute_layers = 0;
    }
    const double slowest_kept = top_k_ > 0 ? heap_.front().value : 0;
    const double saved = all.most_saved->raw();
    if (kSurely * all.stages.lower_bound().raw() - saved > slowest_kept ||
        seconds_of(layout, all, sharding) - saved > slowest_kept) {
      return false;
    }
  }
  int most = 1;  // layers of a stage
  for (const StageGroup& group : all.shape.groups) {
    const int chunks = group.content.chunks;
    most = std::max(most, (group.content.dense + group.content.moe + chunks - 1) / chunks);
  }
  const auto stages_with = [&](int layers) {
    layout.recompute_layers = layers;
    all.costs.recompute_layers = layers;
    return pipeline_stages(job_, layout, one, all.shape);
  };
  int fits = most;  // and so do all above
  MemoryEstimate best = memory;
  for (int low = 1; low < fits;) {
    const int middle = low + (fits - low) / 2;
    const PipelineStages stages = stages_with(middle);
    const MemoryEstimate tried =
        fullest_memory(job_, layout, one, all.shape, stages, sharding, too_much(layout, all.costs));
    if (verdict(tried, headroom) == Fits::fits) {
      fits = middle;
      best = tried;
    } else {
      low = middle + 1;
    }
  }
  if (fits == most) {
    all.costs.recompute_layers = 0;
    layout.recompute_layers = 0;
    price(layout, best, all.stages.lower_bound().raw(), [&] { return seconds_of(layout, all, sharding); });
    return true;
  }
  Candidates some{all.costs, all.shape, all.transfers, stages_with(fits), {}, {}};
  price(layout, best, some.stages.lower_bound().raw(), [&] { return seconds_of(layout, some, sharding); });
  all.costs.recompute_layers = 0;
  return true;
}

void LayoutScan::enter_grid(const Layout& layer) {
  if (layer.tp == grid_.tp && layer.cp == grid_.cp && layer.ep == grid_.ep && layer.etp == grid_.etp &&
      layer.ranks_order == grid_.ranks_order) {
    return;
  }
  grid_ = layer;
  for (PipelineLaws& laws : pipeline_laws_) {
    laws.known = false;
  }
  for (DataLaws& laws : data_laws_) {
    laws.known = false;
  }
}

const ShardingLaws& LayoutScan::laws_of(const Layout& layout, std::size_t pipeline, std::size_t sharding) {
  DataLaws& laws = data_laws_[pipeline * (data_laws_.size() / pipeline_laws_.size()) + sharding];
  if (!laws.known) {
    laws = {true, sharding_laws(job_, layout)};
  }
  return laws.sharding;
}

std::size_t LayoutScan::first_broken(const Layout& layout, std::size_t begin, std::size_t end) const {
  while (begin < end && !rules_[begin].broken(job_, layout)) {
    ++begin;
  }
  return begin;
}

void LayoutScan::keep(const Ranked& candidate) {
  if (heap_.size() == top_k_) {
    if (top_k_ == 0 || !(candidate < heap_.front())) {
      left_out_bound_ = std::min(left_out_bound_, candidate.lower_bound);
      return;
    }
    left_out_bound_ = std::min(left_out_bound_, heap_.front().lower_bound);
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  heap_.push_back(candidate);
  std::push_heap(heap_.begin(), heap_.end());
}

void LayoutScan::keep_on_front(const Ranked& candidate) {
  const auto after = std::upper_bound(front_.begin(), front_.end(), candidate);
  if (after != front_.begin() && std::prev(after)->second <= candidate.second) {
    return;
  }
  const auto beaten_end =
      std::find_if(after, front_.end(), [&](const Ranked& other) { return other.second < candidate.second; });
  front_.insert(front_.erase(after, beaten_end), candidate);
}

void LayoutScan::merge(const LayoutScan& other) {
  stats_.enumerated += other.stats_.enumerated;
  for (std::size_t i = 0; i < stats_.rejected.size(); ++i) {
    stats_.rejected[i] += other.stats_.rejected[i];
  }
  stats_.out_of_memory += other.stats_.out_of_memory;
  stats_.ranked += other.stats_.ranked;
  left_out_bound_ = std::min(left_out_bound_, other.left_out_bound_);
  for (const Ranked& candidate : other.heap_) {
    keep(candidate);
  }
  for (const Ranked& candidate : other.front_) {
    keep_on_front(candidate);
  }
  if (other.closest_ && (!closest_ || *other.closest_ < *closest_)) {
    closest_ = other.closest_;
  }
}

std::vector<LayoutScan::Ranked> LayoutScan::best() const {
  std::vector<Ranked> ordered = heap_;
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

}  // namespace tpplan
