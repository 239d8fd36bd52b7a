#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "cost-model/fit.h"
#include "planner/validate.h"

namespace tpplan {
namespace {

using Runs = std::vector<RunPrediction*>;

/// Constants of one kind (time or memory) that a fit may move.
struct FreeConstants {
  std::vector<FitParameter> parameters;
  std::vector<double FrameworkProfile::*> fields;
};

/// The rows of profile_scalars() from this key on shape memory, those before it time.
constexpr std::string_view kFirstMemoryConstant = "weight_bytes";

FreeConstants free_constants(const FrameworkProfile& profile, bool memory) {
  FreeConstants free;
  bool memory_row = false;
  for (const auto& row : profile_scalars()) {
    memory_row = memory_row || row.key == kFirstMemoryConstant;
    for (const auto& bounds : profile.free_constants) {
      if (bounds.key == row.key && memory_row == memory) {
        FitParameter parameter;
        parameter.name = bounds.key;
        parameter.low = bounds.low;
        parameter.high = bounds.high;
        free.parameters.push_back(parameter);
        free.fields.push_back(row.field);
      }
    }
  }
  return free;
}

void add_step_errors(const RunPrediction& run, std::vector<double>& errors) {
  if (run.step_error) {
    errors.push_back(*run.step_error);
  }
}

/// A run counts with every memory figure that it reports.
void add_memory_errors(const RunPrediction& run, std::vector<double>& errors) {
  if (run.memory_counted()) {
    errors.push_back(*run.memory_error);
  }
  if (run.reserved_error && run.compared_figure != MemoryFigure::reserved) {
    errors.push_back(*run.reserved_error);
  }
  if (run.device_error && run.compared_figure != MemoryFigure::device) {
    errors.push_back(*run.device_error);
  }
}

using AddErrors = void (*)(const RunPrediction& run, std::vector<double>& errors);

std::vector<double> errors_of(const Runs& runs, AddErrors add) {
  std::vector<double> errors;
  for (const auto* run : runs) {
    add(*run, errors);
  }
  return errors;
}

void reprice(const Runs& runs, const FrameworkProfile& profile) {
  for (auto* run : runs) {
    run->job.profile = profile;
    predict(*run);
  }
}

/// Where a search starts: at the shipped value, at the program's default, or at the middle of the bounds. A step is the
/// slower of two parts (GPU and host, compute and communication), so that a constant of the part that does not count
/// has no slope: one start alone can end in the wrong valley. A fit that must not know some runs leaves the shipped
/// values, which know all, out.
using StartOf = double (*)(double shipped, double default_value, double low, double high);
constexpr std::array<StartOf, 3> kStarts{
    [](double shipped, double, double low, double high) { return std::clamp(shipped, low, high); },
    [](double, double default_value, double low, double high) { return std::clamp(default_value, low, high); },
    [](double, double, double low, double high) { return 0.5 * (low + high); },
};

enum class Starts : std::uint8_t { all, without_shipped };

FitResult fit_kind(const Runs& members, const FrameworkProfile& shipped, FreeConstants free, AddErrors add,
                   Starts starts) {
  const FrameworkProfile defaults;
  const std::function<std::vector<double>(const std::vector<double>&)> log_residuals =
      [&](const std::vector<double>& values) {
        std::vector<double> residuals;
        for (auto* run : members) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            run->job.profile.*free.fields[i] = values[i];
          }
          predict(*run);
          add(*run, residuals);
        }
        for (auto& residual : residuals) {
          residual = std::log1p(residual);
        }
        return residuals;
      };
  FitOptions options;
  options.max_iterations = 60;
  options.huber_sigmas = 0.5;  // near to least absolute errors: sources contradict each other in single runs
  options.tolerance = 1e-5;
  std::optional<FitResult> best;
  double least = 0;
  for (std::size_t first = starts == Starts::all ? 0 : 1; first < kStarts.size(); ++first) {
    const auto start = kStarts[first];
    for (std::size_t i = 0; i < free.parameters.size(); ++i) {
      auto& parameter = free.parameters[i];
      parameter.start = start(shipped.*free.fields[i], defaults.*free.fields[i], parameter.low, parameter.high);
    }
    auto result = fit_parameters(free.parameters, log_residuals, options);
    double size = 0;
    for (const double residual : log_residuals(result.values)) {
      size += std::abs(residual);
    }
    if (!best || size < least) {
      best = std::move(result);
      least = size;
    }
  }
  return *best;
}

double median_size(const Runs& runs, AddErrors add) { return error_stats(errors_of(runs, add)).median; }

/// Fits the constants of time, then those of memory; the members end with the fitted profile.
ProfileFit fit_members(const Runs& members, const FrameworkProfile& shipped, Starts starts) {
  ProfileFit fit;
  fit.profile = shipped;
  reprice(members, shipped);
  fit.rows = static_cast<int>(errors_of(members, add_step_errors).size());
  fit.memory_rows = static_cast<int>(errors_of(members, add_memory_errors).size());
  fit.median_before = median_size(members, add_step_errors);
  fit.memory_before = median_size(members, add_memory_errors);
  fit.profile.intervals.clear();
  for (const bool memory : {false, true}) {
    const auto free = free_constants(shipped, memory);
    const auto add = memory ? add_memory_errors : add_step_errors;
    if (free.parameters.empty() || (memory ? fit.memory_rows : fit.rows) == 0) {
      continue;
    }
    if (!memory) {
      for (auto* run : members) {
        run->job.profile.replay_allocator = 0;  // no constant of time moves it; repricing sets it again
      }
    }
    const auto result = fit_kind(members, shipped, free, add, starts);
    for (std::size_t i = 0; i < free.fields.size(); ++i) {
      fit.start.push_back(shipped.*free.fields[i]);
      fit.profile.*free.fields[i] = result.values[i];
      fit.profile.intervals.push_back({free.parameters[i].name, result.low[i], result.high[i]});
      fit.names.push_back(free.parameters[i].name);
      fit.value.push_back(result.values[i]);
      fit.low.push_back(result.low[i]);
      fit.high.push_back(result.high[i]);
      fit.at_bound.push_back(result.at_bound[i]);
    }
    reprice(members, fit.profile);
  }
  fit.median_after = median_size(members, add_step_errors);
  fit.memory_after = median_size(members, add_memory_errors);
  return fit;
}

/// Counted runs with a measurement that use a profile.
Runs members_of(const std::string& profile, std::vector<RunPrediction>& runs) {
  Runs members;
  for (auto& run : runs) {
    const auto& measured = run.record->measured;
    if (run.counted() && run.job.profile.name == profile && (measured.step_s || measured.peak_mem_gib)) {
      members.push_back(&run);
    }
  }
  return members;
}

/// At most `count` of the runs, evenly spaced: a fit to a thousand runs says no more than one to some hundred of them.
Runs thinned(const Runs& runs, std::size_t count) {
  if (runs.size() <= count) {
    return runs;
  }
  Runs some;
  for (std::size_t i = 0; i < count; ++i) {
    some.push_back(runs[i * runs.size() / count]);
  }
  return some;
}

/// Name of the part of the runs that is left out together with this one.
std::map<const RunPrediction*, std::string> parts_of(const Runs& members, LeaveOut part) {
  std::map<const RunPrediction*, std::string> parts;
  std::set<std::string> names, inputs;
  for (const auto* run : members) {
    auto& name = parts[run];
    name = run->record->group;
    if (part == LeaveOut::model) {
      name += "|" + run->record->model.name;
    }
    names.insert(name);
    inputs.insert(run->record->input_key);
  }
  if (part == LeaveOut::model && names.size() == 1) {
    constexpr std::ptrdiff_t kParts = 5;
    for (auto& [run, name] : parts) {
      name = std::to_string(std::distance(inputs.begin(), inputs.find(run->record->input_key)) % kParts);
    }
  }
  return parts;
}

LeftOutError errors_of(const RunPrediction& run) {
  LeftOutError error;
  error.run = &run;
  error.step_error = run.step_error;
  if (run.memory_counted()) {
    error.memory_error = run.memory_error;
  }
  return error;
}

/// Prices runs by the framework's profile that would serve them if `profile` were not there; false without such a one.
bool price_by_another(const Runs& runs, const std::string& profile, const ProfileSet& profiles) {
  ProfileSet others = profiles;
  others.frameworks.erase(std::remove_if(others.frameworks.begin(), others.frameworks.end(),
                                         [&](const auto& row) { return row.name == profile; }),
                          others.frameworks.end());
  for (auto* run : runs) {
    const auto& training = run->record->training;
    const bool known = std::any_of(others.frameworks.begin(), others.frameworks.end(),
                                   [&](const auto& row) { return row.framework == training.framework; });
    if (!known) {
      return false;
    }
    run->job.profile = others.find(training.framework, run->record->cluster.gpu, training.date, training.compiled,
                                   name_in(kDispatcherNames, training.dispatcher));
    predict(*run);
  }
  return true;
}

}  // namespace

ProfileFit fit_profile(const std::string& profile, std::vector<RunPrediction>& runs, const std::string& leave_out) {
  Runs members = members_of(profile, runs);
  members.erase(
      std::remove_if(members.begin(), members.end(), [&](const auto* run) { return run->record->group == leave_out; }),
      members.end());
  if (members.empty()) {
    throw SpecError("no run" + std::string(leave_out.empty() ? "" : " outside group \"" + leave_out + "\"") +
                    " uses the profile \"" + profile + "\"");
  }
  const FrameworkProfile shipped = members.front()->job.profile;
  auto fit = fit_members(members, shipped, leave_out.empty() ? Starts::all : Starts::without_shipped);
  Runs rest;
  for (auto& run : runs) {
    if (run.skipped.empty() && run.job.profile.name == profile) {
      rest.push_back(&run);
    }
  }
  reprice(rest, fit.profile);
  return fit;
}

std::vector<LeftOutError> left_out_errors(const std::string& profile, std::vector<RunPrediction>& runs, LeaveOut part,
                                          const ProfileSet& profiles) {
  const Runs members = members_of(profile, runs);
  if (members.empty()) {
    return {};
  }
  const FrameworkProfile shipped = members.front()->job.profile;
  const auto parts = parts_of(members, part);
  std::set<std::string> names;
  for (const auto& [run, name] : parts) {
    names.insert(name);
  }
  std::vector<LeftOutError> errors;
  for (const auto& name : names) {
    Runs rest, left_out;
    for (auto* run : members) {
      (parts.at(run) == name ? left_out : rest).push_back(run);
    }
    if (!rest.empty()) {
      constexpr std::size_t kMostRuns = 250;
      reprice(left_out, fit_members(thinned(rest, kMostRuns), shipped, Starts::without_shipped).profile);
    } else if (!price_by_another(left_out, profile, profiles)) {
      continue;
    }
    for (const auto* run : left_out) {
      errors.push_back(errors_of(*run));
    }
  }
  reprice(members, shipped);
  return errors;
}

std::vector<LeftOutError> left_out_errors(std::vector<RunPrediction>& runs, LeaveOut part, const ProfileSet& profiles) {
  std::set<std::string> names;
  for (const auto& run : runs) {
    if (run.counted()) {
      names.insert(run.job.profile.name);
    }
  }
  std::vector<LeftOutError> errors;
  for (const auto& name : names) {
    const auto some = left_out_errors(name, runs, part, profiles);
    errors.insert(errors.end(), some.begin(), some.end());
  }
  return errors;
}

IntervalWidths interval_widths(const std::vector<LeftOutError>& errors) {
  std::vector<double> step, memory;
  for (const auto& error : errors) {
    if (error.step_error) {
      step.push_back(std::abs(std::log1p(*error.step_error)));
    }
    if (error.memory_error) {
      memory.push_back(std::abs(std::log1p(*error.memory_error)));
    }
  }
  constexpr std::size_t kFewest = 5;
  constexpr double kWidest = 1;  // half to twice: wider says no more than that nothing is known
  const auto width = [&](const std::vector<double>& residuals) -> std::optional<double> {
    // One rank more than four fifths of n, so that a new run of the family falls inside with a chance of 80 %.
    const auto n = static_cast<double>(residuals.size());
    return residuals.size() < kFewest
               ? std::nullopt
               : std::optional<double>(
                     std::min(kWidest, std::expm1(nearest_rank(residuals, std::min(1.0, 0.8 * (n + 1) / n)))));
  };
  return {width(step), width(memory)};
}

}  // namespace tpplan
