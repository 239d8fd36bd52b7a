#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/validate.h"

namespace tpplan {

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

namespace {

constexpr double kTie = 1e-9;  // relative difference below which predictions are equal
constexpr std::size_t kSmallestSweep = 5;

/// Mean of the smallest of `drawn` values taken at random from sorted `values`: sum over i of value i times the chance
/// that it is the smallest, C(n - 1 - i, drawn - 1) / C(n, drawn).
double mean_minimum(const std::vector<double>& values, std::size_t drawn) {
  const auto n = values.size();
  double chance_none_smaller = 1;
  double mean = 0;
  for (std::size_t i = 0; i + drawn <= n; ++i) {
    const double chance = static_cast<double>(drawn) / static_cast<double>(n - i);  // of drawing i among those left
    mean += chance_none_smaller * chance * values[i];
    chance_none_smaller *= 1 - chance;
  }
  return mean;
}

}  // namespace

double regret(const std::vector<LayoutTimes>& rows, std::size_t tried) {
  auto ordered = rows;
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.predicted != b.predicted ? a.predicted < b.predicted : a.measured < b.measured;
  });
  tried = std::min(tried, ordered.size());
  if (tried == 0) {
    return 0;
  }
  double best = ordered.front().measured;
  for (const auto& row : ordered) {
    best = std::min(best, row.measured);
  }
  // Layouts surely tried lie before the tie that crosses the limit.
  const double last = ordered[tried - 1].predicted;
  double sure = 0;
  std::size_t before = 0;
  std::vector<double> tied;
  for (const auto& row : ordered) {
    if (row.predicted < last * (1 - kTie)) {
      sure = before == 0 ? row.measured : std::min(sure, row.measured);
      ++before;
    } else if (row.predicted <= last * (1 + kTie)) {
      tied.push_back(row.measured);
    }
  }
  for (auto& measured : tied) {
    measured = before == 0 ? measured : std::min(measured, sure);
  }
  std::sort(tied.begin(), tied.end());
  return mean_minimum(tied, tried - before) / best - 1;
}

namespace {

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
    if (layouts.size() < kSmallestSweep) {
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
    stats.top1_regret_mean += regret(rows, 1);
    stats.best3_regret_mean += regret(rows, 3);
    ++stats.sweeps;
  }
  if (stats.sweeps > 0) {
    stats.top1_regret_mean /= stats.sweeps;
    stats.best3_regret_mean /= stats.sweeps;
    stats.kendall_tau_median = median_of(taus);
  }
  return stats;
}

void count_verdict(const RunPrediction& run, FitsStats& fits) {
  const bool ran = !run.record->measured.out_of_memory;
  const bool said = run.predicted_fits != Fits::no;
  ++fits.n;
  fits.right += ran == said ? 1 : 0;
  fits.false_fits += said && !ran ? 1 : 0;
  fits.false_oom += !said && ran ? 1 : 0;
  fits.tight += run.predicted_fits == Fits::tight ? 1 : 0;
  fits.called_fits += said ? 1 : 0;
}

/// Errors of some runs by what they are errors of.
struct ErrorLists {
  std::vector<double> step, memory, reserved, device;
  int step_inside = 0, memory_inside = 0;

  void add(const RunPrediction& run) {
    const auto inside = [](double error, double width) { return std::abs(std::log1p(error)) <= std::log1p(width); };
    if (run.step_error) {
      step.push_back(*run.step_error);
      step_inside += inside(*run.step_error, run.estimate.step.step_error) ? 1 : 0;
    }
    if (run.memory_counted()) {
      memory.push_back(*run.memory_error);
      memory_inside += inside(*run.memory_error, run.estimate.memory.error) ? 1 : 0;
    }
    if (run.reserved_error) {
      reserved.push_back(*run.reserved_error);
    }
    if (run.device_error) {
      device.push_back(*run.device_error);
    }
  }
};

std::optional<double> share(int part, std::size_t whole) {
  return whole == 0 ? std::nullopt : std::optional<double>(static_cast<double>(part) / static_cast<double>(whole));
}

void add_repeats(const std::vector<const RunPrediction*>& runs, GroupReport& report) {
  std::map<std::string, std::vector<double>> repeats;
  for (const auto* run : runs) {
    if (run->step_error) {
      repeats[run->record->input_key].push_back(*run->record->measured.step_s);
    }
  }
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
}

GroupReport report_of(const std::string& name, const std::vector<const RunPrediction*>& runs) {
  GroupReport report;
  report.group = name;
  report.rows = static_cast<int>(runs.size());
  std::vector<const RunPrediction*> counted;
  ErrorLists errors;
  ErrorLists with_suspect;
  for (const auto* run : runs) {
    if (!run->skipped.empty()) {
      ++report.skipped;
      ++report.skip_reasons[run->skipped];
      continue;
    }
    with_suspect.add(*run);
    count_verdict(*run, report.fits_with_suspect);
    if (!run->record->suspect.empty()) {
      ++report.suspect;
      ++report.suspect_reasons[run->record->suspect];
      continue;
    }
    counted.push_back(run);
    errors.add(*run);
    count_verdict(*run, report.fits);
  }
  report.step = error_stats(errors.step);
  report.memory = error_stats(errors.memory);
  report.reserved = error_stats(errors.reserved);
  report.device = error_stats(errors.device);
  report.step_with_suspect = error_stats(with_suspect.step);
  report.memory_with_suspect = error_stats(with_suspect.memory);
  report.coverage_step = share(errors.step_inside, errors.step.size());
  report.coverage_memory = share(errors.memory_inside, errors.memory.size());
  report.ranking = ranking_of(counted);
  add_repeats(counted, report);
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

}  // namespace tpplan
