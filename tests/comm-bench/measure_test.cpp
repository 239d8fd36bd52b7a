#include "comm-bench/measure.h"

#include <doctest/doctest.h>

#include <vector>

using tpplan::Seconds;
using namespace tpplan::bench;

namespace {

std::vector<Seconds> seconds(const std::vector<double>& values) {
  std::vector<Seconds> result;
  for (const double value : values) result.emplace_back(value);
  return result;
}

/// 1, 2, ..., n seconds in an order that is not sorted.
std::vector<Seconds> shuffled_count(int n) {
  std::vector<Seconds> result;
  for (int i = 0; i < n; ++i) result.emplace_back(1.0 + (i * 7) % n);
  return result;
}

}  // namespace

TEST_CASE("the median of an even count is the mean of the middle two") {
  const Summary s = summary(seconds({4, 1, 3, 2}));
  CHECK(s.median.raw() == 2.5);
  CHECK(s.minimum.raw() == 1);
  CHECK(s.count == 4);
}

TEST_CASE("p5 and p95 are the nearest ranks") {
  // 20 samples: ranks ceil(0.05 * 20) = 1 and ceil(0.95 * 20) = 19. The step 7 has no factor in common with 20.
  const Summary s = summary(shuffled_count(20));
  CHECK(s.p5.raw() == 1);
  CHECK(s.p95.raw() == 19);
  CHECK(s.median.raw() == 10.5);
}

TEST_CASE("one slow repetition does not move the median") {
  CHECK(summary(seconds({1, 1, 1, 1, 100})).median.raw() == 1);
}

TEST_CASE("no samples give a summary of zeros") {
  CHECK(summary({}).count == 0);
  CHECK(summary({}).median.raw() == 0);
}

TEST_CASE("the interval of the median uses the order statistics of the binomial law") {
  // P(Bin(n, 1/2) < j) <= 2.5 % with the largest j:
  // n = 5: P(0) = 1/32 = 3.1 % already too much: none.  n = 6: P(0) = 1/64 = 1.6 %, P(<=1) = 7/64: j = 1.
  CHECK_FALSE(median_interval(shuffled_count(5)).has_value());
  const auto six = median_interval(seconds({6, 5, 4, 3, 2, 1}));
  REQUIRE(six.has_value());
  CHECK(six->low.raw() == 1);
  CHECK(six->high.raw() == 6);
  // n = 10: P(<=1) = 11/1024 = 1.1 %, P(<=2) = 56/1024 = 5.5 %: j = 2, the second smallest and second largest.
  const auto ten = median_interval(shuffled_count(10));
  REQUIRE(ten.has_value());
  CHECK(ten->low.raw() == 2);
  CHECK(ten->high.raw() == 9);
  // n = 20: P(<=5) = 2.07 %, P(<=6) = 5.8 %: j = 6.
  const auto twenty = median_interval(shuffled_count(20));
  REQUIRE(twenty.has_value());
  CHECK(twenty->low.raw() == 6);
  CHECK(twenty->high.raw() == 15);
}

TEST_CASE("a large count needs no factorials") {
  // n = 1000: about n/2 - 0.98 sqrt(n) = 469 (tables: 469 and 532).
  std::vector<Seconds> samples;
  for (int i = 1; i <= 1000; ++i) samples.emplace_back(i);
  const auto interval = median_interval(samples);
  REQUIRE(interval.has_value());
  CHECK(interval->low.raw() == doctest::Approx(469).epsilon(0.003));
  CHECK(interval->high.raw() == doctest::Approx(532).epsilon(0.003));
}

TEST_CASE("repeating stops when the interval is within two percent") {
  const StoppingRule rule;
  // Ten equal samples have an interval of width 0; nine are too few however equal.
  CHECK(stop_reason(std::vector<Seconds>(10, Seconds(1)), rule, true) == Stop::interval);
  CHECK(stop_reason(std::vector<Seconds>(9, Seconds(1)), rule, true) == Stop::keep_going);
  // Interval ends are the 2nd and 9th of 10: 0.985 and 1.015 around 1 are within 2 %, 0.97 is not.
  const auto near = seconds({0.9, 0.985, 1, 1, 1, 1, 1, 1, 1.015, 1.2});
  CHECK(stop_reason(near, rule, true) == Stop::interval);
  const auto far = seconds({0.9, 0.97, 1, 1, 1, 1, 1, 1, 1.015, 1.2});
  CHECK(stop_reason(far, rule, true) == Stop::keep_going);
}

TEST_CASE("repeating stops with the budget and says so") {
  const StoppingRule rule;
  CHECK(stop_reason(seconds({1, 2}), rule, false) == Stop::budget);
  // Enough is enough even when the budget has just ended.
  CHECK(stop_reason(std::vector<Seconds>(10, Seconds(1)), rule, false) == Stop::interval);
  // Never more than the most samples.
  CHECK(stop_reason(shuffled_count(1000), rule, true) == Stop::budget);
  CHECK(name_of(Stop::budget) == "budget");
  CHECK(name_of(Stop::interval) == "interval");
}

TEST_CASE("the missing samples follow the square of the width") {
  const StoppingRule rule;
  CHECK(samples_missing(seconds({1, 1, 1}), rule) == 7);  // up to the least of 10
  // Interval of 10 samples: 2nd and 9th, 4 % around the median, twice the 2 % wanted: 4 times as many, 30 more.
  const auto wide = seconds({0.9, 0.96, 1, 1, 1, 1, 1, 1, 1.04, 1.2});
  CHECK(samples_missing(wide, rule) >= 29);
  CHECK(samples_missing(wide, rule) <= 31);
}

TEST_CASE("drift is significant only when it is large and the intervals do not meet") {
  const std::vector<Seconds> steady(12, Seconds(1));
  const std::vector<Seconds> slower(12, Seconds(1.05));
  const std::vector<Seconds> slightly(12, Seconds(1.01));
  CHECK(drift(steady, slower).significant);
  CHECK(drift(steady, slower).change == doctest::Approx(0.05));
  CHECK_FALSE(drift(steady, slightly).significant);
  // Noise that covers the difference.
  const auto noisy = seconds({0.8, 0.9, 1, 1, 1, 1.05, 1.1, 1.1, 1.1, 1.2, 1.3, 1.4});
  CHECK_FALSE(drift(steady, noisy).significant);
  CHECK_FALSE(drift({}, slower).significant);
}
