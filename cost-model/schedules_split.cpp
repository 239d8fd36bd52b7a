#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>

#include "cost-model/schedules.h"

namespace tpplan::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Runs the ranks of a split schedule against a clock and notes what each does.
class Planner {
 public:
  Planner(const ScheduleRequest& request, PipelineSchedule& schedule, int (*most_ahead)(int, int), int most_held)
      : request_(request), schedule_(schedule), most_ahead_(most_ahead), most_held_(most_held) {
    const auto cells = static_cast<std::size_t>(schedule.depth()) * static_cast<std::size_t>(request.micro_batches);
    forward_end_.assign(cells, kNever);
    backward_end_.assign(cells, kNever);
    ranks_.resize(static_cast<std::size_t>(request.ranks));
    for (auto& rank : ranks_) {
      rank.next.assign(static_cast<std::size_t>(schedule.chunks), {0, 0, 0});
    }
  }

  void run() {
    const auto total = static_cast<std::size_t>(3 * request_.micro_batches) *
                       static_cast<std::size_t>(schedule_.chunks) * ranks_.size();
    std::size_t done = 0;
    while (done < total) {
      for (int r = 0; r < request_.ranks; ++r) {
        while (ranks_[static_cast<std::size_t>(r)].free_at <= now_ && start_one(r)) {
          ++done;
        }
      }
      while (!moments_.empty() && moments_.top() <= now_) {
        moments_.pop();
      }
      if (done < total && moments_.empty()) {
        throw std::logic_error("the limits of a split schedule leave every rank waiting");
      }
      now_ = done < total ? moments_.top() : now_;
    }
  }

 private:
  struct Rank {
    double free_at = 0;
    int held = 0;                          ///< chunks whose weight gradient is open
    std::vector<std::array<int, 3>> next;  ///< per chunk: micro-batch of the next F, B and W
  };

  [[nodiscard]] std::size_t cell(int stage, int m) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(request_.micro_batches) +
           static_cast<std::size_t>(m);
  }

  [[nodiscard]] bool backward_ready(int r, int chunk) const {
    const auto& next = ranks_[static_cast<std::size_t>(r)].next[static_cast<std::size_t>(chunk)];
    const int stage = schedule_.stage_of(r, chunk);
    if (next[1] >= next[0]) {
      return false;
    }
    return stage + 1 == schedule_.depth() ? forward_end_[cell(stage, next[1])] <= now_
                                          : backward_end_[cell(stage + 1, next[1])] + way(r, stage + 1) <= now_;
  }

  [[nodiscard]] bool forward_ready(int r, int chunk) const {
    const auto& rank = ranks_[static_cast<std::size_t>(r)];
    const auto& next = rank.next[static_cast<std::size_t>(chunk)];
    if (next[0] >= request_.micro_batches || rank.held >= most_held_) {
      return false;
    }
    const bool last_chunk = chunk + 1 == schedule_.chunks;
    // One chunk runs ahead of its backward passes, the first of two ahead of the second.
    const int behind = schedule_.chunks == 1 ? next[1] : last_chunk ? next[0] : rank.next.back()[0];
    if (next[0] - behind >= most_ahead_(request_.ranks, r)) {
      return false;
    }
    const int stage = schedule_.stage_of(r, chunk);
    return stage == 0 || forward_end_[cell(stage - 1, next[0])] + way(r, stage - 1) <= now_;
  }
  /// Time of a transfer to rank `r` from a stage.
  [[nodiscard]] double way(int r, int stage) const {
    return schedule_.place_of(stage, 0).rank == r ? 0 : request_.times.transfer;
  }

  void start(int r, int chunk, std::size_t kind, double duration) {
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    const int m = rank.next[static_cast<std::size_t>(chunk)][kind]++;
    const int stage = schedule_.stage_of(r, chunk);
    rank.free_at = now_ + duration;
    moments_.push(rank.free_at);
    moments_.push(rank.free_at + request_.times.transfer);
    if (kind == 0) {
      forward_end_[cell(stage, m)] = rank.free_at;
      ++rank.held;
    } else if (kind == 1) {
      backward_end_[cell(stage, m)] = rank.free_at;
    } else {
      --rank.held;
    }
    Pass pass;
    pass.kind = kPassKinds[kind].kind;
    pass.micro_batch = m;
    pass.chunk = chunk;
    schedule_.ranks[static_cast<std::size_t>(r)].push_back(pass);
  }

  bool start_one(int r) {
    for (int chunk = schedule_.chunks; chunk-- > 0;) {
      if (backward_ready(r, chunk)) {
        start(r, chunk, 1, request_.times.backward);
        return true;
      }
    }
    for (int chunk = schedule_.chunks; chunk-- > 0;) {
      if (forward_ready(r, chunk)) {
        start(r, chunk, 0, request_.times.forward);
        return true;
      }
    }
    for (int chunk = schedule_.chunks; chunk-- > 0;) {
      const auto& next = ranks_[static_cast<std::size_t>(r)].next[static_cast<std::size_t>(chunk)];
      if (next[2] < next[1]) {
        start(r, chunk, 2, request_.times.weight);
        return true;
      }
    }
    return false;
  }

  const ScheduleRequest& request_;
  PipelineSchedule& schedule_;
  int (*most_ahead_)(int, int);
  int most_held_;
  double now_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> moments_;  ///< when a rank or a transfer ends
  std::vector<double> forward_end_, backward_end_;
  std::vector<Rank> ranks_;
};

/// Passes of one rank of DualPipe, which names its two directions by which reaches the rank first.
class TwoWayRank {
 public:
  TwoWayRank(std::vector<Pass>& passes, int half, bool second_half)
      : passes_(passes), half_(half), second_half_(second_half) {}
  void forward(int way) { add(PassKind::forward, way, next_[0][index(way)]++); }
  void whole_backward(int way) { add(PassKind::whole_backward, way, next_[1][index(way)]++); }
  /// A forward pass of one way beside a backward pass of the other.
  void both(int way) {
    forward(way);
    passes_.back().with_next = true;
    whole_backward(1 - way);
  }
  /// The gradient of the input; its weight gradient waits in a queue.
  void backward(int way) {
    add(PassKind::backward, way, next_[1][index(way)]++);
    waiting_.push_back(passes_.back());
    waiting_.back().kind = PassKind::weight;
  }
  void weight() { passes_.push_back(waiting_[weights_++]); }
  [[nodiscard]] bool weight_waits() const { return weights_ < waiting_.size(); }

 private:
  static std::size_t index(int way) { return static_cast<std::size_t>(way); }
  void add(PassKind kind, int way, int number) {
    Pass pass;
    pass.kind = kind;
    pass.chunk = second_half_ ? 1 - way : way;
    pass.micro_batch = pass.chunk * half_ + number;
    passes_.push_back(pass);
  }
  std::vector<Pass>& passes_;
  int half_;
  bool second_half_;
  std::array<std::array<int, 2>, 2> next_{};
  std::vector<Pass> waiting_;
  std::size_t weights_ = 0;
};

}  // namespace

namespace {

/// ZB-V's phases for at least 2 p micro-batches.
void fill_v_phases(const ScheduleRequest& request, PipelineSchedule& schedule) {
  const int p = request.ranks;
  const int m = request.micro_batches;
  for (int r = 0; r < p; ++r) {
    auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
    std::array<std::array<int, 2>, 3> next{};  // micro-batch of the next F, B and W per chunk
    const auto add = [&](std::size_t kind, std::size_t chunk) {
      Pass pass;
      pass.kind = kPassKinds[kind].kind;
      pass.micro_batch = next[kind][chunk]++;
      pass.chunk = static_cast<std::int32_t>(chunk);
      passes.push_back(pass);
    };
    const auto whole = [&](std::size_t chunk) {
      add(1, chunk);
      add(2, chunk);
    };
    // Down to the bend and back takes 2(p - r) - 1 forward passes; then the two chunks alternate.
    for (int i = 0; i < 2 * (p - r) - 1; ++i) {
      add(0, 0);
    }
    for (int i = 0; i < r; ++i) {
      add(0, 1);
      add(0, 0);
    }
    for (int i = 0; i < p - r; ++i) {
      add(0, 1);
      whole(1);
    }
    while (next[0][1] < m) {
      if (next[0][0] < m) {
        add(0, 0);
      }
      whole(0);
      add(0, 1);
      whole(1);
    }
    // The drain: gradients of the inputs first, as long as other ranks wait for them.
    for (int i = 0; i < r; ++i) {
      add(1, 0);
      add(1, 1);
    }
    for (int i = 0; i < p - r; ++i) {
      whole(0);
    }
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{0}}) {
      while (next[2][chunk] < m) {
        add(2, chunk);
      }
    }
  }
}

}  // namespace

void fill_v_shape(const ScheduleRequest& request, PipelineSchedule& schedule) {
  const int most_held = 2 * request.ranks;
  double best = kNever;
  const auto keep_better = [&](PipelineSchedule&& tried, double cost) {
    if (cost < best) {
      best = cost;
      schedule = std::move(tried);
    }
  };
  // The phases are those of at least 2 p micro-batches; without some of them, what is left keeps its order.
  ScheduleRequest enough = request;
  enough.micro_batches = std::max(request.micro_batches, 2 * request.ranks);
  PipelineSchedule phases = schedule;
  fill_v_phases(enough, phases);
  for (auto& passes : phases.ranks) {
    passes.erase(std::remove_if(passes.begin(), passes.end(),
                                [&](const Pass& pass) { return pass.micro_batch >= request.micro_batches; }),
                 passes.end());
  }
  PipelineSchedule placed = phases;
  const double cost = longest_rank(request, phases);
  keep_better(std::move(phases), cost);
  const double placed_cost = place_weights(request, placed, most_held);
  keep_better(std::move(placed), placed_cost);
  if (request.micro_batches < 2 * request.ranks) {
    // The order of F and B as if W took no time. Chunk 0 runs ahead of chunk 1 by the way down and up again.
    ScheduleRequest no_weights = request;
    no_weights.times.weight = 0;
    PipelineSchedule greedy = schedule;
    for (auto& passes : greedy.ranks) {
      passes.clear();
    }
    Planner(
        no_weights, greedy, [](int ranks, int rank) { return 2 * (ranks - rank) - 1; }, most_held)
        .run();
    const double greedy_cost = place_weights(request, greedy, most_held);
    keep_better(std::move(greedy), greedy_cost);
  }
}

void fill_dualpipe(const ScheduleRequest& request, PipelineSchedule& schedule) {
  const int p = request.ranks;
  const int m = request.micro_batches;
  if (p % 2 != 0 || m % 2 != 0 || m < 2 * p) {
    throw std::invalid_argument("DualPipe needs an even number of ranks and an even number of micro-batches >= 2 p");
  }
  const int half_ranks = p / 2;
  for (int r = 0; r < p; ++r) {
    const int h = std::min(r, p - 1 - r);  // distance from the nearer end
    const int inner = half_ranks - h - 1;  // ranks between this one and the middle
    TwoWayRank rank(schedule.ranks[static_cast<std::size_t>(r)], m / 2, r >= half_ranks);
    const auto repeat = [](int times, const auto& step) {
      for (int i = 0; i < times; ++i) {
        step(i);
      }
    };
    repeat(2 * inner, [&](int) { rank.forward(0); });
    repeat(h + 1, [&](int) {
      rank.forward(0);
      rank.forward(1);
    });
    repeat(inner, [&](int) {
      rank.backward(1);
      rank.weight();
      rank.forward(1);
    });
    repeat(m / 2 - p + h + 1, [&](int i) {
      if (i == 0 && inner == 0) {
        // The middle ranks send their first forward pass on at once.
        rank.forward(0);
        rank.whole_backward(1);
      } else {
        rank.both(0);
      }
      rank.both(1);
    });
    repeat(inner, [&](int) {
      rank.whole_backward(1);
      rank.both(1);
    });
    // The later half of the remaining backward passes leaves their weight gradients for the gaps of the drain.
    const int left = h + 1;
    repeat(left, [&](int i) {
      const auto step = [&](int way, bool split) { split ? rank.backward(way) : rank.whole_backward(way); };
      step(1, 2 * i >= left);
      step(0, 2 * i + 1 >= left);
    });
    repeat(inner, [&](int) {
      if (rank.weight_waits()) {
        rank.weight();
      }
      rank.backward(0);
    });
    while (rank.weight_waits()) {
      rank.weight();
    }
  }
}

}  // namespace tpplan::detail
