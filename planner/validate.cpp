#include "planner/validate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cost-model/fit.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;

double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

std::string unpriced_reason(const RunRecord& record) {
  if (!record.skipped.empty()) {
    return record.skipped;
  }
  const auto& layout = record.layout;
  const std::int64_t needed = layout.world();
  if (needed != record.cluster.gpus() && needed > record.cluster.gpus()) {
    return "the layout needs " + std::to_string(needed) + " GPUs, the record has " +
           std::to_string(record.cluster.gpus());
  }
  if (record.model.layers < layout.pp * layout.vpp && record.training.layers_per_stage.empty() &&
      record.model.layers < layout.pp) {
    return std::to_string(layout.pp) + " stages for " + std::to_string(record.model.layers) + " layers";
  }
  const std::int64_t per_round = std::int64_t{layout.dp} * layout.micro_batch;
  if (record.training.global_batch < per_round) {
    return "the global batch is smaller than dp x micro-batch";
  }
  if (!record.cluster.gpu.unplannable.empty()) {
    return record.cluster.gpu.unplannable;
  }
  if (record.cluster.gpu.peak_of(record.training.precision).raw() <= 0) {
    return std::string("the GPU has no ") + std::string(name_of(record.training.precision)) + " rate";
  }
  return "";
}

}  // namespace

ErrorStats error_stats(std::vector<double> errors) {
  ErrorStats stats;
  stats.n = static_cast<int>(errors.size());
  if (errors.empty()) {
    return stats;
  }
  stats.bias = median_of(errors);
  for (auto& error : errors) {
    error = std::abs(error);
  }
  stats.median = median_of(errors);
  stats.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  stats.p90 = nearest_rank(errors, 0.9);
  stats.max = *std::max_element(errors.begin(), errors.end());
  return stats;
}

std::vector<RunPrediction> prepare(const std::vector<RunRecord>& records, const ProfileSet& profiles,
                                   const Calibration& calibration) {
  std::vector<RunPrediction> runs;
  runs.reserve(records.size());
  for (const auto& record : records) {
    RunPrediction run;
    run.record = &record;
    run.skipped = unpriced_reason(record);
    if (run.skipped.empty()) {
      const auto& profile = profiles.find(record.training.framework, record.cluster.gpu, record.training.date,
                                          record.training.compiled);
      const bool calibrated = !calibration.empty() && calibration.gpu == record.gpu_id;
      run.job = assemble_job(record.model, record.cluster, record.training, profile, profiles,
                             calibrated ? calibration : Calibration{});
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

void predict(RunPrediction& run) {
  if (!run.skipped.empty()) {
    return;
  }
  const auto& record = *run.record;
  const auto& measured = record.measured;
  run.estimate = estimate(run.job, record.layout);
  const auto& step = run.estimate.step;
  const auto& memory = run.estimate.memory;
  if (measured.step_s && *measured.step_s > 0) {
    run.step_error = step.total().raw() / *measured.step_s - 1;
  }
  const std::array<double, 3> figures{memory.allocated().raw() / kGib, memory.reserved().raw() / kGib,
                                      memory.total().raw() / kGib};
  run.compared_figure = measured.peak_kind;
  if (measured.peak_mem_gib && *measured.peak_mem_gib > 0) {
    const double peak = *measured.peak_mem_gib;
    auto index = static_cast<std::size_t>(measured.peak_kind);
    if (measured.peak_kind == MemoryFigure::unknown) {
      index = 0;
      for (std::size_t i = 1; i < figures.size(); ++i) {
        if (std::abs(figures[i] - peak) < std::abs(figures[index] - peak)) {
          index = i;
        }
      }
    }
    run.predicted_peak_gib = figures[index];
    run.memory_error = figures[index] / peak - 1;
  }
  if (measured.reserved_gib && *measured.reserved_gib > 0) {
    run.reserved_error = figures[1] / *measured.reserved_gib - 1;
  }
  if (measured.device_used_gib && *measured.device_used_gib > 0) {
    run.device_error = figures[2] / *measured.device_used_gib - 1;
  }
  run.predicted_fits = verdict(memory, 0);
  run.host_bound = step.host.raw() >= 0.2 * step.total().raw();
}

std::string group_name(const RunPrediction& run, const std::vector<std::string>& group_by) {
  const auto& record = *run.record;
  if (group_by.empty()) {
    return record.group;
  }
  std::string name;
  for (const auto& key : group_by) {
    std::string part = "?";
    if (key == "framework") {
      part = record.framework;
    } else if (key == "gpu") {
      part = record.gpu_id;
    } else if (key == "precision") {
      part = std::string(name_of(record.training.precision));
    } else if (key == "model") {
      part = record.model.name;
    } else if (key == "schedule") {
      part = std::string(name_in(kScheduleNames, record.layout.schedule));
    } else if (key == "recompute") {
      part = recompute_text(record.layout);
    } else if (key == "profile") {
      part = run.job.profile.name.empty() ? "none" : run.job.profile.name;
    } else if (key == "kernel") {
      part = record.kernel.empty() ? "none" : record.kernel;
    } else if (key == "group") {
      part = record.group;
    } else if (key == "date") {
      part = record.date;
    } else if (key == "gpus") {
      part = std::to_string(record.cluster.gpus());
    } else {
      for (const auto& axis : kAxes) {
        if (axis.option == key || axis.key == key) {
          part = std::string(axis.key) + "=" + std::to_string(record.layout.*axis.field);
        }
      }
    }
    name += (name.empty() ? "" : " ") + part;
  }
  return name;
}

namespace {

struct LayoutTimes {
  double measured = 0, predicted = 0;
};

/// Kendall's tau-a without ties counted: (concordant - discordant) / (concordant + discordant).
double kendall_tau(const std::vector<LayoutTimes>& rows) {
  double concordant = 0;
  double discordant = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const double product = (rows[i].measured - rows[j].measured) * (rows[i].predicted - rows[j].predicted);
      concordant += product > 0 ? 1 : 0;
      discordant += product < 0 ? 1 : 0;
    }
  }
  return concordant + discordant > 0 ? (concordant - discordant) / (concordant + discordant) : 0;
}

/// Measured time of the layouts predicted first (mean over ties) over the best measured, minus 1; and the best of the
/// first three.
std::pair<double, double> regrets(std::vector<LayoutTimes> rows) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
  double best = rows.front().measured;
  for (const auto& row : rows) {
    best = std::min(best, row.measured);
  }
  double first = 0;
  int ties = 0;
  for (const auto& row : rows) {
    if (row.predicted <= rows.front().predicted * (1 + 1e-9)) {
      first += row.measured;
      ++ties;
    }
  }
  double best_of_three = rows.front().measured;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, rows.size()); ++i) {
    best_of_three = std::min(best_of_three, rows[i].measured);
  }
  return {first / ties / best - 1, best_of_three / best - 1};
}

RankingStats ranking_of(const std::vector<const RunPrediction*>& runs) {
  std::map<std::string, std::map<std::string, std::vector<const RunPrediction*>>> sweeps;
  for (const auto* run : runs) {
    if (run->step_error) {
      sweeps[run->record->sweep_key][run->record->input_key].push_back(run);
    }
  }
  RankingStats stats;
  std::vector<double> taus;
  for (const auto& [key, layouts] : sweeps) {
    if (layouts.size() < 5) {
      continue;
    }
    std::vector<LayoutTimes> rows;
    for (const auto& [input, repeats] : layouts) {
      LayoutTimes row;
      for (const auto* run : repeats) {
        row.measured += *run->record->measured.step_s / static_cast<double>(repeats.size());
        row.predicted += run->estimate.step.total().raw() / static_cast<double>(repeats.size());
      }
      rows.push_back(row);
    }
    taus.push_back(kendall_tau(rows));
    const auto [first, three] = regrets(rows);
    stats.top1_regret_mean += first;
    stats.best3_regret_mean += three;
    ++stats.sweeps;
  }
  if (stats.sweeps > 0) {
    stats.top1_regret_mean /= stats.sweeps;
    stats.best3_regret_mean /= stats.sweeps;
    stats.kendall_tau_median = median_of(taus);
  }
  return stats;
}

GroupReport report_of(const std::string& name, const std::vector<const RunPrediction*>& runs) {
  GroupReport report;
  report.group = name;
  report.rows = static_cast<int>(runs.size());
  std::vector<double> step, memory, reserved, device, suspect;
  std::vector<const RunPrediction*> counted;
  std::map<std::string, std::vector<double>> repeats;
  int step_inside = 0;
  int memory_inside = 0;
  for (const auto* run : runs) {
    if (!run->skipped.empty()) {
      ++report.skipped;
      continue;
    }
    if (!run->record->suspect.empty()) {
      ++report.suspect;
      if (run->step_error) {
        suspect.push_back(*run->step_error);
      }
      continue;
    }
    counted.push_back(run);
    const auto& estimate = run->estimate;
    if (run->step_error) {
      step.push_back(*run->step_error);
      const double ratio = 1 / (1 + *run->step_error);
      step_inside += std::abs(std::log(ratio)) <= std::log(1 + estimate.step.step_error) ? 1 : 0;
      repeats[run->record->input_key].push_back(*run->record->measured.step_s);
    }
    if (run->memory_error && run->compared_figure != MemoryFigure::unknown) {
      memory.push_back(*run->memory_error);
      const double ratio = 1 / (1 + *run->memory_error);
      memory_inside += std::abs(std::log(ratio)) <= std::log(1 + estimate.memory.error) ? 1 : 0;
    }
    if (run->reserved_error) {
      reserved.push_back(*run->reserved_error);
    }
    if (run->device_error) {
      device.push_back(*run->device_error);
    }
    auto& fits = report.fits;
    const bool ran = !run->record->measured.out_of_memory;
    const bool said = run->predicted_fits != Fits::no;
    ++fits.n;
    fits.right += ran == said ? 1 : 0;
    fits.false_fits += said && !ran ? 1 : 0;
    fits.false_oom += !said && ran ? 1 : 0;
    fits.tight += run->predicted_fits == Fits::tight ? 1 : 0;
    fits.called_fits += said ? 1 : 0;
  }
  report.step = error_stats(step);
  report.memory = error_stats(memory);
  report.reserved = error_stats(reserved);
  report.device = error_stats(device);
  report.suspect_step = error_stats(suspect);
  if (report.step.n > 0) {
    report.coverage_step = static_cast<double>(step_inside) / report.step.n;
  }
  if (report.memory.n > 0) {
    report.coverage_memory = static_cast<double>(memory_inside) / report.memory.n;
  }
  report.ranking = ranking_of(counted);
  std::vector<double> spreads;
  for (const auto& [key, times] : repeats) {
    if (times.size() > 1) {
      const auto [low, high] = std::minmax_element(times.begin(), times.end());
      const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
      spreads.push_back((*high - *low) / mean);
    }
  }
  report.repeated = static_cast<int>(spreads.size());
  report.repeat_spread = median_of(spreads);
  return report;
}

}  // namespace

std::vector<GroupReport> group_reports(const std::vector<RunPrediction>& runs,
                                       const std::vector<std::string>& group_by) {
  std::map<std::string, std::vector<const RunPrediction*>> groups;
  std::vector<const RunPrediction*> all;
  for (const auto& run : runs) {
    groups[group_name(run, group_by)].push_back(&run);
    all.push_back(&run);
  }
  std::vector<GroupReport> reports;
  for (const auto& [name, members] : groups) {
    reports.push_back(report_of(name, members));
  }
  if (reports.size() > 1) {
    reports.push_back(report_of("all runs", all));
  }
  return reports;
}

ProfileFit fit_profile(const std::string& profile, std::vector<RunPrediction>& runs, const std::string& leave_out) {
  ProfileFit fit;
  std::vector<RunPrediction*> members;
  for (auto& run : runs) {
    const auto& measured = run.record->measured;
    if (run.counted() && run.job.profile.name == profile && run.record->group != leave_out &&
        (measured.step_s || measured.peak_mem_gib)) {
      members.push_back(&run);
    }
  }
  if (members.empty()) {
    throw SpecError("no run uses the profile \"" + profile + "\"");
  }
  fit.profile = members.front()->job.profile;
  fit.rows = static_cast<int>(members.size());
  std::vector<FitParameter> parameters;
  std::vector<double FrameworkProfile::*> fields;
  for (const auto& bounds : fit.profile.free_constants) {
    for (const auto& row : profile_scalars()) {
      if (row.key == bounds.key) {
        FitParameter parameter;
        parameter.name = bounds.key;
        parameter.low = bounds.low;
        parameter.high = bounds.high;
        parameter.start = std::clamp(fit.profile.*row.field, bounds.low, bounds.high);
        parameters.push_back(parameter);
        fields.push_back(row.field);
      }
    }
  }
  const auto residuals = [&](const std::vector<double>& values) {
    std::vector<double> out;
    for (auto* run : members) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        run->job.profile.*fields[i] = values[i];
      }
      predict(*run);
      if (run->step_error) {
        out.push_back(std::log(1 + *run->step_error));
      }
      if (run->memory_error && run->compared_figure != MemoryFigure::unknown) {
        out.push_back(std::log(1 + *run->memory_error));
      }
    }
    return out;
  };
  std::vector<double> start;
  for (const auto& parameter : parameters) {
    start.push_back(parameter.start);
  }
  const auto median_step = [&] {
    std::vector<double> errors;
    for (const auto* run : members) {
      if (run->step_error) {
        errors.push_back(std::abs(*run->step_error));
      }
    }
    return median_of(errors);
  };
  residuals(start);
  fit.median_before = median_step();
  const auto result = fit_parameters(parameters, residuals);
  residuals(result.values);
  fit.median_after = median_step();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    fit.profile.*fields[i] = result.values[i];
    fit.names.push_back(parameters[i].name);
  }
  fit.start = start;
  fit.value = result.values;
  fit.low = result.low;
  fit.high = result.high;
  return fit;
}

}  // namespace tpplan
