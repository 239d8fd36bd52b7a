#include <algorithm>
#include <cmath>

#include "planner/import/samples.h"

namespace tpplan {

namespace {

constexpr double kOutlierWithTwin = 1.3;  // slower than its neighbours and than the other place by this factor
constexpr double kOutlierAlone = 1.8;     // slower than its neighbours, where there is no other place
constexpr double kFall = 0.75;            // a larger message that takes less than this share of the time before
constexpr double kCollapse = 0.5;         // bandwidth at the largest size over the best one
constexpr double kImpossible = 20e12;     // bytes/s: no link and no memory of one GPU is as fast

std::string microseconds(Seconds time) { return format(time); }

double busbw_of(const CollectiveCurve& curve, const CurvePoint& point) {
  return row_of(curve.collective).wire_factor(curve.placement.ranks()) * (point.size / point.time).raw();
}

/// Time at the size of points[i] by log-log interpolation between its neighbours; the neighbour itself at the ends.
Seconds neighbours_say(const std::vector<CurvePoint>& points, std::size_t i) {
  if (i == 0) return points[1].time;
  if (i + 1 == points.size()) return points[i].time;
  const CurvePoint& left = points[i - 1];
  const CurvePoint& right = points[i + 1];
  const double share = std::log(points[i].size / left.size) / std::log(right.size / left.size);
  return left.time * std::pow(right.time / left.time, share);
}

const CurvePoint* point_of(const std::vector<CurvePoint>& points, Bytes size) {
  for (const CurvePoint& point : points) {
    if (point.size == size) return &point;
  }
  return nullptr;
}

bool is_outlier(const std::vector<CurvePoint>& points, std::size_t i, const std::vector<CurvePoint>* twin) {
  if (points.size() < 3) return false;
  const double slower = points[i].time / neighbours_say(points, i);
  const CurvePoint* const other = twin != nullptr ? point_of(*twin, points[i].size) : nullptr;
  if (other != nullptr) return slower > kOutlierWithTwin && points[i].time / other->time > kOutlierWithTwin;
  const bool spike = i + 1 < points.size() && points[i].time > 1.2 * points[i + 1].time;
  return slower > kOutlierAlone && spike;
}

void leave_out_outliers(SampleCurve& sample, const std::vector<CurvePoint>* twin) {
  const std::vector<CurvePoint> all = sample.curve.points;
  std::vector<CurvePoint> kept;
  std::vector<std::string> told;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_outlier(all, i, twin)) {
      kept.push_back(all[i]);
      continue;
    }
    const double times = all[i].time / neighbours_say(all, i);
    char factor[16];
    std::snprintf(factor, sizeof factor, "%.1f", times);
    told.push_back(format(all[i].size) + " took " + microseconds(all[i].time) + ", " + factor +
                   " times what its neighbours say: left out");
  }
  // More than a few outliers are no outliers: the curve is unstable and judged as a whole.
  if (kept.size() < 3 || told.size() * 5 > all.size()) return;
  sample.curve.points = std::move(kept);
  sample.warnings.insert(sample.warnings.end(), told.begin(), told.end());
}

std::string instability(const std::vector<CurvePoint>& points) {
  std::size_t falls = 0;
  double worst = 1;
  std::size_t at = 0;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double ratio = points[i + 1].time / points[i].time;
    if (ratio < kFall) ++falls;
    if (ratio < worst) {
      worst = ratio;
      at = i;
    }
  }
  if (falls < 3 || falls * 8 < points.size()) return "";
  return "unstable: time falls by more than a quarter from one size to the next " + std::to_string(falls) +
         " times, at worst from " + microseconds(points[at].time) + " at " + format(points[at].size) + " to " +
         microseconds(points[at + 1].time) + " at " + format(points[at + 1].size) +
         "; repeat the run on idle nodes with more iterations";
}

std::string collapse(const CollectiveCurve& curve) {
  const auto slower = [&](const CurvePoint& a, const CurvePoint& b) { return busbw_of(curve, a) < busbw_of(curve, b); };
  const CurvePoint& best = *std::max_element(curve.points.begin(), curve.points.end(), slower);
  const CurvePoint& last = curve.points.back();
  if (busbw_of(curve, last) >= kCollapse * busbw_of(curve, best)) return "";
  return "bandwidth collapses from " + format(BytesPerSecond(busbw_of(curve, best))) + " at " + format(best.size) +
         " to " + format(BytesPerSecond(busbw_of(curve, last))) + " at " + format(last.size) +
         ": a fault of the fabric (flow control, buffer size, a bad link), not a property to plan with";
}

}  // namespace

void judge_curve(SampleCurve& sample, const std::vector<CurvePoint>* twin) {
  CollectiveCurve& curve = sample.curve;
  if (!sample.refusal.empty()) return;
  if (curve.points.empty()) {
    sample.refusal = "no usable point";
    return;
  }
  if (curve.points.size() == 1) {
    sample.refusal = "only one size (" + format(curve.points[0].size) +
                     "): latency and bandwidth cannot be told apart; measure a range, such as -b 1K -e 1G -f 2";
    return;
  }
  for (const CurvePoint& point : curve.points) {
    if (busbw_of(curve, point) > kImpossible) {
      sample.refusal = format(BytesPerSecond(busbw_of(curve, point))) + " at " + format(point.size) +
                       " is faster than any memory: one rank, nothing was sent";
      return;
    }
  }
  leave_out_outliers(sample, twin);
  const std::string unstable = instability(curve.points);
  if (sample.own_statistics && !unstable.empty()) {
    sample.warnings.push_back(unstable);
  } else {
    sample.refusal = unstable;
  }
  if (sample.refusal.empty()) sample.refusal = collapse(curve);
  if (!sample.refusal.empty()) return;
  if (curve.points.size() < 5) {
    sample.warnings.push_back("only " + std::to_string(curve.points.size()) + " sizes: valid from " +
                              format(curve.points.front().size) + " to " + format(curve.points.back().size));
  }
}

}  // namespace tpplan
