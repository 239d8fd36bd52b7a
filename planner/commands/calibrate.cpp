#include "planner/commands/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "cost-model/file_text.h"
#include "cost-model/spec_reader.h"
#include "planner/calibration_build.h"
#include "planner/errors.h"
#include "planner/report/curve_svg.h"
#include "planner/report/output.h"
#include "planner/report/text_table.h"
#include "planner/spec_files.h"

namespace tpplan {
namespace {

constexpr int kDone = 0;
constexpr int kUnusable = 3;
constexpr std::string_view kSuffix = ".calibration.json";

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string name_of_output(const std::string& path) {
  std::string name = base_name(path);
  for (const std::string_view suffix : {kSuffix, std::string_view(".json")}) {
    if (name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      name.resize(name.size() - suffix.size());
      break;
    }
  }
  return name.empty() ? "calibration" : name;
}

/// Reads every file; problems of all of them are told together.
std::vector<Samples> read_all(const PlannerOptions& options) {
  if (options.operands.empty()) throw UsageError({"calibrate needs files of measurements"}, "calibrate");
  const ImportOptions import{options.collective, options.ranks, options.nodes};
  std::vector<Samples> samples;
  std::string problems;
  for (const std::string& file : options.operands) {
    try {
      require_readable(file);
      samples.push_back(read_samples(file, import));
    } catch (const SpecError& error) {
      problems += (problems.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!problems.empty()) throw SpecError(problems);
  return samples;
}

/// The GPU of --gpu, else the one that the files name.
const GpuSpec* gpu_of(const PlannerOptions& options, const std::vector<Samples>& samples, const GpuCatalogue& catalogue,
                      std::ostream& err) {
  if (!options.gpu.empty()) return &catalogue.find(options.gpu);
  const GpuSpec* found = nullptr;
  for (const Samples& file : samples) {
    if (file.gpu_model.empty()) continue;
    const GpuSpec* const gpu = catalogue.try_find(file.gpu_model);
    if (gpu == nullptr) {
      err << "note: " << base_name(file.file) << ": " << file.gpu_model
          << " is not one GPU of the catalogue; --gpu ID names it\n";
    } else if (found != nullptr && found->id != gpu->id) {
      throw SpecError("the files were measured on different GPUs (" + found->id + ", " + gpu->id +
                      "): calibrate one machine at a time");
    } else {
      found = gpu;
    }
  }
  return found;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", 100 * share);
  return text;
}

std::string placement_text(const CollectiveCurve& curve) {
  const Placement& p = curve.placement;
  std::string text = std::to_string(p.nodes) + "x" + std::to_string(p.gpus_per_node);
  if (p.stride > 1) text += "/" + std::to_string(p.stride);
  if (curve.concurrent_groups > 1) text += " x" + std::to_string(curve.concurrent_groups);
  return text;
}

/// Fit quality of every curve that was fitted, in the order of the files.
std::string quality_table(const CalibrationReport& report, const Terminal& terminal) {
  TextTable table;
  table.columns = {{"curve", false, 9}, {"group", false, 9}, {"place", false, 7}, {"type", false, 1},
                   {"points", true, 6}, {"segs", true, 5},   {"med %", true, 8},  {"p90 %", true, 8},
                   {"held %", true, 4}, {"GB/s", true, 8},   {"at", true, 2},     {"rated", true, 6}};
  for (const CurveReport& row : report.curves) {
    if (!row.refusal.empty()) continue;
    const CollectiveCurve& curve = row.curve;
    const std::string rated = row.rated ? std::to_string(std::lround(100 * row.rated->share())) + " %" : "-";
    table.rows.push_back({row.operation, placement_text(curve), curve.in_place ? "in" : "out", curve.dtype,
                          std::to_string(curve.points.size()), std::to_string(curve.pieces.size()),
                          percent(curve.residual_median), percent(curve.residual_p90), percent(row.held_out_median),
                          brief_number(row.largest_busbw.raw() * 1e-9), format(curve.points.back().size), rated});
  }
  if (table.rows.empty()) return "";
  return table.render(terminal) +
         "group: nodes x GPUs per node. med, p90: miss of the fitted segments at the points.\n"
         "held: miss at every second size predicted from the others. GB/s: bus bandwidth at the\n"
         "largest size. rated: its share of the link's data sheet.\n";
}

/// One line per file and reason.
std::string refusals_text(const CalibrationReport& report) {
  struct Refusal {
    const CurveReport* first;
    std::string operations;
    int curves = 1;
  };
  std::vector<Refusal> refusals;
  for (const CurveReport& row : report.curves) {
    if (row.refusal.empty()) continue;
    const auto same = std::find_if(refusals.begin(), refusals.end(), [&](const Refusal& other) {
      return other.first->file == row.file && other.first->refusal == row.refusal;
    });
    if (same == refusals.end()) {
      refusals.push_back({&row, row.operation});
      continue;
    }
    ++same->curves;
    if ((" " + same->operations + ",").find(" " + row.operation + ",") == std::string::npos) {
      same->operations += ", " + row.operation;
    }
  }
  std::string text;
  for (const Refusal& refusal : refusals) {
    const CurveReport& row = *refusal.first;
    text += "refused: " + base_name(row.file) + ": ";
    if (refusal.curves > 1) {
      text += std::to_string(refusal.curves) + " curves (" + refusal.operations + ")";
    } else {
      text += row.operation;
      if (!row.curve.points.empty()) text += row.curve.in_place ? " in place" : " out of place";
    }
    text += ": " + row.refusal + "\n";
  }
  return text;
}

/// What was read besides curves: "504 matrix products, 40 attention shapes".
std::string tables_text(const Calibration& calibration) {
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(calibration.gemms.size(), "matrix products");
  add(calibration.attention.size(), "attention shapes");
  add(calibration.memory.size(), "memory-bound kernels");
  if (calibration.launch_graph.raw() > 0)
    text += (text.empty() ? "" : ", ") + ("a launch in a graph " + format(calibration.launch_graph));
  if (calibration.launch_eager.raw() > 0)
    text += (text.empty() ? "" : ", ") + ("a launch " + format(calibration.launch_eager));
  return text.empty() ? "" : "also: " + text + "\n";
}

/// The better place of every collective and group beside the rated speed.
std::string links_text(const CalibrationReport& report) {
  std::vector<const CurveReport*> best;
  for (const CurveReport& row : report.curves) {
    if (!row.rated || !row.refusal.empty()) continue;
    const auto same = std::find_if(best.begin(), best.end(), [&](const CurveReport* other) {
      return other->operation == row.operation && placement_text(other->curve) == placement_text(row.curve);
    });
    if (same == best.end()) {
      best.push_back(&row);
    } else if ((*same)->rated->measured < row.rated->measured) {
      *same = &row;
    }
  }
  std::string text;
  for (const CurveReport* row : best) {
    text += "  " + row->operation + " " + placement_text(row->curve) + ": " + row->rated->text() + " (" +
            row->rated->link + ")\n";
  }
  return text.empty() ? "" : "per GPU and direction:\n" + text;
}

void tell_warnings(const CalibrationReport& report, std::ostream& err) {
  for (const std::string& warning : report.warnings) err << "warning: " << warning << "\n";
  for (const CurveReport& row : report.curves) {
    for (const std::string& warning : row.warnings) {
      err << "warning: " << base_name(row.file) << ": " << row.operation << (row.curve.in_place ? " in place" : "")
          << ": " << warning << "\n";
    }
  }
}

int print_rows(const std::vector<Samples>& samples, std::ostream& out, std::ostream& err) {
  bool any = false;
  for (const Samples& file : samples) {
    if (!file.log) continue;
    if (samples.size() > 1) out << "# " << file.file << "\n";
    out << rows_as_tsv(*file.log);
    any = any || file.log->rows() > 0;
    for (const std::string& warning : file.warnings)
      err << "warning: " << base_name(file.file) << ": " << warning << "\n";
    for (const BenchmarkRun& run : file.log->runs) {
      for (const ImportNote& note : run.warnings) {
        const std::string told = "line " + std::to_string(note.line) + ": " + note.text;
        if (std::find(file.warnings.begin(), file.warnings.end(), told) != file.warnings.end()) continue;
        err << "warning: " << base_name(file.file) << ":" << note.line << ": " << note.text << "\n";
      }
    }
  }
  return any ? kDone : kUnusable;
}

}  // namespace

int run_calibrate(const PlannerOptions& options, std::ostream& out, std::ostream& err) {
  const std::vector<Samples> samples = read_all(options);
  if (options.rows) return print_rows(samples, out, err);
  const GpuCatalogue catalogue = shipped_gpus();
  const GpuSpec* const gpu = gpu_of(options, samples, catalogue, err);
  const CalibrationReport report = build_calibration(
      samples, gpu, options.link, name_of_output(options.output.empty() ? samples[0].file : options.output));
  tell_warnings(report, err);
  out << quality_table(report, Terminal::of(STDOUT_FILENO, options.color)) << links_text(report)
      << tables_text(report.calibration) << refusals_text(report);
  if (report.calibration.empty()) {
    err << "tpplan: error: no usable measurement in " << samples.size() << (samples.size() == 1 ? " file" : " files")
        << "; nothing was written\n";
    return kUnusable;
  }
  if (!options.output.empty()) write_file(options.output, to_json(report.calibration));
  if (options.output.empty()) err << "note: nothing was written: -o FILE writes the calibration\n";
  if (!options.plot.empty()) {
    write_file(options.plot, curve_svg(report.calibration.curves, "Calibration " + report.calibration.name));
  }
  return kDone;
}

}  // namespace tpplan
