#include "cost-model/curve_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "cost-model/fit.h"

namespace tpplan {

namespace {

constexpr std::size_t kMinPointsPerPiece = 3;
/// A fit is never believed to be better than this, so that noise-free points do not buy pieces by rounding.
constexpr double kRelativeNoise = 1e-3;
constexpr double kNoBandwidthLimit = 1e18;  // bytes/s of a piece whose time does not depend on size

/// Sums of (1 - a x - b y)^2 with x = 1/t and y = S/t: the relative errors of a line, in normal form.
struct RelativeSums {
  double xx = 0, xy = 0, yy = 0, x = 0, y = 0, n = 0;
  void add(const CurvePoint& point) {
    const double inverse = 1 / point.time.raw();
    const double scaled = point.size.raw() * inverse;
    xx += inverse * inverse;
    xy += inverse * scaled;
    yy += scaled * scaled;
    x += inverse;
    y += scaled;
    n += 1;
  }
  [[nodiscard]] double cost(double a, double b) const {
    return std::max(0.0, n - 2 * a * x - 2 * b * y + a * a * xx + 2 * a * b * xy + b * b * yy);
  }
  /// The best line with both coefficients >= 0: the free minimum if it is allowed, else the better of the two edges.
  [[nodiscard]] LineFit solve() const {
    const double determinant = xx * yy - xy * xy;
    if (determinant > 1e-12 * xx * yy) {
      const double a = (x * yy - y * xy) / determinant;
      const double b = (y * xx - x * xy) / determinant;
      if (a >= 0 && b >= 0) return {Seconds(a), b, cost(a, b)};
    }
    const double only_latency = xx > 0 ? x / xx : 0;
    const double only_slope = yy > 0 ? y / yy : 0;
    const double latency_cost = cost(only_latency, 0);
    const double slope_cost = yy > 0 ? cost(0, only_slope) : std::numeric_limits<double>::infinity();
    if (latency_cost <= slope_cost) return {Seconds(only_latency), 0, latency_cost};
    return {Seconds(0), only_slope, slope_cost};
  }
};

/// Where the right line takes over between two neighbouring sizes, or nothing when the curve would fall there: their
/// crossing, or the geometric middle when the right line is above the left one throughout.
std::optional<Bytes> hand_over(const LineFit& left, const LineFit& right, Bytes from, Bytes to) {
  const double gap_from = (right.time(from) - left.time(from)).raw();
  const double gap_to = (right.time(to) - left.time(to)).raw();
  if (gap_from < 0 && gap_to < 0) return std::nullopt;
  if (gap_from >= 0 && gap_to >= 0) return Bytes(std::sqrt(std::max(from.raw(), 1.0) * to.raw()));
  const double share = gap_from / (gap_from - gap_to);
  return Bytes(from.raw() + share * (to.raw() - from.raw()));
}

CurvePiece piece_of(const LineFit& line, double wire_factor, Bytes up_to) {
  const double bandwidth = line.seconds_per_byte > 0 ? wire_factor / line.seconds_per_byte : kNoBandwidthLimit;
  return {up_to, line.latency, BytesPerSecond(wire_factor > 0 ? std::min(bandwidth, kNoBandwidthLimit) : 0)};
}

/// Best cut of points into `lines.size()` contiguous lines, for every number of lines up to a limit.
class Segmentation {
 public:
  Segmentation(const std::vector<CurvePoint>& points, std::size_t most) : points_(points), most_(most) {
    const std::size_t n = points.size();
    lines_.assign(n, std::vector<LineFit>(n));
    for (std::size_t first = 0; first < n; ++first) {
      RelativeSums sums;
      for (std::size_t last = first; last < n; ++last) {
        sums.add(points[last]);
        lines_[first][last] = sums.solve();
      }
    }
    fill();
  }

  /// The first points of the lines, ascending, for the number of lines with the least information criterion.
  [[nodiscard]] std::vector<std::size_t> starts() const {
    const std::size_t n = points_.size();
    const double count = static_cast<double>(n);
    std::vector<std::size_t> best;
    double best_score = std::numeric_limits<double>::infinity();
    for (std::size_t used = 1; used <= most_; ++used) {
      const auto [cost, first] = end_of(used);
      if (!std::isfinite(cost)) continue;
      const double variance = cost / count + kRelativeNoise * kRelativeNoise;
      const double parameters = 3 * static_cast<double>(used) - 1;  // two per line and one per break
      const double score = count * std::log(variance) + parameters * std::log(count);
      if (score < best_score) {
        best_score = score;
        best = trace(used, first);
      }
    }
    return best;
  }
  [[nodiscard]] const LineFit& line(std::size_t first, std::size_t last) const { return lines_[first][last]; }

 private:
  struct State {
    double cost = std::numeric_limits<double>::infinity();
    std::size_t previous_first = 0;
  };

  [[nodiscard]] std::size_t least() const { return std::min(kMinPointsPerPiece, points_.size()); }

  // states_[used][last][first]: `used` lines cover the points up to `last`, the last of them begins at `first`.
  void fill() {
    const std::size_t n = points_.size();
    states_.assign(most_ + 1, std::vector<std::vector<State>>(n, std::vector<State>(n)));
    for (std::size_t last = least() - 1; last < n; ++last) states_[1][last][0].cost = lines_[0][last].cost;
    for (std::size_t used = 2; used <= most_; ++used) {
      for (std::size_t last = used * least() - 1; last < n; ++last) {
        for (std::size_t first = (used - 1) * least(); first + least() <= last + 1; ++first) {
          extend(used, last, first);
        }
      }
    }
  }

  void extend(std::size_t used, std::size_t last, std::size_t first) {
    State& state = states_[used][last][first];
    for (std::size_t before = 0; before < first; ++before) {
      const double so_far = states_[used - 1][first - 1][before].cost;
      const double cost = so_far + lines_[first][last].cost;
      if (!(cost < state.cost)) continue;
      const bool rises =
          hand_over(lines_[before][first - 1], lines_[first][last], points_[first - 1].size, points_[first].size)
              .has_value();
      if (rises) state = {cost, before};
    }
  }

  [[nodiscard]] std::pair<double, std::size_t> end_of(std::size_t used) const {
    const std::vector<State>& ends = states_[used].back();
    const auto best =
        std::min_element(ends.begin(), ends.end(), [](const State& a, const State& b) { return a.cost < b.cost; });
    return {best->cost, static_cast<std::size_t>(best - ends.begin())};
  }

  [[nodiscard]] std::vector<std::size_t> trace(std::size_t used, std::size_t first) const {
    std::vector<std::size_t> starts;
    std::size_t last = points_.size() - 1;
    for (std::size_t left = used; left > 0; --left) {
      starts.insert(starts.begin(), first);
      const std::size_t previous = states_[left][last][first].previous_first;
      last = first > 0 ? first - 1 : 0;
      first = previous;
    }
    return starts;
  }

  const std::vector<CurvePoint>& points_;
  std::size_t most_;
  std::vector<std::vector<LineFit>> lines_;
  std::vector<std::vector<std::vector<State>>> states_;
};

}  // namespace

LineFit fit_line(const std::vector<CurvePoint>& points, std::size_t begin, std::size_t end) {
  RelativeSums sums;
  for (std::size_t i = begin; i < end; ++i) sums.add(points[i]);
  return sums.solve();
}

std::vector<CurvePiece> fit_pieces(const std::vector<CurvePoint>& points, double wire_factor, std::size_t max_pieces) {
  if (points.empty() || max_pieces == 0) return {};
  const std::size_t most = std::clamp(points.size() / kMinPointsPerPiece, std::size_t{1}, max_pieces);
  const Segmentation segmentation(points, most);
  std::vector<std::size_t> starts = segmentation.starts();
  starts.push_back(points.size());
  std::vector<CurvePiece> pieces;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const LineFit& line = segmentation.line(starts[i], starts[i + 1] - 1);
    Bytes up_to = points.back().size;
    if (i + 2 < starts.size()) {
      const LineFit& next = segmentation.line(starts[i + 1], starts[i + 2] - 1);
      const std::size_t first = starts[i + 1];
      up_to = hand_over(line, next, points[first - 1].size, points[first].size).value_or(points[first - 1].size);
    }
    pieces.push_back(piece_of(line, wire_factor, up_to));
  }
  return pieces;
}

void fit_curve(CollectiveCurve& curve) {
  const double wire = row_of(curve.collective).wire_factor(curve.placement.ranks());
  curve.pieces = fit_pieces(curve.points, wire);
  std::vector<double> residuals;
  for (const CurvePoint& point : curve.points) {
    residuals.push_back(std::abs(time_of(curve.pieces, wire, point.size) / point.time - 1));
  }
  curve.residual_median = nearest_rank(residuals, 0.5);
  curve.residual_p90 = nearest_rank(residuals, 0.9);
}

std::vector<double> held_out_errors(const CollectiveCurve& curve) {
  CollectiveCurve half = curve;
  half.points.clear();
  for (std::size_t i = 0; i < curve.points.size(); i += 2) half.points.push_back(curve.points[i]);
  fit_curve(half);
  std::vector<double> errors;
  for (std::size_t i = 1; i < curve.points.size(); i += 2) {
    errors.push_back(std::abs(half.time(curve.points[i].size) / curve.points[i].time - 1));
  }
  return errors;
}

}  // namespace tpplan
