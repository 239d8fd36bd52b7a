#pragma once

#include <string>
#include <vector>

#include "cost-model/cluster_spec.h"
#include "planner/import/topology_matrix.h"

namespace tpplan {

/// The fast domain that a matrix shows: equal groups of GPUs joined by NVLink or xGMI.
struct MatrixDomain {
  int gpus = 1;  ///< of one group, 1 for none
  Topology topology = Topology::none;
  BytesPerSecond bandwidth;  ///< per GPU and direction
  BytesPerSecond per_peer;   ///< mesh only
  std::vector<std::string> guesses;
};

/// Works out groups and rates: links of a pair times the rate of one link of that GPU; a switch where a pair shows all
/// links of a GPU, else a mesh.
MatrixDomain domain_of(const TopologyMatrix& matrix, const GpuSpec& gpu);

/// Rate of one NVLink, per direction: 25 GB/s on Volta, Ampere and Hopper, 50 on Blackwell, 14.06 on the four-link
/// bridges of GA102 cards (56.25 GB/s).
BytesPerSecond nvlink_rate(const GpuSpec& gpu);

/// The GPU that text and links hint at when no query names it, and why; nullptr when nothing does.
struct GpuGuess {
  const GpuSpec* gpu = nullptr;
  std::string reason;
};
GpuGuess guess_gpu(const TopologyMatrix& matrix, const std::string& file_name, const GpuCatalogue& catalogue);

}  // namespace tpplan
