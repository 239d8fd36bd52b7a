#include "cost-model/rank_law.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tpplan {

namespace {

int node_class(int nodes) { return std::min(nodes, 3); }

bool same_group(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.collective == b.collective && a.placement == b.placement && a.concurrent_groups == b.concurrent_groups;
}

bool speaks_for(const CollectiveCurve& curve, const RankTarget& target) {
  const Placement& measured = curve.placement;
  const Placement& wanted = target.placement;
  const std::int64_t span = static_cast<std::int64_t>(measured.ranks()) * measured.stride;
  return curve.collective == target.collective && curve.concurrent_groups == target.concurrent_groups &&
         node_class(measured.nodes) == node_class(wanted.nodes) &&
         (wanted.nodes == 1 || measured.gpus_per_node == wanted.gpus_per_node) && measured.stride == wanted.stride &&
         measured.ranks() > 1 && (!curve.pieces.empty() || measured == wanted) && span > target.above &&
         span <= target.up_to;
}

/// Sums behind the least squares of (base + per_step s - t) / t, kept without storing the points.
class LatencySums {
 public:
  void add(double steps, double latency) {
    if (latency <= 0 || steps <= 0) {
      return;
    }
    const double x = 1 / latency;
    const double y = steps / latency;
    xx_ += x * x;
    xy_ += x * y;
    yy_ += y * y;
    x_ += x;
    y_ += y;
  }
  /// Whether points of different numbers of steps were added.
  [[nodiscard]] bool several() const { return xx_ * yy_ - xy_ * xy_ > 1e-12 * xx_ * yy_; }
  /// The free minimum if both coefficients are allowed, else the better edge; in proportion to the steps when all
  /// points have the same number.
  [[nodiscard]] LatencyLaw solve() const {
    const double determinant = xx_ * yy_ - xy_ * xy_;
    const double only_steps = yy_ > 0 ? y_ / yy_ : 0;
    if (!several()) {
      return {Seconds(0), Seconds(only_steps)};
    }
    const double base = (x_ * yy_ - y_ * xy_) / determinant;
    const double per_step = (y_ * xx_ - x_ * xy_) / determinant;
    if (base >= 0 && per_step >= 0) {
      return {Seconds(base), Seconds(per_step)};
    }
    // The gain of an edge over nothing is (sum of its regressor)^2 / its square sum.
    const bool steps_explain_more = y_ * y_ * xx_ >= x_ * x_ * yy_;
    return steps_explain_more ? LatencyLaw{Seconds(0), Seconds(only_steps)} : LatencyLaw{Seconds(x_ / xx_), Seconds(0)};
  }

 private:
  double xx_ = 0, xy_ = 0, yy_ = 0, x_ = 0, y_ = 0;
};

/// Latency and the part that grows with size, scaled so that they give the measured time.
struct Split {
  Seconds latency, transfer;
};
Split split_at(const CollectiveCurve& curve, Bytes size) {
  const double wire = row_of(curve.collective).wire_factor(curve.placement.ranks());
  const CurvePiece& piece = piece_at(curve.pieces, size);
  const Seconds transfer = piece.bandwidth.raw() > 0 ? wire * size / piece.bandwidth : Seconds(0);
  const Seconds fitted = piece.latency + transfer;
  const double correction = fitted.raw() > 0 ? curve.time(size) / fitted : 1;
  return {piece.latency * correction, transfer * correction};
}

double ranks_apart(const CollectiveCurve& curve, const Placement& placement) {
  return std::abs(std::log(static_cast<double>(placement.ranks()) / curve.placement.ranks()));
}

double latency_ratio(const LatencySums& sums, const RankTarget& target, const Placement& from, StepLaw law) {
  const bool assumed = !sums.several() && (target.base + target.step).raw() > 0;
  const LatencyLaw latency = assumed ? LatencyLaw{target.base, target.step} : sums.solve();
  const Seconds at_from = latency.latency(latency_steps(target.collective, from, law));
  return at_from.raw() > 0 ? latency.latency(latency_steps(target.collective, target.placement, law)) / at_from : 1;
}

}  // namespace

double latency_steps(Collective collective, const Placement& placement, StepLaw law) {
  const CollectiveRow& row = row_of(collective);
  if (law == StepLaw::ring || row.ring_steps <= 0) {
    return row.steps(placement.ranks());
  }
  const double inside = placement.gpus_per_node - 1;
  const double across = std::log2(static_cast<double>(std::max(placement.nodes, 1)));
  return std::max(1.0, row.ring_steps * (inside + across));
}

LatencyLaw fit_latency_law(const std::vector<LatencyPoint>& points) {
  LatencySums sums;
  for (const LatencyPoint& point : points) {
    sums.add(point.steps, point.latency.raw());
  }
  return sums.solve();
}

Seconds RankLaw::low(Bytes size) const {
  if (exact) {
    return nearest->time(size);
  }
  const Split split = split_at(*nearest, size);
  return split.latency * std::min(latency_low, latency_high) + split.transfer * transfer;
}

Seconds RankLaw::high(Bytes size) const {
  if (exact) {
    return nearest->time(size);
  }
  const Split split = split_at(*nearest, size);
  return split.latency * std::max(latency_low, latency_high) + split.transfer * transfer;
}

Seconds RankLaw::time(Bytes size) const {
  if (exact) {
    return nearest->time(size);
  }
  const Split split = split_at(*nearest, size);
  const Seconds grown = split.transfer * transfer;
  const Seconds a = split.latency * latency_low + grown;
  const Seconds b = split.latency * latency_high + grown;
  return Seconds(std::sqrt(a.raw() * b.raw()));
}

RankLaw rank_law(const std::vector<CollectiveCurve>& curves, const RankTarget& target) {
  RankLaw law;
  LatencySums ring;
  LatencySums tree;
  const CollectiveCurve* before = nullptr;
  for (const CollectiveCurve& curve : curves) {
    if (curve.collective != target.collective || !speaks_for(curve, target)) {
      continue;
    }
    if (curve.placement == target.placement) {
      return {&curve};
    }
    const bool repeated = before != nullptr && same_group(*before, curve);
    before = &curve;
    if (repeated) {
      continue;
    }
    const double latency = curve.pieces.front().latency.raw();
    ring.add(latency_steps(target.collective, curve.placement, StepLaw::ring), latency);
    tree.add(latency_steps(target.collective, curve.placement, StepLaw::tree), latency);
    if (law.nearest == nullptr || ranks_apart(curve, target.placement) < ranks_apart(*law.nearest, target.placement)) {
      law.nearest = &curve;
    }
  }
  if (law.nearest == nullptr) {
    return law;
  }
  const Placement& from = law.nearest->placement;
  const CollectiveRow& row = row_of(target.collective);
  law.exact = false;
  law.latency_low = latency_ratio(tree, target, from, StepLaw::tree);
  law.latency_high = latency_ratio(ring, target, from, StepLaw::ring);
  law.transfer = row.wire_factor(target.placement.ranks()) / row.wire_factor(from.ranks());
  law.rank_ratio = static_cast<double>(target.placement.ranks()) / from.ranks();
  return law;
}

void sort_for_rank_laws(std::vector<CollectiveCurve>& curves) {
  std::stable_sort(curves.begin(), curves.end(), [](const CollectiveCurve& a, const CollectiveCurve& b) {
    const auto key = [](const CollectiveCurve& curve) {
      return std::make_tuple(curve.collective, curve.concurrent_groups, curve.placement);
    };
    return key(a) != key(b) ? key(a) < key(b) : more_usual(a, b);
  });
}

}  // namespace tpplan
