#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/collectives.h"
#include "cost-model/units.h"

namespace tpplan {

/// t = latency + seconds_per_byte * S by least squares of (predicted - t) / t with both terms >= 0.
struct LineFit {
  Seconds latency;
  double seconds_per_byte = 0;
  double cost = 0;  ///< sum of squared relative errors
  [[nodiscard]] Seconds time(Bytes size) const { return latency + Seconds(seconds_per_byte * size.raw()); }
};
LineFit fit_line(const std::vector<CurvePoint>& points, std::size_t begin, std::size_t end);

/// At most `max_pieces` contiguous lines over points of ascending size (dynamic programming over the break points; the
/// joint curve never falls with size), as many as the Bayesian information criterion justifies. `wire_factor` turns
/// slopes into bus bandwidths. Each piece covers at least three points unless there are fewer.
std::vector<CurvePiece> fit_pieces(const std::vector<CurvePoint>& points, double wire_factor,
                                   std::size_t max_pieces = 3);

/// Fits the pieces of a curve to its own points and notes the residuals (relative, median and 90 %).
void fit_curve(CollectiveCurve& curve);

/// Relative errors |predicted / measured - 1| at every second point, predicted from a curve made of the others only.
std::vector<double> held_out_errors(const CollectiveCurve& curve);

/// How latency grows with a group. Ring: steps of CollectiveRow::steps over n ranks. Tree: p - 1 hops inside a node of
/// p GPUs plus log2 of the k nodes, twice for an all-reduce (NCCL src/graph/tuning.cc, ring and tree latency terms).
enum class StepLaw : std::uint8_t { ring, tree };
double latency_steps(Collective collective, const Placement& placement, StepLaw law);

/// latency = base + per_step * steps, relative least squares with both terms >= 0. One point gives base 0.
struct LatencyLaw {
  Seconds base, per_step;
  [[nodiscard]] Seconds latency(double steps) const { return base + per_step * steps; }
};
struct LatencyPoint {
  double steps = 0;
  Seconds latency;
};
LatencyLaw fit_latency_law(const std::vector<LatencyPoint>& points);

/// The time of a collective on a placement that was not measured.
struct RankPrediction {
  Seconds time;           ///< between low and high, their geometric mean
  Seconds low, high;      ///< tree steps and ring steps
  double rank_ratio = 1;  ///< target ranks over the nearest measured ranks; beyond 8 the result is a guess
  std::string from;       ///< which measured groups it rests on
};

/// Extrapolates from curves of the same collective, concurrency, stride and class of nodes (one, two, three or more:
/// two nodes never inform more, because trees cross the boundary half as often there). Latency follows the step laws,
/// bus bandwidth is that of the nearest measured group. Nothing when no curve of the class was measured.
std::optional<RankPrediction> extrapolate_ranks(const std::vector<CollectiveCurve>& curves, Collective collective,
                                                const Placement& placement, int concurrent_groups, Bytes size);

}  // namespace tpplan
