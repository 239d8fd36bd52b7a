#include "comm-bench/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tpplan::bench {

namespace {

constexpr Seconds kFirstVisit(0.03);  ///< of measured time
constexpr Seconds kVisit(0.1);
constexpr int kFewest = 3;
constexpr int kFirstMost = 20;
constexpr int kMost = 200;

int fitting(Seconds share, Seconds one, int low, int high) {
  if (one.raw() <= 0) return high;
  return static_cast<int>(std::clamp(share / one, static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace

Schedule::Schedule(std::vector<CellSize> cells, StoppingRule rule, Seconds budget, std::uint64_t seed)
    : cells_(std::move(cells)), states_(cells_.size()), rule_(rule), budget_(budget), random_(seed) {
  start_round();
}

void Schedule::start_round() {
  order_.clear();
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (needs_visit(cell)) order_.push_back(cell);
  }
  at_ = 0;
  if (round_ == 0) {
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return cells_[a].bytes < cells_[b].bytes; });
  } else {
    // Fisher-Yates with a linear congruential generator (Knuth's MMIX constants): the same order everywhere.
    for (std::size_t i = order_.size(); i > 1; --i) {
      random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
      std::swap(order_[i - 1], order_[(random_ >> 33) % i]);
    }
  }
  ++round_;
}

bool Schedule::needs_visit(std::size_t cell) const {
  return !states_[cell].dropped && states_[cell].stop == Stop::keep_going;
}

std::optional<Visit> Schedule::next(Seconds elapsed) {
  while (elapsed < budget_) {
    if (at_ == order_.size()) start_round();
    if (order_.empty()) return std::nullopt;
    const std::size_t cell = order_[at_++];
    if (!needs_visit(cell)) continue;
    const bool first = states_[cell].samples.empty();
    if (first && would_overrun(cell, elapsed)) {
      drop(cell);
      continue;
    }
    return Visit{cell, repetitions(cell), first};
  }
  for (State& state : states_) {
    if (!state.samples.empty() && state.stop == Stop::keep_going) state.stop = Stop::budget;
  }
  return std::nullopt;
}

void Schedule::record(const Visit& visit, std::span<const Seconds> samples, Seconds duration, Seconds elapsed) {
  State& state = states_[visit.cell];
  if (visit.first) state.first_visit = duration;
  state.samples.insert(state.samples.end(), samples.begin(), samples.end());
  state.stop = stop_reason(state.samples, rule_, elapsed < budget_);
}

void Schedule::drop(std::size_t cell) { states_[cell].dropped = true; }

std::optional<std::size_t> Schedule::smaller_neighbour(std::size_t cell) const {
  std::optional<std::size_t> best;
  for (std::size_t other = 0; other < cells_.size(); ++other) {
    if (cells_[other].series != cells_[cell].series || states_[other].samples.empty()) continue;
    if (!(cells_[other].bytes < cells_[cell].bytes)) continue;
    if (!best || cells_[*best].bytes < cells_[other].bytes) best = other;
  }
  return best;
}

bool Schedule::would_overrun(std::size_t cell, Seconds elapsed) const {
  const std::optional<std::size_t> smaller = smaller_neighbour(cell);
  if (!smaller) return false;
  const double growth = cells_[cell].bytes / cells_[*smaller].bytes;
  return elapsed + states_[*smaller].first_visit * growth > budget_;
}

int Schedule::repetitions(std::size_t cell) const {
  const State& state = states_[cell];
  if (state.samples.empty()) {
    const std::optional<std::size_t> smaller = smaller_neighbour(cell);
    if (!smaller) return kFewest + 2;
    const double growth = cells_[cell].bytes / cells_[*smaller].bytes;
    return fitting(kFirstVisit, summary(states_[*smaller].samples).median * growth, kFewest, kFirstMost);
  }
  const int most = fitting(kVisit, summary(state.samples).median, kFewest, kMost);
  return std::clamp(static_cast<int>(samples_missing(state.samples, rule_)), kFewest, most);
}

}  // namespace tpplan::bench
