// Rules on how the world splits into grids and the layers into stages, and what the pipeline schedules ask for.
#include <algorithm>
#include <numeric>

#include "planner/rule_rows.h"

namespace tpplan::detail {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }
std::string framework_of(const Job& job) { return std::string(name_of(job.training.framework)); }
std::string schedule_of(const Layout& layout) { return std::string(name_in(kScheduleNames, layout.schedule)); }

bool world_does_not_divide(const Job& job, const Layout& layout) { return layout.world() != job.cluster.gpus(); }

std::string world_arithmetic(const Job& job, const Layout& layout) {
  const std::int64_t world = job.cluster.gpus();
  const std::int64_t product = std::int64_t{layout.tp} * layout.pp * layout.cp;
  if (world % product == 0) {
    return number(layout.world()) + " ranks (tp " + number(layout.tp) + " x pp " + number(layout.pp) + " x cp " +
           number(layout.cp) + " x dp " + number(layout.dp) + ") on " + number(world) + " GPUs; nearest: dp " +
           number(world / product);
  }
  // Blame the axis that the others leave room for.
  struct Named {
    std::int32_t Layout::*axis;
    const char* meaning;
  };
  constexpr std::array<Named, 3> kOrder{{{&Layout::pp, "pipeline stages"},
                                         {&Layout::cp, "context-parallel ranks"},
                                         {&Layout::tp, "tensor-parallel ranks"}}};
  std::string factors = number(layout.tp) + " x " + number(layout.pp);
  if (layout.cp > 1) {
    factors += " x " + number(layout.cp);
  }
  std::string text = number(world) + " % (" + factors + ") = " + number(world % product) + ": ";
  for (const Named& named : kOrder) {
    const std::int64_t rest = product / (layout.*named.axis);
    if (layout.*named.axis > 1 && world % rest == 0) {
      std::string divisor;
      bool several = false;
      for (const Named& other : {kOrder[2], kOrder[1], kOrder[0]}) {
        if (other.axis != named.axis && layout.*other.axis > 1) {
          several = several || !divisor.empty();
          divisor +=
              (divisor.empty() ? "" : " x ") + std::string(option_of(other.axis)) + " " + number(layout.*other.axis);
        }
      }
      if (!divisor.empty()) {
        divisor = several ? " / (" + divisor + ")" : " / " + divisor;
      }
      return text + number(layout.*named.axis) + " " + named.meaning + " do not divide " + number(world) + " GPUs" +
             divisor + nearest_values(job, layout, named.axis, world_does_not_divide);
    }
  }
  return text + "tp " + number(layout.tp) + ", pp " + number(layout.pp) + " and cp " + number(layout.cp) +
         " do not divide " + number(world) + " GPUs together" +
         nearest_values(job, layout, &Layout::tp, world_does_not_divide);
}

bool expert_grid_does_not_divide(const Job& job, const Layout& layout) {
  if (!job.model.moe) {
    return false;
  }
  const std::int64_t ranks = std::int64_t{layout.dp} * layout.cp * layout.tp;
  if (row_of(job.training.framework).experts_span_tp) {
    return ranks % (std::int64_t{layout.ep} * layout.etp) != 0;
  }
  return std::int64_t{layout.dp} * layout.cp % layout.ep != 0;
}

bool batch_does_not_divide(const Job& job, const Layout& layout) {
  return job.training.global_batch % (std::int64_t{layout.dp} * layout.micro_batch) != 0;
}

std::string batch_arithmetic(const Job& job, const Layout& layout) {
  const std::int64_t batch = job.training.global_batch;
  const std::int64_t unit = std::int64_t{layout.dp} * layout.micro_batch;
  std::string text = "global batch " + number(batch) + " % (micro-batch " + number(layout.micro_batch) + " x dp " +
                     number(layout.dp) + ") = " + number(batch % unit) + "; nearest: global batch ";
  if (batch > unit) {
    text += number(batch / unit * unit) + " or ";
  }
  text += number((batch / unit + 1) * unit);
  std::vector<std::string> sizes;
  for (std::int32_t size = layout.micro_batch - 1; size >= 1 && sizes.empty(); --size) {
    if (batch % (std::int64_t{layout.dp} * size) == 0) {
      sizes.push_back(number(size));
    }
  }
  return text + (sizes.empty() ? "" : ", micro-batch " + sizes.front());
}

int fewest_stages_of_chunks(const Job& job) { return job.training.overlap_pp == Switch::off ? 3 : 2; }
bool chunks_without_pipeline(const Job& job, const Layout& layout) {
  return layout.vpp > 1 && layout.pp < fewest_stages_of_chunks(job);
}

/// Stages beyond the layers: embedding and head can each fill one; nanotron also places norm, cast and loss as blocks.
int extra_stages(const Job& job) { return job.training.framework == Framework::nanotron ? 5 : 2; }
bool too_few_layers(const Job& job, const Layout& layout) {
  return job.model.layers + extra_stages(job) < std::int64_t{layout.pp} * layout.vpp;
}

bool given_stages_do_not_match(const Job& job, const Layout& layout) {
  const auto& given = job.training.layers_per_stage;
  if (given.empty()) {
    return false;
  }
  const auto stages = static_cast<std::int64_t>(given.size());
  return (stages != layout.pp && stages != std::int64_t{layout.pp} * layout.vpp) ||
         std::accumulate(given.begin(), given.end(), 0) != job.model.layers;
}

std::string given_arithmetic(const Job& job, const Layout& layout) {
  const auto& given = job.training.layers_per_stage;
  const int sum = std::accumulate(given.begin(), given.end(), 0);
  std::string text = number(static_cast<std::int64_t>(given.size())) + " stages with " + number(sum) +
                     " layers are given, the layout has pp " + number(layout.pp);
  if (layout.vpp > 1) {
    text += " x vpp " + number(layout.vpp);
  }
  return text + " and the model " + number(job.model.layers) + " layers; nearest: pp " +
         number(static_cast<std::int64_t>(given.size()));
}

bool too_many_recomputed(const Job& job, const Layout& layout) {
  const std::int64_t stages = std::int64_t{layout.pp} * layout.vpp;
  return layout.recompute_layers > (job.model.layers + stages - 1) / stages;
}

bool schedule_not_offered(const Job& job, const Layout& layout) {
  const auto& offered = habits_of(job.training.framework).schedules;
  return std::find(offered.begin(), offered.end(), layout.schedule) == offered.end();
}

bool schedule_without_pipeline(const Job&, const Layout& layout) {
  return layout.pp == 1 && layout.schedule != Schedule::f1b1;
}

bool chunks_do_not_suit(const Job&, const Layout& layout) {
  if (layout.schedule == Schedule::interleaved) {
    return layout.vpp < 2;
  }
  return layout.vpp != (layout.schedule == Schedule::zb_v ? 2 : 1);
}

std::string chunks_arithmetic(const Job&, const Layout& layout) {
  const std::string now = schedule_of(layout) + " with vpp " + number(layout.vpp);
  if (layout.schedule == Schedule::interleaved) {
    return now + "; nearest: vpp 2, or schedule 1f1b";
  }
  if (layout.schedule == Schedule::zb_v) {
    return now + "; nearest: vpp 2";
  }
  return now + "; nearest: vpp 1" + (layout.schedule == Schedule::f1b1 ? ", or schedule interleaved" : "");
}

bool a_torch_pipeline(const Job& job) {
  return job.training.framework == Framework::fsdp || job.training.framework == Framework::torchtitan;
}

/// Only Megatron-Core has an option for it; other trainers' groups follow from stages and micro-batches.
bool sizes_groups(const Job& job) {
  return job.training.framework == Framework::megatron || job.training.framework == Framework::plain;
}
bool group_not_offered(const Job& job, const Layout& layout) {
  return layout.vpp_group > 0 && (layout.schedule != Schedule::interleaved || !sizes_groups(job));
}
bool group_out_of_range(const Job& job, const Layout& layout) {
  return layout.vpp_group > 0 && (layout.vpp_group < layout.pp || layout.vpp_group > micro_batches(job, layout));
}
bool group_leaves_few(const Job& job, const Layout& layout) {
  if (layout.vpp_group == 0) {
    return false;
  }
  const int left = micro_batches(job, layout) % layout.vpp_group;
  return left > 0 && left < layout.pp;
}
bool group_is_refused(const Job& job, const Layout& layout) {
  return group_out_of_range(job, layout) || group_leaves_few(job, layout);
}

/// Interleaved 1F1B sends micro-batches in groups of pp when none are asked for (Megatron's default group; torch forms
/// M / pp rounds of equal size).
bool groups_do_not_divide(const Job& job, const Layout& layout) {
  if (layout.schedule != Schedule::interleaved || layout.pp < 2 || layout.vpp_group > 0) {
    return false;
  }
  const int count = micro_batches(job, layout);
  if (a_torch_pipeline(job)) {
    return count % std::max(1, count / layout.pp) != 0;
  }
  return count < layout.pp || count % layout.pp != 0;
}

bool too_few_micro_batches(const Job& job, const Layout& layout) {
  return a_torch_pipeline(job) && layout.pp > 1 && layout.vpp == 1 && micro_batches(job, layout) < layout.pp;
}

bool dualpipe_is_odd(const Job& job, const Layout& layout) {
  const int count = micro_batches(job, layout);
  return layout.schedule == Schedule::dualpipe && (layout.pp % 2 != 0 || count % 2 != 0 || count < 2 * layout.pp);
}

/// Sequences of one micro-batch of every replica, and of as many as there are stages.
std::int64_t one_micro_batch(const Layout& layout) { return std::int64_t{layout.dp} * layout.micro_batch; }
std::int64_t group_of_micro_batches(const Layout& layout) { return one_micro_batch(layout) * layout.pp; }

std::string micro_batch_count(const Job& job, const Layout& layout) {
  return number(job.training.global_batch) + " / (dp " + number(layout.dp) + " x micro-batch " +
         number(layout.micro_batch) + ") = " + number(micro_batches(job, layout)) + " micro-batches";
}

/// The nearest sizes of groups that are legal, if there are any.
std::string nearest_groups(const Job& job, const Layout& layout) {
  std::vector<std::string> found;
  const auto look = [&](int from, int to, int step) {
    Layout other = layout;
    for (other.vpp_group = from; other.vpp_group * step <= to * step; other.vpp_group += step) {
      if (!group_is_refused(job, other)) {
        found.push_back(number(other.vpp_group));
        return;
      }
    }
  };
  const int most = micro_batches(job, layout);
  look(std::min(layout.vpp_group - 1, most), layout.pp, -1);
  look(std::max(layout.vpp_group + 1, layout.pp), most, 1);
  return "; nearest: " + (found.empty() ? "vpp 1" : "vpp-group " + one_of(found));
}

}  // namespace

std::vector<Rule> pipeline_rules() {
  return {
      {"world-divides", "tp x pp x cp must divide the GPUs; dp is the quotient (Megatron-LM core/parallel_state.py)",
       RuleDepth::pipeline, world_does_not_divide, world_arithmetic},
      {"expert-grid-divides-world",
       "etp x ep x pp must divide the GPUs too: experts form a grid of their own with the same pipeline (Megatron-LM "
       "core/parallel_state.py); where experts stay inside data parallelism, dp x cp must divide by ep (DeepSpeed, "
       "nanotron)",
       RuleDepth::pipeline, expert_grid_does_not_divide,
       [](const Job& job, const Layout& layout) {
         const std::int64_t world = job.cluster.gpus();
         if (!row_of(job.training.framework).experts_span_tp) {
           const std::int64_t data = std::int64_t{layout.dp} * layout.cp;
           return "(dp " + number(layout.dp) + " x cp " + number(layout.cp) + ") % ep " + number(layout.ep) + " = " +
                  number(data % layout.ep) + nearest_values(job, layout, &Layout::ep, expert_grid_does_not_divide);
         }
         const std::int64_t grid = std::int64_t{layout.etp} * layout.ep * layout.pp;
         std::string nearest = nearest_values(job, layout, &Layout::ep, expert_grid_does_not_divide);
         if (nearest.rfind("; nearest", 0) != 0) {
           nearest = nearest_values(job, layout, &Layout::etp, expert_grid_does_not_divide);
         }
         return number(world) + " GPUs % (etp " + number(layout.etp) + " x ep " + number(layout.ep) + " x pp " +
                number(layout.pp) + ") = " + number(world % grid) + nearest;
       }},
      {"batch-divides",
       "the global batch must divide by micro-batch x dp (Megatron-LM core/num_microbatches_calculator.py)",
       RuleDepth::pipeline, batch_does_not_divide, batch_arithmetic},
      {"chunks-need-pipeline",
       "virtual stages need pp > 1, and pp > 2 when point-to-point overlap is off (Megatron-LM training/arguments.py)",
       RuleDepth::pipeline, chunks_without_pipeline,
       [](const Job& job, const Layout& layout) {
         return "vpp " + number(layout.vpp) + " with pp " + number(layout.pp) + " < " +
                number(fewest_stages_of_chunks(job)) +
                nearest_values(job, layout, &Layout::pp, chunks_without_pipeline) + ", or vpp 1";
       }},
      {"layers-fill-stages",
       "every virtual stage needs a layer; only embedding and head may stand alone, and stages of unequal depth are "
       "legal "
       "(Megatron-LM core/transformer/transformer_config.py: first, last and explicit stage layouts)",
       RuleDepth::pipeline, too_few_layers,
       [](const Job& job, const Layout& layout) {
         const std::int64_t stages = std::int64_t{layout.pp} * layout.vpp;
         return number(job.model.layers) + " layers + " + number(extra_stages(job)) + " < pp " + number(layout.pp) +
                " x vpp " + number(layout.vpp) + " = " + number(stages) +
                (layout.vpp > 1 ? nearest_values(job, layout, &Layout::vpp, too_few_layers)
                                : nearest_values(job, layout, &Layout::pp, too_few_layers));
       }},
      {"layers-per-stage-match",
       "given layers per stage must name every stage and add up to the model's layers "
       "(Megatron-LM core/transformer/pipeline_parallel_layer_layout.py)",
       RuleDepth::pipeline, given_stages_do_not_match, given_arithmetic},
      {"recompute-fits-stage",
       "full recomputation of N layers needs N layers in a stage (Megatron-LM core/transformer/transformer_config.py)",
       RuleDepth::pipeline, too_many_recomputed,
       [](const Job& job, const Layout& layout) {
         const std::int64_t stages = std::int64_t{layout.pp} * layout.vpp;
         const std::int64_t most = (job.model.layers + stages - 1) / stages;
         return "full:" + number(layout.recompute_layers) + " with " + number(job.model.layers) + " layers / (pp " +
                number(layout.pp) + " x vpp " + number(layout.vpp) + "), at most " + number(most) +
                " in a stage; nearest: full:" + number(most) + " or full";
       }},
      {"schedule-offered",
       "a framework runs its own pipeline schedules (DeepSpeed: 1f1b; nanotron: 1f1b, gpipe; Megatron-DeepSpeed: 1f1b, "
       "interleaved)",
       RuleDepth::pipeline, schedule_not_offered,
       [](const Job& job, const Layout& layout) {
         std::vector<std::string> offered;
         for (const Schedule schedule : habits_of(job.training.framework).schedules) {
           offered.emplace_back(name_in(kScheduleNames, schedule));
         }
         return framework_of(job) + " has no " + schedule_of(layout) + "; nearest: schedule " + one_of(offered);
       }},
      {"schedule-needs-pipeline", "a pipeline schedule other than the default needs pp > 1", RuleDepth::pipeline,
       schedule_without_pipeline,
       [](const Job& job, const Layout& layout) {
         return schedule_of(layout) + " with pp 1" +
                nearest_values(job, layout, &Layout::pp, schedule_without_pipeline) + ", or schedule 1f1b";
       }},
      {"schedule-suits-chunks",
       "interleaved needs at least 2 virtual stages per rank, zb-v exactly 2, the others 1 "
       "(torch.distributed.pipelining; TorchTitan distributed/pipeline_parallel.py)",
       RuleDepth::pipeline, chunks_do_not_suit, chunks_arithmetic},
      {"vpp-group-offered",
       "groups of micro-batches belong to interleaved 1F1B, and their size is an option of Megatron-Core alone "
       "(Megatron-LM --microbatch-group-size-per-virtual-pipeline-stage)",
       RuleDepth::pipeline, group_not_offered,
       [](const Job& job, const Layout& layout) {
         return "vpp-group " + number(layout.vpp_group) + " with schedule " + schedule_of(layout) + " in " +
                framework_of(job) + "; nearest: no vpp-group" +
                (sizes_groups(job) ? ", or schedule interleaved with vpp 2" : "");
       }},
      {"vpp-group-range",
       "a group holds at least pp micro-batches and at most all of them (Megatron-LM "
       "core/pipeline_parallel/schedules.py)",
       RuleDepth::pipeline, group_out_of_range,
       [](const Job& job, const Layout& layout) {
         return "vpp-group " + number(layout.vpp_group) + " with pp " + number(layout.pp) + " and " +
                micro_batch_count(job, layout) + nearest_groups(job, layout);
       }},
      {"vpp-group-remainder",
       "what whole groups leave over forms the last group: none, or at least pp micro-batches (Megatron-LM "
       "core/pipeline_parallel/schedules.py)",
       RuleDepth::pipeline, group_leaves_few,
       [](const Job& job, const Layout& layout) {
         return micro_batch_count(job, layout) + ", % vpp-group " + number(layout.vpp_group) + " = " +
                number(micro_batches(job, layout) % layout.vpp_group) + " < pp " + number(layout.pp) +
                nearest_groups(job, layout);
       }},
      {"interleaved-micro-batches",
       "interleaved 1F1B sends micro-batches in groups of pp, unless vpp-group says otherwise: at least pp of them, "
       "and a multiple of pp (Megatron-LM core/pipeline_parallel/schedules.py; torch needs rounds of equal size)",
       RuleDepth::pipeline, groups_do_not_divide,
       [](const Job& job, const Layout& layout) {
         const int count = micro_batches(job, layout);
         return micro_batch_count(job, layout) + ", % pp " + number(layout.pp) + " = " + number(count % layout.pp) +
                nearest_batches(job, layout, group_of_micro_batches(layout), group_of_micro_batches(layout),
                                groups_do_not_divide) +
                ", or vpp 1";
       }},
      {"micro-batches-fill-pipeline",
       "torch's 1F1B needs at least as many micro-batches as stages (torch.distributed.pipelining.schedules)",
       RuleDepth::pipeline, too_few_micro_batches,
       [](const Job& job, const Layout& layout) {
         return micro_batch_count(job, layout) + " < pp " + number(layout.pp) +
                nearest_batches(job, layout, one_micro_batch(layout), group_of_micro_batches(layout),
                                too_few_micro_batches);
       }},
      {"dualpipe-even",
       "DualPipe feeds both ends: an even number of stages, and an even number of micro-batches of at least 2 pp "
       "(DeepSeek DualPipe, dualpipe.py)",
       RuleDepth::pipeline, dualpipe_is_odd,
       [](const Job& job, const Layout& layout) {
         return micro_batch_count(job, layout) + ", pp " + number(layout.pp) + ", 2 pp = " + number(2 * layout.pp) +
                nearest_batches(job, layout, 2 * one_micro_batch(layout), 2 * group_of_micro_batches(layout),
                                dualpipe_is_odd);
       }},
  };
}

}  // namespace tpplan::detail
