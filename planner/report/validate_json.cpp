#include "cost-model/units.h"
#include "planner/report/json_writer.h"
#include "planner/report/plan_report.h"
#include "planner/report/validate_report.h"

namespace tpplan {
namespace {

constexpr double kGib = 1073741824.0;

void optional_field(JsonWriter& json, std::string_view name, const std::optional<double>& value) {
  json.key(name);
  value ? json.value(*value) : json.null();
}

void text_field(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.null() : json.value(text);
}

/// Figures of one run that every machine format prints; empty ones do not apply.
struct RunFigures {
  std::optional<double> step, step_low, step_high;
  std::optional<double> peak, allocated, reserved, device, memory_low, memory_high;
};

RunFigures figures_of(const RunPrediction& run) {
  RunFigures f;
  if (!run.skipped.empty()) {
    return f;
  }
  const auto& step = run.estimate.step;
  const auto& memory = run.estimate.memory;
  f.step = step.total().raw();
  f.step_low = interval80(*f.step, step.step_error).low;
  f.step_high = interval80(*f.step, step.step_error).high;
  f.allocated = memory.allocated().raw() / kGib;
  f.reserved = memory.reserved().raw() / kGib;
  f.device = memory.total().raw() / kGib;
  if (run.record->measured.peak_mem_gib || run.record->measured.peak_kind != MemoryFigure::unknown) {
    f.peak = run.predicted_peak_gib;
  }
  const double basis = f.peak.value_or(*f.device);
  f.memory_low = interval80(basis, memory.error).low;
  f.memory_high = interval80(basis, memory.error).high;
  return f;
}

std::string memory_kind_text(const Measured& measured) {
  const bool said = measured.peak_mem_gib || measured.peak_kind != MemoryFigure::unknown;
  return said ? std::string(name_of(measured.peak_kind)) : "";
}

void write_run(JsonWriter& json, const RunPrediction& run, const std::vector<std::string>& group_by) {
  const auto& record = *run.record;
  const auto& measured = record.measured;
  const auto figures = figures_of(run);
  json.begin_line_object();
  json.field("id", record.id);
  json.field("group", group_name(run, group_by));
  optional_field(json, "measured_step_s", measured.step_s);
  optional_field(json, "predicted_step_s", figures.step);
  optional_field(json, "predicted_step_low_s", figures.step_low);
  optional_field(json, "predicted_step_high_s", figures.step_high);
  optional_field(json, "step_error", run.step_error);
  optional_field(json, "measured_peak_mem_gib", measured.peak_mem_gib);
  optional_field(json, "predicted_peak_mem_gib", figures.peak);
  optional_field(json, "predicted_allocated_gib", figures.allocated);
  optional_field(json, "predicted_reserved_gib", figures.reserved);
  optional_field(json, "predicted_device_gib", figures.device);
  optional_field(json, "predicted_mem_low_gib", figures.memory_low);
  optional_field(json, "predicted_mem_high_gib", figures.memory_high);
  text_field(json, "memory_kind", memory_kind_text(measured));
  optional_field(json, "memory_error", run.memory_error);
  json.field("measured_oom", measured.out_of_memory);
  text_field(json, "predicted_fits", run.skipped.empty() ? std::string(name_of(run.predicted_fits)) : "");
  json.field("host_bound", run.host_bound);
  text_field(json, "suspect", record.suspect);
  text_field(json, "skipped", run.skipped);
  text_field(json, "profile", run.skipped.empty() ? run.job.profile.name : "");
  json.end_object();
}

void write_stats(JsonWriter& json, const ErrorStats& stats) {
  json.field("n", stats.n);
  json.field("median", stats.median);
  json.field("mape", stats.mape);
  json.field("p90", stats.p90);
  json.field("max", stats.max);
  json.field("bias", stats.bias);
}

void stats_field(JsonWriter& json, std::string_view name, const ErrorStats& stats) {
  json.key(name).begin_line_object();
  write_stats(json, stats);
  json.end_object();
}

void coverage_field(JsonWriter& json, const std::optional<double>& step, const std::optional<double>& memory) {
  json.key("coverage80").begin_line_object();
  optional_field(json, "step", step);
  optional_field(json, "memory", memory);
  json.end_object();
}

void fits_field(JsonWriter& json, std::string_view name, const FitsStats& fits) {
  json.key(name).begin_line_object();
  json.field("n", fits.n);
  json.field("right", fits.right);
  json.field("false_fits", fits.false_fits);
  json.field("false_oom", fits.false_oom);
  json.field("tight", fits.tight);
  json.field("called_fits", fits.called_fits);
  json.end_object();
}

void reasons_field(JsonWriter& json, std::string_view name, const std::map<std::string, int>& reasons) {
  json.key(name).begin_array();
  for (const auto& [reason, count] : reasons) {
    json.begin_line_object().field("reason", reason).field("rows", count).end_object();
  }
  json.end_array();
}

void write_group(JsonWriter& json, const GroupReport& group, const ValidateReport& report) {
  json.begin_object();
  json.field("group", group.group);
  json.field("rows", group.rows);
  stats_field(json, "step", group.step);
  json.key("memory").begin_object();
  write_stats(json, group.memory);
  stats_field(json, "reserved", group.reserved);
  stats_field(json, "device", group.device);
  json.end_object();
  coverage_field(json, group.coverage_step, group.coverage_memory);
  fits_field(json, "fits", group.fits);
  json.key("ranking").begin_line_object();
  json.field("sweeps", group.ranking.sweeps);
  json.field("top1_regret_mean", group.ranking.top1_regret_mean);
  json.field("best3_regret_mean", group.ranking.best3_regret_mean);
  json.field("kendall_tau_median", group.ranking.kendall_tau_median);
  json.end_object();
  json.key("repeats").begin_line_object();
  json.field("sets", group.repeated).field("spread_median", group.repeat_spread).end_object();
  if (group.suspect > 0) {
    json.key("with_suspect").begin_object();
    json.field("suspect_rows", group.suspect);
    stats_field(json, "step", group.step_with_suspect);
    stats_field(json, "memory", group.memory_with_suspect);
    fits_field(json, "fits", group.fits_with_suspect);
    reasons_field(json, "reasons", group.suspect_reasons);
    json.end_object();
  }
  if (group.skipped > 0) {
    json.field("skipped_rows", group.skipped);
    reasons_field(json, "skipped", group.skip_reasons);
  }
  const auto left_out = report.left_out.find(group.group);
  if (left_out != report.left_out.end()) {
    json.key("left_out").begin_object();
    stats_field(json, "step", left_out->second.step);
    stats_field(json, "memory", left_out->second.memory);
    coverage_field(json, left_out->second.coverage_step, left_out->second.coverage_memory);
    json.end_object();
  }
  json.end_object();
}

}  // namespace

std::string validate_json(const ValidateReport& report) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("rows").begin_array();
  for (const auto& run : report.runs) {
    write_run(json, run, report.group_by);
  }
  json.end_array();
  json.key("groups").begin_array();
  for (const auto& group : report.groups) {
    write_group(json, group, report);
  }
  json.end_array();
  if (!report.left_out_meaning.empty()) {
    json.field("left_out", report.left_out_meaning);
  }
  json.end_object();
  return json.text();
}

std::string validate_csv(const ValidateReport& report) {
  std::string text =
      "id,group,measured_step_s,predicted_step_s,predicted_step_low_s,predicted_step_high_s,step_error,"
      "measured_peak_mem_gib,predicted_peak_mem_gib,predicted_allocated_gib,predicted_reserved_gib,"
      "predicted_device_gib,predicted_mem_low_gib,predicted_mem_high_gib,memory_kind,memory_error,measured_oom,"
      "predicted_fits,host_bound,suspect,skipped\n";
  const auto number = [](const std::optional<double>& value) { return value ? shortest(*value) : std::string(); };
  for (const auto& run : report.runs) {
    const auto& measured = run.record->measured;
    const auto f = figures_of(run);
    const std::vector<std::string> cells{run.record->id,
                                         group_name(run, report.group_by),
                                         number(measured.step_s),
                                         number(f.step),
                                         number(f.step_low),
                                         number(f.step_high),
                                         number(run.step_error),
                                         number(measured.peak_mem_gib),
                                         number(f.peak),
                                         number(f.allocated),
                                         number(f.reserved),
                                         number(f.device),
                                         number(f.memory_low),
                                         number(f.memory_high),
                                         memory_kind_text(measured),
                                         number(run.memory_error),
                                         measured.out_of_memory ? "true" : "false",
                                         run.skipped.empty() ? std::string(name_of(run.predicted_fits)) : "",
                                         run.host_bound ? "true" : "false",
                                         run.record->suspect,
                                         run.skipped};
    std::string line;
    for (const auto& cell : cells) {
      line += (&cell == &cells.front() ? "" : ",") + csv_field(cell);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace tpplan
