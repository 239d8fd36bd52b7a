#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cost-model/units.h"

namespace tpplan::bench {

/// Order statistics of repeated times of one operation; each time is the maximum over the ranks.
struct Summary {
  Seconds median, p5, p95, minimum;
  std::size_t count = 0;
};

/// Median (mean of the middle two for an even count); p5 and p95 by nearest rank. All zero for no samples.
Summary summary(std::span<const Seconds> samples);

struct Interval {
  Seconds low, high;
};

/// Interval that holds the true median with a probability of at least 95 %, whatever the distribution: the j-th
/// smallest and j-th largest sample with the largest j for which P(Binomial(n, 1/2) < j) <= 2.5 %. Nothing below 6
/// samples, where even the whole range holds it less often (1 - 2 * 2^-5 = 93.75 %). Source: order-statistic intervals,
/// e.g. Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015, rule 5.
std::optional<Interval> median_interval(std::span<const Seconds> samples);

/// Whether the result of what was measured was compared with the expected one.
enum class Check { ok, wrong, off };
inline constexpr std::string_view kCheckNames[] = {"ok", "wrong", "off"};

/// When repeating stops.
struct StoppingRule {
  double relative_width = 0.02;    ///< both ends of the interval within this of the median
  std::size_t least_samples = 10;  ///< fewer are never enough
  std::size_t most_samples = 1000;
};

enum class Stop { keep_going, interval, budget };

/// Whether these samples are enough. `budget_left` false ends the repetition with what there is.
Stop stop_reason(std::span<const Seconds> samples, const StoppingRule& rule, bool budget_left);
std::string_view name_of(Stop stop);

/// How many more samples the interval probably needs: its width shrinks with the square root of the count. At least 1.
std::size_t samples_missing(std::span<const Seconds> samples, const StoppingRule& rule);

/// The same operation measured at the start and at the end of a run.
struct Drift {
  double change = 0;         ///< median at the end over median at the start, minus 1
  bool significant = false;  ///< over 2 %, and the intervals of the medians do not meet
};
Drift drift(std::span<const Seconds> first, std::span<const Seconds> again);

}  // namespace tpplan::bench
