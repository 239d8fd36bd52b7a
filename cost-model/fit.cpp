#include "cost-model/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

namespace tpplan {

namespace {

constexpr double kNotFinite = 10;     // log residual of a prediction that is no number
constexpr double kNormal80 = 1.2816;  // two-sided 80 % quantile of the normal distribution
constexpr double kMadToSigma = 1.4826;

/// Values in fitting space: logarithms where the bounds allow it.
class ParameterSpace {
 public:
  explicit ParameterSpace(const std::vector<FitParameter>& parameters) : parameters_(parameters) {}

  [[nodiscard]] bool logarithmic(std::size_t i) const { return parameters_[i].low > 0; }
  [[nodiscard]] double to_space(std::size_t i, double value) const { return logarithmic(i) ? std::log(value) : value; }
  [[nodiscard]] double from_space(std::size_t i, double x) const {
    const double value = logarithmic(i) ? std::exp(x) : x;
    return std::clamp(value, parameters_[i].low, parameters_[i].high);
  }
  [[nodiscard]] double low(std::size_t i) const { return to_space(i, parameters_[i].low); }
  [[nodiscard]] double high(std::size_t i) const { return to_space(i, parameters_[i].high); }
  /// Step of the numeric derivative: a thousandth in relative terms, or of the range where steps are linear.
  [[nodiscard]] double step(std::size_t i) const {
    return logarithmic(i) ? 1e-3 : 1e-3 * std::max(parameters_[i].high - parameters_[i].low, 1e-12);
  }
  [[nodiscard]] std::vector<double> values(const Eigen::VectorXd& x) const {
    std::vector<double> result(parameters_.size());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = from_space(i, x[static_cast<Eigen::Index>(i)]);
    return result;
  }

 private:
  const std::vector<FitParameter>& parameters_;
};

double robust_sigma(const Eigen::VectorXd& residuals, double floor) {
  if (residuals.size() == 0) return floor;
  std::vector<double> magnitudes(residuals.data(), residuals.data() + residuals.size());
  for (double& value : magnitudes) value = std::abs(value);
  return std::max(floor, kMadToSigma * nearest_rank(std::move(magnitudes), 0.5));
}

double huber_loss(double residual, double limit) {
  const double magnitude = std::abs(residual);
  return magnitude <= limit ? residual * residual : 2 * limit * magnitude - limit * limit;
}

double huber_weight(double residual, double limit) {
  const double magnitude = std::abs(residual);
  return magnitude <= limit ? 1 : limit / magnitude;
}

void check_parameters(const std::vector<FitParameter>& parameters) {
  for (const FitParameter& p : parameters) {
    if (!(p.low <= p.start && p.start <= p.high)) {
      throw std::invalid_argument("start value of " + p.name + " lies outside its bounds");
    }
  }
}

/// Data residuals and prior terms of one parameter vector, evaluated together.
class Problem {
 public:
  Problem(const std::vector<FitParameter>& parameters,
          const std::function<std::vector<double>(const std::vector<double>&)>& log_residuals)
      : space(parameters), parameters_(parameters), log_residuals_(log_residuals) {}

  Eigen::VectorXd residuals(const Eigen::VectorXd& x) {
    const std::vector<double> values = log_residuals_(space.values(x));
    if (data_ && *data_ != values.size()) throw std::invalid_argument("the number of residuals changed during a fit");
    data_ = values.size();
    Eigen::VectorXd result(static_cast<Eigen::Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      result[static_cast<Eigen::Index>(i)] = std::isfinite(values[i]) ? values[i] : kNotFinite;
    }
    return result;
  }

  /// Weight of the prior of parameter i against data of standard deviation `sigma`, 0 without a prior.
  [[nodiscard]] double prior_weight(std::size_t i, double sigma) const {
    const double prior = parameters_[i].prior_sigma;
    return prior > 0 ? (sigma / prior) * (sigma / prior) : 0;
  }
  [[nodiscard]] double prior_offset(std::size_t i, const Eigen::VectorXd& x) const {
    return x[static_cast<Eigen::Index>(i)] - space.to_space(i, parameters_[i].start);
  }

  [[nodiscard]] double loss(const Eigen::VectorXd& residuals, const Eigen::VectorXd& x, double sigma,
                            double limit) const {
    double sum = 0;
    for (Eigen::Index i = 0; i < residuals.size(); ++i) sum += huber_loss(residuals[i], limit);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      sum += prior_weight(i, sigma) * prior_offset(i, x) * prior_offset(i, x);
    }
    return sum;
  }

  Eigen::MatrixXd jacobian(const Eigen::VectorXd& x, const Eigen::VectorXd& at_x) {
    Eigen::MatrixXd result = Eigen::MatrixXd::Zero(at_x.size(), x.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto column = static_cast<Eigen::Index>(i);
      Eigen::VectorXd up = x;
      Eigen::VectorXd down = x;
      up[column] = std::min(x[column] + space.step(i), space.high(i));
      down[column] = std::max(x[column] - space.step(i), space.low(i));
      const double width = up[column] - down[column];
      if (width <= 0) continue;
      result.col(column) = (residuals(up) - residuals(down)) / width;
    }
    return result;
  }

  ParameterSpace space;

 private:
  const std::vector<FitParameter>& parameters_;
  const std::function<std::vector<double>(const std::vector<double>&)>& log_residuals_;
  std::optional<std::size_t> data_;
};

/// Weighted normal equations of one linearisation: A = J'WJ + priors, g = J'Wr + priors.
struct NormalEquations {
  Eigen::MatrixXd matrix;
  Eigen::VectorXd gradient;
};

NormalEquations normal_equations(const Problem& problem, const Eigen::MatrixXd& jacobian,
                                 const Eigen::VectorXd& residuals, const Eigen::VectorXd& x, double sigma,
                                 double limit) {
  Eigen::VectorXd weights(residuals.size());
  for (Eigen::Index i = 0; i < residuals.size(); ++i) weights[i] = huber_weight(residuals[i], limit);
  NormalEquations result{jacobian.transpose() * weights.asDiagonal() * jacobian,
                         jacobian.transpose() * weights.asDiagonal() * residuals};
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    const double weight = problem.prior_weight(static_cast<std::size_t>(i), sigma);
    result.matrix(i, i) += weight;
    result.gradient[i] += weight * problem.prior_offset(static_cast<std::size_t>(i), x);
  }
  return result;
}

/// Parameters that rest on a bound and would be pushed beyond it are left out of a step.
std::vector<bool> held_at_bounds(const ParameterSpace& space, const Eigen::VectorXd& x,
                                 const Eigen::VectorXd& gradient) {
  std::vector<bool> held(static_cast<std::size_t>(x.size()), false);
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    const double margin = 1e-9 * std::max(1.0, std::abs(x[k]));
    held[i] = (x[k] <= space.low(i) + margin && gradient[k] > 0) || (x[k] >= space.high(i) - margin && gradient[k] < 0);
  }
  return held;
}

Eigen::VectorXd damped_step(const NormalEquations& equations, const std::vector<bool>& held, double damping) {
  Eigen::MatrixXd matrix = equations.matrix;
  Eigen::VectorXd right = -equations.gradient;
  const double scale = std::max(matrix.diagonal().cwiseAbs().maxCoeff(), 1e-30);
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    if (held[static_cast<std::size_t>(i)]) {
      matrix.row(i).setZero();
      matrix.col(i).setZero();
      matrix(i, i) = 1;
      right[i] = 0;
    } else {
      matrix(i, i) += damping * std::max(matrix(i, i), 1e-9 * scale);
    }
  }
  return matrix.ldlt().solve(right);
}

void set_intervals(FitResult& result, const Problem& problem, const NormalEquations& equations,
                   const std::vector<FitParameter>& parameters, const Eigen::VectorXd& x, double sigma) {
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(equations.matrix);
  const double largest = std::max(solver.eigenvalues().maxCoeff(), 1e-300);
  Eigen::VectorXd variance = Eigen::VectorXd::Zero(x.size());
  for (Eigen::Index e = 0; e < x.size(); ++e) {
    const double value = solver.eigenvalues()[e];
    const double inverse = value > 1e-12 * largest ? 1 / value : std::numeric_limits<double>::infinity();
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      const double share = solver.eigenvectors()(i, e) * solver.eigenvectors()(i, e);
      if (share > 1e-12) variance[i] += share * inverse;
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    const double half = kNormal80 * sigma * std::sqrt(variance[k]);
    const bool known = std::isfinite(half);
    result.low.push_back(known ? problem.space.from_space(i, x[k] - half) : parameters[i].low);
    result.high.push_back(known ? problem.space.from_space(i, x[k] + half) : parameters[i].high);
  }
}

}  // namespace

double nearest_rank(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double exact = std::ceil(share * static_cast<double>(values.size()) - 1e-9);
  const auto rank = static_cast<std::size_t>(std::clamp(exact, 1.0, static_cast<double>(values.size())));
  const auto position = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), position, values.end());
  return *position;
}

FitResult fit_parameters(const std::vector<FitParameter>& parameters,
                         const std::function<std::vector<double>(const std::vector<double>&)>& log_residuals,
                         const FitOptions& options) {
  check_parameters(parameters);
  Problem problem(parameters, log_residuals);
  Eigen::VectorXd x(static_cast<Eigen::Index>(parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    x[static_cast<Eigen::Index>(i)] = problem.space.to_space(i, parameters[i].start);
  }
  const Eigen::VectorXd start = x;
  const Eigen::VectorXd start_residuals = problem.residuals(x);
  Eigen::VectorXd residuals = start_residuals;
  double sigma = robust_sigma(residuals, options.sigma_floor);
  double damping = 1e-3;
  FitResult result;

  for (; result.iterations < options.max_iterations && x.size() > 0 && !result.converged; ++result.iterations) {
    // The scale follows the residuals, so the loss compared below is that of one scale only.
    sigma = robust_sigma(residuals, options.sigma_floor);
    const double limit = options.huber_sigmas * sigma;
    const double loss = problem.loss(residuals, x, sigma, limit);
    const Eigen::MatrixXd jacobian = problem.jacobian(x, residuals);
    const NormalEquations equations = normal_equations(problem, jacobian, residuals, x, sigma, limit);
    const std::vector<bool> held = held_at_bounds(problem.space, x, equations.gradient);
    bool accepted = false;
    for (int attempt = 0; attempt < 12 && !accepted; ++attempt) {
      Eigen::VectorXd candidate = x + damped_step(equations, held, damping);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const auto k = static_cast<Eigen::Index>(i);
        candidate[k] = std::clamp(candidate[k], problem.space.low(i), problem.space.high(i));
      }
      const Eigen::VectorXd there = problem.residuals(candidate);
      const double new_loss = problem.loss(there, candidate, sigma, limit);
      if (new_loss <= loss) {
        accepted = true;
        result.converged = loss - new_loss <= options.tolerance * loss;
        x = candidate;
        residuals = there;
        damping = std::max(damping / 5, 1e-9);
      } else {
        damping *= 4;
      }
    }
    if (!accepted) result.converged = true;  // no step of any length improves: a minimum to working precision
  }

  sigma = robust_sigma(residuals, options.sigma_floor);
  const double limit = options.huber_sigmas * sigma;
  result.sigma = sigma;
  result.cost = problem.loss(residuals, x, sigma, limit);
  result.start_cost = problem.loss(start_residuals, start, sigma, limit);
  result.values = problem.space.values(x);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double margin = 1e-9 * std::max(1.0, std::abs(x[static_cast<Eigen::Index>(i)]));
    const double here = x[static_cast<Eigen::Index>(i)];
    result.at_bound.push_back(here <= problem.space.low(i) + margin || here >= problem.space.high(i) - margin);
  }
  if (x.size() > 0) {
    const Eigen::MatrixXd jacobian = problem.jacobian(x, residuals);
    set_intervals(result, problem, normal_equations(problem, jacobian, residuals, x, sigma, limit), parameters, x,
                  sigma);
  }
  return result;
}

}  // namespace tpplan
