#include "planner/commands/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "cost-model/simulate.h"
#include "planner/inputs.h"
#include "planner/report/gantt_svg.h"
#include "planner/report/json_writer.h"
#include "planner/report/output.h"
#include "planner/report/plan_report.h"
#include "planner/report/replay_report.h"
#include "planner/report/terminal.h"
#include "planner/report/text_table.h"
#include "planner/report/trace.h"
#include "planner/rules.h"

namespace tpplan {
namespace {

constexpr int kSchemaVersion = 1;

struct Simulated {
  const Job& job;
  const Plan& plan;
  std::string what_if;
  std::string order;      ///< file of the order of passes; empty: that of the layout's schedule
  TimeWindow window;      ///< to draw
  SimulatedStep planned;  ///< without the what-if
  SimulatedStep step;
};

std::string signed_percent(double share) {
  const std::string text = percent(share, 1);
  return text.starts_with("-0.0 ") ? "+" + text.substr(1) : (share < 0 ? "" : "+") + text;
}

double idle_share(const SimulatedStep& step, const SimulatedRank& rank) {
  return step.passes_end > 0 ? 1 - rank.passes / step.passes_end : 0;
}

/// "stage 1 with 61.2 GiB allocated at 3.41 s, in BW 4: activations 40.1 GiB, optimizer 12.0 GiB, weights 6.0 GiB".
std::string peak_text(const SimulatedStep& step, const SimulatedRank& rank) {
  const auto& peak = rank.peak;
  std::string text = "stage " + std::to_string(peak.parts.stage) + " with " + format(peak.parts.allocated()) +
                     " allocated at " + format(Seconds(peak.at));
  if (peak.in_pass) {
    text += ", in " + to_text(peak.pass, step.schedule.chunks);
  }
  text += " (" + std::string(kMoments[peak.parts.moment]) + ")";
  std::vector<const MemoryTermRow*> terms;
  for (const MemoryTermRow& term : kMemoryTerms) {
    const bool allocated = term.key != "allocator_slack" && term.key != "context";
    if (allocated && (peak.parts.*term.field).raw() > 0) {
      terms.push_back(&term);
    }
  }
  std::stable_sort(terms.begin(), terms.end(), [&peak](const MemoryTermRow* a, const MemoryTermRow* b) {
    return peak.parts.*a->field > peak.parts.*b->field;
  });
  constexpr std::size_t kTold = 3;
  for (std::size_t i = 0; i < std::min(kTold, terms.size()); ++i) {
    text += (i == 0 ? ": " : ", ") + std::string(terms[i]->key) + " " + format(peak.parts.*terms[i]->field);
  }
  return text;
}

std::string simulation_table(const Simulated& simulated, const Terminal& terminal, std::ostream& err) {
  const auto& step = simulated.step;
  const auto& estimated = simulated.plan.estimate.step;
  std::string text = to_text(simulated.plan.layout) + "\n\n";
  text += "simulated step   " + format(Seconds(step.makespan)) + "\n";
  if (!simulated.what_if.empty()) {
    text += "  as planned     " + format(Seconds(simulated.planned.makespan)) + ", so " + simulated.what_if +
            " costs " + signed_percent(step.makespan / simulated.planned.makespan - 1) + "\n";
  }
  text +=
      wrap("estimated step   " + format(estimated.total()) + " (" +
               signed_percent(estimated.total().raw() / simulated.planned.makespan - 1) + " against the simulation" +
               (simulated.what_if.empty() ? "" : " as planned") + "), lower bound " + format(estimated.lower_bound),
           terminal.width, 2) +
      "\n";
  if (!simulated.order.empty()) {
    text += "  of the estimate, passes are in the order of " +
            std::string(name_in(kScheduleNames, simulated.plan.layout.schedule)) + ", not of " + simulated.order + "\n";
  }
  text += wrap("passes end at    " + format(Seconds(step.passes_end)) +
                   "; then reduction, optimizer and fixed time of a step",
               terminal.width, 2) +
          "\n\n";
  TextTable table;
  table.columns = {{.header = "stage", .importance = 9},       {.header = "layers", .importance = 3},
                   {.header = "passes (s)", .importance = 7},  {.header = "idle", .importance = 8},
                   {.header = "first (s)", .importance = 1},   {.header = "last (s)", .importance = 2},
                   {.header = "chunks held", .importance = 4}, {.header = "activations (GiB)", .importance = 5},
                   {.header = "peak at (s)", .importance = 0}, {.header = "memory (GiB)", .importance = 6}};
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& rank = step.ranks[r];
    const auto gib = [](Bytes bytes) { return brief_number(bytes.raw() / Bytes(1_GiB).raw()); };
    table.rows.push_back({std::to_string(r), std::to_string(rank.layers), brief_number(rank.passes),
                          percent(idle_share(step, rank), 1), brief_number(rank.first_start),
                          brief_number(rank.last_end), std::to_string(rank.most_held), gib(rank.most_activations),
                          brief_number(rank.most_activations_at), gib(rank.memory.total())});
  }
  std::vector<std::string> dropped;
  text += table.render(terminal, 0, &dropped);
  err << left_out_note(dropped, terminal, "json has");
  const auto fullest =
      std::max_element(step.ranks.begin(), step.ranks.end(), [](const SimulatedRank& a, const SimulatedRank& b) {
        return a.peak.parts.allocated() < b.peak.parts.allocated();
      });
  text += wrap("fullest: " + peak_text(step, *fullest), terminal.width, 2) + "\n";
  text += wrap("idle: share of the time until the last pass ends in which the stage runs none", terminal.width, 2);
  text += "\n\n";
  return text + text_gantt(step, terminal.width, simulated.window);
}

std::string simulation_json(const Simulated& simulated) {
  const auto& step = simulated.step;
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", kSchemaVersion);
  json.key("layout");
  write_layout(json, simulated.job, simulated.plan);
  json.field("what_if", simulated.what_if);
  json.field("step_time_s", step.makespan).field("planned_step_time_s", simulated.planned.makespan);
  json.field("estimated_step_time_s", simulated.plan.estimate.step.total().raw())
      .field("lower_bound_s", simulated.plan.estimate.step.lower_bound.raw())
      .field("passes_end_s", step.passes_end)
      .field("events", static_cast<std::int64_t>(step.events));
  json.key("stages").begin_array();
  for (const auto& rank : step.ranks) {
    json.begin_line_object();
    json.field("layers", rank.layers).field("passes_s", rank.passes).field("idle_share", idle_share(step, rank));
    json.field("first_start_s", rank.first_start).field("last_end_s", rank.last_end).field("end_s", rank.end);
    json.field("chunks_held", rank.most_held)
        .field("activation_bytes", rank.most_activations.raw())
        .field("activation_peak_s", rank.most_activations_at);
    json.field("allocated_bytes", rank.memory.allocated().raw()).field("total_bytes", rank.memory.total().raw());
    json.field("peak_bytes", rank.peak.parts.allocated().raw())
        .field("peak_s", rank.peak.at)
        .field("peak_moment", kMoments[rank.peak.parts.moment]);
    json.field("peak_pass", rank.peak.in_pass ? to_text(rank.peak.pass, step.schedule.chunks) : std::string());
    json.end_object();
  }
  json.end_array().end_object();
  return json.text();
}

}  // namespace

namespace {

/// The order of passes of --schedule FILE, checked against the layout. Throws SpecError or UsageError.
std::optional<PipelineSchedule> given_schedule(const PlannerOptions& options, const Job& job, const Layout& layout) {
  if (options.schedule_file.empty()) {
    return std::nullopt;
  }
  PipelineSchedule schedule = load_schedule(options.schedule_file);
  std::vector<std::string> problems;
  const auto compare = [&](std::string_view what, std::int64_t ordered, std::string_view key, std::int64_t planned) {
    if (ordered != planned) {
      problems.push_back(options.schedule_file + " orders " + std::to_string(ordered) + " " + std::string(what) +
                         ", the layout has " + std::string(key) + " " + std::to_string(planned));
    }
  };
  compare("pipeline ranks", schedule.size(), "pp", layout.pp);
  compare("micro-batches", schedule.micro_batches, "micro-batches",
          job.training.global_batch / (std::int64_t{layout.dp} * layout.micro_batch));
  if (schedule.placement == StagePlacement::looped) {
    compare("chunks per rank", schedule.chunks, "vpp", layout.vpp);
  }
  if (!problems.empty()) {
    throw UsageError(problems, "simulate");
  }
  return schedule;
}

TimeWindow window_of(const PlannerOptions& options, const SimulatedStep& step) {
  const TimeRange range = options.window.value_or(TimeRange{});
  const double end = end_of(step);
  return {range.from_share ? range.from * end : range.from, range.to_share ? range.to * end : range.to};
}

bool wants_drawing(const PlannerOptions& options) {
  constexpr std::string_view kSuffix = ".svg";
  const std::string& name = options.output;
  return !options.format && name.size() > kSuffix.size() &&
         name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

/// Compares a trace instead of drawing the step.
int run_replay(const PlannerOptions& options, const Job& job, const Layout& layout, std::ostream& out,
               std::ostream& err) {
  const KinetoTrace trace = read_kineto(options.replay);
  if (trace.world > 0 && trace.world != job.cluster.gpus()) {
    err << "tpplan: warning: the trace is of " << trace.world << " GPUs, the cluster has " << job.cluster.gpus()
        << "\n";
  }
  const Replay replay{trace, totals_of(trace), simulated_totals(job, layout, trace.rank)};
  if (chosen_format(options) == OutputFormat::json) {
    JsonWriter json;
    json.begin_object();
    json.field("schema_version", kSchemaVersion);
    write_replay(json, replay);
    json.end_object();
    write_result(options, json.text(), out);
  } else {
    const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
    write_result(options, replay_table(replay, terminal), out);
  }
  return 0;
}

}  // namespace

int run_simulate(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<Assumption> assumed;
  std::string file_warnings;
  Job job = job_from(options, &assumed, &file_warnings);
  err << file_warnings;
  const int world = job.cluster.gpus();
  Layout layout = parse_layout(options.layout, world, usual_layout(job), &job.training.layers_per_stage);
  if (!options.space.schedules.empty()) {
    layout.schedule = options.space.schedules.front();
  }
  const Perturbation perturbation = parse_what_if(options.what_if, world);
  const auto broken = broken_rules(job, layout);
  if (!broken.empty()) {
    for (const int index : broken) {
      const Rule& rule = rules()[static_cast<std::size_t>(index)];
      err << "tpplan: " << rule.name << ": " << rule.arithmetic(job, layout) << "\n";
    }
    err << "tpplan: this layout cannot run; tpplan explain says more\n";
    return 1;
  }
  if (!options.replay.empty()) {
    return run_replay(options, job, layout, out, err);
  }
  const auto given = given_schedule(options, job, layout);
  const PipelineSchedule* schedule = given ? &*given : nullptr;
  const Plan plan = plan_of(job, layout);
  Simulated simulated{job, plan, options.what_if, options.schedule_file, {}, simulate(job, layout, {}, schedule), {}};
  simulated.step = options.what_if.empty() ? simulated.planned : simulate(job, layout, perturbation, schedule);
  simulated.window = window_of(options, simulated.step);
  const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
  if (!options.trace.empty()) {
    std::string note;
    write_file(options.trace, chrome_trace(simulated.step, note));
    err << note;
  }
  if (wants_drawing(options)) {
    write_result(options, gantt_svg(simulated.step, to_text(layout), simulated.window), out);
  } else {
    const bool json = chosen_format(options) == OutputFormat::json;
    write_result(options, json ? simulation_json(simulated) : simulation_table(simulated, terminal, err), out);
  }
  if (plan.fits == Fits::no) {
    err << "tpplan: warning: this layout does not fit into the GPUs' memory; tpplan explain says what would\n";
    return 1;
  }
  return 0;
}

}  // namespace tpplan
