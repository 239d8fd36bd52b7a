#include "cost-model/rank_law.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cost-model/curve_fit.h"
#include "tests/cost-model/curves.h"

using namespace tpplan;
using tests::point;
using tests::ring_curve;

TEST_CASE("ring latency measured at 16 and 32 ranks predicts 64 ranks") {
  // Public logs of V100 with EFA: 163.05 us at 16 and 319.05 us at 32 ranks. Per step (319.05 - 163.05) / (62 - 30) =
  // 4.875 us, base 163.05 - 30 x 4.875 = 16.8 us; 126 steps at 64 ranks: 614.25 + 16.8 = 631.05 us (631 measured).
  const LatencyLaw law = fit_latency_law({{30, Seconds(163.05e-6)}, {62, Seconds(319.05e-6)}});
  CHECK(law.per_step.raw() == doctest::Approx(4.875e-6).epsilon(1e-6));
  CHECK(law.base.raw() == doctest::Approx(16.8e-6).epsilon(1e-6));
  CHECK(law.latency(126).raw() == doctest::Approx(631.05e-6).epsilon(1e-6));
}

TEST_CASE("steps of ring and tree follow the number of ranks and nodes") {
  // Ring all-reduce of 32 ranks: 2 x 31. Tree over 4 nodes of 8: twice 7 hops inside and log2(4) between.
  CHECK(latency_steps(Collective::all_reduce, {4, 8, 1}, StepLaw::ring) == 62);
  CHECK(latency_steps(Collective::all_reduce, {4, 8, 1}, StepLaw::tree) == 2 * (7 + 2));
  CHECK(latency_steps(Collective::all_gather, {1, 8, 1}, StepLaw::ring) == 7);
  CHECK(latency_steps(Collective::send_recv, {2, 1, 1}, StepLaw::tree) == 1);
}

TEST_CASE("a group that was measured is read as it is") {
  const std::vector<CollectiveCurve> curves{ring_curve(4, 8), ring_curve(8, 8)};
  const RankLaw law = rank_law(curves, {Collective::all_reduce, {8, 8, 1}});
  REQUIRE(law.nearest == &curves[1]);
  CHECK(law.exact);
  CHECK(law.rank_ratio == 1);
  CHECK(law.time(1_MiB) == curves[1].time(1_MiB));
  CHECK(law.low(1_MiB) == law.high(1_MiB));
}

TEST_CASE("more nodes are extrapolated by the ring law as the upper end") {
  const std::vector<CollectiveCurve> curves{ring_curve(4, 8), ring_curve(8, 8)};
  const RankLaw law = rank_law(curves, {Collective::all_reduce, {16, 8, 1}});
  REQUIRE(law.nearest == &curves[1]);
  CHECK_FALSE(law.exact);
  for (const Bytes size : {8_KiB, 1_MiB, 1_GiB}) {
    // 128 ranks: 254 ring steps x 4.875 + 16.8 us, and 2 x 127/128 of the size at 100 GB/s
    const double exact = 254 * 4.875e-6 + 16.8e-6 + 2.0 * 127 / 128 * size.raw() / 100e9;
    CHECK(law.high(size).raw() == doctest::Approx(exact).epsilon(2e-3));
    CHECK(law.low(size) <= law.time(size));
    CHECK(law.time(size) <= law.high(size));
  }
  CHECK(law.rank_ratio == doctest::Approx(2));
}

TEST_CASE("one measured group gives latency in proportion to the steps") {
  const std::vector<CollectiveCurve> curves{ring_curve(4, 8)};
  const RankLaw law = rank_law(curves, {Collective::all_reduce, {8, 8, 1}});
  REQUIRE_FALSE(law.exact);
  // Ring: 2 x 63 steps after 2 x 31. Tree: 2 x (7 + 3) after 2 x (7 + 2).
  CHECK(law.latency_high == doctest::Approx(126.0 / 62));
  CHECK(law.latency_low == doctest::Approx(20.0 / 18));
  // With a base of 10 us and a step of 1 us assumed: 10 + 126 after 10 + 62.
  RankTarget target{Collective::all_reduce, {8, 8, 1}};
  target.base = 10_us;
  target.step = 1_us;
  CHECK(rank_law(curves, target).latency_high == doctest::Approx(136.0 / 72));
  // 2 x 63/64 of the payload crosses the wire instead of 2 x 31/32.
  CHECK(law.transfer == doctest::Approx((63.0 / 64) / (31.0 / 32)));
}

TEST_CASE("two nodes never inform more nodes nor the other way round") {
  const auto found = [](const CollectiveCurve& curve, const Placement& wanted) {
    const std::vector<CollectiveCurve> curves{curve};
    return rank_law(curves, {Collective::all_reduce, wanted}).nearest != nullptr;
  };
  CHECK_FALSE(found(ring_curve(2, 8), {4, 8, 1}));
  CHECK_FALSE(found(ring_curve(4, 8), {2, 8, 1}));
  CHECK_FALSE(found(ring_curve(4, 8), {8, 1, 8}));  // one GPU per node is never read from whole nodes
  CHECK(found(ring_curve(4, 8), {8, 8, 1}));
}

TEST_CASE("a pair on a bridge does not speak for four cards across the host") {
  // The pair spans 2 ranks; the wanted group of 4 crosses the next link, which joins more than 2.
  const std::vector<CollectiveCurve> curves{ring_curve(1, 2)};
  CHECK(rank_law(curves, {Collective::all_reduce, {1, 4, 1}, 1, 2, 8}).nearest == nullptr);
  CHECK(rank_law(curves, {Collective::all_reduce, {1, 4, 1}, 1, 0, 8}).nearest != nullptr);
}

TEST_CASE("curves of one group are counted once and the usual one first") {
  CollectiveCurve out_of_place = ring_curve(4, 8);
  CollectiveCurve in_place = ring_curve(4, 8);
  in_place.in_place = true;
  std::vector<CollectiveCurve> curves{ring_curve(8, 8), out_of_place, in_place};
  sort_for_rank_laws(curves);
  CHECK(curves[0].in_place);  // all-reduce runs in place
  CHECK(curves[0].placement == Placement{4, 8, 1});
  CHECK(curves[2].placement == Placement{8, 8, 1});
  CHECK(rank_law(curves, {Collective::all_reduce, {4, 8, 1}}).nearest == &curves[0]);
}
