#include <algorithm>
#include <iterator>

#include "cost-model/simulate.h"
#include "planner/capacity/sections.h"

namespace tpplan {
namespace {

constexpr double kTera = 1e12;

/// Bytes that a matrix product or attention moves at least, forward: each operand once.
double least_bytes(const Operation& operation, double element_bytes) {
  if (operation.bytes_forward.raw() > 0) {
    return operation.bytes_forward.raw();
  }
  if (operation.kind == OperationKind::attention) {
    return 4 * operation.m * operation.n * operation.k * element_bytes;  // queries, keys, values, output
  }
  return (operation.m * operation.k + operation.k * operation.n + operation.m * operation.n) * element_bytes;
}

void add_kernels(ReportTable& table, const Subject& subject, const std::string& part, const OperationList& operations) {
  const Job& job = subject.plan.job;
  const double peak = job.cluster.gpu.peak_of(job.training.precision).raw();
  const double bandwidth = job.cluster.gpu.memory_bandwidth.raw();
  const double element_bytes = kPrecisionTable[static_cast<std::size_t>(job.training.precision)].gemm_bytes;
  for (const Operation& operation : operations) {
    const bool products = operation.kind == OperationKind::gemm || operation.kind == OperationKind::attention;
    if (!products || operation.forward.raw() <= 0 || operation.flops_forward.raw() <= 0) {
      continue;
    }
    const double flops = operation.flops_forward.raw();
    const double intensity = flops / least_bytes(operation, element_bytes);
    const double rate = flops / operation.forward.raw();
    table.rows.push_back({part + ": " + operation.name, Figure{intensity}, Figure{rate / kTera},
                          Figure{std::min(peak, intensity * bandwidth) / kTera}, Figure{rate / peak},
                          Figure{operation.forward.raw() * 1e6}});
  }
}

std::string pass_name(const SimulatedOperation& operation) {
  return std::string(row_of(operation.pass.kind).letter) + " " + std::to_string(operation.pass.micro_batch);
}

}  // namespace

ReportSection roofline_section(const Subject& subject) {
  ReportSection section{.id = "roofline", .title = "Roofline"};
  section.table.columns = {{"kernel", "kernel", FigureStyle::text, 9},
                           {"flop_per_byte", "FLOP per byte", FigureStyle::number, 8},
                           {"tflop_per_s", "TFLOP/s", FigureStyle::number, 9},
                           {"roof_tflop_per_s", "roof", FigureStyle::number, 7},
                           {"share_of_peak", "of the peak", FigureStyle::share, 8},
                           {"forward_us", "forward us", FigureStyle::number, 6}};
  const Job& job = subject.plan.job;
  const LayerKey key = layer_key(subject.plan.plan.layout);
  const bool all_moe = job.moe() && job.moe_in(0, job.model.layers) == job.model.layers;
  if (!all_moe) {
    add_kernels(section.table, subject, "layer", layer_operations(job, key, false));
  }
  if (job.moe()) {
    add_kernels(section.table, subject, "MoE layer", layer_operations(job, key, true));
  }
  add_kernels(section.table, subject, "head", head_operations(job, key));
  std::sort(section.table.rows.begin(), section.table.rows.end(),
            [](const auto& a, const auto& b) { return std::get<Figure>(a[1]).value < std::get<Figure>(b[1]).value; });
  section.charts = {{.kind = ChartKind::scatter,
                     .title = "Roofline of the forward pass",
                     .x = "flop_per_byte",
                     .series = {"tflop_per_s", "roof_tflop_per_s"},
                     .group_by = "kernel",
                     .x_label = "FLOP per byte",
                     .y_label = "TFLOP/s",
                     .x_logarithmic = true,
                     .y_logarithmic = true}};
  section.notes = {
      "per GPU and micro-batch; bytes: every operand once; roof: the lesser of the dense peak and memory "
      "bandwidth x FLOP per byte"};
  return section;
}

ReportSection timeline_section(const Subject& subject) {
  constexpr std::size_t kMostBars = 2000;
  ReportSection section{.id = "timeline", .title = "One step, pass by pass"};
  section.table.columns = {{"stage", "stage", FigureStyle::text, 9},
                           {"pass", "pass", FigureStyle::text, 9},
                           {"chunk", "chunk", FigureStyle::count, 5},
                           {"start_s", "start s", FigureStyle::number, 8},
                           {"end_s", "end s", FigureStyle::number, 8}};
  const SimulatedStep step = simulate(subject.plan.job, subject.plan.plan.layout);
  std::vector<SimulatedOperation> passes;
  std::copy_if(step.operations.begin(), step.operations.end(), std::back_inserter(passes),
               [](const SimulatedOperation& operation) { return operation.kind == SimulatedKind::pass; });
  if (passes.size() > kMostBars) {
    // The first ones of all stages, each stage's still in a row.
    std::vector<double> starts;
    for (const SimulatedOperation& pass : passes) {
      starts.push_back(pass.start);
    }
    std::nth_element(starts.begin(), starts.begin() + kMostBars, starts.end());
    const double until = starts[kMostBars];
    passes.erase(std::remove_if(passes.begin(), passes.end(),
                                [until](const SimulatedOperation& pass) { return pass.start >= until; }),
                 passes.end());
    section.notes.push_back("the first " + with_separators(static_cast<std::int64_t>(passes.size())) +
                            " passes; tpplan simulate --trace has all");
  }
  for (const SimulatedOperation& operation : passes) {
    section.table.rows.push_back({"stage " + std::to_string(operation.rank), pass_name(operation),
                                  Figure{static_cast<double>(operation.pass.chunk)}, Figure{operation.start},
                                  Figure{operation.end}});
  }
  section.charts = {{.kind = ChartKind::timeline,
                     .title = "Passes of the pipeline stages",
                     .x = "stage",
                     .series = {"start_s", "end_s"},
                     .group_by = "pass",
                     .x_label = "stage",
                     .y_label = "seconds"}};
  section.summary = {"Simulated step: " + format(Seconds(step.makespan)) + ", estimated " +
                     format(subject.plan.plan.estimate.step.total()) +
                     "; F forward, B backward, W weight gradients, "
                     "with the number of the micro-batch."};
  return section;
}

ReportSection calibration_section(const Subject& subject) {
  ReportSection section{.id = "calibration", .title = "Measured collectives"};
  section.table.columns = {{"curve", "curve", FigureStyle::text, 9},
                           {"bytes", "bytes", FigureStyle::count, 9},
                           {"measured_gb_per_s", "measured GB/s", FigureStyle::number, 9},
                           {"fitted_gb_per_s", "fitted GB/s", FigureStyle::number, 9}};
  for (const CollectiveCurve& curve : subject.plan.job.calibration.curves) {
    const Placement& placement = curve.placement;
    const std::string name = std::string(row_of(curve.collective).name) + " " + std::to_string(placement.nodes) + "x" +
                             std::to_string(placement.gpus_per_node) + (curve.in_place ? " in place" : "");
    const double wire = row_of(curve.collective).wire_factor(placement.ranks());
    for (const CurvePoint& point : curve.points) {
      const double bytes = wire * point.size.raw() * 1e-9;
      section.table.rows.push_back({name, Figure{point.size.raw()}, Figure{bytes / point.time.raw()},
                                    Figure{bytes / curve.time(point.size).raw()}});
    }
  }
  section.charts = {{.kind = ChartKind::lines,
                     .title = "Bus bandwidth over message size",
                     .x = "bytes",
                     .series = {"measured_gb_per_s", "fitted_gb_per_s"},
                     .group_by = "curve",
                     .x_label = "bytes",
                     .y_label = "GB/s",
                     .x_logarithmic = true,
                     .y_logarithmic = true}};
  return section;
}

}  // namespace tpplan
