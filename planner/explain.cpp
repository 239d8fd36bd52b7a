#include "planner/explain.h"

#include <algorithm>

#include "cost-model/calibration.h"

namespace tpplan {
namespace {

std::string number(std::int64_t value) { return with_separators(value); }

std::vector<ExplainedPart> parts_of(const Job& job, const Layout& layout) {
  const LayerKey key = layer_key(layout);
  const int moe_layers = job.moe() ? job.moe_before.back() : 0;
  std::vector<ExplainedPart> parts;
  if (job.model.layers > moe_layers) {
    parts.push_back({"dense layer", job.model.layers - moe_layers, layer_operations(job, key, false)});
  }
  if (moe_layers > 0) {
    parts.push_back({"MoE layer", moe_layers, layer_operations(job, key, true)});
  }
  parts.push_back({"embedding", 1, embedding_operations(job, key)});
  parts.push_back({"head and loss", 1, head_operations(job, key)});
  return parts;
}

/// Depths of the stages as runs of equal ones: "7, 14 x 8, 7".
std::string runs_of(const std::vector<int>& depths) {
  std::string text;
  for (std::size_t i = 0; i < depths.size();) {
    std::size_t end = i;
    while (end < depths.size() && depths[end] == depths[i]) {
      ++end;
    }
    text += (text.empty() ? "" : ", ") + (end - i > 1 ? std::to_string(end - i) + " x " : std::string()) +
            std::to_string(depths[i]);
    i = end;
  }
  return text;
}

std::vector<std::string> notes_of(const Job& job, const Plan& plan) {
  std::vector<std::string> notes;
  const int padded = padded_vocab(job, plan.layout.tp);
  if (padded != job.model.vocab) {
    const bool by_128 = kFrameworkTable[static_cast<std::size_t>(job.training.framework)].pads_vocab_128;
    notes.push_back("vocabulary " + number(job.model.vocab) + " padded to " + number(padded) + ", a multiple of " +
                    (by_128 ? "128 x tp " : "tp ") + number(plan.layout.tp) + " (" +
                    std::string(name_of(job.training.framework)) + ")");
  }
  const auto& depths = plan.layers_per_stage;
  if (!depths.empty() && std::adjacent_find(depths.begin(), depths.end(), std::not_equal_to<>()) != depths.end()) {
    notes.push_back("stages are of unequal depth, layers per pipeline rank: " + runs_of(depths) +
                    (job.training.layers_per_stage.empty()
                         ? " (the ends hold embedding and head and get the fewer layers)"
                         : " (as given)"));
  }
  if (plan.estimate.memory.host_bytes.raw() > 0) {
    notes.push_back("offloading keeps " + format(plan.estimate.memory.host_bytes) + " per GPU in host memory");
  }
  return notes;
}

StepComparison comparison_of(const StepEstimate& step, Seconds measured) {
  StepComparison comparison;
  comparison.measured = measured;
  comparison.predicted = step.total();
  const Seconds difference = measured - comparison.predicted;
  const Interval<Seconds> interval = interval80(comparison.predicted, step.step_error);
  comparison.inside_interval = measured >= interval.low && measured <= interval.high;
  for (const StepTermRow& row : kStepTerms) {
    comparison.terms.push_back({row.key, step.*row.field, step.*row.field + difference});
  }
  return comparison;
}

/// Applies a move's axis to another layout.
using Setter = void (*)(Layout&, std::int32_t);
struct MovableAxis {
  std::string_view option;
  Setter set;
  std::string (*text)(const Layout&);
};

template <std::int32_t Layout::*Field>
constexpr MovableAxis size_axis(std::string_view option) {
  return {option, [](Layout& layout, std::int32_t value) { layout.*Field = value; },
          [](const Layout& layout) { return std::to_string(layout.*Field); }};
}

const std::array<MovableAxis, 10> kMovable{{
    size_axis<&Layout::tp>("tp"),
    size_axis<&Layout::pp>("pp"),
    size_axis<&Layout::cp>("cp"),
    size_axis<&Layout::ep>("ep"),
    size_axis<&Layout::micro_batch>("micro-batch"),
    {"recompute",
     [](Layout& layout, std::int32_t value) {
       layout.recompute = static_cast<RecomputeKind>(value);
       layout.recompute_layers = 0;
       layout.recompute_modules = kCoreAttention;
     },
     [](const Layout& layout) { return recompute_text(layout); }},
    {"zero", [](Layout& layout, std::int32_t value) { layout.zero = static_cast<std::uint8_t>(value); },
     [](const Layout& layout) { return std::to_string(layout.zero); }},
    {"sequence-parallel", [](Layout& layout, std::int32_t value) { layout.sequence_parallel = value != 0; },
     [](const Layout& layout) { return std::string(layout.sequence_parallel ? "on" : "off"); }},
    {"vpp",
     [](Layout& layout, std::int32_t value) {
       layout.vpp = value;
       layout.vpp_group = value > 1 ? layout.vpp_group : 0;
       layout.schedule = value > 1 ? Schedule::interleaved : Schedule::f1b1;
     },
     [](const Layout& layout) { return std::to_string(layout.vpp); }},
    {"offload", [](Layout& layout, std::int32_t value) { layout.offload = static_cast<Offload>(value); },
     [](const Layout& layout) { return std::string(name_in(kOffloadNames, layout.offload)); }},
}};

/// Changed axes (indices of kMovable, ascending) with their new values.
using Moves = std::vector<std::pair<std::size_t, std::int32_t>>;

/// Every change of one axis that may save memory.
Moves moves_of(const Job& job, const Layout& layout) {
  Moves moves;
  const auto multiples = [&](std::size_t axis, std::int32_t now, std::int32_t most) {
    for (std::int64_t value = std::int64_t{now} * 2; value <= most; value *= 2) {
      moves.emplace_back(axis, static_cast<std::int32_t>(value));
    }
  };
  const int world = job.cluster.gpus();
  multiples(0, layout.tp, world);
  multiples(1, layout.pp, std::min(world, job.model.layers));
  multiples(2, layout.cp, world);
  if (job.model.moe) {
    multiples(3, layout.ep, job.model.moe->experts);
  }
  for (std::int32_t size = layout.micro_batch / 2; size >= 1; size /= 2) {
    moves.emplace_back(4, size);
  }
  for (const std::string& text : habits_of(job.training.framework).recompute) {
    Layout other = layout;
    if (set_recompute(other, text) && other.recompute > layout.recompute) {
      moves.emplace_back(5, static_cast<std::int32_t>(other.recompute));
    }
  }
  for (const std::uint8_t stage : habits_of(job.training.framework).zero) {
    if (stage > layout.zero) {
      moves.emplace_back(6, stage);
    }
  }
  if (!layout.sequence_parallel && layout.tp > 1) {
    moves.emplace_back(7, 1);
  }
  if (layout.vpp > 1) {
    moves.emplace_back(8, 1);
  }
  if (layout.offload == Offload::none) {
    moves.emplace_back(9, static_cast<std::int32_t>(Offload::optimizer));
  }
  return moves;
}

/// The layout after some moves, dp, sequence parallelism and experts following as they usually do.
Layout moved(const Job& job, const Layout& from, const Moves& moves) {
  Layout layout = from;
  for (const auto& [axis, value] : moves) {
    kMovable[axis].set(layout, value);
  }
  if (from.tp == 1 && layout.tp > 1) {
    layout.sequence_parallel = job.training.seq % (std::int64_t{layout.tp} * layout.cp) == 0;
  }
  if (from.etp == from.tp && from.tp > 1) {
    layout.etp = layout.tp;
  }
  if (from.pp > 1 && layout.pp == 1) {
    layout.schedule = Schedule::f1b1;
  }
  const std::int64_t product = std::int64_t{layout.tp} * layout.pp * layout.cp;
  layout.dp = static_cast<std::int32_t>(std::max<std::int64_t>(1, job.cluster.gpus() / product));
  return layout;
}

/// A legal layout that fits, and the moves that lead to it.
struct Attempt {
  Seconds time;
  Layout layout;
  Moves moves;
};

/// Every way to add one more move to the `starts`, on an axis behind theirs. Those that contain an `enough` change,
/// which suffices alone, are no news and left out. `tried` receives the others, whether they fit or not.
std::vector<Attempt> attempts(const Job& job, const Layout& from, const std::vector<Moves>& starts, const Moves& single,
                              const std::vector<Moves>& enough, std::vector<Moves>& tried) {
  std::vector<Attempt> found;
  for (const Moves& start : starts) {
    for (const auto& move : single) {
      if (!start.empty() && move.first <= start.back().first) {
        continue;
      }
      Moves moves = start;
      moves.push_back(move);
      if (std::any_of(enough.begin(), enough.end(), [&](const Moves& part) {
            return std::includes(moves.begin(), moves.end(), part.begin(), part.end());
          })) {
        continue;
      }
      tried.push_back(moves);
      const Layout layout = moved(job, from, moves);
      if (first_broken_rule(job, layout) >= 0) {
        continue;
      }
      const Estimate priced = estimate(job, layout);
      if (verdict(priced.memory, job.training.memory_headroom) != Fits::no) {
        found.push_back({priced.step.total(), layout, std::move(moves)});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Attempt& a, const Attempt& b) {
    return a.time < b.time || (a.time == b.time && a.layout < b.layout);
  });
  return found;
}

std::string moves_text(const Moves& moves, const Layout& before, const Layout& after) {
  std::string text;
  for (const auto& [axis, value] : moves) {
    text += (text.empty() ? "" : ", ") + std::string(kMovable[axis].option) + " " + kMovable[axis].text(after) +
            " (was " + kMovable[axis].text(before) + ")";
  }
  return text;
}

}  // namespace

std::vector<Remedy> remedies_of(const Job& job, const Plan& plan) {
  constexpr std::size_t kWanted = 3;
  constexpr int kUsualAxes = 2;
  constexpr int kMostAxes = 3;
  const Moves single = moves_of(job, plan.layout);
  std::vector<Attempt> found;
  std::vector<Moves> enough;
  std::vector<Moves> starts{{}};
  for (int axes = 1; axes <= kUsualAxes || (axes <= kMostAxes && found.size() < kWanted); ++axes) {
    std::vector<Moves> tried;
    std::vector<Attempt> more = attempts(job, plan.layout, starts, single, enough, tried);
    for (Attempt& attempt : more) {
      enough.push_back(attempt.moves);
      found.push_back(std::move(attempt));
    }
    starts = std::move(tried);
  }
  std::stable_sort(found.begin(), found.end(), [](const Attempt& a, const Attempt& b) { return a.time < b.time; });
  std::vector<Remedy> remedies;
  for (const Attempt& attempt : found) {
    Remedy remedy;
    remedy.plan = plan_of(job, attempt.layout);
    if (remedy.plan.fits != Fits::no) {
      remedy.text = moves_text(attempt.moves, plan.layout, attempt.layout);
      remedy.slowdown = attempt.time / plan.estimate.step.total() - 1;
      remedies.push_back(std::move(remedy));
    }
    if (remedies.size() == kWanted) {
      break;
    }
  }
  return remedies;
}

Explanation explain(const Job& job, const Layout& layout, std::optional<Seconds> measured_step) {
  Explanation result;
  result.layout = layout;
  for (const int broken : broken_rules(job, layout)) {
    const Rule& rule = rules()[static_cast<std::size_t>(broken)];
    result.broken.push_back({rule.name, rule.statement, rule.arithmetic(job, layout)});
  }
  if (!result.broken.empty()) {
    return result;
  }
  result.plan = plan_of(job, layout);
  result.micro_batches = micro_batches(job, layout);
  result.time = explained_time(job, result.plan, result.last_stage);
  result.memory = explained_memory(job, result.plan);
  result.parts = parts_of(job, layout);
  const MemoryEstimate& memory = result.plan.estimate.memory;
  result.missing = max(Bytes(0), memory.total() - memory.capacity * (1 - job.training.memory_headroom));
  if (result.plan.fits == Fits::no) {
    result.remedies = remedies_of(job, result.plan);
    if (result.remedies.empty()) {
      const SearchResult found = search(job, {}, Objective::step_time, 1);
      if (!found.plans.empty()) {
        result.fallback = found.plans.front();
      }
    }
  }
  result.warnings = warnings(job, layout);
  result.notes = notes_of(job, result.plan);
  if (measured_step) {
    result.comparison = comparison_of(result.plan.estimate.step, *measured_step);
  }
  return result;
}

}  // namespace tpplan
