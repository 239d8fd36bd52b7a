#pragma once

#include <string>
#include <vector>

#include "comm-bench/preflight.h"

namespace tpplan::bench {

/// What the caller knows of a rank before its host is asked.
struct RankPlace {
  int rank = 0, local_rank = 0, ranks_on_host = 1, world_ranks = 1, node = 0;
  std::string host;
  std::vector<long> job_processes;  ///< process ids of the job's ranks on this host
  bool nccl_backend = false;
};

/// Asks NVML, the CUDA runtime, NCCL, the kernel (/sys, /proc) and the environment. What is missing stays empty: a
/// laptop without a GPU is no error.
RankFacts collect_facts(const RankPlace& place);

/// The reason words of NVML's clock event bits that hold clocks down; idleness and settings of the user apart.
std::vector<std::string> throttle_reasons(unsigned long long bits);

}  // namespace tpplan::bench
