#include "planner/report/chart_scale.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cost-model/units.h"

namespace tpplan {
namespace {

/// The round step that cuts a range into about five.
double round_step(double range) {
  const double rough = range / 5;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * decade * (1 + 1e-9)) {
      return factor * decade;
    }
  }
  return 10 * decade;
}

}  // namespace

ChartScale ChartScale::exact(double low, double high) {
  ChartScale scale;
  scale.low_ = low;
  scale.high_ = high > low ? high : low + 1;
  return scale;
}

ChartScale ChartScale::linear(double low, double high) {
  if (!(high > low)) {
    const double half = low == 0 ? 0.5 : std::abs(low) / 2;
    low -= half;
    high += half;
  }
  const double step = round_step(high - low);
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  ChartScale scale = exact(first * step, last * step);
  for (double tick = first; tick <= last; ++tick) {
    scale.ticks_.push_back(tick * step);
  }
  return scale;
}

ChartScale ChartScale::logarithmic(double low, double high) {
  if (!(high > low)) {
    low /= 2;
    high *= 2;
  }
  // Ends a little outside of the values, so that no mark is cut.
  const double margin = std::pow(high / low, 0.04);
  ChartScale scale = exact(low / margin, high * margin);
  scale.logarithmic_ = true;
  const double span = high / low;
  if (span < 8) {
    // Within a decade round steps say more than powers.
    const ChartScale round = linear(low, high);
    for (const double tick : round.ticks()) {
      if (tick >= scale.low_ && tick <= scale.high_) {
        scale.ticks_.push_back(tick);
      }
    }
    return scale;
  }
  for (int decade = static_cast<int>(std::floor(std::log10(scale.low_))); decade <= std::log10(scale.high_); ++decade) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, decade);
      if ((factor == 1 || span < 200) && tick >= scale.low_ && tick <= scale.high_) {
        scale.ticks_.push_back(tick);
      }
    }
  }
  return scale;
}

double ChartScale::at(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
}

std::string tick_text(double value, FigureStyle style) {
  if (style == FigureStyle::share) {
    return shortest(std::round(value * 1e6) / 1e4) + " %";
  }
  struct Suffix {
    double factor;
    const char* letter;
  };
  constexpr std::array<Suffix, 4> kSuffixes{{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const Suffix& suffix : kSuffixes) {
    if (std::abs(value) >= suffix.factor && std::abs(value) >= 1e5) {
      return shortest(std::round(value / suffix.factor * 1000) / 1000) + suffix.letter;
    }
  }
  if (std::abs(value) >= 1000 && value == std::floor(value)) {
    return with_separators(static_cast<long long>(value));
  }
  const double digits = std::abs(value) >= 1 ? 1e3 : 1e6;
  return shortest(std::round(value * digits) / digits);
}

}  // namespace tpplan
