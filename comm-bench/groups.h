#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/calibration.h"

namespace tpplan::bench {

/// Which host every rank runs on, as MPI reports it.
struct Topology {
  std::vector<int> node_of;             ///< per rank; nodes count from 0 in order of their lowest rank
  std::vector<std::string> node_names;  ///< per node

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(node_names.size()); }
  /// The ranks of each node in rank order.
  [[nodiscard]] std::vector<std::vector<int>> ranks_by_node() const;
  /// Position of every rank among the ranks of its node.
  [[nodiscard]] std::vector<int> local_ranks() const;
};

/// Builds it from one text per rank that is equal exactly on ranks of one host.
Topology topology_from(const std::vector<std::string>& host_keys, const std::vector<std::string>& host_names);

/// What `--groups` asks for.
enum class GroupKind { world, node, stride, pairs, concurrent };
struct GroupKindRow {
  std::string_view name;
  GroupKind kind;
  std::string_view description;
};
inline constexpr std::array<GroupKindRow, 5> kGroupKinds{{
    {"world", GroupKind::world, "all ranks"},
    {"node", GroupKind::node, "all ranks of a node, and 2, 4, 8 of them"},
    {"stride", GroupKind::stride, "one rank of each node"},
    {"pairs", GroupKind::pairs, "two neighbours, two distant ranks, two nodes"},
    {"concurrent", GroupKind::concurrent, "several equal groups at once"},
}};

/// One placement to measure: equal groups that communicate at the same time.
struct GroupSet {
  std::string name;     ///< the kind's name
  Placement placement;  ///< of one group; stride is the distance of its neighbours in rank order
  /// Equal groups at once that share nodes, and so links. Groups on different nodes share nothing: all nodes are
  /// measured together, the slowest counts, and that is still one.
  int concurrent = 1;
  std::vector<std::vector<int>> members;  ///< world ranks of every group, in group rank order
};

struct GroupPlan {
  std::vector<GroupSet> sets;      ///< no two alike
  std::vector<std::string> notes;  ///< what was asked for and cannot be, or is the same as another
};

/// The groups of the asked kinds on this topology. Nodes with unequal numbers of ranks count as having the smallest
/// number, except in `world`. Groups of one rank move nothing and are left out, except a world of one rank.
GroupPlan plan_groups(const Topology& topology, const std::vector<GroupKind>& kinds);

}  // namespace tpplan::bench
