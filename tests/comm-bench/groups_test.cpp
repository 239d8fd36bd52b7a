#include "comm-bench/groups.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tpplan::bench;
using tpplan::Placement;

namespace {

/// `nodes` hosts with `each` ranks, filled host by host.
Topology blocks(int nodes, int each) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < nodes * each; ++rank) keys.push_back("h" + std::to_string(rank / each));
  return topology_from(keys, keys);
}

const std::vector<GroupKind> kAll{GroupKind::world, GroupKind::node, GroupKind::stride, GroupKind::pairs,
                                  GroupKind::concurrent};

const GroupSet* find(const GroupPlan& plan, const std::string& name, Placement placement, int concurrent) {
  for (const GroupSet& set : plan.sets) {
    if (set.name == name && set.placement == placement && set.concurrent == concurrent) return &set;
  }
  return nullptr;
}

using Members = std::vector<std::vector<int>>;

}  // namespace

TEST_CASE("nodes are numbered by their lowest rank whatever the mapping") {
  const Topology topology = topology_from({"b", "a", "b", "a"}, {"hb", "ha", "hb", "ha"});
  CHECK(topology.node_of == std::vector<int>{0, 1, 0, 1});
  CHECK(topology.node_names == std::vector<std::string>{"hb", "ha"});
  CHECK(topology.local_ranks() == std::vector<int>{0, 0, 1, 1});
  CHECK(topology.ranks_by_node() == Members{{0, 2}, {1, 3}});
}

TEST_CASE("one node of eight gives subsets of two and four and their concurrent groups") {
  const GroupPlan plan = plan_groups(blocks(1, 8), kAll);
  REQUIRE(find(plan, "world", {1, 8, 1}, 1) != nullptr);
  REQUIRE(find(plan, "node", {1, 2, 1}, 1) != nullptr);
  CHECK(find(plan, "node", {1, 2, 1}, 1)->members == Members{{0, 1}});
  CHECK(find(plan, "node", {1, 4, 1}, 1)->members == Members{{0, 1, 2, 3}});
  // All eight are the world already: measured once and said so.
  CHECK(find(plan, "node", {1, 8, 1}, 1) == nullptr);
  CHECK(std::any_of(plan.notes.begin(), plan.notes.end(), [](const std::string& note) {
    return note == "node of 8 ranks: the same ranks as world, measured once";
  }));
  // 4 x 2 and 2 x 4 at once.
  CHECK(find(plan, "concurrent", {1, 2, 1}, 4)->members == Members{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(find(plan, "concurrent", {1, 4, 1}, 2)->members == Members{{0, 1, 2, 3}, {4, 5, 6, 7}});
  // A distant pair beside the neighbours (which node measures already).
  CHECK(find(plan, "pairs", {1, 2, 4}, 1)->members == Members{{0, 4}});
  CHECK(find(plan, "stride", {1, 1, 8}, 1) == nullptr);
}

TEST_CASE("four nodes of eight give strided and cross-node groups") {
  const GroupPlan plan = plan_groups(blocks(4, 8), kAll);
  CHECK(find(plan, "world", {4, 8, 1}, 1)->members.front().size() == 32);
  // All nodes at once, one group each: they share nothing, so that is one group at a time.
  const GroupSet* node = find(plan, "node", {1, 8, 1}, 1);
  REQUIRE(node != nullptr);
  CHECK(node->members.size() == 4);
  CHECK(node->members[3] == std::vector<int>{24, 25, 26, 27, 28, 29, 30, 31});
  CHECK(find(plan, "stride", {4, 1, 8}, 1)->members == Members{{0, 8, 16, 24}});
  // Eight strided groups share the nodes' network ports.
  const GroupSet* rails = find(plan, "concurrent", {4, 1, 8}, 8);
  REQUIRE(rails != nullptr);
  CHECK(rails->members.size() == 8);
  CHECK(rails->members[3] == std::vector<int>{3, 11, 19, 27});
  // Two of each node, four groups: ranks j and j + 4 of every node.
  CHECK(find(plan, "concurrent", {4, 2, 4}, 4)->members[1] == std::vector<int>{1, 5, 9, 13, 17, 21, 25, 29});
  CHECK(find(plan, "pairs", {2, 1, 8}, 1)->members == Members{{0, 8}});
  CHECK(find(plan, "pairs", {2, 1, 24}, 1)->members == Members{{0, 24}});
}

TEST_CASE("every group is within the ranks and no rank is in two groups of a set") {
  for (const int nodes : {1, 2, 3, 5}) {
    for (const int each : {1, 2, 3, 4, 6, 8}) {
      CAPTURE(nodes);
      CAPTURE(each);
      const GroupPlan plan = plan_groups(blocks(nodes, each), kAll);
      for (std::size_t i = 0; i < plan.sets.size(); ++i) {
        const GroupSet& set = plan.sets[i];
        std::vector<int> seen;
        for (const auto& members : set.members) {
          CHECK(static_cast<int>(members.size()) == set.placement.ranks());
          seen.insert(seen.end(), members.begin(), members.end());
        }
        std::sort(seen.begin(), seen.end());
        CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
        CHECK(seen.front() >= 0);
        CHECK(seen.back() < nodes * each);
        for (std::size_t j = 0; j < i; ++j) CHECK(plan.sets[j].members != set.members);
      }
    }
  }
}

TEST_CASE("ranks dealt to the nodes in turn are grouped by node") {
  // mpirun --map-by node: rank i runs on node i mod 2.
  std::vector<std::string> keys;
  for (int rank = 0; rank < 8; ++rank) keys.push_back(rank % 2 == 0 ? "even" : "odd");
  const GroupPlan plan = plan_groups(topology_from(keys, keys), {GroupKind::node, GroupKind::stride});
  CHECK(find(plan, "node", {1, 4, 1}, 1)->members == Members{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(find(plan, "stride", {2, 1, 4}, 1)->members == Members{{0, 1}});
}

TEST_CASE("uneven nodes use the smallest and say so") {
  const Topology topology = topology_from({"a", "a", "a", "b", "b"}, {"a", "a", "a", "b", "b"});
  const GroupPlan plan = plan_groups(topology, {GroupKind::world, GroupKind::node});
  CHECK(plan.notes.front() == "nodes have between 2 and 3 ranks: groups other than world use 2 of each");
  CHECK(plan.sets.front().members.front().size() == 5);
  CHECK(find(plan, "node", {1, 2, 1}, 1)->members == Members{{0, 1}, {3, 4}});
}

TEST_CASE("one rank is a world and nothing else") {
  const GroupPlan plan = plan_groups(blocks(1, 1), kAll);
  REQUIRE(plan.sets.size() == 1);
  CHECK(plan.sets.front().name == "world");
  CHECK(plan.notes.size() == 4);
}
