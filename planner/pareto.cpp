#include "planner/pareto.h"

#include <algorithm>
#include <chrono>

#include "planner/layout_scan.h"

namespace tpplan {
namespace {

std::vector<int> sizes_of(const ClusterSpec& cluster) {
  if (!cluster.parts.empty()) {
    return {cluster.gpus()};
  }
  std::vector<int> sizes;
  for (int gpus = 1; gpus < cluster.gpus_per_node; ++gpus) {
    if (cluster.gpus_per_node % gpus == 0) {
      sizes.push_back(gpus);
    }
  }
  for (int nodes = 1; nodes <= cluster.nodes; ++nodes) {
    if (cluster.nodes % nodes == 0) {
      sizes.push_back(nodes * cluster.gpus_per_node);
    }
  }
  return sizes;
}

/// Step time, memory and GPUs of a are at most those of b.
bool covers(const ParetoPlan& a, const ParetoPlan& b) {
  return a.gpus <= b.gpus && a.plan.estimate.step.total() <= b.plan.estimate.step.total() &&
         a.plan.estimate.memory.total() <= b.plan.estimate.memory.total();
}

}  // namespace

Job on_first_gpus(const Job& job, int gpus) {
  Job smaller = job;
  ClusterSpec& cluster = smaller.cluster;
  if (gpus == cluster.gpus()) {
    return smaller;
  }
  cluster.nodes = std::max(1, gpus / cluster.gpus_per_node);
  cluster.gpus_per_node = std::min(gpus, cluster.gpus_per_node);
  std::size_t kept = 1;
  while (cluster.tiers[kept - 1].span < gpus) {
    ++kept;
  }
  cluster.tiers.resize(kept);
  cluster.tiers.back().span = gpus;
  smaller.links.resize(kept);
  return smaller;
}

ParetoFront pareto_front(const Job& job, const SearchSpace& space, int threads,
                         const std::function<void(double)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  ParetoFront front;
  front.sizes = sizes_of(job.cluster);
  for (std::size_t i = 0; i < front.sizes.size(); ++i) {
    const int gpus = front.sizes[i];
    const Job sized = on_first_gpus(job, gpus);
    SearchStats stats;
    const auto part = [&](double share) {
      progress((static_cast<double>(i) + share) / static_cast<double>(front.sizes.size()));
    };
    for (Plan& plan :
         undominated_plans(sized, space, threads, stats, progress ? std::function<void(double)>(part) : progress)) {
      const ParetoPlan candidate{gpus, std::move(plan)};
      const bool covered = std::any_of(front.plans.begin(), front.plans.end(),
                                       [&](const ParetoPlan& other) { return covers(other, candidate); });
      if (!covered) {
        front.plans.push_back(candidate);
      }
    }
    front.costed += stats.costed();
  }
  front.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return front;
}

}  // namespace tpplan
