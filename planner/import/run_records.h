#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// Which of the three memory figures a record reports.
enum class MemoryFigure : std::uint8_t { allocated, reserved, device, unknown };
std::string_view name_of(MemoryFigure figure);

/// What was measured; absent figures are empty.
struct Measured {
  std::optional<double> step_s;
  std::optional<double> peak_mem_gib;
  std::optional<double> reserved_gib;
  std::optional<double> device_used_gib;
  MemoryFigure peak_kind = MemoryFigure::unknown;
  bool out_of_memory = false;
};

/// One measured training run, as a line of a runs file describes it.
struct RunRecord {
  std::string id, group, file, framework, date, gpu_id, suspect;
  int line = 0;
  ModelSpec model;
  ClusterSpec cluster;
  TrainingSpec training;
  Layout layout;
  Measured measured;
  std::vector<std::string> assumed;
  std::string kernel;
  std::string skipped;  ///< why the run cannot be priced; empty when it can
  /// Group, framework, date, model, hardware and every training key but micro-batch and recomputation, as one text:
  /// runs of one sweep share it.
  std::string sweep_key;
  /// The same with the layout, micro-batch and recomputation: repeats of one run share it.
  std::string input_key;
};

/// Reads run records, one JSON object a line. A line that cannot be used becomes a record with `skipped` set; unknown
/// keys and frameworks are warnings, appended to `warnings`.
std::vector<RunRecord> read_runs(const std::string& path, const GpuCatalogue& catalogue, std::string& warnings);
std::vector<RunRecord> parse_runs(const std::string& file, const std::string& text, const GpuCatalogue& catalogue,
                                  std::string& warnings);

}  // namespace tpplan
