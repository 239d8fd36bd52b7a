#pragma once

#include <functional>
#include <vector>

#include "planner/search.h"

namespace tpplan {

/// A plan on the first `gpus` GPUs of a cluster.
struct ParetoPlan {
  int gpus = 0;
  Plan plan;
};

struct ParetoFront {
  std::vector<ParetoPlan> plans;  ///< by GPUs, then step time
  std::vector<int> sizes;         ///< numbers of GPUs that were searched
  std::int64_t costed = 0;        ///< layouts priced over all sizes
  double seconds = 0;
};

/// The first `gpus` GPUs of a cluster of equal nodes: shares of one node that divide it, or whole nodes.
Job on_first_gpus(const Job& job, int gpus);

/// Plans that no other of the space equals or beats in step time, device memory of the fullest GPU and number of GPUs
/// all at once. The batch stays the same on every number of GPUs: the divisors of a node, then those of the nodes (of a
/// mixed cluster all GPUs only).
ParetoFront pareto_front(const Job& job, const SearchSpace& space, int threads = 1,
                         const std::function<void(double)>& progress = {});

}  // namespace tpplan
