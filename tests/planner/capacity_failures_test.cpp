#include <doctest/doctest.h>

#include <cmath>

#include "planner/capacity/failures.h"

using namespace tpplan;

namespace {

constexpr double kDay = 86400;

FailureModel model_with(double checkpoint_over_mtbf, double restart_over_mtbf) {
  return {Seconds(kDay), Seconds(kDay * checkpoint_over_mtbf), Seconds(kDay * restart_over_mtbf)};
}

}  // namespace

TEST_CASE("the time between interruptions of one GPU follows from Llama 3's 419 in 54 days on 16384 GPUs") {
  // 54 d x 24 h x 16,384 / 419 = 50,676.8 h, 5.8 years.
  CHECK(kUsualGpuMtbf.raw() / 3600 == doctest::Approx(50676.8).epsilon(1e-5));
  // The whole job: 54 d / 419 = 3.09 h.
  CHECK(kUsualGpuMtbf.raw() / 16384 / 3600 == doctest::Approx(3.0931).epsilon(1e-4));
}

TEST_CASE("Young's interval is the root of twice checkpoint time times time between failures") {
  // sqrt(2 x 60 s x 3 h) = sqrt(1,296,000) = 1,138.4 s.
  CHECK(young_interval({Seconds(10800), Seconds(60), Seconds(0)}).raw() == doctest::Approx(1138.42).epsilon(1e-5));
}

TEST_CASE("Daly's interval stays within a thousandth of the one that wastes least") {
  for (const double checkpoint : {0.0005, 0.002, 0.01, 0.02}) {
    const FailureModel model = model_with(checkpoint, 0.01);
    CHECK(daly_interval(model) / best_interval(model) == doctest::Approx(1).epsilon(1e-3));
  }
  // Checkpoints longer than twice the time between failures: Daly falls back to that time.
  CHECK(daly_interval(model_with(3, 0)).raw() == doctest::Approx(kDay));
}

TEST_CASE("the best interval is where the derivative of the waste vanishes") {
  for (const double checkpoint : {0.0005, 0.01, 0.3}) {
    const FailureModel model = model_with(checkpoint, 0.02);
    const double x = best_interval(model) / model.mtbf;
    CHECK(std::exp(x + checkpoint) * (1 - x) == doctest::Approx(1).epsilon(1e-9));
    // No interval of a grid does better at all.
    for (double factor = 0.1; factor < 10; factor *= 1.05) {
      CHECK(wasted_share(model, best_interval(model) * factor) >= wasted_share(model, best_interval(model)) - 1e-12);
    }
  }
}

TEST_CASE("the three parts of the waste add up to the whole") {
  const FailureModel model = model_with(0.01, 0.05);
  for (const double interval : {0.01, 0.1, 0.5}) {
    const WastedTime parts = wasted_time(model, Seconds(kDay * interval));
    CHECK(parts.checkpoints + parts.lost_work + parts.restarts ==
          doctest::Approx(wasted_share(model, Seconds(kDay * interval))).epsilon(1e-12));
  }
}

TEST_CASE("the waste at Young's and Daly's interval is within 3 percent of 10000 simulated histories") {
  for (const double checkpoint : {0.001, 0.005, 0.01, 0.02}) {
    for (const double restart : {0.0, 0.01, 0.05}) {
      const FailureModel model = model_with(checkpoint, restart);
      for (const Seconds interval : {young_interval(model), daly_interval(model)}) {
        // Segments enough for some ten interruptions a history.
        const int segments = static_cast<int>(10 * model.mtbf / interval);
        const double simulated = simulated_waste(model, interval, segments, 10000, 1);
        CHECK(wasted_share(model, interval) == doctest::Approx(simulated).epsilon(0.03));
      }
    }
  }
}

TEST_CASE("no interval of a grid simulates better than Daly's by more than 1 percent") {
  for (const double checkpoint : {0.001, 0.02}) {
    const FailureModel model = model_with(checkpoint, 0.01);
    const auto simulated = [&](Seconds interval) {
      return simulated_waste(model, interval, static_cast<int>(20 * model.mtbf / interval), 10000, 7);
    };
    const double daly = simulated(daly_interval(model));
    for (const double factor : {0.25, 0.5, 0.7, 0.85, 1.2, 1.5, 2.0, 4.0}) {
      CHECK(simulated(daly_interval(model) * factor) > daly * 0.99);
    }
  }
}

TEST_CASE("a job that is interrupted before a restart ends wastes everything") {
  // R = 7,200 M: a share e^-7200 of the restarts ends, which no double holds.
  const FailureModel model = model_with(100, 7200);
  const Seconds interval = best_interval(model);
  CHECK(wasted_share(model, interval) == 1);
  const WastedTime parts = wasted_time(model, interval);
  CHECK(parts.checkpoints == 0);
  CHECK(parts.lost_work == 0);
  CHECK(parts.restarts == 1);
  CHECK(interruptions_per_segment(model, interval) > 1e300);
  // e^(t/M) - 1 interruptions of a segment without restarts: 1 for t = M ln 2.
  CHECK(interruptions_per_segment(model_with(0, 0), Seconds(kDay * std::log(2.0))) == doctest::Approx(1));
}

TEST_CASE("the first-order waste approaches the exact one for short checkpoints") {
  const FailureModel model = model_with(1e-6, 0);
  const Seconds interval = young_interval(model);
  CHECK(wasted_share_first_order(model, interval) == doctest::Approx(wasted_share(model, interval)).epsilon(0.002));
}

TEST_CASE("a simulation repeats itself for one seed and differs for another") {
  const FailureModel model = model_with(0.01, 0.01);
  CHECK(simulated_waste(model, Seconds(3600), 10, 50, 3) == simulated_waste(model, Seconds(3600), 10, 50, 3));
  CHECK(simulated_waste(model, Seconds(3600), 10, 50, 3) != simulated_waste(model, Seconds(3600), 10, 50, 4));
}

TEST_CASE("spare nodes cover the nodes in repair with the wanted confidence") {
  // Poisson of mean 1: P(N <= 3) = 0.98101 and P(N <= 4) = 0.99634.
  CHECK(spare_nodes(1, 0.98) == 3);
  CHECK(spare_nodes(1, 0.99) == 4);
  CHECK(spare_nodes(0, 0.99) == 0);
  CHECK(spare_nodes(2000, 0.99) == 2105);  // 2,000 + 2.33 sqrt(2,000)
}
