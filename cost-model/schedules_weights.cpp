#include <algorithm>
#include <cmath>
#include <limits>

#include "cost-model/schedules.h"

namespace tpplan::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kClose = 1e-9;  // relative to a forward pass

/// Runs a schedule whose passes have their order on every rank, and puts the W between them when `places` says so.
class WeightPlacement {
 public:
  WeightPlacement(const ScheduleRequest& request, const PipelineSchedule& schedule, bool places, double most_held)
      : request_(request), schedule_(schedule), places_(places), most_held_(most_held), ranks_(schedule.ranks.size()) {
    const auto cells = static_cast<std::size_t>(schedule.depth()) * static_cast<std::size_t>(schedule.micro_batches);
    forward_end_.assign(cells, kNever);
    backward_end_.assign(cells, kNever);
    starts_.assign(ranks_.size(), kNever);
  }

  /// Longest time between a rank's first and last pass; infinity where the ranks wait for each other.
  double run() {
    const std::size_t size = ranks_.size();
    for (std::size_t r = 0; r < size; ++r) {
      look_at(r);
    }
    for (std::size_t r = earliest(); r < size; r = earliest()) {
      run_next(r);
      for (const std::size_t neighbour : {r, (r + 1) % size, (r + size - 1) % size}) {
        look_at(neighbour);
      }
    }
    double most = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next < schedule_.ranks[r].size()) {
        return kNever;
      }
      while (!ranks_[r].waiting_done()) {
        add_weight(r);
      }
      most = std::max(most, ranks_[r].free_at - ranks_[r].begin);
    }
    return most;
  }
  std::vector<Pass>& passes(std::size_t r) { return ranks_[r].passes; }

 private:
  struct Rank {
    std::vector<Pass> passes, waiting;  ///< `waiting`: weight gradients in the order of their B
    std::size_t next = 0, weights = 0;
    double begin = 0, free_at = 0, held = 0, idle = 0;
    [[nodiscard]] bool waiting_done() const { return weights == waiting.size(); }
  };

  void run_next(std::size_t r) {
    Rank& rank = ranks_[r];
    const Pass& pass = schedule_.ranks[r][rank.next];
    const double ready = ready_at(r, pass);
    const bool forward = pass.kind == PassKind::forward;
    while (forward && rank.held + 1 > most_held_ + kClose && !rank.waiting_done()) {
      add_weight(r);
    }
    fill_gap(r, ready);
    ++rank.next;
    if (pass.kind == PassKind::weight) {
      add(r, pass, 0, request_.times.weight);
      return;
    }
    const double end = add(r, pass, ready, forward ? request_.times.forward : request_.times.backward);
    rank.held += forward ? 1 : request_.weight_share - 1;
    if (!forward && places_) {
      rank.waiting.push_back({PassKind::weight, pass.micro_batch, pass.chunk, false});
    }
    const int stage = schedule_.stage_of(static_cast<int>(r), pass.chunk);
    (forward ? forward_end_ : backward_end_)[cell(stage, pass)] = end;
  }

  [[nodiscard]] std::size_t cell(int stage, const Pass& pass) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
           static_cast<std::size_t>(pass.micro_batch);
  }
  [[nodiscard]] double ready_at(std::size_t r, const Pass& pass) const {
    const int stage = schedule_.stage_of(static_cast<int>(r), pass.chunk);
    const bool forward = pass.kind == PassKind::forward;
    if (pass.kind == PassKind::weight || (forward && stage == 0)) {
      return 0;
    }
    if (!forward && stage + 1 == schedule_.depth()) {
      return forward_end_[cell(stage, pass)];
    }
    const int from = forward ? stage - 1 : stage + 1;
    const bool same = schedule_.place_of(from, pass.micro_batch).rank == static_cast<int>(r);
    return (forward ? forward_end_ : backward_end_)[cell(from, pass)] + (same ? 0 : request_.times.transfer);
  }
  /// The rank whose next pass can start first.
  [[nodiscard]] std::size_t earliest() const {
    const auto first = std::min_element(starts_.begin(), starts_.end());
    return *first < kNever ? static_cast<std::size_t>(first - starts_.begin()) : ranks_.size();
  }
  /// Works out again when a rank's next pass can start.
  void look_at(std::size_t r) {
    const bool left = ranks_[r].next < schedule_.ranks[r].size();
    starts_[r] = left ? std::max(ranks_[r].free_at, ready_at(r, schedule_.ranks[r][ranks_[r].next])) : kNever;
  }

  double add(std::size_t r, const Pass& pass, double ready, double time) {
    Rank& rank = ranks_[r];
    const double start = std::max(rank.free_at, ready);
    if (rank.passes.empty()) {
      rank.begin = start;
    } else {
      rank.idle += start - rank.free_at;
      most_idle_ = std::max(most_idle_, rank.idle);
    }
    rank.passes.push_back(pass);
    return rank.free_at = start + time;
  }
  void add_weight(std::size_t r) {
    Rank& rank = ranks_[r];
    rank.held -= request_.weight_share;
    add(r, rank.waiting[rank.weights++], 0, request_.times.weight);
  }
  /// In gaps that hold them, and in one that would make the worst rank worse.
  void fill_gap(std::size_t r, double until) {
    Rank& rank = ranks_[r];
    const double close = kClose * request_.times.forward;
    while (!rank.waiting_done() && rank.free_at + request_.times.weight <= until + close) {
      add_weight(r);
    }
    const double gap = until - rank.free_at;
    if (!rank.waiting_done() && gap > close && rank.idle + gap > most_idle_ + close) {
      add_weight(r);
    }
  }

  const ScheduleRequest& request_;
  const PipelineSchedule& schedule_;
  bool places_;
  double most_held_;
  std::vector<Rank> ranks_;
  std::vector<double> forward_end_, backward_end_;
  std::vector<double> starts_;  ///< of the next pass of each rank
  double most_idle_ = 0;        ///< of any rank
};

}  // namespace

double place_weights(const ScheduleRequest& request, PipelineSchedule& schedule, double most_held) {
  for (auto& passes : schedule.ranks) {
    passes.erase(
        std::remove_if(passes.begin(), passes.end(), [](const Pass& pass) { return pass.kind == PassKind::weight; }),
        passes.end());
  }
  WeightPlacement placement(request, schedule, true, most_held);
  const double cost = placement.run();
  std::vector<std::vector<Pass>> ranks;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    ranks.push_back(std::move(placement.passes(r)));
  }
  schedule.ranks = std::move(ranks);
  return cost;
}

double longest_rank(const ScheduleRequest& request, const PipelineSchedule& schedule) {
  return WeightPlacement(request, schedule, false, kNever).run();
}

void fill_automatic(const ScheduleRequest& request, PipelineSchedule& schedule, const AutomaticLimits& limits) {
  const auto& times = request.times;
  const int m = request.micro_batches;
  double best = kNever;
  // As many forward passes as end before the first gradient arrives, the one that it finds running too, or no more than
  // the next rank needs.
  enum class Fill { whole, started, least };
  std::vector<std::vector<int>> known;  // forward passes of each rank before its first backward pass, already tried
  for (const Fill fill : {Fill::whole, Fill::started, Fill::least}) {
    std::vector<int> leads(static_cast<std::size_t>(request.ranks));
    double gradient_end = 0;
    int lead = 0;
    for (int r = request.ranks; r-- > 0;) {
      const double begin = r * (times.forward + times.transfer);
      const double ready = r + 1 == request.ranks ? begin + times.forward : gradient_end + times.transfer;
      const double fitting = (ready - begin) / times.forward;
      const int before = fill == Fill::whole     ? static_cast<int>(fitting + kClose)
                         : fill == Fill::started ? static_cast<int>(std::ceil(fitting - kClose))
                                                 : 0;
      const int most = limits.lead != nullptr ? limits.lead(request.ranks, r) : std::min(before, limits.most_held - r);
      lead = std::min(std::max(most, lead + 1), m);
      gradient_end = std::max(ready, begin + lead * times.forward) + times.backward;
      leads[static_cast<std::size_t>(r)] = lead;
    }
    if (std::find(known.begin(), known.end(), leads) != known.end()) {
      continue;
    }
    PipelineSchedule tried = schedule;
    for (std::size_t r = 0; r < leads.size(); ++r) {
      auto& passes = tried.ranks[r];
      passes.clear();
      for (int i = 0; i < leads[r]; ++i) {
        passes.push_back({PassKind::forward, i, 0, false});
      }
      for (int i = 0; i < m; ++i) {
        passes.push_back({PassKind::backward, i, 0, false});
        if (leads[r] + i < m) {
          passes.push_back({PassKind::forward, leads[r] + i, 0, false});
        }
      }
    }
    known.push_back(std::move(leads));
    const double cost = place_weights(request, tried, limits.most_held);
    if (cost < best * (1 - kClose)) {
      best = cost;
      schedule = std::move(tried);
    }
  }
}

}  // namespace tpplan::detail
