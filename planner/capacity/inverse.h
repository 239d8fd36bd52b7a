#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/capacity/training_run.h"

namespace tpplan {

/// One size of a cluster, planned and run.
struct SizedRun {
  int nodes = 0;
  PricedPlan plan;
  TrainingRun run;
};

/// Plans a number of nodes; nothing when no layout fits there.
using SizePricer = std::function<std::optional<SizedRun>(int nodes)>;

/// Every size that was looked at, in order of nodes, and the answer.
struct DeadlineAnswer {
  std::vector<SizedRun> sizes;
  std::optional<std::size_t> smallest;  ///< fewest nodes that meet the deadline
  std::optional<std::size_t> cheapest;  ///< least rent of those that meet it; the smallest when nothing has a price
};
/// Doubles the nodes until the deadline is met and once more beyond (more nodes may be cheaper where the smaller
/// cluster has to recompute), then looks at every size between the last that misses it and the first that meets it,
/// ten at a time. Stops doubling at `most_nodes`, or when three sizes running are slower than the one before. Each
/// size is planned exactly; between sizes the time need not fall, so that a size that was skipped beyond the bracket
/// may be smaller only where a larger cluster is slower than a smaller one.
DeadlineAnswer answer_deadline(const SizePricer& price, Hours deadline, int most_nodes);

/// The smallest value in [low, high] at which `met` holds, within a relative `precision`, when it holds from some value
/// on; nothing when not even at `high`.
std::optional<double> smallest_where(double low, double high, double precision, const std::function<bool(double)>& met);
/// A multiple of `step` in [step, most] at which `met` holds and beyond which, by at most a `precision` of it, it does
/// not, when it holds up to some value; 0 for none.
int largest_multiple(int step, int most, double precision, const std::function<bool(int)>& met);

}  // namespace tpplan
