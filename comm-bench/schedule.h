#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm-bench/measure.h"
#include "cost-model/units.h"

namespace tpplan::bench {

/// One thing to measure. Cells of one series differ in size only, so that a smaller one predicts a larger one.
struct CellSize {
  std::size_t series = 0;
  Bytes bytes;
};

/// One visit to a cell: this many samples more.
struct Visit {
  std::size_t cell = 0;
  int repetitions = 0;
  bool first = false;
};

/// Decides what is measured next and for how long. The first round visits all cells from the smallest size up, the
/// later ones in random order, each taking a few samples of every cell that still needs some: a slow change of the
/// machine then spreads over all sizes. A cell is done when the interval of its median is narrow enough; everything is
/// done when the budget ends. A first visit that would probably overrun the budget (predicted from the next smaller
/// size of its series) is left out.
class Schedule {
 public:
  Schedule(std::vector<CellSize> cells, StoppingRule rule, Seconds budget, std::uint64_t seed);

  /// Nothing when all is done. `elapsed` counts from the start of the run.
  std::optional<Visit> next(Seconds elapsed);
  /// The samples of the last visit and how long it took in all, warm-up and checks included.
  void record(const Visit& visit, std::span<const Seconds> samples, Seconds duration, Seconds elapsed);
  /// Takes a cell out, for example because its results are wrong.
  void drop(std::size_t cell);

  [[nodiscard]] const std::vector<Seconds>& samples(std::size_t cell) const { return states_[cell].samples; }
  [[nodiscard]] Stop stop(std::size_t cell) const { return states_[cell].stop; }

 private:
  struct State {
    std::vector<Seconds> samples;
    Seconds first_visit;
    Stop stop = Stop::keep_going;
    bool dropped = false;
  };
  void start_round();
  [[nodiscard]] bool needs_visit(std::size_t cell) const;
  [[nodiscard]] bool would_overrun(std::size_t cell, Seconds elapsed) const;
  [[nodiscard]] int repetitions(std::size_t cell) const;
  [[nodiscard]] std::optional<std::size_t> smaller_neighbour(std::size_t cell) const;

  std::vector<CellSize> cells_;
  std::vector<State> states_;
  StoppingRule rule_;
  Seconds budget_;
  std::uint64_t random_;
  int round_ = 0;
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;
};

}  // namespace tpplan::bench
