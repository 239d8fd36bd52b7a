#include <algorithm>

#include "cost-model/simulate.h"
#include "planner/report/capacity_output.h"
#include "planner/report/gantt_svg.h"
#include "planner/report/plan_report.h"

namespace tpplan {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

Figure seconds_of(const StepEstimate& step) {
  const auto [low, high] = interval80(step.total(), step.step_error);
  return {step.total().raw(), low.raw(), high.raw()};
}

Figure memory_of(const MemoryEstimate& memory) {
  const auto [low, high] = interval80(memory.total().raw() / kGib, memory.error);
  return {memory.total().raw() / kGib, low, high};
}

Figure count_of(std::size_t value) { return {static_cast<double>(value)}; }

/// The columns that name a plan: its rank and its layout.
std::vector<ReportColumn> plan_columns() {
  return {{"rank", "rank", FigureStyle::count, 9}, {"layout", "layout", FigureStyle::text, 8}};
}

std::vector<ReportCell> plan_cells(const PlanReport& report, std::size_t index) {
  return {count_of(index + 1), to_text(report.result.plans[index].layout)};
}

ReportSection ranking_section(const PlanReport& report) {
  ReportSection section{.id = "ranking", .title = "Ranking"};
  section.table.columns = plan_columns();
  for (ReportColumn column :
       {ReportColumn{"step_time_s", "step s", FigureStyle::number, 7},
        ReportColumn{"tokens_per_s_per_gpu", "tokens/s/GPU", FigureStyle::count, 6},
        ReportColumn{"mfu", "MFU", FigureStyle::share, 5}, ReportColumn{"memory_gib", "GiB", FigureStyle::number, 6},
        ReportColumn{"fits", "memory", FigureStyle::text, 4},
        ReportColumn{"bound_by", "bound by", FigureStyle::text, 3},
        ReportColumn{"tied", "tied", FigureStyle::text, 2}}) {
    section.table.columns.push_back(std::move(column));
  }
  const Job& job = report.job;
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    const Plan& plan = report.result.plans[i];
    std::vector<ReportCell> row = plan_cells(report, i);
    row.emplace_back(seconds_of(plan.estimate.step));
    row.emplace_back(Figure{tokens_per_second(job, plan.estimate.step) / job.cluster.gpus()});
    row.emplace_back(Figure{mfu(job, plan.layout, plan.estimate.step)});
    row.emplace_back(memory_of(plan.estimate.memory));
    row.emplace_back(std::string(name_of(plan.fits)));
    row.emplace_back(std::string(bound_by(plan.estimate.step)));
    row.emplace_back(plan.tied_with_previous ? "with the plan above" : "");
    section.table.rows.push_back(std::move(row));
  }
  const double capacity = report.result.plans.front().estimate.memory.capacity.raw() / kGib;
  section.charts = {{.kind = ChartKind::scatter,
                     .title = "Time against memory",
                     .x = "step_time_s",
                     .series = {"memory_gib"},
                     .x_label = "seconds per step",
                     .y_label = "GiB of the fullest GPU",
                     .lines = {{capacity, "capacity"}},
                     .marked_row = 0}};
  section.notes = ranking_notes(report);
  return section;
}

/// Time or memory of every plan by its terms, as stacked bars.
template <class Rows, class Value>
ReportSection terms_section(const PlanReport& report, ReportSection section, const ReportColumn& total,
                            const char* suffix, const Rows& rows, Value value) {
  section.table.columns = plan_columns();
  section.table.columns.push_back(total);
  ReportChart chart{.kind = ChartKind::stacked,
                    .title = section.title,
                    .x = "rank",
                    .series = {},
                    .x_label = "plan",
                    .y_label = total.header,
                    .marked_row = 0};
  for (const auto& row : rows) {
    chart.series.push_back(std::string(row.key) + suffix);
    section.table.columns.push_back({chart.series.back(), std::string(row.key), FigureStyle::number, 3});
  }
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    std::vector<ReportCell> cells = plan_cells(report, i);
    const auto [whole, terms] = value(report.result.plans[i]);
    cells.emplace_back(whole);
    for (const double term : terms) {
      cells.emplace_back(Figure{term});
    }
    section.table.rows.push_back(std::move(cells));
  }
  section.charts = {std::move(chart)};
  return section;
}

ReportSection time_section(const PlanReport& report) {
  ReportSection section{.id = "time", .title = "Where a step goes"};
  for (const StepTermRow& row : kStepTerms) {
    section.notes.push_back(std::string(row.key) + ": " + std::string(row.meaning));
  }
  return terms_section(report, std::move(section), {"step_time_s", "seconds per step", FigureStyle::number, 7}, "_s",
                       kStepTerms, [](const Plan& plan) {
                         std::vector<double> terms;
                         for (const StepTermRow& row : kStepTerms) {
                           terms.push_back((plan.estimate.step.*row.field).raw());
                         }
                         return std::pair(seconds_of(plan.estimate.step), terms);
                       });
}

ReportSection memory_section(const PlanReport& report) {
  ReportSection section{.id = "memory", .title = "Memory of the fullest GPU"};
  for (const MemoryTermRow& row : kMemoryTerms) {
    section.notes.push_back(std::string(row.key) + ": " + std::string(row.meaning));
  }
  section = terms_section(report, std::move(section), {"memory_gib", "GiB", FigureStyle::number, 7}, "_gib",
                          kMemoryTerms, [](const Plan& plan) {
                            std::vector<double> terms;
                            for (const MemoryTermRow& row : kMemoryTerms) {
                              terms.push_back((plan.estimate.memory.*row.field).raw() / kGib);
                            }
                            return std::pair(memory_of(plan.estimate.memory), terms);
                          });
  const double capacity = report.result.plans.front().estimate.memory.capacity.raw() / kGib;
  const double headroom = report.job.training.memory_headroom;
  section.charts.front().lines = {{capacity, "capacity"}, {capacity * (1 - headroom), "capacity less headroom"}};
  return section;
}

/// The part of a step that is drawn: the warm-up, and as many passes after it as leave room for their numbers.
TimeWindow drawn_window(const SimulatedStep& step) {
  constexpr double kAfterWarmUp = 1.35;  // times the first rank's time until its first backward pass
  constexpr double kPasses = 60;         // of the median length, at least
  double first_backward = 0;
  std::vector<double> lengths;
  for (const SimulatedOperation& operation : step.operations) {
    if (operation.kind == SimulatedKind::pass && operation.rank == 0) {
      lengths.push_back(operation.end - operation.start);
      if (operation.pass.kind != PassKind::forward && first_backward == 0) {
        first_backward = operation.end;
      }
    }
  }
  if (lengths.empty()) {
    return {};
  }
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return within(step, {0, std::max(kAfterWarmUp * first_backward, kPasses * *middle)});
}

ReportSection pipeline_section(const PlanReport& report) {
  const Plan& best = report.result.plans.front();
  ReportSection section{.id = "pipeline", .title = "The pipeline of the best plan"};
  const SimulatedStep step = simulate(report.job, best.layout);
  section.summary = {"Simulated event by event: " + format(Seconds(step.makespan)) + " per step, against " +
                     format(best.estimate.step.total()) + " estimated."};
  section.svg = gantt_svg(step, "The start of a step of the best plan", drawn_window(step));
  return section;
}

void add_answer(CapacityReport& page, const PlanReport& report) {
  const Plan& best = report.result.plans.front();
  const StepEstimate& step = best.estimate.step;
  page.decision =
      to_text(best.layout) + ": " + format(step.total()) + " per step, bound by " + std::string(bound_by(step)) + ".";
  page.headlines = {{"step time", "step_time_s", seconds_of(step), "s"},
                    {"speed",
                     "tokens_per_s_per_gpu",
                     {tokens_per_second(report.job, step) / report.job.cluster.gpus()},
                     "tokens/s/GPU"},
                    {"memory of the fullest GPU", "memory_gib", memory_of(best.estimate.memory),
                     "of " + brief_number(best.estimate.memory.capacity.raw() / kGib) + " GiB"}};
  page.sections = {ranking_section(report), time_section(report), memory_section(report)};
  if (best.layout.pp > 1) {
    page.sections.push_back(pipeline_section(report));
  }
}

}  // namespace

std::string html_report(const PlanReport& report, const Terminal&, std::string&) {
  CapacityReport page;
  page.title = job_line(report.job);
  page.version = TPPLAN_VERSION;
  page.command = "tpplan " + report.command_text;
  page.warnings = report.warnings;
  page.answered = !report.result.plans.empty();
  for (const Assumption& row : report.assumed) {
    page.assumed.push_back({row.what, row.value, "", "", row.set_by});
  }
  if (page.answered) {
    add_answer(page, report);
  } else {
    page.decision = "No layout fits.";
    page.sections = {{.id = "miss", .title = "What is missing", .summary = miss_lines(report)}};
  }
  ReportSection searched{
      .id = "search", .title = "What was looked at", .summary = {searched_line(report.result.stats)}};
  for (const std::string& command : next_commands(report)) {
    searched.notes.push_back("next: " + command);
  }
  page.sections.push_back(std::move(searched));
  return capacity_html(page);
}

}  // namespace tpplan
