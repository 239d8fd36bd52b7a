#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/cluster_spec.h"
#include "planner/import/samples.h"

namespace tpplan {

/// A measured speed beside that of the data sheet.
struct RatedComparison {
  std::string link;                ///< "NVLink", "network"
  BytesPerSecond measured, rated;  ///< per GPU and direction
  bool in_gbit = false;            ///< networks are rated in Gbit/s
  [[nodiscard]] double share() const { return rated.raw() > 0 ? measured / rated : 0; }
  /// "measured 29 of 400 Gbit/s"
  [[nodiscard]] std::string text() const;
};

/// What became of one curve of the samples.
struct CurveReport {
  std::string file;
  std::string operation;
  CollectiveCurve curve;         ///< fitted, unless refused
  std::string refusal;           ///< why it is in no calibration, empty when it is
  bool written = false;          ///< part of the calibration (not refused, a collective of training, not a repeat)
  BytesPerSecond largest_busbw;  ///< bus bandwidth at the largest size
  double held_out_median = 0;    ///< error at every second size, predicted from the others
  std::optional<RatedComparison> rated;
  std::vector<std::string> warnings;
};

struct CalibrationReport {
  Calibration calibration;
  std::vector<CurveReport> curves;
  std::vector<std::string> warnings;  ///< about whole files, "file: text"
};

/// Rated speed that a group's collective is limited by, and what it reached of it at its largest size. Inside a fast
/// domain the link of `gpu`, else its PCIe slot; between nodes `link` when given, else the adapters the samples tell
/// of, else the network of the GPU's usual server. Nothing when neither is known or the largest message is too small
/// (below 16 MiB) to reach it.
std::optional<RatedComparison> compare_with_rated(const SampleCurve& sample, const GpuSpec* gpu,
                                                  std::optional<BytesPerSecond> link);

/// Fits every usable curve and gathers everything into one calibration. `gpu` is nullptr when it is not known.
CalibrationReport build_calibration(const std::vector<Samples>& samples, const GpuSpec* gpu,
                                    std::optional<BytesPerSecond> link, const std::string& name);

}  // namespace tpplan
