#pragma once

#include <cstddef>
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

}  // namespace tpplan
