#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// Which of a fixed set of players is due first: a tournament whose path from a player to the top is played again when
/// its time changes. Of players due at the same time the lowest number is first.
class DueTable {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// All players due never.
  void reset(std::size_t players);
  void set(std::uint32_t player, double due);
  [[nodiscard]] std::uint32_t first() const { return winners_[1]; }
  [[nodiscard]] double due(std::uint32_t player) const { return due_[player]; }

 private:
  std::size_t leaves_ = 1;
  std::vector<double> due_;
  std::vector<std::uint32_t> winners_;  ///< node 1 is the top, node i plays i of 2 i and 2 i + 1
};

/// Event-driven execution of operations on lanes. A lane runs its operations one after another in the order they were
/// added. An operation takes a fixed time, or moves bytes over one or two links that it shares with others. What it
/// waits for is told as a number of operations that another lane must have ended; lanes run in order, so that no list
/// of dependencies is needed.
///
/// Flows share links by max-min fairness (the most loaded link divides its capacity equally among its flows, what they
/// cannot use goes to the others: Bertsekas and Gallager, Data Networks, 6.5.2); rates are worked out again only for
/// the flows that a starting or ending flow is connected with through links. Two coupled lanes slow each other down
/// while both run: with a share s both run at 1 / (1 + s) of their speed, so that a communication of isolated time c
/// beside compute of p costs max(p, c) + s min(p, c) together, what step-time-evidence measured.
///
/// Events at the same time happen in the order of the lanes. run() allocates nothing and may be repeated; clear() keeps
/// the memory for the next graph.
class LaneEngine {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = static_cast<Index>(-1);

  /// Lane `lane` must have ended `count` operations.
  struct After {
    Index lane = kNone;
    Index count = 0;
  };
  struct Operation {
    double amount = 0;   ///< seconds; of a flow bytes
    Index flow = kNone;  ///< kind of flow
    std::array<After, 2> after{};
    double start = 0, end = 0;  ///< of the last run
  };
  /// What flows of one kind have in common. `latency` passes before bytes flow; `to` may be kNone.
  struct FlowKind {
    Seconds latency;
    BytesPerSecond most = BytesPerSecond(std::numeric_limits<double>::infinity());  ///< that one flow takes
    Index from = kNone, to = kNone;
  };

  void clear();
  Index add_lane();
  Index add_link(BytesPerSecond capacity);
  Index add_flow_kind(const FlowKind& kind);
  /// Each lane may have one partner.
  void couple(Index lane, Index partner, double share);
  /// Returns the operation's place in its lane. An operation that moves nothing takes no time.
  Index add(Index lane, const Operation& operation);

  [[nodiscard]] std::size_t lanes() const { return lane_count_; }
  [[nodiscard]] const std::vector<Operation>& operations(Index lane) const { return lanes_[lane].operations; }
  [[nodiscard]] Operation& operation(Index lane, Index place) { return lanes_[lane].operations[place]; }
  [[nodiscard]] Index size(Index lane) const { return static_cast<Index>(lanes_[lane].operations.size()); }

  /// Seconds until the last operation ends. Throws std::invalid_argument when operations wait for each other in a
  /// circle.
  double run();
  [[nodiscard]] std::uint64_t events() const { return events_; }  ///< starts and ends of operations of the last run

 private:
  struct Lane {
    std::vector<Operation> operations;
    Index done = 0;
    Index partner = kNone;
    Index first_waiter = kNone, next_waiter = kNone;
    double slow = 1;  ///< speed beside a running partner
    double left = 0, rate = 1, since = 0;
    bool running = false;
    bool moving = false;  ///< a flow whose latency has passed
    bool settled = false;
    std::uint32_t seen = 0;
  };
  struct Link {
    double capacity = 0;
    double left = 0;  ///< not yet given away
    std::uint32_t open = 0;
    std::uint32_t seen = 0;
    std::vector<Index> flows;  ///< lanes
  };

  void advance(Index lane);
  void begin(Index lane);
  void stop(Index lane);
  void finish(Index lane);
  void wake(Index lane);
  void begin_flow(Index lane);
  void end_flow(Index lane);
  void change_pace(Index lane);
  void share(const FlowKind& kind);
  void collect(Index link);
  void settle(Index lane, double rate);
  [[nodiscard]] double pace(const Lane& lane) const;
  [[nodiscard]] const FlowKind& kind_of(const Lane& lane) const;
  [[nodiscard]] double most_of(const Lane& lane) const;

  std::vector<Lane> lanes_;  ///< beyond lane_count_: of earlier graphs, kept for their memory
  std::vector<Link> links_;
  std::vector<FlowKind> kinds_;
  std::size_t lane_count_ = 0, link_count_ = 0;
  DueTable due_;
  std::vector<Index> near_links_, near_flows_;
  double now_ = 0;
  std::uint64_t events_ = 0;
  std::uint32_t stamp_ = 0;
};

}  // namespace tpplan
