#include "planner/capacity/failures.h"

#include <cmath>
#include <random>

namespace tpplan {

Seconds young_interval(const FailureModel& model) {
  return Seconds(std::sqrt(2 * model.checkpoint.raw() * model.mtbf.raw()));
}

Seconds daly_interval(const FailureModel& model) {
  const double share = model.checkpoint / model.mtbf / 2;
  if (share >= 1) {
    return model.mtbf;
  }
  return young_interval(model) * (1 + std::sqrt(share) / 3 + share / 9) - model.checkpoint;
}

Seconds best_interval(const FailureModel& model) {
  // With x = t / M and c = C / M the derivative of wasted_share vanishes where e^(x + c) (1 - x) = 1. The left side
  // falls on (0, 1] from e^c to 0, so bisection finds the one place.
  const double c = model.checkpoint / model.mtbf;
  double low = 0;
  double high = 1;
  constexpr int kHalvings = 200;
  for (int i = 0; i < kHalvings; ++i) {
    const double x = (low + high) / 2;
    (std::exp(x + c) * (1 - x) > 1 ? low : high) = x;
  }
  return model.mtbf * low;
}

double wasted_share(const FailureModel& model, Seconds interval) {
  const double m = model.mtbf.raw();
  const double wall = m * std::exp(model.restart.raw() / m) * std::expm1((interval + model.checkpoint).raw() / m);
  return 1 - interval.raw() / wall;
}

double wasted_share_first_order(const FailureModel& model, Seconds interval) {
  return model.checkpoint / interval + (interval * 0.5 + model.restart) / model.mtbf;
}

WastedTime wasted_time(const FailureModel& model, Seconds interval) {
  const double m = model.mtbf.raw();
  const double segment = (interval + model.checkpoint).raw();
  const double attempts = std::expm1(segment / m);  // interruptions per finished segment, before those of restarts
  const double restarted = std::exp(-model.restart.raw() / m);  // share of the restarts that end
  // A restart that is interrupted itself starts again: on average M (e^(R/M) - 1) per interruption of a segment, whose
  // share of the wall time M e^(R/M) (e^(segment/M) - 1) is 1 - e^(-R/M).
  const double wall = m * attempts / restarted;
  return {model.checkpoint.raw() / wall, restarted * (1 - segment / (m * attempts)), 1 - restarted};
}

double interruptions_per_segment(const FailureModel& model, Seconds interval) {
  const double m = model.mtbf.raw();
  return std::expm1((interval + model.checkpoint).raw() / m) * std::exp(model.restart.raw() / m);
}

double simulated_waste(const FailureModel& model, Seconds interval, int segments, int histories, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto time_to_failure = [&] {
    constexpr double kStep = 0x1p-53;
    const double uniform = (static_cast<double>(random() >> 11U) + 0.5) * kStep;
    return -model.mtbf.raw() * std::log(uniform);
  };
  const double segment = (interval + model.checkpoint).raw();
  double wall = 0;
  for (int history = 0; history < histories; ++history) {
    double now = 0;
    double failure = time_to_failure();
    for (int done = 0; done < segments;) {
      if (failure >= now + segment) {
        now += segment;
        ++done;
        continue;
      }
      now = failure;
      failure = now + time_to_failure();
      while (failure < now + model.restart.raw()) {
        now = failure;
        failure = now + time_to_failure();
      }
      now += model.restart.raw();
    }
    wall += now;
  }
  return 1 - interval.raw() * segments * histories / wall;
}

int spare_nodes(double mean_in_repair, double confidence) {
  constexpr int kMost = 1000000;
  double probability = std::exp(-mean_in_repair);
  if (probability <= 0) {
    // Far beyond the range of exp: the normal limit of Poisson, 2.33 standard deviations for 99 %.
    return static_cast<int>(std::ceil(mean_in_repair + 2.33 * std::sqrt(mean_in_repair)));
  }
  double sum = probability;
  int spares = 0;
  while (sum < confidence && spares < kMost) {
    ++spares;
    probability *= mean_in_repair / spares;
    sum += probability;
  }
  return spares;
}

}  // namespace tpplan
