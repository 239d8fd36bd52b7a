#pragma once

#include <string>

#include "cost-model/cluster_spec.h"
#include "planner/capacity/amounts.h"

namespace tpplan {

/// What a node draws beyond its GPUs and what the building adds. The defaults are stated where they are made.
struct PowerModel {
  /// GPUs at work over their rated power (TDP), as published energy figures count (BLOOM, arXiv:2211.02001; Llama 2 and
  /// 3).
  double gpu_share = 1;
  /// Processors, memory, fans and NICs over the GPUs' rated power: a node of 8 H100 draws up to 8.4 kW in training
  /// (Latif et al., arXiv:2412.08602), 8 x 700 W of it the GPUs. Low: fans at rest; high: 10.2 kW, the rated maximum of
  /// the node.
  double host_share = 0.5, host_share_low = 0.3, host_share_high = 0.82;
  /// Power of the whole site over that of the machines: 1.2 of BLOOM's site; 1.08 and 1.56 are a large cloud's and the
  /// mean of Uptime Institute's survey of 2024.
  double pue = 1.2, pue_low = 1.08, pue_high = 1.56;
  Kilowatts node;  ///< measured draw of a node at work, in place of the first two when not 0
};

/// An amount with the ends of its interval.
template <class T>
struct Between {
  T value, low, high;
};

/// A node at work, at its plug.
Between<Kilowatts> node_power(const PowerModel& model, const ClusterSpec& cluster);
/// The whole cluster at work, cooling and losses of the building included.
Between<Kilowatts> site_power(const PowerModel& model, const ClusterSpec& cluster);

}  // namespace tpplan
