#include "cost-model/cluster_spec.h"

#include <algorithm>
#include <filesystem>

#include "cost-model/cluster_tiers.h"
#include "cost-model/gpu_fields.h"
#include "cost-model/mixed_cluster.h"

namespace tpplan {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpusPerNode = 1024;
constexpr std::int64_t kMostGpus = 10'000'000;
constexpr std::size_t kMostTiers = 4;

bool given(BytesPerSecond rate) { return rate > BytesPerSecond{}; }

/// "what: value (key sets it)": one line of what a cluster file left open.
void assume(ClusterSpec& cluster, const std::string& what, const std::string& value, const std::string& key) {
  cluster.assumed.push_back(what + ": " + value + " (" + key + " sets it)");
}

std::vector<std::string> link_names(LinkKind first, LinkKind last) {
  std::vector<std::string> names;
  for (const LinkKindRow& row : kLinkKindTable) {
    if (row.kind >= first && row.kind <= last) names.emplace_back(row.name);
  }
  return names;
}

LinkKind link_from(const std::string& name) {
  const auto row = std::find_if(kLinkKindTable.begin(), kLinkKindTable.end(),
                                [&](const LinkKindRow& candidate) { return candidate.name == name; });
  return row == kLinkKindTable.end() ? LinkKind::other_fast : row->kind;
}

/// A rate that is written must be more than nothing.
BytesPerSecond rate_of(ObjectReader& reader, std::string_view key, BytesPerSecond fallback) {
  const BytesPerSecond rate = reader.bandwidth(key, fallback);
  if (reader.is_text(key) && !given(rate)) {
    reader.error(key, "must be more than 0");
    return fallback;
  }
  return rate;
}

/// `gpu`: an id of the catalogue, or an object with an id and the values that differ.
GpuSpec read_gpu(ObjectReader& root, const GpuCatalogue& catalogue) {
  GpuSpec gpu;
  const auto look_up = [&](ObjectReader& reader, std::string_view key) {
    const std::string id = reader.text(key);
    if (!reader.is_text(key)) return;
    try {
      gpu = catalogue.find(id);
    } catch (const SpecError& problem) {
      reader.error(key, problem.what());
      return;
    }
    if (const std::string refusal = plannable_refusal(gpu); !refusal.empty()) reader.error(key, refusal);
  };
  if (!root.is_object("gpu")) {
    look_up(root, "gpu");
    return gpu;
  }
  ObjectReader reader = root.object("gpu");
  look_up(reader, "id");
  const GpuSpec row = gpu;
  read_gpu_fields(reader, gpu, false);
  if (reader.has("peak")) {
    if (const std::string doubt = sparse_peak_suspicion(gpu, row.id.empty() ? nullptr : &row); !doubt.empty()) {
      reader.warning("peak", doubt, "a sparse peak is twice what dense training can reach: give the dense figure");
    }
  }
  reader.close();
  return gpu;
}

struct Reading {
  ObjectReader& root;
  ClusterSpec& cluster;
  Interconnect links;
  bool resized = false;
};

bool domain_divides(std::int64_t domain, const ClusterSpec& cluster) {
  return cluster.gpus() % domain == 0 && (cluster.gpus_per_node % domain == 0 || domain % cluster.gpus_per_node == 0);
}

void read_fast_domain(Reading& reading) {
  ClusterSpec& cluster = reading.cluster;
  Interconnect& links = reading.links;
  const GpuSpec& gpu = cluster.gpu;
  auto reader = reading.root.optional_object("fast_domain");
  if (!reader) {
    if (links.domain > 1) {
      assume(cluster, "fast domain",
             std::to_string(links.domain) + " GPUs by " + std::string(row_of(links.link_kind).label) + ", " +
                 format(links.link) + " per GPU and direction",
             "fast_domain");
    } else if (gpu.topology == Topology::bridged_pairs && cluster.gpus_per_node > 1) {
      assume(cluster, "fast domain", "none, cards without NVLink bridges", "fast_domain");
    }
    return;
  }
  const int usual = links.domain > 1                          ? links.domain
                    : gpu.topology == Topology::bridged_pairs ? 2
                                                              : cluster.gpus_per_node;
  links.domain = static_cast<int>(reader->count("gpus", 1, kMostGpus, usual));
  const std::vector<std::string> kinds{"switched", "mesh", "bridged_pairs"};
  const bool row_has_one = std::find(kinds.begin(), kinds.end(), std::string(name_of(gpu.topology))) != kinds.end();
  const std::string usual_topology = gpu.topology == Topology::bridged_pairs && links.domain > 2 ? "switched"
                                     : row_has_one ? std::string(name_of(gpu.topology))
                                                   : "switched";
  links.topology = topology_from(reader->choice("topology", kinds, usual_topology));
  links.link = rate_of(*reader, "bandwidth", gpu.link);
  links.link_latency = reader->seconds("latency", links.link_latency);
  const bool mesh = links.topology == Topology::mesh;
  const BytesPerSecond even_share = links.domain > 1 ? links.link / (links.domain - 1) : links.link;
  if (mesh) {
    links.per_peer = rate_of(*reader, "per_peer", given(gpu.per_peer) ? gpu.per_peer : even_share);
  } else if (reader->has("per_peer")) {
    reader->bandwidth("per_peer", BytesPerSecond{});
    reader->error_at_key("per_peer",
                         "per_peer belongs to a mesh, and this domain is " + std::string(name_of(links.topology)));
  }
  if (links.domain > 1 && !reader->has("bandwidth") && !given(gpu.link) && !gpu.id.empty()) {
    reader->error("", "bandwidth is needed: " + gpu.id + " has no fast link of its own",
                  "add \"bandwidth\": \"... GB/s\", per GPU and direction");
  }
  if (reading.resized) links.domain = dividing_domain(links.domain, cluster.nodes, cluster.gpus_per_node);
  if (!domain_divides(links.domain, cluster)) {
    const std::string node = std::to_string(cluster.gpus_per_node);
    reader->error("gpus",
                  std::to_string(links.domain) + " does not divide " + node +
                      " GPUs of a node, nor is it a multiple of " + node + " that divides all " +
                      std::to_string(cluster.gpus()) + " GPUs",
                  "the largest smaller one that does is " +
                      std::to_string(dividing_domain(links.domain, cluster.nodes, cluster.gpus_per_node)));
    links.domain = cluster.gpus_per_node;
  } else if (links.topology == Topology::bridged_pairs && links.domain > 2) {
    reader->error("gpus", "a bridged pair is 2 GPUs, got " + std::to_string(links.domain),
                  "bridges of more cards, all to all, are \"topology\": \"switched\"");
  }
  if (mesh && links.domain > 1 && given(links.per_peer) && links.per_peer * (links.domain - 1) > links.link * 1.01) {
    reader->error(reader->has("per_peer") ? "per_peer" : "gpus", std::to_string(links.domain - 1) + " neighbours at " +
                                                                     format(links.per_peer) + " are more than the " +
                                                                     format(links.link) + " of all links");
  }
  reader->close();
}

void read_pcie(Reading& reading) {
  ClusterSpec& cluster = reading.cluster;
  Interconnect& links = reading.links;
  const GpuSpec& gpu = cluster.gpu;
  const bool tier_matters = links.domain < cluster.gpus_per_node;
  PeerToPeer peer_to_peer = gpu.peer_to_peer;
  auto reader = reading.root.optional_object("pcie");
  if (reader) {
    const std::vector<std::string> versions{"3.0", "4.0", "5.0", "6.0"};
    const auto cross = links.pcie.find('x');
    const std::string version = reader->choice("version", versions, links.pcie.substr(0, cross));
    const auto lanes = reader->count("lanes", 1, 16, std::stoi(links.pcie.substr(cross + 1)));
    links.pcie = version + "x" + std::to_string(lanes);
    const auto& names = peer_to_peer_names();
    peer_to_peer = peer_to_peer_from(reader->choice("p2p", names, names[static_cast<std::size_t>(peer_to_peer)]));
    links.peer_to_peer = peer_to_peer == PeerToPeer::yes;
    links.pcie_latency = reader->seconds("latency", links.pcie_latency);
    reader->close();
  }
  if (!tier_matters) return;
  if (!reader || !reader->has("version")) assume(cluster, "slot", pcie_label(links.pcie), "pcie.version");
  if (peer_to_peer == PeerToPeer::driver) {
    assume(cluster, "PCIe peer access", "off, as the stock driver of " + gpu.id + " has it", "pcie.p2p");
  } else if (!reader || !reader->has("p2p")) {
    assume(cluster, "PCIe peer access", links.peer_to_peer ? "on" : "off", "pcie.p2p");
  }
}

void read_network(Reading& reading) {
  ClusterSpec& cluster = reading.cluster;
  Interconnect& links = reading.links;
  const bool matters = cluster.gpus() > std::max(links.domain, cluster.gpus_per_node);
  auto reader = reading.root.optional_object("network");
  if (!reader) {
    if (matters) {
      assume(cluster, "network",
             format(links.network) + " per GPU and direction, " + std::string(row_of(links.network_kind).label) + ", " +
                 format(links.network_latency) + " per hop",
             "network");
    }
    return;
  }
  const std::string usual_kind(row_of(links.network_kind).name);
  links.network_kind =
      link_from(reader->choice("kind", link_names(LinkKind::infiniband, LinkKind::ethernet), usual_kind));
  const bool per_gpu = reader->has("per_gpu"), per_node = reader->has("per_node");
  if (per_gpu && per_node) {
    reader->error_at_key("per_node", "per_gpu and per_node both given",
                         "keep one: per_node is shared by the GPUs of a node");
  }
  const BytesPerSecond usual = links.network;
  links.network = rate_of(*reader, "per_gpu", links.network);
  if (per_node) {
    const BytesPerSecond node = rate_of(*reader, "per_node", usual * cluster.gpus_per_node);
    if (!per_gpu) links.network = node / cluster.gpus_per_node;
  } else {
    reader->ignore("per_node");
  }
  links.network_latency = reader->seconds("latency", row_of(links.network_kind).latency);
  links.oversubscription = reader->number("oversubscription", 1, 1000, 1);
  if (matters) {
    if (!per_gpu && !per_node) {
      assume(cluster, "network bandwidth", format(links.network) + " per GPU and direction", "network.per_gpu");
    }
    if (!reader->has("kind")) assume(cluster, "network kind", usual_kind, "network.kind");
    if (!reader->has("latency")) {
      assume(cluster, "network latency", format(links.network_latency) + " per hop", "network.latency");
    }
    if (!reader->has("oversubscription")) {
      assume(cluster, "network oversubscription", "1, full bisection", "network.oversubscription");
    }
  }
  reader->close();
}

NetworkTier read_tier(ObjectReader& reader, const GpuSpec& gpu) {
  NetworkTier tier;
  tier.kind = link_from(reader.choice("kind", link_names(LinkKind::nvlink, LinkKind::ethernet)));
  const LinkKindRow& kind = row_of(tier.kind);
  tier.name = reader.text("name", kind.label);
  const bool pcie = tier.kind == LinkKind::pcie;
  tier.topology = pcie ? Topology::pcie
                       : topology_from(reader.choice("topology", {"switched", "mesh", "bridged_pairs"}, "switched"));
  if (pcie) reader.ignore("topology");
  tier.span = static_cast<int>(reader.count("span", 1, kMostGpus));
  tier.bandwidth = reader.bandwidth("bandwidth");
  if (!given(tier.bandwidth)) reader.error("bandwidth", "must be more than 0");
  if (tier.topology == Topology::mesh) {
    tier.per_peer = rate_of(reader, "per_peer", tier.span > 1 ? tier.bandwidth / (tier.span - 1) : tier.bandwidth);
  }
  tier.latency = reader.seconds("latency", kind.latency);
  tier.oversubscription = reader.number("oversubscription", 1, 1000, 1);
  if (pcie) {
    const auto& names = peer_to_peer_names();
    const std::string& usual = names[static_cast<std::size_t>(gpu.peer_to_peer)];
    tier.peer_to_peer = peer_to_peer_from(reader.choice("p2p", names, usual)) == PeerToPeer::yes;
  }
  reader.close();
  return tier;
}

/// `tiers`, the long form of fast_domain, pcie and network.
void read_tiers(ObjectReader& root, ClusterSpec& cluster) {
  for (const std::string_view key : {"fast_domain", "pcie", "network"}) {
    if (root.has(key)) root.error_at_key(key, std::string(key) + " and tiers both given", "keep one of them");
    root.ignore(key);
  }
  ArrayReader list = root.array("tiers");
  if (list.size() == 0 || list.size() > kMostTiers) {
    root.error("tiers", "expected 1 to 4 tiers, got " + std::to_string(list.size()));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader reader = list.object(i);
    NetworkTier tier = read_tier(reader, cluster.gpu);
    if (reader.is_number("span")) {
      const bool last = i + 1 == list.size();
      const int before = cluster.tiers.empty() ? 1 : cluster.tiers.back().span;
      if (tier.span < before || (tier.span == before && i > 0)) {
        reader.error("span", "tiers go from near to far: " + std::to_string(tier.span) + " comes after " +
                                 std::to_string(before));
      } else if (tier.span % before != 0) {
        reader.error("span", std::to_string(tier.span) + " is not a multiple of the " + std::to_string(before) +
                                 " GPUs of the tier before");
      } else if (last && tier.span != cluster.gpus()) {
        reader.error("span", "the last tier must span all " + std::to_string(cluster.gpus()) + " GPUs, got " +
                                 std::to_string(tier.span));
      }
    }
    cluster.tiers.push_back(std::move(tier));
  }
}

/// The tiers of a file, which span cluster.gpus(), for `nodes` nodes.
void resize_tiers(ObjectReader& root, ClusterSpec& cluster, int nodes) {
  const bool grows = nodes > cluster.nodes;
  cluster.nodes = nodes;
  if (cluster.tiers.empty()) return;
  if (grows && !is_network(cluster.tiers.back())) {
    root.error("tiers", "no network among the tiers: nothing joins " + std::to_string(nodes) + " nodes",
               "add a tier of kind infiniband, roce or ethernet, or give fast_domain and network instead");
    return;
  }
  std::vector<NetworkTier> kept;
  for (NetworkTier& tier : cluster.tiers) {
    const bool last = &tier == &cluster.tiers.back();
    tier.span = last ? cluster.gpus() : dividing_domain(tier.span, nodes, cluster.gpus_per_node);
    const int joined = kept.empty() ? 0 : kept.back().span;
    if (tier.span > joined && (tier.span > 1 || last)) kept.push_back(std::move(tier));
  }
  cluster.tiers = std::move(kept);
}

/// Tiers of the cluster, whose nodes are set to `nodes` when given.
void read_interconnect(ObjectReader& root, ClusterSpec& cluster, std::optional<int> nodes) {
  if (root.has("tiers")) {
    read_tiers(root, cluster);
    if (nodes) resize_tiers(root, cluster, *nodes);
    return;
  }
  root.ignore("tiers");
  cluster.nodes = nodes.value_or(cluster.nodes);
  Reading reading{root, cluster, usual_interconnect(cluster.gpu, cluster.nodes, cluster.gpus_per_node),
                  nodes.has_value()};
  read_fast_domain(reading);
  read_pcie(reading);
  read_network(reading);
  cluster.tiers = tiers_of(reading.links, cluster.nodes, cluster.gpus_per_node);
}

void read_host(ObjectReader& root, ClusterSpec& cluster) {
  cluster.host_memory = root.bytes("host_memory", Bytes{});
  const GpuSpec& gpu = cluster.gpu;
  BytesPerSecond usual = given(gpu.host_link) ? gpu.host_link : pcie_bandwidth(gpu.pcie.empty() ? "4.0x16" : gpu.pcie);
  for (const NetworkTier& tier : cluster.tiers) {
    if (tier.kind == LinkKind::pcie) usual = tier.bandwidth;
  }
  cluster.host_link = rate_of(root, "host_link", usual);
  if (!root.has("host_link")) {
    assume(cluster, "host link", format(cluster.host_link) + " between a GPU and its host, per direction", "host_link");
  }
}

void read_storage(ObjectReader& root, ClusterSpec& cluster) {
  if (auto storage = root.optional_object("storage")) {
    cluster.storage_read = storage->bandwidth("read", BytesPerSecond{});
    cluster.storage_write = storage->bandwidth("write", BytesPerSecond{});
    storage->close();
  }
}

std::string file_stem(const std::string& path) {
  std::string stem = std::filesystem::path(path).filename().string();
  if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
  return stem;
}

void read_notes(ObjectReader& root, ClusterSpec& cluster) {
  if (root.has("guessed")) {
    for (std::string& guess : root.texts("guessed")) cluster.assumed.push_back(std::move(guess));
  } else {
    root.ignore("guessed");
  }
  root.ignore("note");
  root.ignore("source");
}

/// Equal nodes: GPU, counts, links, host; `nodes` in place of the file's number when given.
void read_nodes(ObjectReader& root, const GpuCatalogue& catalogue, ClusterSpec& cluster,
                std::optional<int> nodes = std::nullopt) {
  cluster.gpu = read_gpu(root, catalogue);
  cluster.gpus_per_node = static_cast<int>(root.count("gpus_per_node", 1, kMostGpusPerNode));
  cluster.nodes = static_cast<int>(root.count("nodes", 1, kMostNodes, 1));
  if (static_cast<std::int64_t>(cluster.nodes) * cluster.gpus_per_node > kMostGpus) {
    root.error("nodes", "more than 10 million GPUs");
    cluster.nodes = 1;
  }
  read_interconnect(root, cluster, nodes);
  read_host(root, cluster);
}

/// `groups`: parts of a mixed cluster, each described as a cluster of its own, joined by `network`.
ClusterSpec read_groups(ObjectReader& root, const GpuCatalogue& catalogue, const std::string& name) {
  for (const std::string_view key :
       {"gpu", "gpus_per_node", "nodes", "fast_domain", "pcie", "tiers", "host_memory", "host_link"}) {
    if (root.has(key)) root.error_at_key(key, std::string(key) + " and groups both given", "each group has its own");
    root.ignore(key);
  }
  ArrayReader list = root.array("groups");
  if (list.size() == 0) root.error("groups", "expected at least one group of nodes");
  std::vector<ClusterSpec> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader reader = list.object(i);
    ClusterSpec part;
    read_nodes(reader, catalogue, part);
    part.name = reader.text("name", std::to_string(part.nodes) + "x" + std::to_string(part.gpus_per_node) + "x" +
                                        (part.gpu.id.empty() ? "?" : part.gpu.id));
    read_notes(reader, part);
    reader.close();
    if (!part.gpu.id.empty() && !part.tiers.empty()) parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    root.ignore("network");
    return {};
  }
  if (parts.size() == 1) {
    root.ignore("network");
    return parts.front();
  }
  ClusterSpec counts;  // for the network's share of a node
  counts.gpus_per_node = parts.front().gpus_per_node;
  counts.nodes = 1 + parts.front().nodes;
  Reading reading{root, counts, joining_network(parts)};
  read_network(reading);
  ClusterSpec whole = join_parts(name, std::move(parts), reading.links);
  whole.assumed.insert(whole.assumed.end(), counts.assumed.begin(), counts.assumed.end());
  return whole;
}

/// NAME.calibration.json beside a cluster file, empty when there is none.
std::string calibration_beside(const std::string& path) {
  std::filesystem::path beside(path);
  beside.replace_filename(file_stem(path) + ".calibration.json");
  std::error_code ignored;
  return path != "-" && std::filesystem::is_regular_file(beside, ignored) ? beside.string() : "";
}

ClusterSpec read_cluster(SpecDocument& document, const GpuCatalogue& catalogue, std::string* warnings,
                         std::optional<int> nodes = std::nullopt) {
  ObjectReader root = document.root();
  ClusterSpec cluster;
  const std::string name = root.text("name", file_stem(document.name()));
  for (const std::string_view key : {"layers", "num_hidden_layers", "model_type"}) {
    if (root.has(key) && !root.has("gpus_per_node")) {
      root.error_at_key(key, "this file describes a model, not a cluster");
      root.ignore_rest();
      document.finish();
    }
  }
  if (root.has("groups")) {
    cluster = read_groups(root, catalogue, name);
    if (nodes && *nodes != cluster.nodes) {
      root.error("groups", "a mixed cluster has no other size", "change the nodes of its groups");
    }
  } else {
    root.ignore("groups");
    read_nodes(root, catalogue, cluster, nodes);
  }
  cluster.name = name;
  read_storage(root, cluster);
  read_notes(root, cluster);
  root.close();
  document.finish();
  if (warnings != nullptr) *warnings += document.warnings();
  return cluster;
}

}  // namespace

std::optional<Precision> precision_from(std::string_view name) {
  for (const PrecisionRow& row : kPrecisionTable) {
    if (row.name == name) return row.precision;
  }
  return std::nullopt;
}

std::string_view name_of(Precision precision) { return kPrecisionTable[static_cast<std::size_t>(precision)].name; }

ClusterSpec parse_cluster(std::string name, std::string source, const GpuCatalogue& catalogue, std::string* warnings) {
  SpecDocument document = SpecDocument::parse(std::move(name), std::move(source));
  return read_cluster(document, catalogue, warnings);
}

ClusterSpec load_cluster(const std::string& path, const GpuCatalogue& catalogue, std::string* warnings) {
  SpecDocument document = SpecDocument::load(path);
  ClusterSpec cluster = read_cluster(document, catalogue, warnings);
  cluster.calibration = calibration_beside(path);
  return cluster;
}

ClusterSpec load_resized_cluster(const std::string& path, const GpuCatalogue& catalogue, int nodes,
                                 std::string* warnings) {
  SpecDocument document = SpecDocument::load(path);
  ClusterSpec cluster = read_cluster(document, catalogue, warnings, nodes);
  cluster.calibration = calibration_beside(path);
  return cluster;
}

}  // namespace tpplan
