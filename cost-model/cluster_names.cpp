#include <algorithm>
#include <cctype>

#include "cost-model/cluster_spec.h"
#include "cost-model/cluster_tiers.h"
#include "cost-model/mixed_cluster.h"

namespace tpplan {
namespace {

constexpr long long kMostNodes = 1'000'000;
constexpr long long kMostGpusPerNode = 1024;
constexpr long long kMostGpus = 10'000'000;

/// The number and the "x" (or "*") that start `text`, taken off it; nothing when it starts otherwise.
std::optional<long long> take_count(std::string_view& text) {
  std::size_t digits = 0;
  long long value = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    value = std::min(value * 10 + (text[digits] - '0'), kMostGpus + 1);
    ++digits;
  }
  if (digits == 0 || digits + 1 >= text.size()) return std::nullopt;
  const char sign = text[digits];
  if (sign != 'x' && sign != 'X' && sign != '*') return std::nullopt;
  text.remove_prefix(digits + 1);
  return value;
}

void check_counts(std::string_view text, long long nodes, long long gpus_per_node) {
  const std::string cluster = "cluster \"" + std::string(text) + "\": ";
  if (nodes < 1 || gpus_per_node < 1) throw SpecError(cluster + "counts must be at least 1");
  if (nodes > kMostNodes || gpus_per_node > kMostGpusPerNode || nodes * gpus_per_node > kMostGpus) {
    throw SpecError(cluster + "too large: at most 1024 GPUs per node, 1,000,000 nodes and 10,000,000 GPUs");
  }
}

}  // namespace

ClusterSpec usual_cluster(const GpuSpec& gpu, int nodes, int gpus_per_node, std::optional<BytesPerSecond> network,
                          int fast_domain) {
  require_plannable(gpu);
  Interconnect links = usual_interconnect(gpu, nodes, gpus_per_node);
  if (network) links.network = *network;
  if (fast_domain > 0) {
    links.domain = dividing_domain(fast_domain, nodes, gpus_per_node);
    if (links.topology == Topology::bridged_pairs && fast_domain > 2) links.topology = Topology::switched;
  }
  if (!(links.link > BytesPerSecond{})) links.domain = 1;

  ClusterSpec cluster;
  cluster.name = std::to_string(nodes) + "x" + std::to_string(gpus_per_node) + "x" + gpu.id;
  cluster.gpu = gpu;
  cluster.gpus_per_node = gpus_per_node;
  cluster.nodes = nodes;
  cluster.tiers = tiers_of(links, nodes, gpus_per_node);
  cluster.host_link = gpu.host_link > BytesPerSecond{} ? gpu.host_link : pcie_bandwidth(links.pcie);
  for (const NetworkTier& tier : cluster.tiers) {
    std::string text = "tier " + tier.name + ": " + std::to_string(tier.span) + " GPUs, " + format(tier.bandwidth) +
                       " per GPU and direction, " + format(tier.latency) + " per hop";
    if (tier.kind == LinkKind::pcie && !tier.peer_to_peer) text += ", no peer access";
    cluster.assumed.push_back(text + " (a cluster file sets it)");
  }
  if (gpu.topology == Topology::bridged_pairs && links.domain == 1 && gpus_per_node > 1) {
    cluster.assumed.emplace_back("fast domain: none, cards without NVLink bridges (a cluster file sets it)");
  }
  cluster.assumed.push_back("host link: " + format(cluster.host_link) +
                            " between a GPU and its host, per direction (a cluster file sets it)");
  return cluster;
}

std::optional<ClusterSpec> cluster_from_name(std::string_view text, const GpuCatalogue& catalogue) {
  if (text.find('+') != std::string_view::npos) {
    std::vector<ClusterSpec> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('+', begin), text.size());
      auto part = cluster_from_name(text.substr(begin, end - begin), catalogue);
      if (!part) return std::nullopt;
      parts.push_back(std::move(*part));
      begin = end + 1;
    }
    const Interconnect network = joining_network(parts);
    ClusterSpec whole = join_parts(std::string(text), std::move(parts), network);
    whole.assumed.push_back("network between the parts: " + format(network.network) +
                            " per GPU and direction, the slowest of theirs (a cluster file sets it)");
    return whole;
  }
  std::string_view rest = text;
  const auto first = take_count(rest);
  if (!first || rest.find_first_of("/\\") != std::string_view::npos || rest.ends_with(".json")) return std::nullopt;
  const auto second = take_count(rest);
  if (*first < 1 || second.value_or(1) < 1) check_counts(text, 0, 0);  // a zero, whatever the GPU
  const GpuSpec& gpu = catalogue.find(rest);
  long long nodes = *first, gpus_per_node = second.value_or(0);
  std::string note;
  if (!second) {
    // One count is a server, or several when it is a multiple of the usual server's GPUs.
    const bool several = *first > gpu.gpus_per_host && *first % gpu.gpus_per_host == 0;
    gpus_per_node = several ? gpu.gpus_per_host : *first;
    nodes = several ? *first / gpu.gpus_per_host : 1;
    if (several) {
      note =
          "nodes: " + std::to_string(nodes) + " of " + std::to_string(gpus_per_node) + " GPUs (NODESxGPUSxGPU sets it)";
    }
  }
  check_counts(text, nodes, gpus_per_node);
  ClusterSpec cluster = usual_cluster(gpu, static_cast<int>(nodes), static_cast<int>(gpus_per_node));
  if (!note.empty()) cluster.assumed.insert(cluster.assumed.begin(), note);
  return cluster;
}

}  // namespace tpplan
