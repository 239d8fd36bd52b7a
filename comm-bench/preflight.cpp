#include "comm-bench/preflight.h"

#include <algorithm>
#include <array>
#include <set>

#include "cost-model/spec_reader.h"

namespace tpplan::bench {

namespace {

constexpr double kBusyMemoryBytes = 1024.0 * 1024 * 1024;
constexpr int kBusyPercent = 10;
constexpr double kPowerSlack = 0.98;
constexpr int kHot = 85;
constexpr std::int64_t kMost = std::int64_t{1} << 53;

int whole(ObjectReader& reader, std::string_view key, int fallback) {
  return static_cast<int>(reader.count(key, -1, 2147483647, fallback));
}

GpuFacts gpu_from(ObjectReader gpu) {
  GpuFacts facts;
  facts.name = gpu.text("name", "");
  facts.uuid = gpu.text("uuid", "");
  facts.pci = gpu.text("pci", "");
  facts.memory_total_bytes = gpu.number("memory_total_bytes", 0, 1e18, 0);
  facts.memory_used_bytes = gpu.number("memory_used_bytes", 0, 1e18, 0);
  facts.utilization_percent = whole(gpu, "utilization_percent", 0);
  facts.other_processes = whole(gpu, "other_processes", 0);
  facts.sm_clock_mhz = whole(gpu, "sm_clock_mhz", 0);
  facts.max_sm_clock_mhz = whole(gpu, "max_sm_clock_mhz", 0);
  facts.memory_clock_mhz = whole(gpu, "memory_clock_mhz", 0);
  if (gpu.is_array("throttled_by")) facts.throttled_by = gpu.texts("throttled_by");
  facts.power_limit_w = gpu.number("power_limit_w", 0, 1e6, 0);
  facts.default_power_limit_w = gpu.number("default_power_limit_w", 0, 1e6, 0);
  facts.temperature_c = whole(gpu, "temperature_c", 0);
  facts.ecc_enabled = gpu.flag("ecc_enabled", true);
  facts.ecc_uncorrected = gpu.count("ecc_uncorrected", 0, kMost, 0);
  facts.remap_pending = gpu.flag("remap_pending", false);
  facts.remap_failed = gpu.flag("remap_failed", false);
  facts.mig = gpu.flag("mig", false);
  facts.numa_node = whole(gpu, "numa_node", -1);
  facts.nvlinks_active = whole(gpu, "nvlinks_active", 0);
  gpu.ignore_rest();
  return facts;
}

RankFacts rank_from(ObjectReader reader) {
  RankFacts facts;
  facts.rank = whole(reader, "rank", 0);
  facts.local_rank = whole(reader, "local_rank", 0);
  facts.ranks_on_host = whole(reader, "ranks_on_host", 1);
  facts.host = reader.text("host", "");
  facts.node = whole(reader, "node", 0);
  facts.world_ranks = whole(reader, "world_ranks", 1);
  facts.launcher_ranks = whole(reader, "launcher_ranks", 0);
  facts.mpi_library = reader.text("mpi_library", "");
  facts.mpi_compiled = reader.text("mpi_compiled", "");
  facts.kernel = reader.text("kernel", "");
  facts.driver = reader.text("driver", "");
  facts.driver_cuda = whole(reader, "driver_cuda", 0);
  facts.runtime_cuda = whole(reader, "runtime_cuda", 0);
  facts.nccl = whole(reader, "nccl", 0);
  facts.nccl_header = whole(reader, "nccl_header", 0);
  facts.nccl_path = reader.text("nccl_path", "");
  facts.cublas_lt = reader.count("cublas_lt", 0, kMost, 0);
  facts.cudnn = reader.count("cudnn", 0, kMost, 0);
  facts.gpus_visible = whole(reader, "gpus_visible", 0);
  facts.nccl_backend = reader.flag("nccl_backend", false);
  facts.no_gpu_reason = reader.text("no_gpu_reason", "");
  if (auto gpu = reader.optional_object("gpu")) facts.gpu = gpu_from(*gpu);
  if (auto peers = reader.optional_array("peers")) {
    for (std::size_t i = 0; i < peers->size(); ++i) {
      ObjectReader peer = peers->object(i);
      facts.peers.push_back({peer.text("pci", ""), peer.text("read", "")});
    }
  }
  if (auto ports = reader.optional_array("ports")) {
    for (std::size_t i = 0; i < ports->size(); ++i) {
      ObjectReader port = ports->object(i);
      facts.ports.push_back({port.text("device", ""), port.text("state", ""), port.text("link_layer", ""),
                             port.number("gbit_per_s", 0, 1e6, 0)});
    }
  }
  facts.peer_memory = reader.flag("peer_memory", false);
  facts.cpus_allowed = whole(reader, "cpus_allowed", 0);
  if (reader.has("numa_nodes_allowed")) {
    for (const std::int64_t node : reader.counts("numa_nodes_allowed", 0, 4096)) {
      facts.numa_nodes_allowed.push_back(static_cast<int>(node));
    }
  }
  facts.numa_nodes = whole(reader, "numa_nodes", 1);
  if (auto variables = reader.optional_object("variables")) {
    for (const std::string& name : variables->keys()) facts.variables[name] = variables->text(name);
  }
  reader.ignore_rest();
  return facts;
}

using Facts = std::vector<RankFacts>;

/// Collects findings; equal ones of several ranks become one with all the ranks.
class Findings {
 public:
  void add(std::string id, std::string message, std::string fix, std::vector<int> ranks, bool is_note = false) {
    for (PreflightWarning& known : found_) {
      if (known.id == id && known.message == message) {
        known.ranks.insert(known.ranks.end(), ranks.begin(), ranks.end());
        return;
      }
    }
    found_.push_back({is_note, std::move(id), std::move(message), std::move(fix), std::move(ranks)});
  }
  void note(std::string id, std::string message, std::string fix, std::vector<int> ranks) {
    add(std::move(id), std::move(message), std::move(fix), std::move(ranks), true);
  }
  std::vector<PreflightWarning> take() { return std::move(found_); }

 private:
  std::vector<PreflightWarning> found_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<int> ranks_of(const Facts& facts) {
  std::vector<int> ranks;
  for (const RankFacts& one : facts) ranks.push_back(one.rank);
  return ranks;
}

std::string value_of(const RankFacts& facts, const std::string& name) {
  const auto found = facts.variables.find(name);
  return found == facts.variables.end() ? std::string() : found->second;
}

/// "Open MPI v4.1.4" and "Open MPI v4.1.6" go together, "Open MPI v5.0.1" does not.
std::string mpi_series(const std::string& version) {
  const std::size_t last = version.rfind('.');
  return last == std::string::npos ? version : version.substr(0, last);
}

/// Reports the values a fact takes when it differs between ranks; ranks without a value do not count.
template <class Value>
void same_everywhere(const Facts& facts, Findings& findings, const std::string& id, const std::string& what,
                     const std::string& fix, Value value) {
  std::vector<std::string> values;
  for (const RankFacts& one : facts) {
    const std::string text = value(one);
    if (!text.empty() && std::find(values.begin(), values.end(), text) == values.end()) values.push_back(text);
  }
  if (values.size() < 2) return;
  std::vector<int> others;
  for (const RankFacts& one : facts) {
    if (!value(one).empty() && value(one) != values.front()) others.push_back(one.rank);
  }
  findings.add(id, what + " differs between ranks: " + joined(values), fix, others);
}

void launcher(const Facts& facts, Findings& findings) {
  for (const RankFacts& one : facts) {
    if (one.launcher_ranks > one.world_ranks) {
      findings.add("launcher",
                   "the launcher started " + std::to_string(one.launcher_ranks) + " processes, but MPI sees " +
                       std::to_string(one.world_ranks) + ": each of them measures alone",
                   "use the mpirun of " + one.mpi_compiled + ", or srun --mpi=pmix with an MPI built for it",
                   {one.rank});
    }
  }
}

void mpi_versions(const Facts& facts, Findings& findings) {
  same_everywhere(facts, findings, "mpi-mixed", "the MPI library", "install one MPI on all hosts",
                  [](const RankFacts& one) { return one.mpi_library; });
  for (const RankFacts& one : facts) {
    if (one.mpi_compiled.empty() || one.mpi_library.empty()) continue;
    if (mpi_series(one.mpi_compiled) == mpi_series(one.mpi_library)) continue;
    findings.add("mpi-header", "compiled for " + one.mpi_compiled + ", running with " + one.mpi_library,
                 "build comm-bench with the MPI that runs it", {one.rank});
  }
}

void cuda_versions(const Facts& facts, Findings& findings) {
  same_everywhere(facts, findings, "driver-mixed", "the NVIDIA driver", "install one driver version on all hosts",
                  [](const RankFacts& one) { return one.driver; });
  same_everywhere(facts, findings, "nccl-mixed", "NCCL", "point LD_LIBRARY_PATH to the same NCCL on all hosts",
                  [](const RankFacts& one) { return one.nccl > 0 ? nccl_version_text(one.nccl) : std::string(); });
  for (const RankFacts& one : facts) {
    if (one.runtime_cuda > 0 && one.driver_cuda > 0 && one.runtime_cuda / 1000 > one.driver_cuda / 1000) {
      findings.add("cuda-driver",
                   "the CUDA runtime is " + cuda_version_text(one.runtime_cuda) + ", driver " + one.driver +
                       " supports up to " + cuda_version_text(one.driver_cuda),
                   "install a newer driver, or put a CUDA " + std::to_string(one.driver_cuda / 1000) +
                       " runtime first in LD_LIBRARY_PATH",
                   {one.rank});
    }
    if (one.nccl > 0 && one.nccl_header > 0 && one.nccl / 100 != one.nccl_header / 100) {
      const std::string message =
          "compiled for NCCL " + nccl_version_text(one.nccl_header) + ", running with " + nccl_version_text(one.nccl);
      const std::string fix = "the library counts (" + one.nccl_path + "); set LD_LIBRARY_PATH if another was meant";
      findings.note("nccl-header", message, fix, {one.rank});
    }
  }
}

void own_gpu(const Facts& facts, Findings& findings) {
  std::map<std::string, std::vector<int>> users;
  for (const RankFacts& one : facts) {
    if (!one.nccl_backend) continue;
    if (!one.gpu) {
      findings.add("gpu-none", "no GPU: " + (one.no_gpu_reason.empty() ? "none is visible" : one.no_gpu_reason),
                   "start at most one rank per GPU, check nvidia-smi and CUDA_VISIBLE_DEVICES", {one.rank});
    } else if (!one.gpu->uuid.empty()) {
      users[one.gpu->uuid].push_back(one.rank);
    }
  }
  for (const auto& [uuid, ranks] : users) {
    if (ranks.size() < 2) continue;
    findings.add("gpu-shared", std::to_string(ranks.size()) + " ranks use one GPU",
                 "start one rank per GPU (mpirun --map-by ppr:GPUS:node), or give each rank its own in "
                 "CUDA_VISIBLE_DEVICES",
                 ranks);
  }
}

void gpu_models(const Facts& facts, Findings& findings) {
  same_everywhere(facts, findings, "gpu-mixed", "the GPU model", "measure each kind of GPU by itself",
                  [](const RankFacts& one) { return one.gpu ? one.gpu->name : std::string(); });
  same_everywhere(
      facts, findings, "ecc-mixed", "the ECC setting", "set it alike on all GPUs (nvidia-smi -e 1)",
      [](const RankFacts& one) { return one.gpu ? std::string(one.gpu->ecc_enabled ? "on" : "off") : std::string(); });
}

void gpu_state(const Facts& facts, Findings& findings) {
  for (const RankFacts& one : facts) {
    if (!one.gpu) continue;
    const GpuFacts& gpu = *one.gpu;
    if (gpu.other_processes > 0 || gpu.utilization_percent > kBusyPercent || gpu.memory_used_bytes > kBusyMemoryBytes) {
      findings.add("gpu-busy",
                   "the GPU is in use: " + std::to_string(gpu.other_processes) + " other processes, " +
                       std::to_string(gpu.utilization_percent) + " % busy, " + format(Bytes(gpu.memory_used_bytes)) +
                       " taken",
                   "end the other jobs (nvidia-smi lists them) and measure again", {one.rank});
    }
    if (!gpu.throttled_by.empty()) {
      findings.add("gpu-throttled",
                   "clocks are held down by " + joined(gpu.throttled_by) + " at " + std::to_string(gpu.temperature_c) +
                       " C, " + std::to_string(gpu.sm_clock_mhz) + " of " + std::to_string(gpu.max_sm_clock_mhz) +
                       " MHz",
                   "check cooling and power supply, then nvidia-smi -q -d PERFORMANCE", {one.rank});
    } else if (gpu.temperature_c > kHot) {
      findings.add("gpu-hot", "the GPU has " + std::to_string(gpu.temperature_c) + " C before any work",
                   "check cooling", {one.rank});
    }
    if (gpu.power_limit_w > 0 && gpu.power_limit_w < kPowerSlack * gpu.default_power_limit_w) {
      findings.add("gpu-power",
                   "the power limit is " + shortest(gpu.power_limit_w) + " W, its default " +
                       shortest(gpu.default_power_limit_w) + " W",
                   "measured rates hold for this limit only; nvidia-smi -pl resets it", {one.rank});
    }
    if (gpu.ecc_uncorrected > 0) {
      findings.add("gpu-ecc",
                   std::to_string(gpu.ecc_uncorrected) + " uncorrected memory errors since the driver started",
                   "reset or replace the GPU before trusting its results", {one.rank});
    }
    if (gpu.remap_failed) {
      findings.add("gpu-remap", "the GPU could not remap a faulty memory row", "replace the GPU", {one.rank});
    } else if (gpu.remap_pending) {
      findings.add("gpu-remap", "a faulty memory row waits to be remapped", "reset the GPU or restart the host",
                   {one.rank});
    }
    if (gpu.mig) {
      findings.add("gpu-mig", "the GPU is divided (MIG): its parts reach no other GPU directly",
                   "turn MIG off for training (nvidia-smi -mig 0)", {one.rank});
    }
  }
}

void peer_access(const Facts& facts, Findings& findings) {
  for (const RankFacts& one : facts) {
    if (value_of(one, "NCCL_P2P_DISABLE") == "1") {
      findings.add("p2p-off", "NCCL_P2P_DISABLE=1: GPUs of a host talk through its memory", "unset it", {one.rank});
    }
    std::vector<std::string> reasons;
    for (const PeerFacts& peer : one.peers) {
      if (peer.read != "ok" && std::find(reasons.begin(), reasons.end(), peer.read) == reasons.end()) {
        reasons.push_back(peer.read);
      }
    }
    if (!reasons.empty()) {
      findings.add("p2p-off", "GPUs of this host cannot read each other directly: " + joined(reasons),
                   "turn ACS off in the BIOS or PCIe switches, give virtual machines NVLink or P2P; GeForce cards "
                   "have none",
                   {one.rank});
    }
  }
}

void rdma(const Facts& facts, Findings& findings) {
  const auto crosses = [](const RankFacts& one) { return one.world_ranks > one.ranks_on_host; };
  for (const RankFacts& one : facts) {
    if (!crosses(one)) continue;
    if (value_of(one, "NCCL_IB_DISABLE") == "1") {
      findings.add("rdma-off", "NCCL_IB_DISABLE=1: nodes talk over TCP", "unset it, unless the network has no RDMA",
                   {one.rank});
    }
    const auto active =
        std::count_if(one.ports.begin(), one.ports.end(), [](const PortFacts& port) { return port.state == "ACTIVE"; });
    if (active == 0) {
      findings.add("rdma-none",
                   one.ports.empty() ? "no RDMA device: nodes talk over TCP"
                                     : "no RDMA port is active (" + one.ports.front().device + " is " +
                                           one.ports.front().state + "): nodes talk over TCP",
                   "check ibstat and the cables, or load the driver of the network adapter", {one.rank});
      continue;
    }
    for (const PortFacts& port : one.ports) {
      if (port.state != "ACTIVE") {
        findings.add("rdma-port", "port " + port.device + " is " + port.state, "check its cable and switch",
                     {one.rank});
      }
    }
    if (one.nccl_backend && !one.peer_memory) {
      findings.add("gpudirect", "the network adapter cannot reach GPU memory (no nvidia_peermem, no dma-buf)",
                   "modprobe nvidia_peermem, or use the open kernel driver with Linux 5.12 or later", {one.rank});
    }
  }
  std::set<double> rates;
  for (const RankFacts& one : facts) {
    for (const PortFacts& port : one.ports) {
      if (crosses(one) && port.state == "ACTIVE") rates.insert(port.gbit_per_s);
    }
  }
  if (rates.size() < 2) return;
  std::vector<std::string> words;
  for (const double rate : rates) words.push_back(shortest(rate) + " Gbit/s");
  findings.add("rdma-rates", "RDMA ports differ in speed: " + joined(words),
               "the slowest port bounds every collective; check cables and NCCL_IB_HCA", {});
}

void numa(const Facts& facts, Findings& findings) {
  for (const RankFacts& one : facts) {
    if (one.ranks_on_host > one.cpus_allowed && one.cpus_allowed > 0) {
      findings.add("cpu-few",
                   std::to_string(one.ranks_on_host) + " ranks share " + std::to_string(one.cpus_allowed) +
                       " processors: times include waiting for a turn",
                   "start fewer ranks, or give the job more processors (mpirun --bind-to none, container limits)",
                   {one.rank});
    }
    if (!one.gpu || one.gpu->numa_node < 0 || one.numa_nodes < 2) continue;
    const std::vector<int>& allowed = one.numa_nodes_allowed;
    if (std::find(allowed.begin(), allowed.end(), one.gpu->numa_node) == allowed.end()) {
      std::vector<std::string> names;
      for (const int node : allowed) names.push_back(std::to_string(node));
      findings.add(
          "numa",
          "runs on NUMA node " + joined(names) + ", its GPU is attached to node " + std::to_string(one.gpu->numa_node),
          "bind each rank beside its GPU (mpirun --map-by numa --bind-to numa, or numactl)", {one.rank});
    } else if (allowed.size() > 1) {
      findings.note("numa-free", "the rank may run on any of " + std::to_string(allowed.size()) + " NUMA nodes",
                    "bind it to that of its GPU for steadier times (mpirun --bind-to numa)", {one.rank});
    }
  }
}

void variables(const Facts& facts, Findings& findings) {
  std::set<std::string> names;
  for (const RankFacts& one : facts) {
    for (const auto& [name, value] : one.variables) {
      if (name.starts_with("NCCL_")) names.insert(name);
    }
  }
  std::vector<std::string> common;
  for (const std::string& name : names) {
    same_everywhere(facts, findings, "variable-mixed", name, "pass it to all ranks (mpirun -x " + name + ")",
                    [&](const RankFacts& one) {
                      const std::string value = value_of(one, name);
                      return value.empty() ? std::string("(not set)") : value;
                    });
    common.push_back(name + "=" + value_of(facts.front(), name));
  }
  if (!common.empty()) {
    findings.note("variables", "measured with " + joined(common), "the samples hold for jobs with the same settings",
                  {});
  }
}

using Rule = void (*)(const Facts&, Findings&);
constexpr std::array<Rule, 9> kRules{launcher,  mpi_versions, cuda_versions, own_gpu, gpu_models,
                                     gpu_state, peer_access,  rdma,          numa};

}  // namespace

std::vector<RankFacts> facts_from_json(std::string name, std::string text) {
  SpecDocument document = SpecDocument::parse(std::move(name), std::move(text));
  std::vector<RankFacts> facts;
  ArrayReader ranks = document.root_array();
  for (std::size_t i = 0; i < ranks.size(); ++i) facts.push_back(rank_from(ranks.object(i)));
  document.finish();
  return facts;
}

std::vector<PreflightWarning> preflight(const std::vector<RankFacts>& facts) {
  Findings findings;
  if (facts.empty()) return {};
  for (const Rule rule : kRules) rule(facts, findings);
  variables(facts, findings);
  std::vector<PreflightWarning> found = findings.take();
  const std::vector<int> everyone = ranks_of(facts);
  for (PreflightWarning& warning : found) {
    if (warning.ranks == everyone && everyone.size() > 1) warning.ranks.clear();
  }
  return found;
}

std::string rendered(const PreflightWarning& warning, const std::vector<RankFacts>& facts) {
  constexpr std::size_t kNamed = 4;
  std::string text = (warning.is_note ? "note: " : "warning: ") + warning.message + " [" + warning.id + "]";
  if (!warning.ranks.empty()) {
    std::vector<std::string> places;
    for (std::size_t i = 0; i < std::min(kNamed, warning.ranks.size()); ++i) {
      const auto rank = static_cast<std::size_t>(warning.ranks[i]);
      places.push_back("rank " + std::to_string(rank) +
                       (rank < facts.size() && !facts[rank].host.empty() ? " on " + facts[rank].host : ""));
    }
    if (warning.ranks.size() > kNamed) places.push_back(std::to_string(warning.ranks.size() - kNamed) + " more");
    text += " (" + joined(places) + ")";
  }
  return text + "\n  fix: " + warning.fix;
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string nccl_version_text(int version) {
  // Since 2.9 the code is major * 10,000 + minor * 100 + patch, before it was major * 1,000 + minor * 100 + patch.
  const int major = version >= 10000 ? version / 10000 : version / 1000;
  const int rest = version >= 10000 ? version % 10000 : version % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." + std::to_string(rest % 100);
}

}  // namespace tpplan::bench
