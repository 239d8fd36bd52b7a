#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/cluster_spec.h"

namespace tpplan {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// NCCL_* variables of this process, by name.
Variables nccl_environment();

/// What may make a calibration wrong where it is used, one text each: NCCL_* variables in force when it was measured
/// that differ from those of `environment` (those that only choose what is logged, or name hosts and files, do not
/// count), and another GPU than the cluster's (nullptr: not compared).
std::vector<std::string> calibration_doubts(const Calibration& calibration, const Variables& environment,
                                            const GpuSpec* gpu);

}  // namespace tpplan
