#pragma once

#include <string>
#include <vector>

#include "cost-model/cluster_spec.h"

namespace tpplan {

/// What joins the GPUs of a cluster, before it becomes a list of tiers.
struct Interconnect {
  int domain = 1;  ///< GPUs of one fast domain, 1 for none; may span hosts
  Topology topology = Topology::none;
  BytesPerSecond link;      ///< of the fast domain, per GPU and direction
  BytesPerSecond per_peer;  ///< mesh only
  Seconds link_latency;
  LinkKind link_kind = LinkKind::nvlink;
  std::string pcie;  ///< "4.0x16"
  bool peer_to_peer = true;
  Seconds pcie_latency;
  LinkKind network_kind = LinkKind::infiniband;
  BytesPerSecond network;  ///< per GPU and direction
  Seconds network_latency;
  double oversubscription = 1;
};

/// Whether a tier joins hosts over a network (InfiniBand, RoCE, Ethernet).
bool is_network(const NetworkTier& tier);

/// The kind of a GPU's own fast link, by its vendor.
LinkKind fast_link_of(const GpuSpec& gpu);

/// GPUs that the fast links of usual servers join: the whole server for switched and meshed GPUs (no more than the mesh
/// has links for), the row's own domain (72 of GB200), cut to a size that divides the cluster; 1 for all others.
int usual_domain(const GpuSpec& gpu, int nodes, int gpus_per_node);

/// The largest size up to `limit` that divides the cluster and does not cut through a host.
int dividing_domain(int limit, int nodes, int gpus_per_node);

/// The interconnect of usual servers of that GPU.
Interconnect usual_interconnect(const GpuSpec& gpu, int nodes, int gpus_per_node);

/// Tiers by span: fast domain, PCIe within the host, network; those that join nothing new are left out.
std::vector<NetworkTier> tiers_of(const Interconnect& links, int nodes, int gpus_per_node);

/// A cluster file read for another number of its servers: fast domains and tiers are cut to sizes that divide the
/// smaller cluster, the network spans the larger one (the file's, else the GPU's usual one, listed under assumed).
/// Throws SpecError with every problem, and when the file's own tiers hold no network to grow over.
ClusterSpec load_resized_cluster(const std::string& path, const GpuCatalogue& catalogue, int nodes,
                                 std::string* warnings = nullptr);

/// "PCIe 4.0 x16" of "4.0x16".
std::string pcie_label(const std::string& slot);

/// Throws SpecError for a GPU that the catalogue keeps for reference only.
void require_plannable(const GpuSpec& gpu);
std::string plannable_refusal(const GpuSpec& gpu);  ///< its message, empty for a GPU that can be planned

}  // namespace tpplan
