#include "comm-bench/groups.h"

#include <algorithm>
#include <map>

namespace tpplan::bench {

namespace {

/// The groups made of every `step`-th rank of each node, first..last, over all nodes together or each node alone.
class Planner {
 public:
  explicit Planner(const Topology& topology) : by_node_(topology.ranks_by_node()), ranks_(topology.ranks()) {
    smallest_ = static_cast<int>(by_node_.front().size());
    for (const auto& ranks : by_node_) smallest_ = std::min(smallest_, static_cast<int>(ranks.size()));
    for (const auto& ranks : by_node_) {
      even_ = even_ && ranks.size() == by_node_.front().size();
      largest_ = std::max(largest_, static_cast<int>(ranks.size()));
    }
    if (!even_) {
      plan_.notes.push_back("nodes have between " + std::to_string(smallest_) + " and " + std::to_string(largest_) +
                            " ranks: groups other than world use " + std::to_string(smallest_) + " of each");
    }
  }

  void world() {
    GroupSet set{"world", {nodes(), largest_, 1}, 1, {{}}};
    for (int rank = 0; rank < ranks_; ++rank) set.members.front().push_back(rank);
    add(std::move(set));
  }

  void node() {
    bool any = false;
    for (const int size : sizes_up_to(smallest_)) {
      any = true;
      add(within_nodes("node", size, 1, 1));
    }
    if (!any) plan_.notes.push_back("node: left out, a node has one rank");
  }

  void stride() {
    if (nodes() < 2) {
      plan_.notes.push_back("stride: left out, one node");
      return;
    }
    add(across_nodes("stride", 1, 1));
  }

  void pairs() {
    if (smallest_ >= 2) {
      add(within_nodes("pairs", 2, 1, 1));
      if (smallest_ > 2) add(within_nodes("pairs", 2, smallest_ / 2, 1));
    }
    if (nodes() >= 2) add(pair_of_nodes(1));
    if (nodes() > 2) add(pair_of_nodes(nodes() - 1));
    if (ranks_ < 2) plan_.notes.push_back("pairs: left out, one rank");
  }

  void concurrent() {
    bool any = false;
    for (int size = 2; size < smallest_; size *= 2) {
      if (smallest_ % size != 0) continue;
      any = true;
      add(within_nodes("concurrent", size, 1, smallest_ / size));
    }
    for (int size = 1; nodes() >= 2 && size < smallest_; size *= 2) {
      if (smallest_ % size != 0) continue;
      any = true;
      add(across_nodes("concurrent", size, smallest_ / size));
    }
    if (!any) plan_.notes.push_back("concurrent: left out, the ranks do not make two equal groups on a node");
  }

  GroupPlan take() { return std::move(plan_); }

 private:
  [[nodiscard]] int nodes() const { return static_cast<int>(by_node_.size()); }
  [[nodiscard]] int at(int node, int local) const {
    return by_node_[static_cast<std::size_t>(node)][static_cast<std::size_t>(local)];
  }

  static std::vector<int> sizes_up_to(int largest) {
    std::vector<int> sizes;
    for (const int size : {2, 4, 8}) {
      if (size < largest) sizes.push_back(size);
    }
    if (largest >= 2) sizes.push_back(largest);
    return sizes;
  }

  /// `count` groups of `size` ranks on every node; a group's ranks are `step` apart.
  [[nodiscard]] GroupSet within_nodes(const char* name, int size, int step, int count) const {
    GroupSet set{name, {1, size, step}, count, {}};
    for (int node = 0; node < nodes(); ++node) {
      for (int group = 0; group < count; ++group) {
        std::vector<int> members;
        for (int i = 0; i < size; ++i) members.push_back(at(node, group * size * step + i * step));
        set.members.push_back(std::move(members));
      }
    }
    return set;
  }

  /// `count` groups over all nodes with `size` ranks of each; the ranks of a node are dealt to the groups in turn.
  [[nodiscard]] GroupSet across_nodes(const char* name, int size, int count) const {
    const int step = smallest_ / size;
    GroupSet set{name, {nodes(), size, step}, count, {}};
    for (int group = 0; group < count; ++group) {
      std::vector<int> members;
      for (int node = 0; node < nodes(); ++node) {
        for (int i = 0; i < size; ++i) members.push_back(at(node, group + i * step));
      }
      set.members.push_back(std::move(members));
    }
    return set;
  }

  [[nodiscard]] GroupSet pair_of_nodes(int other) const {
    return {"pairs", {2, 1, at(other, 0) - at(0, 0)}, 1, {{at(0, 0), at(other, 0)}}};
  }

  void add(GroupSet set) {
    if (set.members.front().size() < 2 && ranks_ > 1) {
      plan_.notes.push_back(set.name + ": left out, groups of one rank");
      return;
    }
    for (const GroupSet& other : plan_.sets) {
      if (other.members == set.members) {
        if (other.name != set.name) {
          plan_.notes.push_back(set.name + " of " + std::to_string(set.members.front().size()) +
                                " ranks: the same ranks as " + other.name + ", measured once");
        }
        return;
      }
    }
    plan_.sets.push_back(std::move(set));
  }

  std::vector<std::vector<int>> by_node_;
  int ranks_;
  int smallest_ = 0;
  int largest_ = 0;
  bool even_ = true;
  GroupPlan plan_;
};

}  // namespace

std::vector<std::vector<int>> Topology::ranks_by_node() const {
  std::vector<std::vector<int>> result(node_names.size());
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    result[static_cast<std::size_t>(node_of[rank])].push_back(static_cast<int>(rank));
  }
  return result;
}

std::vector<int> Topology::local_ranks() const {
  std::vector<int> result;
  std::vector<int> next(node_names.size(), 0);
  for (const int node : node_of) result.push_back(next[static_cast<std::size_t>(node)]++);
  return result;
}

Topology topology_from(const std::vector<std::string>& host_keys, const std::vector<std::string>& host_names) {
  Topology topology;
  std::map<std::string, int> known;
  for (std::size_t rank = 0; rank < host_keys.size(); ++rank) {
    const auto [place, is_new] = known.emplace(host_keys[rank], topology.nodes());
    if (is_new) topology.node_names.push_back(host_names[rank]);
    topology.node_of.push_back(place->second);
  }
  return topology;
}

GroupPlan plan_groups(const Topology& topology, const std::vector<GroupKind>& kinds) {
  if (topology.ranks() == 0) return {};
  Planner planner(topology);
  using Step = void (Planner::*)();
  constexpr std::array<Step, kGroupKinds.size()> kSteps{&Planner::world, &Planner::node, &Planner::stride,
                                                        &Planner::pairs, &Planner::concurrent};
  for (const GroupKind kind : kinds) (planner.*kSteps[static_cast<std::size_t>(kind)])();
  return planner.take();
}

}  // namespace tpplan::bench
