#pragma once

#include <cstdint>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/collectives.h"
#include "cost-model/units.h"

namespace tpplan {

/// How latency grows with a group. Ring: steps of CollectiveRow::steps over n ranks. Tree: p - 1 hops inside a node of
/// p GPUs plus log2 of the k nodes, twice for an all-reduce (NCCL src/graph/tuning.cc, ring and tree latency terms).
enum class StepLaw : std::uint8_t { ring, tree };
double latency_steps(Collective collective, const Placement& placement, StepLaw law);

/// latency = base + per_step * steps, relative least squares with both terms >= 0. Groups of one size alone give
/// base 0.
struct LatencyLaw {
  Seconds base, per_step;
  [[nodiscard]] Seconds latency(double steps) const { return base + per_step * steps; }
};
struct LatencyPoint {
  double steps = 0;
  Seconds latency;
};
LatencyLaw fit_latency_law(const std::vector<LatencyPoint>& points);

/// Which measured groups may speak for a group: those of as many groups at once, whose ranks span more than `above` and
/// at most `up_to` ranks of the cluster, that is, which cross the same link. `base` and `step` are the assumed latency
/// of that link and of one step over it: where groups of one size alone were measured, latency keeps their proportion
/// (both 0: it grows with the steps).
struct RankTarget {
  Collective collective = Collective::all_reduce;
  Placement placement;
  int concurrent_groups = 1;
  std::int64_t above = 0, up_to = INT64_MAX;
  Seconds base = {}, step = {};
};

/// A measured curve, read as it is or carried over to a group of another size: its latency times the ratio of steps,
/// the part that grows with size times `transfer`.
struct RankLaw {
  const CollectiveCurve* nearest = nullptr;
  double latency_low = 1, latency_high = 1;  ///< under tree and ring steps
  double transfer = 1;
  double rank_ratio = 1;  ///< target ranks over those of `nearest`; beyond 8 the result is a guess
  bool exact = true;      ///< the placement itself was measured

  [[nodiscard]] Seconds low(Bytes size) const;
  [[nodiscard]] Seconds high(Bytes size) const;
  /// The measured time, or the geometric mean of low and high.
  [[nodiscard]] Seconds time(Bytes size) const;
};

/// The curve of the target's placement, else the nearest in ranks of the same collective, stride and class of nodes
/// (one, two, three or more: two nodes never inform more, because trees cross the boundary half as often there), over
/// several nodes with as many GPUs of each. Latency steps of all such groups are fitted together; `transfer` is the
/// ratio of wire factors: bus bandwidth stays. `nearest` is null when nothing speaks for the target. Allocates nothing.
RankLaw rank_law(const std::vector<CollectiveCurve>& curves, const RankTarget& target);

/// Sorts so that of the curves of one collective, placement and concurrency the one that training resembles comes
/// first: see Calibration::find. rank_law() then counts each group once.
void sort_for_rank_laws(std::vector<CollectiveCurve>& curves);

}  // namespace tpplan
