#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cost-model/simulate.h"
#include "planner/spec_files.h"
#include "planner/validate.h"
#include "tests/planner/log_files.h"

using namespace tpplan;

namespace {

/// Errors of the runs of one file that have a pipeline, by the estimate and by the simulation.
struct Errors {
  std::vector<double> estimated, simulated;
};

Errors errors_of(const std::string& group) {
  std::string warnings;
  const auto records = read_runs(tests::data_path("runs/" + group + ".jsonl"), shipped_gpus(), warnings);
  auto runs = prepare(records, ProfileSet::load(data_folder("clusters/profiles")));
  Errors errors;
  for (auto& run : runs) {
    predict(run);
    const Layout& layout = run.record->layout;
    if (!run.counted() || !run.step_error || layout.pp < 2) {
      continue;
    }
    const double measured = *run.record->measured.step_s;
    const double simulated = simulate(run.job, layout).makespan;
    errors.estimated.push_back(*run.step_error);
    errors.simulated.push_back(simulated / measured - 1);
  }
  return errors;
}

}  // namespace

TEST_CASE("simulated steps of measured pipelines are as near as the estimate has to be") {
  // Limits are those of docs/accuracy-targets.tsv.
  struct Goal {
    std::string group;
    std::size_t runs;
    double limit;
    double (*figure)(const ErrorStats& stats);
  };
  const auto median = [](const ErrorStats& stats) { return stats.median; };
  const auto mean = [](const ErrorStats& stats) { return stats.mape; };
  const std::vector<Goal> goals{
      {"zerobubble", 50, 0.04, median}, {"korthikanti2022", 7, 0.04, mean}, {"lab", 2, 0.04, median}};
  for (const Goal& goal : goals) {
    CAPTURE(goal.group);
    const auto errors = errors_of(goal.group);
    const auto estimated = error_stats(errors.estimated);
    const auto simulated = error_stats(errors.simulated);
    MESSAGE(goal.group << ", " << simulated.n << " pipelines: estimated median " << estimated.median * 100 << " mean "
                       << estimated.mape * 100 << " %, simulated median " << simulated.median * 100 << " mean "
                       << simulated.mape * 100 << " %");
    CHECK(errors.simulated.size() >= goal.runs);
    CHECK(goal.figure(simulated) <= goal.limit);
  }
}

TEST_CASE("simulated steps of all measured pipelines are nearer than estimated ones") {
  std::vector<double> estimated, simulated;
  for (const auto& entry : std::filesystem::directory_iterator(tests::data_path("runs"))) {
    const auto errors = errors_of(entry.path().stem().string());
    estimated.insert(estimated.end(), errors.estimated.begin(), errors.estimated.end());
    simulated.insert(simulated.end(), errors.simulated.begin(), errors.simulated.end());
  }
  const auto by_estimate = error_stats(estimated);
  const auto by_simulation = error_stats(simulated);
  MESSAGE(by_simulation.n << " pipelines: estimated median " << by_estimate.median * 100 << " mean "
                          << by_estimate.mape * 100 << " %, simulated median " << by_simulation.median * 100 << " mean "
                          << by_simulation.mape * 100 << " %");
  CHECK(by_simulation.n > 1000);
  CHECK(by_simulation.median < by_estimate.median);
  CHECK(by_simulation.mape < by_estimate.mape);
}
