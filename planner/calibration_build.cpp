#include "planner/calibration_build.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cost-model/curve_fit.h"
#include "cost-model/fit.h"

namespace tpplan {

namespace {

constexpr Bytes kLargeEnough = 16_MiB;
constexpr double kSuspiciousShare = 0.5;   // of the rated speed
constexpr double kImplausibleShare = 1.5;  // NVLS and two-node trees exceed the wire, but not by so much
constexpr double kPoorFit = 0.05;

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f" : "%.0f", value);
  return text;
}

/// GPUs that reach each other by a fast link at full speed, 1 for none.
int fast_group(const GpuSpec& gpu) {
  if (gpu.link.raw() <= 0) return 1;
  if (gpu.topology == Topology::bridged_pairs) return 2;
  return std::max(gpu.fast_domain, gpu.gpus_per_host);
}

/// The link inside one host (or rack-wide fast domain).
std::optional<RatedComparison> inside_comparison(const Placement& placement, const GpuSpec& gpu,
                                                 BytesPerSecond measured) {
  const int ranks = placement.ranks();
  if (ranks <= fast_group(gpu)) {
    const bool partial_mesh = gpu.topology == Topology::mesh && gpu.per_peer.raw() > 0;
    const BytesPerSecond rated = partial_mesh ? min(gpu.link, gpu.per_peer * (ranks - 1)) : gpu.link;
    return RatedComparison{gpu.link_name.empty() ? "fast link" : gpu.link_name, measured, rated, false};
  }
  const BytesPerSecond slot = pcie_bandwidth(gpu.pcie);
  if (slot.raw() <= 0) return std::nullopt;
  return RatedComparison{"PCIe", measured, slot, false};
}

std::string group_text(const CollectiveCurve& curve) {
  const Placement& p = curve.placement;
  std::string text = std::to_string(p.ranks()) + (p.ranks() == 1 ? " rank" : " ranks");
  if (p.nodes > 1) text += " on " + std::to_string(p.nodes) + " nodes";
  if (curve.concurrent_groups > 1) text += ", " + std::to_string(curve.concurrent_groups) + " groups at once";
  return text;
}

void warn_about_speed(CurveReport& report) {
  if (!report.rated) return;
  const double share = report.rated->share();
  if (share < kSuspiciousShare) {
    report.warnings.push_back(report.rated->text() + ": check that RDMA and P2P are on");
  } else if (share > kImplausibleShare) {
    report.warnings.push_back(report.rated->text() + " (" + report.rated->link +
                              "): more than the link carries; is the rated speed that of this machine?");
  }
}

CurveReport report_of(const Samples& samples, const SampleCurve& sample, const GpuSpec* gpu,
                      std::optional<BytesPerSecond> link) {
  CurveReport report;
  report.file = samples.file;
  report.operation = sample.operation;
  report.curve = sample.curve;
  report.refusal = sample.refusal;
  report.warnings = sample.warnings;
  if (report.curve.points.empty()) return report;
  const CurvePoint& last = report.curve.points.back();
  const double wire = row_of(report.curve.collective).wire_factor(report.curve.placement.ranks());
  report.largest_busbw = wire * last.size / last.time;
  if (!report.refusal.empty()) return report;
  fit_curve(report.curve);
  report.held_out_median = nearest_rank(held_out_errors(report.curve), 0.5);
  report.rated = compare_with_rated(sample, gpu, link);
  warn_about_speed(report);
  if (report.curve.residual_median > kPoorFit) {
    report.warnings.push_back("the lines miss half of the points by more than " +
                              digits(100 * report.curve.residual_median) +
                              " %: between sizes the points themselves are "
                              "used, beyond them expect that much error");
  }
  if (!sample.collective) {
    report.warnings.push_back(sample.operation + " is fitted but not written: no training step uses it");
  }
  return report;
}

bool same_key(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.collective == b.collective && a.placement == b.placement && a.concurrent_groups == b.concurrent_groups &&
         a.dtype == b.dtype && a.in_place == b.in_place && a.mode == b.mode;
}

/// Adds a curve, or keeps the one with more points where the same thing was measured twice.
void add_curve(CalibrationReport& result, CurveReport& report) {
  report.written = true;
  for (CurveReport& other : result.curves) {
    if (!other.written || !same_key(other.curve, report.curve)) continue;
    CurveReport& loser = other.curve.points.size() >= report.curve.points.size() ? report : other;
    loser.written = false;
    loser.warnings.emplace_back("measured twice: the curve with more sizes is kept");
    return;
  }
}

void add_tables(Calibration& calibration, const Samples& samples) {
  calibration.gemms.insert(calibration.gemms.end(), samples.gemms.begin(), samples.gemms.end());
  calibration.attention.insert(calibration.attention.end(), samples.attention.begin(), samples.attention.end());
  calibration.memory.insert(calibration.memory.end(), samples.memory.begin(), samples.memory.end());
  if (samples.launch_graph.raw() > 0) calibration.launch_graph = samples.launch_graph;
  if (samples.launch_eager.raw() > 0) calibration.launch_eager = samples.launch_eager;
  calibration.host_to_device = max(calibration.host_to_device, samples.host_to_device);
  calibration.device_to_host = max(calibration.device_to_host, samples.device_to_host);
  for (const std::pair<std::string, std::string>& variable : samples.variables) {
    const auto same = std::find_if(calibration.variables.begin(), calibration.variables.end(),
                                   [&](const auto& pair) { return pair.first == variable.first; });
    if (same == calibration.variables.end()) {
      calibration.variables.push_back(variable);
    } else if ((", " + same->second + ",").find(", " + variable.second + ",") == std::string::npos) {
      same->second += ", " + variable.second;
    }
  }
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

std::string RatedComparison::text() const {
  const double unit = in_gbit ? 1e9 / 8 : 1e9;
  return "measured " + digits(measured.raw() / unit) + " of " + digits(rated.raw() / unit) +
         (in_gbit ? " Gbit/s" : " GB/s");
}

std::optional<RatedComparison> compare_with_rated(const SampleCurve& sample, const GpuSpec* gpu,
                                                  std::optional<BytesPerSecond> link) {
  const CollectiveCurve& curve = sample.curve;
  if (curve.points.empty() || curve.points.back().size < kLargeEnough) return std::nullopt;
  const CurvePoint& last = curve.points.back();
  const int ranks = curve.placement.ranks();
  const double wire = row_of(curve.collective).wire_factor(ranks);
  const BytesPerSecond bus = wire * last.size / last.time;
  const bool one_domain =
      curve.placement.nodes == 1 || (gpu != nullptr && gpu->fast_domain >= ranks && gpu->link.raw() > 0);
  if (one_domain) {
    if (link) return RatedComparison{"link", bus, *link, false};
    return gpu == nullptr ? std::nullopt : inside_comparison(curve.placement, *gpu, bus);
  }
  const int per_node = curve.placement.gpus_per_node;
  BytesPerSecond rated = gpu != nullptr ? gpu->usual_network : BytesPerSecond(0);
  if (sample.network_gbps > 0) rated = BytesPerSecond(sample.network_gbps * 1e9 / 8 / per_node);
  if (link) rated = *link;
  if (rated.raw() <= 0) return std::nullopt;
  // What one GPU sends out of its node: of a ring or tree over whole nodes the node's traffic is shared by its GPUs; of
  // an all-to-all the blocks for other nodes; a send/recv ring crosses the boundary with one GPU.
  BytesPerSecond measured = bus / per_node;
  if (curve.collective == Collective::all_to_all)
    measured = bus * (static_cast<double>(ranks - per_node) / (ranks - 1));
  if (curve.collective == Collective::send_recv) measured = bus;
  return RatedComparison{"network", measured, rated, true};
}

CalibrationReport build_calibration(const std::vector<Samples>& samples, const GpuSpec* gpu,
                                    std::optional<BytesPerSecond> link, const std::string& name) {
  CalibrationReport result;
  Calibration& calibration = result.calibration;
  calibration.name = name;
  if (gpu != nullptr) calibration.gpu = gpu->id;
  for (const Samples& file : samples) {
    calibration.origin += (calibration.origin.empty() ? "" : ", ") + base_name(file.file) + " (" + file.tool + ")";
    for (const std::string& warning : file.warnings) result.warnings.push_back(base_name(file.file) + ": " + warning);
    calibration.nodes = std::max(calibration.nodes, file.nodes);
    calibration.gpus_per_node = std::max(calibration.gpus_per_node, file.gpus_per_node);
    add_tables(calibration, file);
    for (const SampleCurve& sample : file.curves) {
      CurveReport report = report_of(file, sample, gpu, link);
      if (report.refusal.empty() && sample.collective) add_curve(result, report);
      result.curves.push_back(std::move(report));
    }
  }
  calibration.warnings = result.warnings;
  for (const CurveReport& report : result.curves) {
    const std::string where = report.operation + ", " + group_text(report.curve) + ": ";
    if (!report.refusal.empty()) {
      calibration.warnings.push_back(base_name(report.file) + ": " + where + "refused: " + report.refusal);
    }
    for (const std::string& warning : report.warnings) {
      calibration.warnings.push_back(base_name(report.file) + ": " + where + warning);
    }
    if (!report.written) continue;
    calibration.curves.push_back(report.curve);
    calibration.nodes = std::max(calibration.nodes, report.curve.placement.nodes);
    calibration.gpus_per_node = std::max(calibration.gpus_per_node, report.curve.placement.gpus_per_node);
  }
  return result;
}

}  // namespace tpplan
