#include "cost-model/mixed_cluster.h"

#include <algorithm>
#include <numeric>

namespace tpplan {
namespace {

/// The least of a figure over parts.
template <class T, class Figure>
T least(const std::vector<ClusterSpec>& parts, Figure figure) {
  T value = figure(parts.front());
  for (const ClusterSpec& part : parts) {
    value = std::min(value, figure(part));
  }
  return value;
}

/// Each name once, joined by " + ".
template <class Name>
std::string names_of(const std::vector<ClusterSpec>& parts, Name name) {
  std::vector<std::string> seen;
  std::string text;
  for (const ClusterSpec& part : parts) {
    if (std::find(seen.begin(), seen.end(), name(part)) == seen.end()) {
      seen.push_back(name(part));
      text += (text.empty() ? "" : " + ") + seen.back();
    }
  }
  return text;
}

/// A GPU that no part is worse than; efficiency constants are those of the part with the lowest peak.
GpuSpec least_gpu(const std::vector<ClusterSpec>& parts) {
  const auto half_peak = [](const ClusterSpec& part) {
    return std::max(part.gpu.peak_of(Precision::bf16), part.gpu.peak_of(Precision::fp16));
  };
  GpuSpec gpu = std::min_element(parts.begin(), parts.end(), [&](const ClusterSpec& a, const ClusterSpec& b) {
                  return half_peak(a) < half_peak(b);
                })->gpu;
  gpu.id = names_of(parts, [](const ClusterSpec& part) { return part.gpu.id; });
  gpu.name = names_of(parts, [](const ClusterSpec& part) { return part.gpu.name; });
  gpu.memory = least<Bytes>(parts, [](const ClusterSpec& part) { return part.gpu.memory; });
  gpu.usable = least<Bytes>(parts, [](const ClusterSpec& part) { return part.gpu.usable; });
  gpu.memory_bandwidth =
      least<BytesPerSecond>(parts, [](const ClusterSpec& part) { return part.gpu.memory_bandwidth; });
  for (std::size_t i = 0; i < gpu.peak.size(); ++i) {
    gpu.peak[i] = least<FlopsPerSecond>(parts, [i](const ClusterSpec& part) { return part.gpu.peak[i]; });
  }
  gpu.aliases.clear();
  return gpu;
}

/// The slowest first tier of the parts, cut to a span that divides every part's; nothing when only single GPUs do.
void add_inner_tier(const std::vector<ClusterSpec>& parts, std::vector<NetworkTier>& tiers) {
  int span = 0;
  for (const ClusterSpec& part : parts) {
    span = std::gcd(span, std::gcd(part.tiers.front().span, part.gpus_per_node));
  }
  if (span < 2) {
    return;
  }
  const auto slowest = std::min_element(parts.begin(), parts.end(), [](const ClusterSpec& a, const ClusterSpec& b) {
    return a.tiers.front().bandwidth < b.tiers.front().bandwidth;
  });
  tiers.push_back(slowest->tiers.front());
  tiers.back().span = span;
}

}  // namespace

Interconnect joining_network(const std::vector<ClusterSpec>& parts) {
  Interconnect slowest = usual_interconnect(parts.front().gpu, parts.front().nodes, parts.front().gpus_per_node);
  for (const ClusterSpec& part : parts) {
    const Interconnect links = usual_interconnect(part.gpu, part.nodes, part.gpus_per_node);
    if (links.network < slowest.network) {
      slowest = links;
    }
  }
  return slowest;
}

ClusterSpec join_parts(std::string name, std::vector<ClusterSpec> parts, const Interconnect& network) {
  ClusterSpec whole;
  whole.name = std::move(name);
  whole.gpu = least_gpu(parts);
  int gpus = 0;
  int per_node = 0;
  for (const ClusterSpec& part : parts) {
    gpus += part.gpus();
    per_node = std::gcd(per_node, part.gpus_per_node);
  }
  whole.gpus_per_node = per_node;
  whole.nodes = gpus / per_node;
  add_inner_tier(parts, whole.tiers);
  NetworkTier outer;
  outer.name = row_of(network.network_kind).label;
  outer.kind = network.network_kind;
  outer.topology = Topology::switched;
  outer.span = gpus;
  outer.bandwidth = network.network;
  outer.latency = network.network_latency;
  outer.oversubscription = network.oversubscription;
  whole.tiers.push_back(std::move(outer));
  whole.host_memory = least<Bytes>(parts, [](const ClusterSpec& part) { return part.host_memory; });
  whole.host_link = least<BytesPerSecond>(parts, [](const ClusterSpec& part) { return part.host_link; });
  for (const ClusterSpec& part : parts) {
    for (const std::string& line : part.assumed) {
      whole.assumed.push_back(part.name + " " + line);
    }
  }
  whole.parts = std::move(parts);
  return whole;
}

}  // namespace tpplan
