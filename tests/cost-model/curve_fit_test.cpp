#include "cost-model/curve_fit.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/cost-model/curves.h"

using namespace tpplan;
using tests::point;
using tests::ring_curve;

TEST_CASE("a line through exact points gives back latency and slope") {
  // t = 10 us + S / (1 GB/s)
  const std::vector<CurvePoint> points{point(1e3, 11e-6), point(1e4, 20e-6), point(1e6, 1010e-6)};
  const LineFit line = fit_line(points, 0, 3);
  CHECK(line.latency.raw() == doctest::Approx(10e-6).epsilon(1e-6));
  CHECK(line.seconds_per_byte == doctest::Approx(1e-9).epsilon(1e-6));
  CHECK(line.cost == doctest::Approx(0).epsilon(1e-9));
}

TEST_CASE("a line never has a negative latency") {
  // The free line through (1, 1) and (2, 4) is 3 S - 2. Without latency the best slope minimises (1 - b)^2 + (1 -
  // b/2)^2: 2(1 - b) + (1 - b/2) = 0, b = 6/5.
  const LineFit line = fit_line({point(1, 1), point(2, 4)}, 0, 2);
  CHECK(line.latency.raw() == 0);
  CHECK(line.seconds_per_byte == doctest::Approx(1.2));
}

TEST_CASE("a line never has a negative slope") {
  // Falling times 2, 1: the best constant a minimises (1 - a/2)^2 + (1 - a)^2: a = (1/2 + 1) / (1/4 + 1) = 6/5.
  const LineFit line = fit_line({point(1, 2), point(2, 1)}, 0, 2);
  CHECK(line.seconds_per_byte == 0);
  CHECK(line.latency.raw() == doctest::Approx(1.2));
}

TEST_CASE("two regimes give two pieces that meet at their crossing") {
  // 10 us + S/(1 GB/s) up to 64 KiB, then 40 us + S/(4 GB/s): they cross where 30 us = S x 0.75 ns, S = 40,000 bytes;
  // with powers of two the change happens between 32,768 and 65,536.
  std::vector<CurvePoint> points;
  for (int i = 10; i <= 22; ++i) {
    const double bytes = std::exp2(i);
    points.push_back(point(bytes, std::min(10e-6 + bytes / 1e9, 40e-6 + bytes / 4e9)));
  }
  const std::vector<CurvePiece> pieces = fit_pieces(points, 1, 3);
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].up_to.raw() == doctest::Approx(40000).epsilon(1e-3));
  CHECK(pieces[0].latency.raw() == doctest::Approx(10e-6).epsilon(1e-4));
  CHECK(pieces[0].bandwidth.raw() == doctest::Approx(1e9).epsilon(1e-4));
  CHECK(pieces[1].latency.raw() == doctest::Approx(40e-6).epsilon(1e-4));
  CHECK(pieces[1].bandwidth.raw() == doctest::Approx(4e9).epsilon(1e-4));
  CHECK(pieces[1].up_to == points.back().size);
}

TEST_CASE("one regime is not cut into pieces") { CHECK(fit_pieces(ring_curve(2, 8).points, 1.875, 3).size() == 1); }

TEST_CASE("pieces never fall with size even where the points do") {
  // A switch of algorithm that makes larger messages faster, as MI300X shows at 1 KiB.
  std::vector<CurvePoint> points;
  for (int i = 3; i <= 24; ++i) {
    const double bytes = std::exp2(i);
    points.push_back(point(bytes, (i < 10 ? 23e-6 : 13.7e-6) + bytes / 50e9));
  }
  const std::vector<CurvePiece> pieces = fit_pieces(points, 1.75, 3);
  REQUIRE_FALSE(pieces.empty());
  double before = 0;
  for (double bytes = 4; bytes < 1e9; bytes *= 1.07) {
    const double now = time_of(pieces, 1.75, Bytes(bytes)).raw();
    CHECK(now >= before * (1 - 1e-9));
    before = now;
  }
}

TEST_CASE("the wire factor turns slopes into bus bandwidth") {
  const CollectiveCurve curve = ring_curve(2, 8);
  REQUIRE(curve.pieces.size() == 1);
  CHECK(curve.pieces[0].bandwidth.raw() == doctest::Approx(100e9).epsilon(1e-6));
  CHECK(curve.pieces[0].latency.raw() == doctest::Approx(4.875e-6 * 30 + 16.8e-6).epsilon(1e-6));
  CHECK(curve.residual_p90 < 1e-9);
}

TEST_CASE("held-out errors of an exact curve are those of log-log interpolation") {
  // In the latency and in the bandwidth regime interpolation is exact; in between, at t = a + b S with a = b S0, the
  // geometric mean of t(S0/2) and t(2 S0) is sqrt(1.5 x 3) = 2.1213 against 2: 6.07 % at most.
  const std::vector<double> errors = held_out_errors(ring_curve(2, 8));
  for (const double error : errors) CHECK(error < 0.0608);
  CHECK(errors.front() < 0.001);
}
