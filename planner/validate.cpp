#include "planner/validate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost-model/fit.h"
#include "cost-model/memory_replay.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;

std::string unpriced_reason(const RunRecord& record) {
  if (!record.skipped.empty()) {
    return record.skipped;
  }
  const auto& layout = record.layout;
  const std::int64_t needed = layout.world();
  if (needed > record.cluster.gpus()) {
    return "the layout needs " + std::to_string(needed) + " GPUs, the record has " +
           std::to_string(record.cluster.gpus());
  }
  if (record.model.layers < layout.pp && record.training.layers_per_stage.empty()) {
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

/// A calibration speaks for its own kind of GPU and for placements no larger than the one it was measured on.
bool covers(const Calibration& calibration, const RunRecord& record) {
  return !calibration.empty() && calibration.gpu == record.gpu_id &&
         record.cluster.gpus_per_node <= calibration.gpus_per_node && record.cluster.nodes <= calibration.nodes;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

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
      const auto& profile = profile_of(profiles, record.training, record.cluster.gpu);
      const bool calibrated = covers(calibration, record);
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
  refine_memory(run.job, record.layout, run.estimate.memory);
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

namespace {

/// A key of --group-by and its text for a run; axes of the layout are keys too.
struct GroupKeyRow {
  std::string_view key;
  std::string (*text)(const RunPrediction& run);
};
std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }
const std::array<GroupKeyRow, 15> kGroupKeys{{
    {"group", [](const RunPrediction& run) { return run.record->group; }},
    {"framework", [](const RunPrediction& run) { return run.record->framework; }},
    {"gpu", [](const RunPrediction& run) { return run.record->gpu_id; }},
    {"gpus", [](const RunPrediction& run) { return std::to_string(run.record->cluster.gpus()) + " GPUs"; }},
    {"model", [](const RunPrediction& run) { return run.record->model.name; }},
    {"precision", [](const RunPrediction& run) { return std::string(name_of(run.record->training.precision)); }},
    {"date", [](const RunPrediction& run) { return or_none(run.record->date); }},
    {"seq", [](const RunPrediction& run) { return "seq=" + std::to_string(run.record->training.seq); }},
    {"kernel", [](const RunPrediction& run) { return or_none(run.record->kernel); }},
    {"profile", [](const RunPrediction& run) { return or_none(run.job.profile.name); }},
    {"schedule",
     [](const RunPrediction& run) { return std::string(name_in(kScheduleNames, run.record->layout.schedule)); }},
    {"recompute", [](const RunPrediction& run) { return recompute_text(run.record->layout); }},
    {"zero", [](const RunPrediction& run) { return "zero=" + std::to_string(run.record->layout.zero); }},
    {"host-bound", [](const RunPrediction& run) { return std::string(run.host_bound ? "host-bound" : "GPU-bound"); }},
    {"file", [](const RunPrediction& run) { return run.record->file; }},
}};

}  // namespace

std::vector<std::string> group_keys() {
  std::vector<std::string> keys;
  for (const auto& row : kGroupKeys) {
    keys.emplace_back(row.key);
  }
  for (const auto& axis : kAxes) {
    keys.emplace_back(axis.option);
  }
  return keys;
}

std::string group_name(const RunPrediction& run, const std::vector<std::string>& group_by) {
  if (group_by.empty()) {
    return run.record->group;
  }
  std::string name;
  for (const auto& key : group_by) {
    std::string part = "?";
    for (const auto& row : kGroupKeys) {
      part = row.key == key ? row.text(run) : part;
    }
    for (const auto& axis : kAxes) {
      if (axis.option == key || axis.key == key) {
        part = std::string(axis.key) + "=" + std::to_string(run.record->layout.*axis.field);
      }
    }
    name += (name.empty() ? "" : " ") + part;
  }
  return name;
}

}  // namespace tpplan
