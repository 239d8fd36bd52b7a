#pragma once

#include <vector>

#include "planner/capacity/capacity_report.h"
#include "planner/capacity/training_run.h"

namespace tpplan {

/// What every section answers for: one model on one cluster, planned, and the run that was chosen.
struct Subject {
  const Planner& planner;
  const Circumstances& around;
  const CapacityOptions& asked;
  const GpuCatalogue& gpus;
  const ModelSpec& model;
  const Hardware& hardware;
  const PricedPlan& plan;
  const TrainingRun& run;
};

/// The best layouts with time and memory by what they are spent on, and those that need least memory.
ReportSection layouts_section(const Subject& subject);
/// The best layout of each family, and the rule of thumb "tensor parallel inside the node until it fits, then data
/// parallel, pipeline across nodes", beside the overall best.
ReportSection families_section(const Subject& subject);
/// Wasted time over the checkpoint interval: exact, first-order, simulated.
ReportSection failures_section(const Subject& subject);
/// What the run asks of the file system.
ReportSection storage_section(const Subject& subject, std::vector<std::string>& warnings);
/// Sizes of the cluster: speed, efficiency, goodput, time, money. With a deadline refined around it.
ReportSection scaling_section(const Subject& subject);
/// The best step of each family over network speeds, and the speed from which the network is no limit.
ReportSection network_section(const Subject& subject);
/// Each part of the hardware halved and doubled.
ReportSection upgrades_section(const Subject& subject);
/// The largest model in the proportions of this one, and the longest sequences, that fit.
ReportSection limits_section(const Subject& subject);
/// Other GPUs at equal count, money and power.
ReportSection hardware_section(const Subject& subject);
/// Owning against renting one GPU.
ReportSection buy_or_rent_section(const Subject& subject);
/// Model size and tokens for an amount of compute.
ReportSection allocation_section(const Subject& subject);
/// Matrix products and attention of one layer under the GPU's roofline.
ReportSection roofline_section(const Subject& subject);
/// One simulated step, pass by pass, on every pipeline stage.
ReportSection timeline_section(const Subject& subject);
/// Measured against fitted collectives of the calibration in use.
ReportSection calibration_section(const Subject& subject);

/// "4 x 8 H100-80GB-SXM5", "72 x GB200".
std::string cluster_text(const ClusterSpec& cluster);
/// Axis of a layout ("tp"), kept at the values of what the user allowed for which `keep` holds.
void restrict_axis(PlannerOptions& options, std::string_view axis, int world, bool (*keep)(int));

}  // namespace tpplan
