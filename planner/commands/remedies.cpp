#include "planner/commands/remedies.h"

#include <algorithm>

#include "planner/option_table.h"

namespace tpplan {
namespace {

/// A changed command line and the words that describe the change.
struct Change {
  PlannerOptions options;
  std::string text;
};

/// The time of the best layout after a change, nothing when none fits or the change makes no sense.
std::optional<Seconds> best_time(const PlannerOptions& options) {
  try {
    const Job job = job_from(options);
    const SearchResult result = search(job, space_from(options, job), Objective::step_time, 1, options.jobs);
    if (!result.plans.empty()) {
      return result.plans.front().estimate.step.total();
    }
  } catch (const SpecError&) {
    return std::nullopt;
  }
  return std::nullopt;
}

const OptionRow* layout_row(std::string_view name) {
  for (const OptionRow& row : option_rows()) {
    if (row.name == name && row.group == OptionGroup::layout) {
      return &row;
    }
  }
  return nullptr;
}

std::vector<Change> lifted_restrictions(const PlannerOptions& options) {
  std::vector<Change> changes;
  for (const auto& [name, value] : options.given) {
    const OptionRow* row = layout_row(name);
    if (row != nullptr && value != "auto" && row->fallback == "auto") {
      Change change{options, "without --" + name + " " + value};
      row->set(change.options, "auto");
      changes.push_back(std::move(change));
    }
  }
  return changes;
}

std::vector<Change> lighter_optimizers(const PlannerOptions& options) {
  std::vector<Change> changes;
  if (options.space.offloads.empty()) {
    // Only a sharded optimizer is offloaded, even when it is sharded over a single rank.
    const bool sharded = !options.space.zero.empty();
    changes.push_back({options, sharded ? "--offload optimizer" : "--offload optimizer --zero 1..3"});
    changes.back().options.space.offloads = {Offload::optimizer};
    if (!sharded) {
      changes.back().options.space.zero = {1, 2, 3};
    }
  }
  if (options.space.optimizers.empty()) {
    changes.push_back({options, "--optimizer adam-8bit"});
    changes.back().options.space.optimizers = {Optimizer::adam_8bit};
  }
  return changes;
}

Change shorter_sequences(const PlannerOptions& options, const Job& job, int factor) {
  const int seq = job.training.seq / factor;
  const int batch = job.training.global_batch * factor;
  Change change{options, "--seq " + std::to_string(seq) + " --global-batch " + std::to_string(batch)};
  change.options.seq = seq;
  change.options.global_batch = batch;
  return change;
}

Change more_servers(const PlannerOptions& options, const Job& job, int factor) {
  const ClusterSpec& cluster = job.cluster;
  Change change{options, ""};
  change.options.cluster =
      std::to_string(cluster.nodes * factor) + "x" + std::to_string(cluster.gpus_per_node) + "x" + cluster.gpu.id;
  change.options.seq = job.training.seq;
  change.options.global_batch = std::max(job.training.global_batch, cluster.gpus() * factor);
  change.text = "--cluster " + change.options.cluster;
  if (change.options.global_batch != job.training.global_batch) {
    change.text += " --global-batch " + std::to_string(*change.options.global_batch);
  }
  return change;
}

/// Adds the first change of a row of ever larger ones after which something fits.
template <class MakeChange>
void add_first(std::vector<std::string>& texts, int largest_factor, MakeChange make) {
  for (int factor = 2; factor <= largest_factor; factor *= 2) {
    const Change change = make(factor);
    if (const auto time = best_time(change.options)) {
      texts.push_back(change.text + " (" + format(*time) + " per step)");
      return;
    }
  }
}

}  // namespace

std::vector<std::string> remedies(const PlannerOptions& options, const Job& job) {
  constexpr int kShortestSeq = 256;
  constexpr int kMostServers = 4096;
  // Standard input can be read only once.
  if (options.model == "-" || options.cluster == "-") {
    return {};
  }
  std::vector<Change> changes = lifted_restrictions(options);
  for (Change& change : lighter_optimizers(options)) {
    changes.push_back(std::move(change));
  }
  std::vector<std::string> texts;
  for (const Change& change : changes) {
    if (const auto time = best_time(change.options)) {
      texts.push_back(change.text + " (" + format(*time) + " per step)");
    }
  }
  add_first(texts, job.training.seq / kShortestSeq,
            [&](int factor) { return shorter_sequences(options, job, factor); });
  add_first(texts, kMostServers / std::max(1, job.cluster.nodes),
            [&](int factor) { return more_servers(options, job, factor); });
  return texts;
}

}  // namespace tpplan
