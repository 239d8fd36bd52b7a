#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm-bench/comm_error.h"

namespace tpplan::bench {

/// What the driver says about the GPU of a rank (NVML), and the kernel about where it sits.
struct GpuFacts {
  std::string name, uuid, pci;
  double memory_total_bytes = 0, memory_used_bytes = 0;
  int utilization_percent = 0;
  int other_processes = 0;  ///< compute processes on the GPU that are not ranks of this job
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0, memory_clock_mhz = 0;
  std::vector<std::string> throttled_by;  ///< why clocks are held down, idleness apart
  double power_limit_w = 0, default_power_limit_w = 0;
  int temperature_c = 0;
  bool ecc_enabled = true;
  std::int64_t ecc_uncorrected = 0;  ///< since the driver was loaded
  bool remap_pending = false, remap_failed = false;
  bool mig = false;
  int numa_node = -1;  ///< -1 unknown
  int nvlinks_active = 0;
};

/// Whether this rank's GPU can read another GPU of the host directly.
struct PeerFacts {
  std::string pci;
  std::string read;  ///< "ok", or why not: "chipset not supported", "disabled by regkey", ...
};

struct PortFacts {
  std::string device;      ///< "mlx5_0"
  std::string state;       ///< "ACTIVE", "DOWN", ...
  std::string link_layer;  ///< "InfiniBand", "Ethernet"
  double gbit_per_s = 0;
};

/// What one rank found about itself, its GPU and its host. Versions are those of the libraries at run time; empty or 0
/// when not there.
struct RankFacts {
  int rank = 0, local_rank = 0, ranks_on_host = 1;
  std::string host;
  int node = 0;
  int world_ranks = 1;
  int launcher_ranks = 0;  ///< processes the launcher says it started; 0 without a launcher
  std::string mpi_library, mpi_compiled;
  std::string kernel, driver;
  int driver_cuda = 0;            ///< CUDA version the driver supports, 13000 for 13.0
  int runtime_cuda = 0;           ///< of libcudart
  int nccl = 0, nccl_header = 0;  ///< 22809 for 2.28.9
  std::int64_t cublas_lt = 0, cudnn = 0;
  std::string nccl_path;
  int gpus_visible = 0;
  bool nccl_backend = false;  ///< this run uses GPUs
  std::string no_gpu_reason;
  std::optional<GpuFacts> gpu;
  std::vector<PeerFacts> peers;
  std::vector<PortFacts> ports;
  bool peer_memory = false;  ///< the kernel can hand GPU memory to the network adapter (nvidia_peermem or dma-buf)
  int cpus_allowed = 0;
  std::vector<int> numa_nodes_allowed;
  int numa_nodes = 1;
  std::map<std::string, std::string> variables;  ///< NCCL_*, CUDA_*, UCX_*, OMPI_MCA_*
};

/// Reads the facts of all ranks from the JSON array that comm-bench writes (`facts` of the sample file's preflight).
std::vector<RankFacts> facts_from_json(std::string name, std::string text);

struct PreflightWarning {
  bool is_note = false;    ///< worth recording, nothing wrong
  std::string id;          ///< stable word: "gpu-shared"
  std::string message;     ///< what is wrong, with its numbers
  std::string fix;         ///< what to do
  std::vector<int> ranks;  ///< where; empty for the whole job
};

/// Applies every rule to the facts of all ranks; equal findings of several ranks become one.
std::vector<PreflightWarning> preflight(const std::vector<RankFacts>& facts);

/// "warning: MESSAGE [id] (rank 3, node07)" and the fix on a line of its own.
std::string rendered(const PreflightWarning& warning, const std::vector<RankFacts>& facts);

/// "13.0" for 13000 or "2.28.9" for 22809.
std::string cuda_version_text(int version);
std::string nccl_version_text(int version);

}  // namespace tpplan::bench
