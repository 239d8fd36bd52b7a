#pragma once

#include <cstdint>
#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// Operations on streams with what each waits for. A stream runs its operations one after another in the order they
/// were added. An operation takes a fixed time, or moves bytes over one or two links that it shares with others.
class OperationGraph {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = static_cast<Index>(-1);

  Index add_stream();
  Index add_link(BytesPerSecond capacity);
  Index add(Index stream, Seconds time);
  /// `latency` passes before the bytes flow. `to` may be kNone.
  Index add_flow(Index stream, Seconds latency, Bytes bytes, Index from, Index to);
  /// `later` starts no sooner than `earlier` ends.
  void add_dependency(Index earlier, Index later) { dependencies_.push_back({earlier, later}); }

  [[nodiscard]] std::size_t operations() const { return operations_.size(); }
  [[nodiscard]] std::size_t streams() const { return last_of_stream_.size(); }
  [[nodiscard]] Index stream_of(Index operation) const { return operations_[operation].stream; }
  /// Fixed time of an operation, or the latency of a flow; to change before a Simulation is made.
  [[nodiscard]] Seconds time_of(Index operation) const { return Seconds(operations_[operation].time); }
  void set_time(Index operation, Seconds time) { operations_[operation].time = time.raw(); }
  void scale_link(Index link, double factor) { links_[link] *= factor; }

 private:
  friend class Simulation;
  struct Operation {
    double time = 0;   ///< seconds; of a flow its latency
    double bytes = 0;  ///< 0: no flow
    Index stream = 0;
    Index next = kNone;  ///< in the stream
    Index from = kNone, to = kNone;
  };
  struct Dependency {
    Index earlier, later;
  };
  std::vector<Operation> operations_;
  std::vector<Dependency> dependencies_;
  std::vector<Index> last_of_stream_;
  std::vector<double> links_;  ///< bytes per second
};

/// When every operation ran, in seconds since the start.
struct Timeline {
  std::vector<double> start, end;
  double makespan = 0;
  std::uint64_t events = 0;  ///< starts and ends of operations
};

/// Event-driven execution of a graph. Flows share links by max-min fairness (the most loaded link divides its capacity
/// equally among its flows, what they cannot use goes to the others: Bertsekas and Gallager, Data Networks, 6.5.2);
/// rates are worked out again only for the flows that a starting or ending flow is connected with through links.
/// Events at the same time happen in the order of the operations. run() allocates nothing and may be repeated.
class Simulation {
 public:
  /// The graph must outlive the simulation.
  explicit Simulation(const OperationGraph& graph);
  /// Throws std::invalid_argument when operations wait for each other in a circle.
  const Timeline& run();

 private:
  using Index = OperationGraph::Index;
  static constexpr Index kNone = OperationGraph::kNone;
  struct Flow {
    double left = 0;  ///< bytes
    double rate = 0;
    double since = 0;  ///< time of `left`
    Index operation = kNone;
    bool moving = false;  ///< latency has passed
    std::uint32_t seen = 0;
    bool settled = false;
  };
  struct Link {
    double left = 0;  ///< capacity not yet given away
    std::uint32_t open = 0;
    std::uint32_t seen = 0;
    std::vector<Index> flows;  ///< streams
  };

  void start(Index operation);
  void finish(Index operation);
  void release(Index operation);
  void begin_flow(Index stream);
  void end_flow(Index stream);
  void share(Index from, Index to);
  void collect(Index link);
  void settle(Index stream, double rate);

  // A heap of the running operation of each stream, by end time and operation.
  [[nodiscard]] bool before(Index a, Index b) const;
  void push(Index stream, double time);
  void move(Index stream, double time);
  Index pop();
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);

  const OperationGraph& graph_;
  std::vector<Index> first_successor_, successors_, waits_at_start_, waits_;
  Timeline timeline_;
  double now_ = 0;
  std::vector<Index> heap_, position_, running_;  ///< streams; per stream: place in the heap, operation
  std::vector<double> due_;                       ///< per stream
  std::vector<Flow> flows_;                       ///< per stream
  std::vector<Link> links_;
  std::vector<Index> near_links_, near_flows_;
  std::uint32_t stamp_ = 0;
};

}  // namespace tpplan
