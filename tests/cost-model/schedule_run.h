#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cost-model/schedules.h"

namespace tpplan::tests {

struct Run {
  double makespan = 0;
  double longest_idle = 0;  ///< most idle time of a rank between its first and last pass
  double longest_rank = 0;  ///< most time of a rank between them
  double idle_of(double busy) const { return makespan - busy; }
};

/// Executes the passes in order, each as soon as what it needs is done. Independent of the simulator on purpose.
class Executor {
 public:
  Executor(const PipelineSchedule& schedule, PassTimes times)
      : schedule_(schedule), times_(times), m_(static_cast<std::size_t>(schedule.micro_batches)) {
    forward_.assign(static_cast<std::size_t>(schedule.depth()) * m_, -1);
    backward_ = forward_;
  }

  Run run() {
    const std::size_t ranks = schedule_.ranks.size();
    std::vector<std::size_t> next(ranks, 0);
    std::vector<double> free_at(ranks, 0), first(ranks, -1), busy(ranks, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto& passes = schedule_.ranks[r];
        while (next[r] < passes.size()) {
          const std::size_t together = passes[next[r]].with_next ? 2 : 1;
          double start = free_at[r];
          double time = 0;
          bool ready = true;
          for (std::size_t i = next[r]; i < next[r] + together; ++i) {
            const double at = ready_at(r, passes[i]);
            ready = ready && at >= 0;
            start = std::max(start, at);
            time += time_of(passes[i]);
          }
          if (!ready) {
            break;
          }
          first[r] = first[r] < 0 ? start : first[r];
          free_at[r] = start + time;
          busy[r] += time;
          for (std::size_t i = next[r]; i < next[r] + together; ++i) {
            finish(r, passes[i], free_at[r]);
          }
          next[r] += together;
          moved = true;
        }
      }
    }
    Run run;
    for (std::size_t r = 0; r < ranks; ++r) {
      REQUIRE(next[r] == schedule_.ranks[r].size());
      run.makespan = std::max(run.makespan, free_at[r]);
      run.longest_idle = std::max(run.longest_idle, free_at[r] - first[r] - busy[r]);
      run.longest_rank = std::max(run.longest_rank, free_at[r] - first[r]);
    }
    return run;
  }

 private:
  [[nodiscard]] std::size_t cell(std::size_t stage, const Pass& pass) const {
    return stage * m_ + static_cast<std::size_t>(pass.micro_batch);
  }
  [[nodiscard]] std::size_t stage_of(std::size_t r, const Pass& pass) const {
    return static_cast<std::size_t>(schedule_.stage_of(static_cast<int>(r), pass.chunk));
  }
  /// When what the pass needs from elsewhere is there; negative: not yet known.
  [[nodiscard]] double ready_at(std::size_t r, const Pass& pass) const {
    const std::size_t stage = stage_of(r, pass);
    if (pass.kind == PassKind::forward) {
      return stage == 0 ? 0 : arrival(r, forward_, stage - 1, pass);
    }
    if (pass.kind == PassKind::weight) {
      return backward_[cell(stage, pass)];
    }
    return static_cast<int>(stage) + 1 == schedule_.depth() ? forward_[cell(stage, pass)]
                                                            : arrival(r, backward_, stage + 1, pass);
  }
  [[nodiscard]] double arrival(std::size_t r, const std::vector<double>& ends, std::size_t stage,
                               const Pass& pass) const {
    const double end = ends[cell(stage, pass)];
    const bool here = schedule_.place_of(static_cast<int>(stage), pass.micro_batch).rank == static_cast<int>(r);
    return end < 0 || here ? end : end + times_.transfer;
  }
  [[nodiscard]] double time_of(const Pass& pass) const {
    const std::array<double, 4> times{times_.forward, times_.backward, times_.weight, times_.backward + times_.weight};
    return times[static_cast<std::size_t>(pass.kind)];
  }
  void finish(std::size_t r, const Pass& pass, double end) {
    if (pass.kind == PassKind::forward) {
      forward_[cell(stage_of(r, pass), pass)] = end;
    } else if (pass.kind != PassKind::weight) {
      backward_[cell(stage_of(r, pass), pass)] = end;
    }
  }

  const PipelineSchedule& schedule_;
  PassTimes times_;
  std::size_t m_;
  std::vector<double> forward_, backward_;
};

inline Run execute(const PipelineSchedule& schedule, PassTimes times) { return Executor(schedule, times).run(); }

}  // namespace tpplan::tests
