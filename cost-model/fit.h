#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tpplan {

/// One free constant. It is varied in logarithmic steps when `low` is positive, else in linear ones.
struct FitParameter {
  std::string name;
  double start = 1, low = 0, high = 1;
  /// Standard deviation of ln(value / start) believed before looking at data (of value - start when low <= 0); 0: none.
  double prior_sigma = 0;
};

struct FitOptions {
  int max_iterations = 100;
  /// Residuals beyond this many robust standard deviations count linearly instead of squared (Huber 1964).
  double huber_sigmas = 1.5;
  /// Lower bound of the robust standard deviation of the log residuals: data are never trusted to better than this.
  double sigma_floor = 0.002;
  /// Stops when the cost falls by less than this share in one accepted step.
  double tolerance = 1e-8;
};

struct FitResult {
  std::vector<double> values;     ///< fitted, in the order of the parameters, inside their bounds
  std::vector<double> low, high;  ///< 80 % interval from the covariance, cut at the bounds; a constant that the data
                                  ///< do not determine gets its bounds
  double cost = 0;                ///< sum of Huber losses at the end, in squared log units
  double start_cost = 0;          ///< the same loss (same scale) at the start values
  double sigma = 0;               ///< robust standard deviation of the log residuals (1.4826 x median |residual|)
  int iterations = 0;
  bool converged = false;
  std::vector<bool> at_bound;  ///< ended on its low or high limit
};

/// Fits constants to data by Levenberg-Marquardt (Marquardt 1963) on log residuals ln(predicted / measured) with Huber
/// weights, a numeric Jacobian in log-parameter space and projection onto the bounds. `log_residuals` returns one
/// number per datum for given parameter values, always in the same order; a residual that is not finite counts as 10.
/// Throws std::invalid_argument when a start value lies outside its bounds or the number of residuals changes.
FitResult fit_parameters(const std::vector<FitParameter>& parameters,
                         const std::function<std::vector<double>(const std::vector<double>&)>& log_residuals,
                         const FitOptions& options = {});

/// Quantile by nearest rank of unsorted values: the smallest value that at least `share` of them do not exceed.
double nearest_rank(std::vector<double> values, double share);

}  // namespace tpplan
