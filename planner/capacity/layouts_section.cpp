#include <algorithm>

#include "planner/capacity/sections.h"

namespace tpplan {
namespace {

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) {
      found.push_back(d);
    }
  }
  return found;
}

std::size_t axis_index(std::string_view name) {
  std::size_t index = 0;
  while (kAxes[index].option != name) {
    ++index;
  }
  return index;
}

Figure step_figure(const Plan& plan) {
  const double step = plan.estimate.step.total().raw();
  const Interval<double> interval = interval80(step, plan.estimate.step.step_error);
  return {step, interval.low, interval.high};
}

constexpr double kGiB = 1073741824;

/// One row per plan: layout, figures, then every term of time and memory.
ReportTable layout_table(const Job& job, const std::vector<const Plan*>& plans) {
  ReportTable table;
  table.columns = {{"rank", "#", FigureStyle::text, 9},
                   {"layout", "layout", FigureStyle::text, 10},
                   {"step_time_s", "step s", FigureStyle::number, 9},
                   {"tokens_per_s_per_gpu", "tokens/s/GPU", FigureStyle::number, 8},
                   {"mfu", "MFU", FigureStyle::share, 8},
                   {"memory_gib", "GiB", FigureStyle::number, 8},
                   {"fits", "fits", FigureStyle::text, 7}};
  for (const StepTermRow& term : kStepTerms) {
    table.columns.push_back({std::string(term.key) + "_s", std::string(term.key) + " s", FigureStyle::number, 2});
  }
  for (const MemoryTermRow& term : kMemoryTerms) {
    table.columns.push_back({std::string(term.key) + "_gib", std::string(term.key) + " GiB", FigureStyle::number, 1});
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = *plans[i];
    const MemoryEstimate& memory = plan.estimate.memory;
    const double total = memory.total().raw() / kGiB;
    std::vector<ReportCell> row{
        std::to_string(i + 1),
        to_text(plan.layout),
        step_figure(plan),
        Figure{tokens_per_second(job, plan.estimate.step) / job.cluster.gpus()},
        Figure{mfu(job, plan.layout, plan.estimate.step)},
        Figure{total, interval80(total, memory.error).low, interval80(total, memory.error).high},
        std::string(name_of(plan.fits))};
    for (const StepTermRow& term : kStepTerms) {
      row.emplace_back(Figure{(plan.estimate.step.*term.field).raw()});
    }
    for (const MemoryTermRow& term : kMemoryTerms) {
      row.emplace_back(Figure{(memory.*term.field).raw() / kGiB});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct Family {
  std::string_view name;
  bool (*tp)(int);
  bool (*pp)(int);
  bool (*cp)(int);
};
bool one(int value) { return value == 1; }
bool more(int value) { return value > 1; }
constexpr std::array<Family, 6> kFamilies{{
    {"data alone (DDP, ZeRO, FSDP)", one, one, one},
    {"tensor + data", more, one, one},
    {"pipeline + data", one, more, one},
    {"tensor + pipeline + data", more, more, one},
    {"context + data", one, one, more},
    {"tensor + context + data", more, one, more},
}};

PlannerOptions restricted(const PlannerOptions& options, int world, const Family& family) {
  PlannerOptions changed = options;
  restrict_axis(changed, "tp", world, family.tp);
  restrict_axis(changed, "pp", world, family.pp);
  restrict_axis(changed, "cp", world, family.cp);
  return changed;
}

/// Tensor parallel inside the fast domain until it fits, then data parallel; pipeline across nodes when one domain is
/// too small. Micro-batch, recomputation and the rest are the best for that choice.
std::optional<PricedPlan> rule_of_thumb(const Subject& subject) {
  const ClusterSpec& cluster = subject.plan.job.cluster;
  const int domain = cluster.tiers.empty() ? 1 : std::min(cluster.tiers.front().span, cluster.gpus_per_node);
  const auto priced = [&](int tp, int pp) {
    PlannerOptions options = subject.planner.options();
    options.space.axes[axis_index("tp")].values = {tp};
    options.space.axes[axis_index("pp")].values = {pp};
    options.space.axes[axis_index("cp")].values = {1};
    return subject.planner.best(options, subject.model, cluster);
  };
  for (int tp = 1; tp <= domain; tp *= 2) {
    if (auto plan = priced(tp, 1)) {
      return plan;
    }
  }
  for (int pp = 2; pp <= std::min(cluster.gpus() / domain, subject.model.layers); pp *= 2) {
    if (auto plan = priced(domain, pp)) {
      return plan;
    }
  }
  return std::nullopt;
}

void add_family(ReportTable& table, const Subject& subject, std::string name, const std::optional<PricedPlan>& plan,
                const std::string& why) {
  if (!plan) {
    table.rows.push_back({std::move(name), {}, {}, {}, {}, {}, why});
    return;
  }
  const double best = subject.plan.plan.estimate.step.total().raw() / subject.plan.job.training.global_batch;
  const double own = plan->plan.estimate.step.total().raw() / plan->job.training.global_batch;
  table.rows.push_back({std::move(name),
                        to_text(plan->plan.layout),
                        step_figure(plan->plan),
                        Figure{own / best - 1},
                        Figure{plan->plan.estimate.memory.total().raw() / kGiB},
                        Figure{mfu(plan->job, plan->plan.layout, plan->plan.estimate.step)},
                        {}});
}

}  // namespace

std::string cluster_text(const ClusterSpec& cluster) {
  const std::string gpu = " x " + cluster.gpu.name;
  return cluster.nodes == 1
             ? std::to_string(cluster.gpus_per_node) + gpu
             : std::to_string(cluster.nodes) + " nodes of " + std::to_string(cluster.gpus_per_node) + gpu;
}

void restrict_axis(PlannerOptions& options, std::string_view axis, int world, bool (*keep)(int)) {
  std::vector<int>& values = options.space.axes[axis_index(axis)].values;
  const std::vector<int> allowed = values.empty() ? divisors(world) : values;
  values.clear();
  for (const int value : allowed) {
    if (keep(value)) {
      values.push_back(value);
    }
  }
  if (values.empty()) {
    values.push_back(0);  // no value is left: nothing is legal
  }
}

ReportSection layouts_section(const Subject& subject) {
  std::vector<const Plan*> plans{&subject.plan.plan};
  for (const Plan& plan : subject.plan.others) {
    plans.push_back(&plan);
  }
  // The other end of the trade: plans in order of memory.
  const SearchResult lean = search(subject.plan.job, space_from(subject.planner.options(), subject.plan.job),
                                   Objective::memory, 3, subject.planner.options().jobs);
  for (const Plan& plan : lean.plans) {
    const bool known =
        std::any_of(plans.begin(), plans.end(), [&](const Plan* other) { return other->layout == plan.layout; });
    if (!known) {
      plans.push_back(&plan);
    }
  }
  ReportSection section{.id = "layouts", .title = "Layouts"};
  section.table = layout_table(subject.plan.job, plans);
  const double capacity = subject.plan.plan.estimate.memory.capacity.raw() / kGiB;
  std::vector<std::string> step_terms;
  for (const StepTermRow& term : kStepTerms) {
    step_terms.push_back(std::string(term.key) + "_s");
  }
  std::vector<std::string> memory_terms;
  for (const MemoryTermRow& term : kMemoryTerms) {
    memory_terms.push_back(std::string(term.key) + "_gib");
  }
  const double headroom = subject.plan.job.training.memory_headroom;
  section.charts = {{.kind = ChartKind::stacked,
                     .title = "Where a step goes",
                     .x = "rank",
                     .series = step_terms,
                     .x_label = "layout",
                     .y_label = "seconds",
                     .marked_row = 0},
                    {.kind = ChartKind::stacked,
                     .title = "Memory of the fullest GPU",
                     .x = "rank",
                     .series = memory_terms,
                     .x_label = "layout",
                     .y_label = "GiB",
                     .lines = {{capacity, "capacity"}, {capacity * (1 - headroom), "capacity less headroom"}},
                     .marked_row = 0},
                    {.kind = ChartKind::scatter,
                     .title = "Time against memory",
                     .x = "step_time_s",
                     .series = {"memory_gib"},
                     .x_label = "seconds per step",
                     .y_label = "GiB",
                     .lines = {{capacity, "capacity"}},
                     .marked_row = 0}};
  section.notes = {
      "the fastest layouts first, then those that need least memory; step times with their 80 % interval, "
      "most of which layouts of one search share"};
  return section;
}

ReportSection families_section(const Subject& subject) {
  ReportSection section{.id = "families", .title = "Families of layouts"};
  section.table.columns = {
      {"family", "family", FigureStyle::text, 9},        {"layout", "best layout", FigureStyle::text, 4},
      {"step_time_s", "step s", FigureStyle::number, 7}, {"slower", "slower by", FigureStyle::share, 7},
      {"memory_gib", "GiB", FigureStyle::number, 5},     {"mfu", "MFU", FigureStyle::share, 5},
      {"reason", "none because", FigureStyle::text, 3}};
  const int world = subject.plan.job.cluster.gpus();
  for (const Family& family : kFamilies) {
    std::string why;
    const auto plan = subject.planner.best(restricted(subject.planner.options(), world, family), subject.model,
                                           subject.plan.job.cluster, 0, &why);
    add_family(section.table, subject, std::string(family.name), plan, why);
  }
  const auto thumb = rule_of_thumb(subject);
  add_family(section.table, subject, "rule of thumb", thumb, "does not fit");
  if (thumb) {
    const double cost = thumb->plan.estimate.step.total() / subject.plan.plan.estimate.step.total() - 1;
    section.summary.push_back(
        "The rule of thumb (tensor parallel inside the node until it fits, then data parallel, pipeline across nodes) "
        "leads to " +
        to_text(thumb->plan.layout) + ": " + brief_number(100 * std::max(0.0, cost)) + " % slower than the best of " +
        with_separators(subject.plan.stats.costed()) + " layouts, " + to_text(subject.plan.plan.layout) + ".");
  }
  section.charts = {{.kind = ChartKind::bars,
                     .title = "The best step of each family",
                     .x = "family",
                     .series = {"step_time_s"},
                     .x_label = "family",
                     .y_label = "seconds per step"}};
  section.notes = {"a layout of one family may be tied with the best: compare the difference with the interval"};
  return section;
}

}  // namespace tpplan
