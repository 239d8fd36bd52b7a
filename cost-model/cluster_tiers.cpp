#include "cost-model/cluster_tiers.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

bool given(BytesPerSecond rate) { return rate > BytesPerSecond{}; }

}  // namespace

int dividing_domain(int limit, int nodes, int gpus_per_node) {
  const long long total = static_cast<long long>(nodes) * gpus_per_node;
  for (int size = static_cast<int>(std::min<long long>(limit, total)); size > 1; --size) {
    if (total % size == 0 && (size % gpus_per_node == 0 || gpus_per_node % size == 0)) return size;
  }
  return 1;
}

bool is_network(const NetworkTier& tier) { return tier.kind >= LinkKind::infiniband; }

LinkKind fast_link_of(const GpuSpec& gpu) {
  if (gpu.vendor == "NVIDIA") return LinkKind::nvlink;
  if (gpu.vendor == "AMD") return LinkKind::xgmi;
  if (gpu.vendor == "Huawei") return LinkKind::hccs;
  return LinkKind::other_fast;
}

int usual_domain(const GpuSpec& gpu, int nodes, int gpus_per_node) {
  if (gpu.topology != Topology::switched && gpu.topology != Topology::mesh) return 1;
  int limit = gpu.fast_domain > 0 ? gpu.fast_domain : gpus_per_node;
  if (gpu.topology == Topology::mesh && given(gpu.per_peer)) {
    limit = std::min(limit, static_cast<int>(std::lround(gpu.link / gpu.per_peer)) + 1);
  }
  return dividing_domain(limit, nodes, gpus_per_node);
}

Interconnect usual_interconnect(const GpuSpec& gpu, int nodes, int gpus_per_node) {
  Interconnect links;
  links.domain = usual_domain(gpu, nodes, gpus_per_node);
  links.topology = gpu.topology;
  links.link = gpu.link;
  links.per_peer = gpu.per_peer;
  links.link_kind = fast_link_of(gpu);
  links.link_latency = row_of(links.link_kind).latency;
  links.pcie = gpu.pcie.empty() ? "4.0x16" : gpu.pcie;
  links.peer_to_peer = gpu.peer_to_peer == PeerToPeer::yes;
  links.pcie_latency = row_of(LinkKind::pcie).latency;
  // Servers of cards share one 100 Gbit/s port; modules without a usual figure are given 200 Gbit/s each.
  const bool cards = gpu.topology != Topology::switched && gpu.topology != Topology::mesh;
  links.network_kind = given(gpu.usual_network) || !cards ? LinkKind::infiniband : LinkKind::ethernet;
  links.network = given(gpu.usual_network) ? gpu.usual_network
                  : cards                  ? BytesPerSecond(12.5e9 / gpus_per_node)
                                           : BytesPerSecond(25e9);
  links.network_latency = row_of(links.network_kind).latency;
  return links;
}

std::string pcie_label(const std::string& slot) {
  const auto cross = slot.find('x');
  return "PCIe " + (cross == std::string::npos ? slot : slot.substr(0, cross) + " " + slot.substr(cross));
}

std::vector<NetworkTier> tiers_of(const Interconnect& links, int nodes, int gpus_per_node) {
  const int total = nodes * gpus_per_node;
  std::vector<NetworkTier> tiers;
  if (links.domain > 1) {
    NetworkTier tier;
    tier.name = row_of(links.link_kind).label;
    tier.kind = links.link_kind;
    tier.topology = links.topology;
    tier.span = links.domain;
    tier.bandwidth = links.link;
    if (links.topology == Topology::mesh) tier.per_peer = links.per_peer;
    tier.latency = links.link_latency;
    tiers.push_back(std::move(tier));
  }
  if (links.domain < gpus_per_node || total == 1) {
    NetworkTier tier;
    tier.name = pcie_label(links.pcie);
    tier.kind = LinkKind::pcie;
    tier.topology = Topology::pcie;
    tier.span = gpus_per_node;
    tier.bandwidth = pcie_bandwidth(links.pcie);
    tier.latency = links.pcie_latency;
    tier.peer_to_peer = links.peer_to_peer;
    tiers.push_back(std::move(tier));
  }
  if (total > std::max(links.domain, gpus_per_node)) {
    NetworkTier tier;
    tier.name = row_of(links.network_kind).label;
    tier.kind = links.network_kind;
    tier.topology = Topology::switched;
    tier.span = total;
    tier.bandwidth = links.network;
    tier.latency = links.network_latency;
    tier.oversubscription = links.oversubscription;
    tiers.push_back(std::move(tier));
  }
  return tiers;
}

std::string plannable_refusal(const GpuSpec& gpu) {
  return gpu.unplannable.empty() ? "" : gpu.id + " cannot be planned with: " + gpu.unplannable;
}

void require_plannable(const GpuSpec& gpu) {
  if (const std::string refusal = plannable_refusal(gpu); !refusal.empty()) throw SpecError(refusal);
}

}  // namespace tpplan
