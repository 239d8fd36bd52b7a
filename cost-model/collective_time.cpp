#include <algorithm>
#include <array>
#include <cmath>

#include "cost-model/cluster_tiers.h"
#include "cost-model/layer_cost.h"

namespace tpplan {

GroupPlacement place_group(const ClusterSpec& cluster, int ranks, int stride) {
  GroupPlacement group{ranks, stride, 1, 0};
  const auto span = static_cast<std::int64_t>(ranks) * stride;
  std::size_t tier = 0;
  while (tier + 1 < cluster.tiers.size() && cluster.tiers[tier].span < span) {
    ++tier;
  }
  group.tier = tier;
  // Members inside one block of the innermost tier that joins more than one of them, below the outermost.
  for (std::size_t inner = tier; inner-- > 0;) {
    const int inside = std::max(1, cluster.tiers[inner].span / stride);
    if (inside > 1) {
      group.inside = std::min(ranks, inside);
      break;
    }
  }
  if (tier == 0) {
    group.inside = ranks;
  }
  return group;
}

namespace {

/// The measured fraction of a link's rate that speaks for each collective, in the order of the enumeration.
constexpr std::array<double LinkConstants::*, kCollectives> kFractions{
    &LinkConstants::all_reduce, &LinkConstants::gather,    &LinkConstants::gather,
    &LinkConstants::all_to_all, &LinkConstants::send_recv, &LinkConstants::gather};

double fraction_of(const LinkConstants& link, Collective collective) {
  return link.*kFractions[static_cast<std::size_t>(collective)];
}

/// Rated bandwidth one member reaches inside a tier: a mesh offers one link per peer, a bridge only its pair.
BytesPerSecond rated_inside(const NetworkTier& tier, int ranks, Collective collective) {
  if (tier.topology == Topology::mesh && tier.per_peer.raw() > 0) {
    const int peers = collective == Collective::send_recv ? 1 : ranks - 1;
    return min(tier.bandwidth, tier.per_peer * static_cast<double>(std::max(1, peers)));
  }
  return tier.bandwidth;
}

/// Bus bandwidth inside one tier without a network.
BytesPerSecond inside_bandwidth(const Job& job, std::size_t tier, int ranks, int stride, Collective collective) {
  const auto& level = job.cluster.tiers[tier];
  const auto& link = job.links[tier];
  const double beyond = ranks > 4 ? link.beyond_four : 1;
  const double factor = is_network(level) ? job.profile.network_factor : job.profile.fast_link_factor;
  const auto rated = rated_inside(level, ranks, collective);
  auto bandwidth = min(rated, rated * (fraction_of(link, collective) * beyond * factor));
  if (link.shared > 0 && stride > 1 && ranks * stride > 4) {
    // As many groups as the stride run at once and cross the root of the tree together.
    bandwidth = min(bandwidth, level.bandwidth * (link.shared * factor / stride));
  }
  return bandwidth;
}

}  // namespace

BytesPerSecond group_bandwidth(const Job& job, Collective collective, GroupPlacement group) {
  const auto& tier = job.cluster.tiers[group.tier];
  if (group.tier == 0 || !is_network(tier)) {
    return inside_bandwidth(job, group.tier, group.ranks, group.stride, collective);
  }
  const auto& link = job.links[group.tier];
  double far = 1;
  if (job.profile.far_network_exponent > 0) {
    const double nodes = static_cast<double>(group.ranks) / group.inside;
    far = nodes > 16 ? std::pow(nodes / 16, -job.profile.far_network_exponent) : 1;
  }
  // A ring (or tree) over whole nodes enters and leaves each node once per member: every member's NIC carries a part.
  const double rails = collective == Collective::send_recv || collective == Collective::all_to_all
                           ? 1
                           : static_cast<double>(group.inside);
  const auto network =
      tier.bandwidth * (rails * std::min(1.0, fraction_of(link, collective) * job.profile.network_factor) * far /
                        std::max(1.0, tier.oversubscription));
  if (group.inside > 1) {
    return min(network, inside_bandwidth(job, group.tier - 1, group.inside, group.stride, collective));
  }
  return network;
}

namespace {

/// Takes the law from measured curves; false when none speaks for the group.
bool read_measured(const Job& job, Collective collective, GroupPlacement group, CollectiveLaw& law) {
  RankTarget target;
  target.collective = collective;
  const int nodes = std::max(1, group.ranks / std::max(1, group.inside));
  target.placement = {nodes, group.ranks / nodes, group.stride};
  const auto& tiers = job.cluster.tiers;
  target.above = group.tier > 0 ? tiers[group.tier - 1].span : 0;
  target.up_to = group.tier + 1 < tiers.size() ? tiers[group.tier].span : INT64_MAX;
  target.base = job.links[group.tier].base;
  target.step = job.links[group.tier].step;
  // A job runs equal groups side by side until its nodes are full.
  const int at_once = std::max(1, job.cluster.gpus_per_node / target.placement.gpus_per_node);
  target.concurrent_groups = at_once;
  law.measured = rank_law(job.calibration.curves, target);
  const bool alone = law.measured.nearest == nullptr && at_once > 1;
  if (alone) {
    target.concurrent_groups = 1;
    law.measured = rank_law(job.calibration.curves, target);
  }
  if (law.measured.nearest == nullptr) {
    return false;
  }
  law.source = law.measured.exact ? law.measured.nearest->source : Source::extrapolated;
  law.latency = Seconds(job.profile.collective_latency_s);
  if (!law.measured.exact) {
    const Placement& from = law.measured.nearest->placement;
    law.measured.transfer *= group_bandwidth(job, collective, place_group(job.cluster, from.ranks(), from.stride)) /
                             group_bandwidth(job, collective, group);
  }
  const auto& tier = tiers[group.tier];
  if (alone && nodes > 1 && is_network(tier)) {
    // The group was measured with all ports of its nodes to itself; in the job it has one share of them. At least what
    // an exchange between whole nodes needs leaves each of them.
    law.wire = collective == Collective::all_to_all ? static_cast<double>(group.ranks - group.inside) / group.ranks
                                                    : row_of(collective).wire_factor(nodes) / group.inside;
    law.bandwidth = tier.bandwidth / std::max(1.0, tier.oversubscription);
  }
  return true;
}

}  // namespace

CollectiveLaw collective_law(const Job& job, Collective collective, GroupPlacement group) {
  CollectiveLaw law;
  if (group.ranks <= 1) {
    return law;
  }
  law.silent = false;
  if (!job.calibration.curves.empty() && read_measured(job, collective, group, law)) {
    return law;
  }
  return rated_law(job, collective, group);
}

CollectiveLaw rated_law(const Job& job, Collective collective, GroupPlacement group) {
  CollectiveLaw law;
  if (group.ranks <= 1) {
    return law;
  }
  law.silent = false;
  const auto& row = row_of(collective);
  const auto& link = job.links[group.tier];
  const double nodes = static_cast<double>(group.ranks) / group.inside;
  double latency_steps = row.steps(group.ranks);
  law.latency = link.base + Seconds(job.profile.collective_latency_s);
  if (group.tier > 0 && group.inside > 1) {
    // Only the hops between nodes pay the network's step; the others the inner link's.
    const double outer = row.steps(std::max(1, static_cast<int>(nodes)));
    law.latency += job.links[group.tier - 1].step * std::max(0.0, latency_steps - outer);
    latency_steps = outer;
  }
  law.latency += link.step * latency_steps;
  const double extra = collective == Collective::all_to_all ? job.profile.all_to_all_factor : 1;
  law.wire = row.wire_factor(group.ranks);
  law.bandwidth = group_bandwidth(job, collective, group) * extra;
  if (collective == Collective::all_to_all && group.tier > 0 && group.inside >= 1 &&
      is_network(job.cluster.tiers[group.tier])) {
    // (n-g)/n of the payload leaves through the member's own NIC, (g-1)/n stays inside; both at once.
    const double n = group.ranks;
    const double g = group.inside;
    law.wire = (n - g) / n;
    if (g > 1) {
      law.inner_wire = (g - 1) / n;
      law.inner_bandwidth = inside_bandwidth(job, group.tier - 1, group.inside, group.stride, collective);
    }
  }
  return law;
}

Seconds collective_time(const Job& job, Collective collective, Bytes bytes, GroupPlacement group, Source* source) {
  const CollectiveLaw law = collective_law(job, collective, group);
  if (source != nullptr) {
    *source = law.source;
  }
  return law.time(bytes);
}

}  // namespace tpplan
