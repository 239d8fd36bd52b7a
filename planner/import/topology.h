#pragma once

#include <string>
#include <vector>

#include "cost-model/cluster_spec.h"

namespace tpplan {

struct QueryFile {
  std::string name;
  std::string text;
};

/// A cluster file made from what query tools print.
struct ImportedCluster {
  std::string json;                  ///< the cluster file
  std::vector<std::string> guesses;  ///< what the files do not say, "what: value (why)"; also in the file as "guessed"
  std::string warnings;              ///< rendered problems of the inputs: cut rows, glued cells, parts left out
};

/// Turns the output of nvidia-smi (topo -m, topo -p2p, --query-gpu CSV, -L, -q -x), rocm-smi --showtopo, ibstat and
/// ibv_devinfo of one host, or of several equal hosts, into a cluster file. Throws SpecError for files that are none of
/// these, for hosts with more than one kind of GPU, and for GPUs the catalogue does not know.
ImportedCluster import_cluster(const std::vector<QueryFile>& files, const GpuCatalogue& catalogue);

}  // namespace tpplan
