#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cost-model/units.h"
#include "planner/export/export_target.h"
#include "planner/report/plan_report.h"
#include "planner/report/text_table.h"

namespace tpplan {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

std::string one_decimal(double value) {
  const double rounded = std::round(value * 10) / 10;
  const auto whole = static_cast<long long>(rounded);
  return with_separators(whole) + "." + std::to_string(std::llabs(std::llround(rounded * 10) % 10));
}

/// A column of the ranking. Importance decides which stay on a narrow terminal; a column whose cells are all equal is
/// told once when `shared` has a name for it.
struct RankingColumn {
  Column column;
  std::string shared;
  std::function<std::string(const Job&, const Plan&)> cell;
  std::string unsaid = {};      ///< a shared value that goes without saying
  bool only_different = false;  ///< any shared value does
};

RankingColumn axis_column(const AxisRow& axis, int importance) {
  const std::string name(axis.option);
  return {{name == "micro-batch" ? "mbs" : name, true, importance},
          name,
          [field = axis.field](const Job&, const Plan& plan) { return std::to_string(plan.layout.*field); },
          "1"};
}

std::string bound_text(const StepEstimate& step) { return std::string(bound_by(step)); }

std::vector<RankingColumn> layout_columns() {
  constexpr std::array<int, kAxes.size()> kImportance{88, 90, 89, 75, 74, 40, 72, 85};
  std::vector<RankingColumn> columns;
  columns.push_back({{"GPUs", true, 99},
                     "GPUs",
                     [](const Job&, const Plan& plan) { return with_separators(plan.layout.world()); },
                     "",
                     true});
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    columns.push_back(axis_column(kAxes[i], kImportance[i]));
  }
  const auto named = [&](const char* header, int importance, std::string (*cell)(const Layout&),
                         const char* unsaid = "") {
    columns.push_back({{header, false, importance},
                       header,
                       [cell](const Job&, const Plan& plan) { return cell(plan.layout); },
                       unsaid});
  };
  named(
      "vpp-group", 71, [](const Layout& l) { return l.vpp_group == 0 ? "pp" : std::to_string(l.vpp_group); }, "pp");
  named("zero", 76, [](const Layout& l) { return std::to_string(l.zero); });
  named(
      "shard-group", 35, [](const Layout& l) { return l.shard_group == 0 ? "all" : std::to_string(l.shard_group); },
      "all");
  named("sequence-parallel", 30, [](const Layout& l) { return std::string(l.sequence_parallel ? "on" : "off"); });
  named("recompute", 80, [](const Layout& l) { return recompute_text(l); });
  named(
      "schedule", 50, [](const Layout& l) { return std::string(name_in(kScheduleNames, l.schedule)); }, "1f1b");
  named(
      "cp-type", 34, [](const Layout& l) { return std::string(name_in(kCpTypeNames, l.cp_type)); }, "ring");
  named(
      "offload", 52, [](const Layout& l) { return std::string(name_in(kOffloadNames, l.offload)); }, "none");
  named("optimizer", 33, [](const Layout& l) { return std::string(name_in(kOptimizerNames, l.optimizer)); });
  named(
      "ranks-order", 10, [](const Layout& l) { return std::string(name_in(kRanksOrderNames, l.ranks_order)); },
      "tp-cp-dp-pp");
  named(
      "grad-reduce", 51, [](const Layout& l) { return std::string(name_in(kGradReduceNames, l.grad_reduce)); }, "auto");
  return columns;
}

std::vector<RankingColumn> result_columns() {
  return {
      {{"step s", true, 98}, "", [](const Job&, const Plan& p) { return brief_number(p.estimate.step.total().raw()); }},
      {{"sim s", true, 44},
       "simulated",
       [](const Job&, const Plan& p) { return p.simulated_s > 0 ? brief_number(p.simulated_s) : std::string("-"); },
       "-"},
      {{"+-%", true, 45},
       "interval",
       [](const Job&, const Plan& p) { return std::to_string(std::lround(p.estimate.step.step_error * 100)) + "%"; }},
      {{"tok/s/GPU", true, 65},
       "",
       [](const Job& job, const Plan& p) {
         return brief_number(tokens_per_second(job, p.estimate.step) / static_cast<double>(p.layout.world()));
       }},
      {{"MFU %", true, 60},
       "",
       [](const Job& job, const Plan& p) { return one_decimal(100 * mfu(job, p.layout, p.estimate.step)); }},
      {{"GiB", true, 95},
       "",
       [](const Job&, const Plan& p) { return one_decimal(p.estimate.memory.total().raw() / kGib); }},
      {{"bound by", false, 48}, "bound-by", [](const Job&, const Plan& p) { return bound_text(p.estimate.step); }},
  };
}

/// Marks of a rank: "=" for a tie with the plan above, "!" for tight memory.
std::string rank_text(std::size_t rank, const Plan& plan) {
  return std::to_string(rank) + (plan.tied_with_previous ? "=" : " ") + (plan.fits == Fits::tight ? "!" : " ");
}

bool any(const std::vector<Plan>& plans, const std::function<bool(const Plan&)>& test) {
  return std::any_of(plans.begin(), plans.end(), test);
}

/// The largest terms of the step with their shares: "compute 71 %, dp_comm 12 %, bubble 8 %".
std::string largest_terms(const StepEstimate& step, std::size_t count) {
  std::vector<const StepTermRow*> terms;
  for (const StepTermRow& term : kStepTerms) {
    terms.push_back(&term);
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [&](const StepTermRow* a, const StepTermRow* b) { return step.*(a->field) > step.*(b->field); });
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = step.*(terms[i]->field) / step.total();
    if (share >= 0.005) {
      text += (text.empty() ? "" : ", ") + std::string(terms[i]->key) + " " + percent(share);
    }
  }
  return text;
}

std::string largest_parts(const MemoryEstimate& memory, std::size_t count) {
  std::vector<const MemoryTermRow*> terms;
  for (const MemoryTermRow& term : kMemoryTerms) {
    terms.push_back(&term);
  }
  std::stable_sort(terms.begin(), terms.end(), [&](const MemoryTermRow* a, const MemoryTermRow* b) {
    return memory.*(a->field) > memory.*(b->field);
  });
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if ((memory.*(terms[i]->field)).raw() > 0) {
      text += (text.empty() ? "" : ", ") + std::string(terms[i]->key) + " " + format(memory.*(terms[i]->field));
    }
  }
  return text;
}

}  // namespace

TextTable ranking_table(const PlanReport& report, std::string& common) {
  const std::vector<Plan>& plans = report.result.plans;
  TextTable table;
  table.columns.push_back({"rank", true, 100});
  table.rows.resize(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::string text = rank_text(i + 1, plans[i]);
    table.rows[i].push_back(std::move(text));
  }
  const auto add = [&](const RankingColumn& column) {
    std::vector<std::string> cells;
    cells.reserve(plans.size());
    for (const Plan& plan : plans) {
      cells.push_back(column.cell(report.job, plan));
    }
    const bool equal = std::all_of(cells.begin(), cells.end(), [&](const auto& cell) { return cell == cells.front(); });
    const bool always =
        column.shared == "dp" || column.shared == "tp" || column.shared == "pp" || column.shared.empty();
    if (equal && !always) {
      if (cells.front() != column.unsaid && !column.only_different) {
        common += (common.empty() ? "" : " ") + column.shared + "=" + cells.front();
      }
      return;
    }
    table.columns.push_back(column.column);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      table.rows[i].push_back(std::move(cells[i]));
    }
  };
  for (const RankingColumn& column : layout_columns()) {
    add(column);
  }
  for (const RankingColumn& column : result_columns()) {
    add(column);
  }
  return table;
}

std::vector<std::string> ranking_notes(const PlanReport& report) {
  const std::vector<Plan>& plans = report.result.plans;
  std::vector<std::string> notes{
      "step s: seconds of one optimizer step (interval +-: 80 %); GiB: device memory of the fullest GPU, of " +
      one_decimal(report.job.cluster.gpu.usable.raw() / kGib) + " (1 GiB = 2^30 bytes)"};
  if (any(plans, [](const Plan& plan) { return plan.simulated_s > 0; })) {
    std::string note = "sim s: the same step simulated event by event; all other figures are the estimate's";
    if (report.result.fastest_simulated) {
      const Plan& fastest = *report.result.fastest_simulated;
      note += ". Simulation would put first, at " + brief_number(fastest.simulated_s) +
              " s, a layout that is not shown: " + to_text(fastest.layout);
    }
    notes.push_back(std::move(note));
  }
  if (any(plans, [](const Plan& plan) { return plan.tied_with_previous; })) {
    notes.emplace_back("= tied with the plan above: the difference is within the uncertainty of the prediction");
  }
  if (any(plans, [](const Plan& plan) { return plan.fits == Fits::tight; })) {
    notes.emplace_back("! tight: fits only while the allocator wastes nothing");
  }
  return notes;
}

std::vector<AnswerLine> answer_lines(const PlanReport& report, const Terminal& terminal) {
  const Plan& best = report.result.plans.front();
  const StepEstimate& step = best.estimate.step;
  const MemoryEstimate& memory = best.estimate.memory;
  const std::string to = terminal.unicode ? "\u2013" : " to ";
  const double tokens = tokens_per_second(report.job, step);
  const double used = memory.total() / memory.capacity;
  std::vector<AnswerLine> lines;
  lines.push_back({"layout", to_text(best.layout), Style::good});
  lines.push_back({"step time", format(step.total()) + " (80 % interval " +
                                    format(interval80(step.total(), step.step_error).low) + to +
                                    format(interval80(step.total(), step.step_error).high) + ")" +
                                    (best.simulated_s > 0 ? ", simulated " + format(Seconds(best.simulated_s)) : "")});
  lines.push_back({"throughput", brief_number(tokens / report.job.cluster.gpus()) + " tokens/s/GPU, " +
                                     brief_number(tokens) + " tokens/s, MFU " +
                                     one_decimal(100 * mfu(report.job, best.layout, step)) + " %"});
  lines.push_back(
      {"memory",
       format(memory.total()) + " of " + format(memory.capacity) + " per GPU (" + percent(used) + "), " +
           (best.fits == Fits::tight ? "tight"
                                     : "fits with " + percent(report.job.training.memory_headroom) + " kept free"),
       best.fits == Fits::tight ? Style::caution : Style::plain});
  lines.push_back({"bound by", bound_text(step) + " (" + largest_terms(step, 4) + ")"});
  return lines;
}

std::vector<std::string> miss_lines(const PlanReport& report) {
  std::vector<std::string> lines;
  if (report.result.closest) {
    const Plan& closest = *report.result.closest;
    const MemoryEstimate& memory = closest.estimate.memory;
    const Bytes usable = memory.capacity * (1 - report.job.training.memory_headroom);
    const Bytes missing = memory.total() - usable;
    lines.push_back("closest: " + to_text(closest.layout));
    lines.push_back("needs " + format(memory.total()) + " per GPU, " + format(missing) + " more than the " +
                    format(usable) + " that " + format(memory.capacity) + " leave with " +
                    percent(report.job.training.memory_headroom) + " kept free");
    lines.push_back("largest parts: " + largest_parts(memory, 4));
  } else {
    for (const RejectionCount& count : rejections(report.result.stats)) {
      for (const Rule& rule : rules()) {
        if (rule.name == count.rule) {
          lines.push_back(with_separators(count.layouts) + " break " + std::string(rule.name) + ": " +
                          std::string(rule.statement));
        }
      }
    }
    if (lines.empty()) {
      lines.emplace_back("the options leave no layout to look at");
    }
  }
  for (const std::string& remedy : report.remedies) {
    lines.push_back("would fit: " + remedy);
  }
  return lines;
}

std::vector<std::string> next_commands(const PlanReport& report) {
  std::vector<std::string> commands;
  const auto add = [&](const std::string& command, const Layout& layout) {
    commands.push_back("tpplan " + command + " " + report.inputs_text + " --layout \"" + to_text(layout) + "\"");
  };
  if (!report.result.plans.empty()) {
    const Layout& best = report.result.plans.front().layout;
    add("explain", best);
    if (const ExportTarget* target = target_for(report.job, best)) {
      add("export --to " + std::string(name_in(kTargetNames, target->target)), best);
    }
  } else if (report.result.closest) {
    add("explain", report.result.closest->layout);
  }
  return commands;
}

}  // namespace tpplan
