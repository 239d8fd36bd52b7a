#include "cost-model/gpu_fields.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

template <class Value>
std::optional<Value> fallback_of(bool complete, Value value) {
  return complete ? std::nullopt : std::optional<Value>(value);
}

template <class Enum>
Enum from_name(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return static_cast<Enum>(found == names.end() ? 0 : found - names.begin());
}

template <class Value>
void require_positive(ObjectReader& reader, std::string_view key, Value value) {
  if (reader.has(key) && !(value > Value{}) && reader.is_text(key)) reader.error(key, "must be more than 0");
}

void read_peaks(ObjectReader& reader, GpuSpec& gpu, bool complete) {
  auto peaks = complete ? std::optional<ObjectReader>(reader.object("peak")) : reader.optional_object("peak");
  if (!peaks) return;
  for (const PrecisionRow& row : kPrecisionTable) {
    auto& peak = gpu.peak[static_cast<std::size_t>(row.precision)];
    peak = peaks->flops_per_second(row.name, peak);
  }
  peaks->close();
}

bool about(double ratio, double expected) { return std::fabs(ratio / expected - 1) < 0.03; }

}  // namespace

const std::vector<std::string>& topology_names() {
  static const std::vector<std::string> names{"none", "switched", "mesh", "bridged_pairs", "pcie", "torus", "other"};
  return names;
}

const std::vector<std::string>& peer_to_peer_names() {
  static const std::vector<std::string> names{"yes", "no", "driver"};
  return names;
}

Topology topology_from(const std::string& name) { return from_name<Topology>(topology_names(), name); }
PeerToPeer peer_to_peer_from(const std::string& name) { return from_name<PeerToPeer>(peer_to_peer_names(), name); }
std::string_view name_of(Topology topology) { return topology_names()[static_cast<std::size_t>(topology)]; }

BytesPerSecond pcie_bandwidth(std::string_view slot) {
  // "G.0xL": generations 3 to 6 move 1, 2, 4, 8 GB/s a lane and direction before protocol overhead.
  const auto cross = slot.find('x');
  if (cross != 3 || slot[1] != '.' || slot[2] != '0' || slot[0] < '1' || slot[0] > '7') return BytesPerSecond{};
  int lanes = 0;
  for (const char c : slot.substr(cross + 1)) {
    if (c < '0' || c > '9' || lanes > 16) return BytesPerSecond{};
    lanes = lanes * 10 + (c - '0');
  }
  if (lanes < 1 || lanes > 16) return BytesPerSecond{};
  return BytesPerSecond(std::ldexp(1e9, slot[0] - '3') * lanes);
}

void read_gpu_fields(ObjectReader& reader, GpuSpec& gpu, bool complete) {
  gpu.name = complete ? reader.text("name") : reader.text("name", gpu.name);
  const Bytes before = gpu.memory;
  gpu.memory = reader.bytes("memory", fallback_of(complete, gpu.memory));
  // A changed memory keeps the row's share that a process can get.
  const Bytes usable = before > Bytes{} ? gpu.memory * (gpu.usable / before) : gpu.memory;
  gpu.usable = reader.bytes("usable", fallback_of(complete, usable));
  if (reader.is_text("usable") && gpu.memory > Bytes{} && gpu.usable > gpu.memory) {
    reader.error("usable", "more than the memory of the GPU, " + format(gpu.memory));
  }
  gpu.memory_bandwidth = reader.bandwidth("memory_bandwidth", fallback_of(complete, gpu.memory_bandwidth));
  read_peaks(reader, gpu, complete);
  gpu.sms = static_cast<int>(reader.count("sms", 1, 100000, gpu.sms));
  gpu.topology = topology_from(reader.choice("topology", topology_names(), std::string(name_of(gpu.topology))));
  gpu.link = reader.bandwidth("link", gpu.link);
  gpu.per_peer = reader.bandwidth("per_peer", gpu.per_peer);
  gpu.link_name = reader.text("link_name", gpu.link_name);
  const std::string slot = reader.text("pcie", gpu.pcie);
  if (slot.empty() || pcie_bandwidth(slot) > BytesPerSecond{}) {
    gpu.pcie = slot;
  } else {
    reader.error("pcie", "not a PCIe slot: \"" + slot + "\"", "write generation and lanes, such as \"4.0x16\"");
  }
  const auto& p2p = peer_to_peer_names();
  gpu.peer_to_peer = peer_to_peer_from(reader.choice("p2p", p2p, p2p[static_cast<std::size_t>(gpu.peer_to_peer)]));
  gpu.host_link = reader.bandwidth("host_link", gpu.host_link);
  gpu.usual_network = reader.bandwidth("usual_network", gpu.usual_network);
  gpu.tdp_watts = reader.number("tdp_watts", 1, 1e5, gpu.tdp_watts);
  require_positive(reader, "memory", gpu.memory);
  require_positive(reader, "usable", gpu.usable);
  require_positive(reader, "memory_bandwidth", gpu.memory_bandwidth);
}

std::string sparse_peak_suspicion(const GpuSpec& gpu, const GpuSpec* reference) {
  if (reference != nullptr) {
    for (const PrecisionRow& row : kPrecisionTable) {
      const FlopsPerSecond given = gpu.peak_of(row.precision), known = reference->peak_of(row.precision);
      if (known > FlopsPerSecond{} && given > FlopsPerSecond{} && about(given / known, 2)) {
        return std::string(row.name) + " at " + format(given) + " is twice the dense " + format(known) + " of " +
               reference->id + ": a sparse peak given as dense?";
      }
    }
  }
  const FlopsPerSecond bf16 = gpu.peak_of(Precision::bf16), tf32 = gpu.peak_of(Precision::tf32),
                       fp8 = gpu.peak_of(Precision::fp8);
  const std::string rule = ", where dense peaks stand as bf16 : tf32 : fp8 = 2 : 1 : 4: a sparse peak given as dense?";
  if (bf16 > FlopsPerSecond{} && tf32 > FlopsPerSecond{}) {
    if (about(bf16 / tf32, 4)) return "bf16 at " + format(bf16) + " is four times tf32" + rule;
    if (about(bf16 / tf32, 1)) return "tf32 at " + format(tf32) + " equals bf16" + rule;
  }
  if (bf16 > FlopsPerSecond{} && fp8 > FlopsPerSecond{}) {
    if (about(fp8 / bf16, 4)) return "fp8 at " + format(fp8) + " is four times bf16" + rule;
    // One rate for both is how some matrix units are built (the catalogue says which): only a change is suspicious.
    const bool built_so = reference != nullptr && reference->peak_of(Precision::bf16) > FlopsPerSecond{} &&
                          about(reference->peak_of(Precision::fp8) / reference->peak_of(Precision::bf16), 1);
    if (about(fp8 / bf16, 1) && !built_so) return "bf16 at " + format(bf16) + " equals fp8" + rule;
  }
  return "";
}

}  // namespace tpplan
