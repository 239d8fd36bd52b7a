#pragma once

#include "cost-model/cluster_spec.h"
#include "cost-model/spec_reader.h"

namespace tpplan {

/// Reads the hardware keys of a GPU into `gpu`: of a whole catalogue row (`complete`: memory, bandwidth and peaks are
/// required), or of the overrides in a cluster file, where a key that is absent leaves the row's value.
void read_gpu_fields(ObjectReader& reader, GpuSpec& gpu, bool complete);

/// The names of Topology and PeerToPeer in files, in enumerator order.
const std::vector<std::string>& topology_names();
const std::vector<std::string>& peer_to_peer_names();
Topology topology_from(const std::string& name);
PeerToPeer peer_to_peer_from(const std::string& name);

}  // namespace tpplan
