#include "planner/commands/plan.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ostream>

#include "planner/commands/remedies.h"
#include "planner/report/format.h"
#include "planner/report/output.h"
#include "planner/report/pareto_report.h"
#include "planner/report/progress.h"

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A batch that is no multiple of the GPUs shuts out many sizes of data parallelism; nothing when it does not matter.
std::optional<std::string> batch_warning(const Job& job, const SearchStats& stats) {
  const int batch = job.training.global_batch;
  const int gpus = job.cluster.gpus();
  for (const RejectionCount& count : rejections(stats)) {
    if (count.rule == "batch-divides" && batch % gpus != 0) {
      const int near = std::max(1, (batch + gpus / 2) / gpus) * gpus;
      return "the global batch of " + with_separators(batch) + " is no multiple of " + with_separators(gpus) +
             " GPUs, which rules out " + with_separators(count.layouts) + " layouts; --global-batch " +
             std::to_string(near) + " leaves them open";
    }
  }
  return std::nullopt;
}

}  // namespace

int run_plan(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const Clock::time_point start = Clock::now();
  std::vector<Assumption> assumed;
  std::string file_warnings;
  const Job job = job_from(options, &assumed, &file_warnings);
  const SearchSpace space = space_from(options, job);
  const Seconds load_seconds(seconds_since(start));
  err << file_warnings;

  if (options.pareto) {
    ParetoFront front;
    {
      ProgressLine progress(err);
      front = pareto_front(job, space, options.jobs,
                           [&progress](double share) { progress.update_share("searching", share); });
    }
    const Terminal terminal = options.output.empty() ? Terminal::of(STDOUT_FILENO, options.color) : Terminal{};
    write_result(options, pareto_report(job, front, assumed, chosen_format(options), terminal), out);
    return front.plans.empty() ? 1 : 0;
  }
  SearchResult result;
  {
    ProgressLine progress(err);
    result = search(job, space, options.objective, options.top, options.jobs,
                    [&progress](double share) { progress.update_share("searching", share); });
    simulate_plans(job, result);
  }

  PlanReport report{.job = job, .result = result, .objective = options.objective, .assumed = std::move(assumed)};
  report.inputs_text = options_text(options, "explain");
  report.command_text = "plan " + options_text(options, "plan", {"output", "format", "color", "timing"});
  report.timing = options.timing;
  report.load_seconds = load_seconds;
  if (!result.plans.empty()) {
    report.warnings = warnings(job, result.plans.front().layout);
  } else {
    report.remedies = remedies(options, job);
  }
  if (const auto warning = batch_warning(job, result.stats)) {
    report.warnings.push_back(*warning);
  }
  const OutputFormat format = chosen_format(options);
  const Terminal terminal = Terminal::of(STDOUT_FILENO, options.color);
  std::string notes;
  for (const FormatRow& row : formats()) {
    if (row.format == format) {
      write_result(options, row.write(report, options.output.empty() ? terminal : Terminal{}, notes), out);
    }
  }
  err << notes;
  if (options.timing) {
    err << "tpplan: loaded in " << tpplan::format(load_seconds) << ", searched in "
        << tpplan::format(Seconds(result.stats.seconds)) << ", simulated " << result.stats.simulated << " layouts in "
        << tpplan::format(Seconds(result.stats.simulate_seconds)) << "\n";
  }
  return result.plans.empty() ? 1 : 0;
}

}  // namespace tpplan
