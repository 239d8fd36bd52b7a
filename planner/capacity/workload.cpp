#include "planner/capacity/workload.h"

#include <algorithm>
#include <cmath>

#include "planner/spec_files.h"

namespace tpplan {

Hardware::Hardware(std::string text, const GpuCatalogue& catalogue, std::string* warnings)
    : text_(std::move(text)), catalogue_(&catalogue), cluster_(resolve_cluster(text_, catalogue, warnings)) {}

std::optional<ClusterSpec> Hardware::sized(int nodes) const {
  if (nodes == cluster_.nodes) {
    return cluster_;
  }
  try {
    return resolve_cluster(text_, *catalogue_, nodes);
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

Planner::Planner(PlannerOptions options, std::function<void()> tick)
    : options_(std::move(options)),
      tick_(std::move(tick)),
      profiles_(ProfileSet::load(data_folder("clusters/profiles"))) {}

std::optional<PricedPlan> Planner::best(const ModelSpec& model, const ClusterSpec& cluster, std::size_t runners_up,
                                        std::string* why) const {
  return best(options_, model, cluster, runners_up, why);
}

Job Planner::job(const PlannerOptions& options, const ModelSpec& model, const ClusterSpec& cluster,
                 std::vector<Assumption>* assumed) const {
  Job job = job_from(options, model, cluster, profiles_, assumed);
  if (!options.global_batch) {
    job.training.global_batch = batch_for(job.training.global_batch, cluster.gpus());
  }
  return job;
}

std::optional<PricedPlan> Planner::best(const PlannerOptions& options, const ModelSpec& model,
                                        const ClusterSpec& cluster, std::size_t runners_up, std::string* why) const {
  tick_();
  ++searches_;
  try {
    Job made = job(options, model, cluster);
    // Money is not spent on a plan that fits only while the allocator wastes nothing, unless there is no other.
    constexpr std::size_t kMostTight = 16;
    SearchResult result =
        search(made, space_from(options, made), Objective::step_time, runners_up + 1 + kMostTight, options.jobs);
    if (!result.plans.empty()) {
      const auto fitting = std::find_if(result.plans.begin(), result.plans.end(),
                                        [](const Plan& plan) { return plan.fits == Fits::fits; });
      if (fitting != result.plans.end()) {
        std::rotate(result.plans.begin(), fitting, fitting + 1);
      }
      result.plans.resize(std::min(result.plans.size(), runners_up + 1));
      PricedPlan priced{std::move(made), std::move(result.plans.front()), {}, std::move(result.stats)};
      priced.others.assign(std::make_move_iterator(result.plans.begin() + 1),
                           std::make_move_iterator(result.plans.end()));
      return priced;
    }
    if (why != nullptr) {
      *why = result.closest ? "needs " + format(result.closest->estimate.memory.total()) + " of " +
                                  format(result.closest->estimate.memory.capacity) + " per GPU (" +
                                  to_text(result.closest->layout) + ")"
                            : "every layout breaks a rule of the framework";
    }
  } catch (const SpecError& problem) {
    if (why != nullptr) {
      *why = problem.what();
    }
  }
  return std::nullopt;
}

int batch_for(int usual, int gpus) {
  if (gpus > usual || gpus <= 0) {
    return usual;
  }
  return static_cast<int>(std::lround(static_cast<double>(usual) / gpus)) * gpus;
}

}  // namespace tpplan
