#include "comm-bench/measure.h"

#include <algorithm>
#include <cmath>

namespace tpplan::bench {

namespace {

constexpr double kTail = 0.025;
constexpr double kDriftFloor = 0.02;

std::vector<Seconds> sorted(std::span<const Seconds> samples) {
  std::vector<Seconds> result(samples.begin(), samples.end());
  std::sort(result.begin(), result.end());
  return result;
}

Seconds nearest_rank(const std::vector<Seconds>& ascending, double share) {
  const double rank = std::ceil(share * static_cast<double>(ascending.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return ascending[std::min(index, ascending.size() - 1)];
}

Seconds middle(const std::vector<Seconds>& ascending) {
  const std::size_t n = ascending.size();
  return n % 2 == 1 ? ascending[n / 2] : (ascending[n / 2 - 1] + ascending[n / 2]) / 2;
}

/// Largest j with P(Binomial(n, 1/2) <= j - 1) <= 2.5 %; 0 if none.
std::size_t outer_rank(std::size_t n) {
  const auto count = static_cast<double>(n);
  double cumulative = 0;
  std::size_t j = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const auto i = static_cast<double>(k);
    cumulative +=
        std::exp(std::lgamma(count + 1) - std::lgamma(i + 1) - std::lgamma(count - i + 1) - count * std::log(2.0));
    if (cumulative > kTail) break;
    j = k + 1;
  }
  return j;
}

double relative_half_width(const Interval& interval, Seconds median) {
  if (median.raw() <= 0) return 0;
  return std::max(interval.high - median, median - interval.low) / median;
}

}  // namespace

Summary summary(std::span<const Seconds> samples) {
  if (samples.empty()) return {};
  const std::vector<Seconds> ascending = sorted(samples);
  return {middle(ascending), nearest_rank(ascending, 0.05), nearest_rank(ascending, 0.95), ascending.front(),
          ascending.size()};
}

std::optional<Interval> median_interval(std::span<const Seconds> samples) {
  const std::size_t j = outer_rank(samples.size());
  if (j == 0) return std::nullopt;
  const std::vector<Seconds> ascending = sorted(samples);
  return Interval{ascending[j - 1], ascending[ascending.size() - j]};
}

Stop stop_reason(std::span<const Seconds> samples, const StoppingRule& rule, bool budget_left) {
  if (samples.size() >= rule.least_samples) {
    const std::optional<Interval> interval = median_interval(samples);
    if (interval && relative_half_width(*interval, summary(samples).median) <= rule.relative_width) {
      return Stop::interval;
    }
  }
  if (!budget_left || samples.size() >= rule.most_samples) return Stop::budget;
  return Stop::keep_going;
}

std::string_view name_of(Stop stop) {
  constexpr std::string_view kNames[] = {"keep_going", "interval", "budget"};
  return kNames[static_cast<std::size_t>(stop)];
}

std::size_t samples_missing(std::span<const Seconds> samples, const StoppingRule& rule) {
  const std::size_t least = samples.size() < rule.least_samples ? rule.least_samples - samples.size() : 1;
  const std::optional<Interval> interval = median_interval(samples);
  if (!interval) return least;
  const double excess = relative_half_width(*interval, summary(samples).median) / rule.relative_width;
  const double wanted = static_cast<double>(samples.size()) * (excess * excess - 1);
  const double room = static_cast<double>(rule.most_samples) - static_cast<double>(samples.size());
  return std::max(least, static_cast<std::size_t>(std::ceil(std::clamp(wanted, 0.0, std::max(room, 0.0)))));
}

Drift drift(std::span<const Seconds> first, std::span<const Seconds> again) {
  const Seconds before = summary(first).median;
  const Seconds after = summary(again).median;
  if (before.raw() <= 0 || after.raw() <= 0) return {};
  Drift result{after / before - 1, false};
  const std::optional<Interval> a = median_interval(first);
  const std::optional<Interval> b = median_interval(again);
  const bool apart = a && b && (a->high < b->low || b->high < a->low);
  result.significant = apart && std::abs(result.change) > kDriftFloor;
  return result;
}

}  // namespace tpplan::bench
