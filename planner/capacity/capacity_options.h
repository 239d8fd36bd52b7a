#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// What `report` alone is told. Members left empty were not given; the defaults stand where they are used and are
/// listed in the report.
struct CapacityOptions {
  std::optional<double> tokens;  ///< of the whole run
  std::optional<Seconds> deadline;
  std::optional<double> budget;  ///< money, in the currency of the price list
  std::optional<double> flops;   ///< model FLOPs of the whole run, for the allocation
  std::optional<double> gpu_hours;
  double tokens_per_parameter = 20;
  std::string framework_date;         ///< "2024-06": release of the framework
  std::string prices;                 ///< file of --price
  std::vector<std::string> sections;  ///< ids to show; empty: all that have an answer
  std::vector<std::string> compare;   ///< GPU ids

  std::optional<double> goodput;  ///< share of the time that is training, in place of the failure model
  std::optional<Seconds> gpu_mtbf, node_mtbf, restart, checkpoint_every, repair;
  std::optional<BytesPerSecond> checkpoint_write, storage_read;
  double checkpoint_stall = 1;  ///< share of the writing that training waits for
  double evaluation = 0;        ///< share of the wall time
  std::optional<int> spares;

  std::optional<double> pue, grid, node_kw, electricity;
};

}  // namespace tpplan
