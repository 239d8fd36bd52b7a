#include "cost-model/fit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

using namespace tpplan;

namespace {

/// Log residuals of latency + size / bandwidth against times of 5 us and 200 GB/s, sizes 1 KiB to 1 GiB.
struct LineData {
  std::vector<double> sizes, times;
  LineData() {
    for (int i = 10; i <= 30; ++i) {
      sizes.push_back(std::exp2(i));
      times.push_back(5e-6 + sizes.back() / 200e9);
    }
  }
  [[nodiscard]] std::vector<double> operator()(const std::vector<double>& p) const {
    std::vector<double> residuals;
    for (std::size_t i = 0; i < sizes.size(); ++i) residuals.push_back(std::log((p[0] + sizes[i] / p[1]) / times[i]));
    return residuals;
  }
};

}  // namespace

TEST_CASE("a fit finds the constants of noise-free data from a start a hundred times off") {
  const LineData data;
  const FitResult fit = fit_parameters({{"latency", 5e-4, 1e-7, 1e-2}, {"bandwidth", 2e9, 1e8, 1e13}}, data);
  CHECK(fit.converged);
  CHECK(fit.values[0] == doctest::Approx(5e-6).epsilon(1e-4));
  CHECK(fit.values[1] == doctest::Approx(200e9).epsilon(1e-4));
  CHECK(fit.cost < 1e-8);
  CHECK(fit.start_cost > 1000 * fit.cost);
}

TEST_CASE("two outliers of ten times move a robust fit by less than three per cent") {
  LineData data;
  data.times[3] *= 10;
  data.times[15] *= 10;
  const FitResult fit = fit_parameters({{"latency", 1e-5, 1e-7, 1e-2}, {"bandwidth", 1e11, 1e8, 1e13}}, data);
  CHECK(fit.values[0] == doctest::Approx(5e-6).epsilon(0.03));
  CHECK(fit.values[1] == doctest::Approx(200e9).epsilon(0.03));
}

TEST_CASE("a constant that the data do not determine keeps its start and gets its bounds as interval") {
  const LineData data;
  const auto residuals = [&](const std::vector<double>& p) { return data({p[0], p[1]}); };
  const FitResult fit = fit_parameters(
      {{"latency", 1e-5, 1e-7, 1e-2}, {"bandwidth", 1e11, 1e8, 1e13}, {"unused", 0.5, 0.1, 0.9}}, residuals);
  CHECK(fit.values[2] == doctest::Approx(0.5));
  CHECK(fit.low[2] == doctest::Approx(0.1));
  CHECK(fit.high[2] == doctest::Approx(0.9));
}

TEST_CASE("a fit stops at a bound and says so") {
  // The best bandwidth, 200 GB/s, is forbidden: the nearest allowed one wins.
  const LineData data;
  const FitResult fit = fit_parameters({{"latency", 5e-6, 1e-7, 1e-2}, {"bandwidth", 50e9, 1e9, 100e9}}, data);
  CHECK(fit.values[1] == doctest::Approx(100e9));
  CHECK(fit.at_bound[1]);
  CHECK_FALSE(fit.at_bound[0]);
}

TEST_CASE("a prior pulls a constant half way when it weighs as much as the data") {
  // One datum x = 1 with sigma 0.1 and a prior x = 0 with sigma 0.1 on a linear constant: the mean of both, 0.5. The
  // scale of the data is its floor here, since one residual cannot tell it.
  FitOptions options;
  options.sigma_floor = 0.1;
  options.huber_sigmas = 100;
  const auto residuals = [](const std::vector<double>& p) { return std::vector<double>{p[0] - 1, 0, 0, 0}; };
  const FitResult fit = fit_parameters({{"x", 0, -5, 5, 0.1}}, residuals, options);
  CHECK(fit.values[0] == doctest::Approx(0.5).epsilon(1e-3));
}

TEST_CASE("the interval of a scale factor is that of the mean of its log residuals") {
  // r_i = ln(p) + e_i with e = -0.1, 0.1 four times over: the mean is 0, so p = 1; sigma = 1.4826 x 0.1; the standard
  // deviation of the mean of 8 is sigma / sqrt(8), and 80 % of a normal lie within 1.2816 of them.
  const auto residuals = [](const std::vector<double>& p) {
    std::vector<double> r;
    for (int i = 0; i < 8; ++i) r.push_back(std::log(p[0]) + (i % 2 == 0 ? 0.1 : -0.1));
    return r;
  };
  const FitResult fit = fit_parameters({{"p", 1.3, 0.1, 10}}, residuals);
  const double half = 1.2816 * 1.4826 * 0.1 / std::sqrt(8.0);
  CHECK(fit.values[0] == doctest::Approx(1).epsilon(1e-3));
  CHECK(std::log(fit.high[0]) == doctest::Approx(half).epsilon(0.01));
  CHECK(std::log(fit.low[0]) == doctest::Approx(-half).epsilon(0.01));
}

TEST_CASE("a start outside the bounds is refused by name") {
  const auto none = [](const std::vector<double>&) { return std::vector<double>{0}; };
  CHECK_THROWS_WITH_AS(fit_parameters({{"gap", 3, 0, 1}}, none), "start value of gap lies outside its bounds",
                       std::invalid_argument);
}

TEST_CASE("nearest rank takes a value of the list") {
  CHECK(nearest_rank({5, 1, 4, 2, 3}, 0.5) == 3);
  CHECK(nearest_rank({5, 1, 4, 2, 3}, 0.9) == 5);
  CHECK(nearest_rank({1, 2, 3, 4}, 0.5) == 2);
  CHECK(nearest_rank({}, 0.5) == 0);
}
