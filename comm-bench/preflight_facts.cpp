#include "comm-bench/preflight_facts.h"

#include <dirent.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "comm-bench/cuda_libs.h"
#include "comm-bench/cuda_versions.h"
#include "comm-bench/mpi_session.h"

extern char** environ;  // NOLINT: POSIX's name for all variables

namespace tpplan::bench {

namespace {

// NVML's C interface as far as it is used here; its header is not part of every toolkit. Enumerations are int in the
// ABI.
struct NvmlDevice;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned int gpu, memory;
};
struct NvmlProcess {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceDriverLoad = 0;
constexpr int kPeerRead = 0;
constexpr unsigned kLinks = 18;
constexpr unsigned kProcesses = 64;

struct ReasonRow {
  unsigned long long bit;
  const char* words;
};
/// nvmlClocksEventReason* bits that mean the GPU is slower than it could be.
constexpr std::array<ReasonRow, 5> kReasons{{{0x8, "hardware slowdown"},
                                             {0x20, "software thermal limit"},
                                             {0x40, "hardware thermal limit"},
                                             {0x80, "power brake"},
                                             {0x10, "sync boost group"}}};

/// What NVML answers for a GPU or two of them; "ok" in order of nvmlGpuP2PStatus_t.
constexpr std::array<const char*, 6> kPeerStatus{
    "ok",           "chipset not supported", "GPU not supported", "IOH topology not supported", "disabled by regkey",
    "not supported"};

class Nvml {
 public:
  static std::optional<Nvml> open() {
    std::string problem;
    const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::nvml, problem);
    if (!library) return std::nullopt;
    auto* init = library->find<int()>("nvmlInit_v2");
    if (init == nullptr || init() != kSuccess) return std::nullopt;
    return Nvml(*library);
  }

  [[nodiscard]] std::string driver() const {
    std::array<char, 96> text{};
    auto* ask = library_.find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    return ask != nullptr && ask(text.data(), text.size()) == kSuccess ? text.data() : std::string();
  }

  [[nodiscard]] unsigned devices() const { return answer<unsigned>("nvmlDeviceGetCount_v2").value_or(0); }

  [[nodiscard]] NvmlDevice* at_index(unsigned index) const {
    auto* ask = library_.find<int(unsigned, NvmlDevice**)>("nvmlDeviceGetHandleByIndex_v2");
    NvmlDevice* device = nullptr;
    return ask != nullptr && ask(index, &device) == kSuccess ? device : nullptr;
  }

  [[nodiscard]] NvmlDevice* at_pci(const std::string& pci) const {
    auto* ask = library_.find<int(const char*, NvmlDevice**)>("nvmlDeviceGetHandleByPciBusId_v2");
    NvmlDevice* device = nullptr;
    return ask != nullptr && ask(pci.c_str(), &device) == kSuccess ? device : nullptr;
  }

  GpuFacts facts(NvmlDevice* device, const std::string& pci, const std::vector<long>& own) const {
    GpuFacts gpu;
    gpu.pci = pci;
    gpu.name = text("nvmlDeviceGetName", device);
    gpu.uuid = text("nvmlDeviceGetUUID", device);
    if (const auto memory = of<NvmlMemory>("nvmlDeviceGetMemoryInfo", device)) {
      gpu.memory_total_bytes = static_cast<double>(memory->total);
      gpu.memory_used_bytes = static_cast<double>(memory->used);
    }
    if (const auto busy = of<NvmlUtilization>("nvmlDeviceGetUtilizationRates", device)) {
      gpu.utilization_percent = static_cast<int>(busy->gpu);
    }
    gpu.other_processes = other_processes(device, own);
    gpu.sm_clock_mhz = number("nvmlDeviceGetClockInfo", device, kClockSm);
    gpu.memory_clock_mhz = number("nvmlDeviceGetClockInfo", device, kClockMemory);
    gpu.max_sm_clock_mhz = number("nvmlDeviceGetMaxClockInfo", device, kClockSm);
    gpu.throttled_by =
        throttle_reasons(of<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device).value_or(0));
    gpu.power_limit_w = of<unsigned>("nvmlDeviceGetPowerManagementLimit", device).value_or(0) * 1e-3;
    gpu.default_power_limit_w = of<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit", device).value_or(0) * 1e-3;
    gpu.temperature_c = number("nvmlDeviceGetTemperature", device, kTemperatureGpu);
    fill_memory_health(device, gpu);
    int mig = 0;
    int pending = 0;
    auto* ask_mig = library_.find<int(NvmlDevice*, int*, int*)>("nvmlDeviceGetMigMode");
    gpu.mig = ask_mig != nullptr && ask_mig(device, &mig, &pending) == kSuccess && mig == 1;
    gpu.nvlinks_active = active_links(device);
    return gpu;
  }

  /// How `device` reads each other GPU of this host.
  std::vector<PeerFacts> peers(NvmlDevice* device) const {
    std::vector<PeerFacts> result;
    auto* ask = library_.find<int(NvmlDevice*, NvmlDevice*, int, int*)>("nvmlDeviceGetP2PStatus");
    for (unsigned index = 0; ask != nullptr && index < devices(); ++index) {
      NvmlDevice* other = at_index(index);
      if (other == nullptr || other == device) continue;
      int status = 0;
      if (ask(device, other, kPeerRead, &status) != kSuccess) continue;
      const auto at = static_cast<std::size_t>(std::clamp(status, 0, static_cast<int>(kPeerStatus.size()) - 1));
      result.push_back({"GPU " + std::to_string(index), kPeerStatus[at]});
    }
    return result;
  }

 private:
  explicit Nvml(OpenLibrary library) : library_(std::move(library)) {}

  template <class Value>
  [[nodiscard]] std::optional<Value> answer(const char* name) const {
    auto* ask = library_.find<int(Value*)>(name);
    Value value{};
    if (ask == nullptr || ask(&value) != kSuccess) return std::nullopt;
    return value;
  }
  template <class Value>
  [[nodiscard]] std::optional<Value> of(const char* name, NvmlDevice* device) const {
    auto* ask = library_.find<int(NvmlDevice*, Value*)>(name);
    Value value{};
    if (ask == nullptr || ask(device, &value) != kSuccess) return std::nullopt;
    return value;
  }
  [[nodiscard]] int number(const char* name, NvmlDevice* device, int which) const {
    auto* ask = library_.find<int(NvmlDevice*, int, unsigned*)>(name);
    unsigned value = 0;
    return ask != nullptr && ask(device, which, &value) == kSuccess ? static_cast<int>(value) : 0;
  }
  [[nodiscard]] std::string text(const char* name, NvmlDevice* device) const {
    std::array<char, 128> value{};
    auto* ask = library_.find<int(NvmlDevice*, char*, unsigned)>(name);
    return ask != nullptr && ask(device, value.data(), value.size()) == kSuccess ? value.data() : std::string();
  }

  [[nodiscard]] int other_processes(NvmlDevice* device, const std::vector<long>& own) const {
    using Ask = int(NvmlDevice*, unsigned*, NvmlProcess*);
    auto* ask = library_.find<Ask>("nvmlDeviceGetComputeRunningProcesses_v3");
    std::array<NvmlProcess, kProcesses> processes{};
    unsigned count = kProcesses;
    if (ask == nullptr || ask(device, &count, processes.data()) != kSuccess) return 0;
    int others = 0;
    for (unsigned i = 0; i < std::min(count, kProcesses); ++i) {
      if (std::find(own.begin(), own.end(), static_cast<long>(processes[i].pid)) == own.end()) ++others;
    }
    return others;
  }

  void fill_memory_health(NvmlDevice* device, GpuFacts& gpu) const {
    int current = 1;
    int pending = 1;
    auto* ask_mode = library_.find<int(NvmlDevice*, int*, int*)>("nvmlDeviceGetEccMode");
    if (ask_mode != nullptr && ask_mode(device, &current, &pending) == kSuccess) gpu.ecc_enabled = current == 1;
    unsigned long long errors = 0;
    auto* ask_errors = library_.find<int(NvmlDevice*, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
    if (ask_errors != nullptr && ask_errors(device, kUncorrected, kSinceDriverLoad, &errors) == kSuccess) {
      gpu.ecc_uncorrected = static_cast<std::int64_t>(errors);
    }
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned waiting = 0;
    unsigned failed = 0;
    using AskRows = int(NvmlDevice*, unsigned*, unsigned*, unsigned*, unsigned*);
    auto* ask_rows = library_.find<AskRows>("nvmlDeviceGetRemappedRows");
    if (ask_rows != nullptr && ask_rows(device, &corrected, &uncorrected, &waiting, &failed) == kSuccess) {
      gpu.remap_pending = waiting != 0;
      gpu.remap_failed = failed != 0;
    }
  }

  [[nodiscard]] int active_links(NvmlDevice* device) const {
    auto* ask = library_.find<int(NvmlDevice*, unsigned, int*)>("nvmlDeviceGetNvLinkState");
    int active = 0;
    for (unsigned link = 0; ask != nullptr && link < kLinks; ++link) {
      int state = 0;
      if (ask(device, link, &state) == kSuccess && state == 1) ++active;
    }
    return active;
  }

  OpenLibrary library_;
};

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

/// "4: ACTIVE" -> "ACTIVE"; "200 Gb/sec (4X HDR)" -> 200.
std::vector<PortFacts> ports() {
  std::vector<PortFacts> result;
  const std::string root = "/sys/class/infiniband";
  for (const std::string& device : names_in(root)) {
    for (const std::string& port : names_in(root + "/" + device + "/ports")) {
      const std::string folder = root + "/" + device + "/ports/" + port;
      std::string state = first_line_of(folder + "/state");
      const std::size_t colon = state.find(": ");
      if (colon != std::string::npos) state.erase(0, colon + 2);
      result.push_back({device, state, first_line_of(folder + "/link_layer"),
                        std::strtod(first_line_of(folder + "/rate").c_str(), nullptr)});
    }
  }
  return result;
}

/// "0-3,8" -> {0, 1, 2, 3, 8}
std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  const char* at = list.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long low = std::strtol(at, &end, 10);
    if (end == at) break;
    long high = low;
    if (*end == '-') high = std::strtol(end + 1, &end, 10);
    for (long number = low; number <= high; ++number) numbers.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
  }
  return numbers;
}

void add_processors(RankFacts& facts) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  facts.cpus_allowed = CPU_COUNT(&allowed);
  const std::string root = "/sys/devices/system/node";
  int nodes = 0;
  for (const std::string& name : names_in(root)) {
    if (!name.starts_with("node")) continue;
    ++nodes;
    const std::vector<int> processors = numbers_of(first_line_of(root + "/" + name + "/cpulist"));
    const bool usable = std::any_of(processors.begin(), processors.end(), [&](int processor) {
      return processor < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(processor), &allowed);
    });
    if (usable) facts.numa_nodes_allowed.push_back(std::atoi(name.c_str() + 4));
  }
  facts.numa_nodes = std::max(nodes, 1);
}

std::map<std::string, std::string> variables() {
  constexpr std::array<std::string_view, 6> kPrefixes{"NCCL_",  "CUDA_",       "UCX_",
                                                      "CUBLAS", "NVIDIA_TF32", "OMPI_MCA_btl"};
  std::map<std::string, std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const bool wanted = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (wanted && equals != std::string_view::npos) result[std::string(name)] = text.substr(equals + 1);
  }
  return result;
}

/// The NUMA node that a PCI device sits on; -1 unknown. NVML writes 8 digits of domain, /sys has 4.
int numa_of(std::string pci) {
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char c) { return std::tolower(c); });
  if (pci.size() > 12) pci.erase(0, pci.size() - 12);
  const std::string line = first_line_of("/sys/bus/pci/devices/" + pci + "/numa_node");
  return line.empty() ? -1 : std::atoi(line.c_str());
}

}  // namespace

std::vector<std::string> throttle_reasons(unsigned long long bits) {
  std::vector<std::string> words;
  for (const ReasonRow& row : kReasons) {
    if ((bits & row.bit) != 0) words.emplace_back(row.words);
  }
  return words;
}

RankFacts collect_facts(const RankPlace& place) {
  RankFacts facts;
  facts.rank = place.rank;
  facts.local_rank = place.local_rank;
  facts.ranks_on_host = place.ranks_on_host;
  facts.world_ranks = place.world_ranks;
  facts.node = place.node;
  facts.host = place.host;
  facts.nccl_backend = place.nccl_backend;
  if (const std::optional<LaunchedAs> launched = launched_as()) facts.launcher_ranks = launched->size;
  facts.mpi_library = MpiSession::library_version();
  facts.mpi_compiled = MpiSession::compiled_version();
  utsname system{};
  if (uname(&system) == 0) facts.kernel = std::string(system.sysname) + " " + system.release;
  facts.ports = ports();
  facts.peer_memory = exists("/sys/module/nvidia_peermem") || exists("/sys/module/nv_peer_mem") ||
                      first_line_of("/proc/driver/nvidia/version").find("Open Kernel Module") != std::string::npos;
  facts.variables = variables();
  add_processors(facts);

  const CudaVersions versions = cuda_versions();
  facts.driver_cuda = versions.driver_cuda;
  facts.runtime_cuda = versions.runtime_cuda;
  facts.nccl = versions.nccl;
  facts.nccl_header = versions.nccl_header;
  facts.nccl_path = versions.nccl_path;
  facts.cublas_lt = versions.cublas_lt;
  facts.cudnn = versions.cudnn;
  facts.gpus_visible = versions.devices;
  facts.no_gpu_reason = versions.no_device_reason;
  const std::optional<Nvml> nvml = Nvml::open();
  if (nvml) facts.driver = nvml->driver();
  if (versions.devices == 0) return facts;
  const int index = place.local_rank % versions.devices;
  const std::string pci = pci_of_device(index);
  NvmlDevice* device = nvml && !pci.empty() ? nvml->at_pci(pci) : nullptr;
  if (device != nullptr) {
    facts.gpu = nvml->facts(device, pci, place.job_processes);
    if (place.ranks_on_host > 1) facts.peers = nvml->peers(device);
  } else {
    // Without NVML there is still a GPU to measure; its address tells it from the others.
    facts.gpu.emplace();
    facts.gpu->name = name_of_device(index);
    facts.gpu->pci = pci;
    facts.gpu->uuid = place.host + " " + (pci.empty() ? std::to_string(index) : pci);
  }
  facts.gpu->numa_node = numa_of(pci);
  return facts;
}

}  // namespace tpplan::bench
