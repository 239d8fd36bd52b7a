#pragma once

#include <string>
#include <vector>

#include "cost-model/cluster_spec.h"
#include "cost-model/cluster_tiers.h"

namespace tpplan {

/// The network that joins parts when none is described: the slowest of the parts' usual ones, per GPU and direction.
Interconnect joining_network(const std::vector<ClusterSpec>& parts);

/// A mixed cluster of these parts. As a whole its nodes have as many GPUs as divide every part's nodes, and each figure
/// of its GPU, fast domain and host is the least of the parts'; `network` spans all of it.
ClusterSpec join_parts(std::string name, std::vector<ClusterSpec> parts, const Interconnect& network);

}  // namespace tpplan
