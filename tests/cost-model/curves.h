#pragma once

#include <cmath>

#include "cost-model/curve_fit.h"

namespace tpplan::tests {

inline CurvePoint point(double bytes, double seconds) {
  return {Bytes(bytes), Seconds(seconds), Seconds(seconds), Seconds(seconds)};
}

/// All-reduce of n ranks with ring latency 2(n-1) x 4.875 us + 16.8 us and 100 GB/s of bus bandwidth.
inline CollectiveCurve ring_curve(int nodes, int gpus_per_node) {
  CollectiveCurve curve;
  curve.collective = Collective::all_reduce;
  curve.placement = {nodes, gpus_per_node, 1};
  const int n = nodes * gpus_per_node;
  const double wire = 2.0 * (n - 1) / n;
  for (int i = 3; i <= 30; ++i) {
    const double bytes = std::exp2(i);
    curve.points.push_back(point(bytes, 4.875e-6 * 2 * (n - 1) + 16.8e-6 + wire * bytes / 100e9));
  }
  fit_curve(curve);
  return curve;
}

}  // namespace tpplan::tests
