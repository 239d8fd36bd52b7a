#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cost-model/simulate.h"
#include "planner/import/kernel_classes.h"
#include "planner/import/kineto.h"

namespace tpplan {

/// Where the time of one GPU went, seconds per step (mean over the steps of the trace).
struct TraceTotals {
  int steps = 1;
  bool steps_named = false;  ///< by the profiler's step ranges; else counted by optimizer steps, or taken as one
  double step = 0;
  std::array<double, kKernelClasses.size()> kernels{};             ///< summed kernel time, overlapping or not
  std::array<double, kKernelClasses.size()> launches{};            ///< kernels, copies and fills
  std::array<double, kCommunicationNames.size()> communication{};  ///< summed kernel time
  double busy = 0;                                                 ///< time in which anything runs
  double communication_exposed = 0;                                ///< time in which communication alone runs
  double waits_for_data = 0;  ///< nothing runs, the next kernel is not launched yet, and a data loader works
  double waits_for_host = 0;  ///< nothing runs and the next kernel is not launched yet
  double waits_in_queue = 0;  ///< nothing runs although the next kernel is launched: dependencies, launch latency
  std::vector<std::pair<std::string, double>> unknown, largest;  ///< names of kernels and their time, longest first
  std::vector<std::string> remarks;
};
TraceTotals totals_of(const KinetoTrace& trace);

/// The same as the cost model has it, seconds per step, of the pipeline rank that the GPU of number `gpu` belongs to.
struct SimulatedTotals {
  int pipeline_rank = 0;
  double step = 0;
  std::array<double, kKernelClasses.size()> kernels{};
  double communication_exposed = 0;  ///< collectives and transfers beyond compute
  double pipeline_idle = 0;          ///< of the stage until the last pass of any stage ends; measured: in send/recv
  double waits_for_data = 0, waits_for_host = 0;
};
SimulatedTotals simulated_totals(const Job& job, const Layout& layout, int gpu);

}  // namespace tpplan
