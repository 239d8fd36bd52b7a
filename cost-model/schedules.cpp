#include "cost-model/schedules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace tpplan {
namespace {

using Request = ScheduleRequest;

/// All forward passes, then all backward passes.
void fill_gpipe(const Request& request, PipelineSchedule& schedule) {
  for (auto& passes : schedule.ranks) {
    for (int m = 0; m < request.micro_batches; ++m) {
      passes.push_back({PassKind::forward, m, 0, false});
    }
    for (int m = 0; m < request.micro_batches; ++m) {
      passes.push_back({PassKind::whole_backward, m, 0, false});
    }
  }
}

int group_of(const Request& request) { return request.group > 0 ? request.group : request.ranks; }

/// Passes of a rank in the order of the interleaved schedule: groups of micro-batches, each through all chunks.
std::vector<Pass> grouped(const Request& request, PassKind kind) {
  std::vector<Pass> order;
  for (int begin = 0, end = first_group(request); begin < request.micro_batches;
       begin = end, end = std::min(end + group_of(request), request.micro_batches)) {
    for (int c = 0; c < request.chunks; ++c) {
      for (int m = begin; m < end; ++m) {
        order.push_back({kind, m, kind == PassKind::forward ? c : request.chunks - 1 - c, false});
      }
    }
  }
  return order;
}

int interleaved_warm_up(const Request& request, int rank) {
  const int all = request.micro_batches * request.chunks;
  return std::min(all, 2 * (request.ranks - rank - 1) + (request.chunks - 1) * first_group(request));
}

/// Warm-up, then one forward and one backward in turn, then the rest.
void fill_interleaved(const Request& request, PipelineSchedule& schedule) {
  const auto forward = grouped(request, PassKind::forward);
  const auto backward = grouped(request, PassKind::whole_backward);
  for (int r = 0; r < request.ranks; ++r) {
    auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
    // One chunk is plain 1F1B, where a backward pass returns after p - r forward passes of the rank.
    const int warm_up =
        request.chunks == 1 ? std::min(request.micro_batches, request.ranks - r - 1) : interleaved_warm_up(request, r);
    auto next = forward.begin() + warm_up;
    passes.assign(forward.begin(), next);
    for (const Pass& pass : backward) {
      if (next != forward.end()) {
        passes.push_back(*next++);
      }
      passes.push_back(pass);
    }
  }
}

/// 1F1B whose rank r leaves r weight gradients for the gaps that 1F1B has at its end.
void fill_zb_h1(const Request& request, PipelineSchedule& schedule) {
  const int m = request.micro_batches;
  for (int r = 0; r < request.ranks; ++r) {
    auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
    int forward = 0;
    int weight = 0;
    const auto add = [&passes](PassKind kind, int micro_batch) { passes.push_back({kind, micro_batch, 0, false}); };
    while (forward < std::min(m, request.ranks - r - 1)) {
      add(PassKind::forward, forward++);
    }
    for (int backward = 0; backward < m; ++backward) {
      if (forward < m) {
        add(PassKind::forward, forward++);
      }
      add(PassKind::backward, backward);
      if (backward >= r) {
        add(PassKind::weight, weight++);
      }
    }
    while (weight < m) {
      add(PassKind::weight, weight++);
    }
  }
}
void fill_zb_h2(const Request& request, PipelineSchedule& schedule) {
  detail::fill_automatic(request, schedule,
                         {2 * request.ranks - 1, [](int ranks, int rank) { return 2 * (ranks - rank) - 1; }});
}
void fill_zb_1p(const Request& request, PipelineSchedule& schedule) {
  detail::fill_automatic(request, schedule, {request.ranks, nullptr});
}
void fill_zb_2p(const Request& request, PipelineSchedule& schedule) {
  detail::fill_automatic(request, schedule, {2 * request.ranks - 1, nullptr});
}
int all_micro_batches(const Request& request, int) { return request.micro_batches; }
int as_ranks(const Request& request, int) { return std::min(request.ranks, request.micro_batches); }
int twice_ranks(const Request& request, int) { return std::min(2 * request.ranks - 1, request.micro_batches); }

constexpr std::array<ScheduleRow, kScheduleNames.size()> kRows{{
    {Schedule::gpipe, StagePlacement::looped, false, fill_gpipe, all_micro_batches, "GPipe, arXiv 1811.06965"},
    {Schedule::f1b1, StagePlacement::looped, false, fill_interleaved,
     [](const Request& q, int rank) { return std::min(q.ranks - rank, q.micro_batches); },
     "PipeDream-Flush, arXiv 2104.04473 section 2.2.1"},
    {Schedule::interleaved, StagePlacement::looped, false, fill_interleaved,
     [](const Request& q, int rank) { return std::min(interleaved_warm_up(q, rank) + 1, q.micro_batches * q.chunks); },
     "arXiv 2104.04473 section 2.2.2"},
    {Schedule::zb_h1, StagePlacement::looped, true, fill_zb_h1, as_ranks, "arXiv 2401.10241 section 2.1"},
    {Schedule::zb_h2, StagePlacement::looped, true, fill_zb_h2, twice_ranks, "arXiv 2401.10241 section 2.2"},
    {Schedule::zb_1p, StagePlacement::looped, true, fill_zb_1p, as_ranks, "arXiv 2401.10241 section 3, limit p"},
    {Schedule::zb_2p, StagePlacement::looped, true, fill_zb_2p, twice_ranks, "arXiv 2401.10241 section 3, limit 2p"},
    {Schedule::zb_v, StagePlacement::v_shape, true, detail::fill_v_shape,
     [](const Request& q, int) { return 2 * std::min(q.ranks, q.micro_batches); }, "arXiv 2401.10241 section 6"},
    {Schedule::dualpipe, StagePlacement::both_ends, true, detail::fill_dualpipe,
     [](const Request& q, int) { return std::min(q.ranks + 1, q.micro_batches); },
     "DeepSeek-V3 report, arXiv 2412.19437 section 3.2.1"},
}};

}  // namespace

int first_group(const ScheduleRequest& request) {
  const int group = group_of(request);
  const int left = request.micro_batches % group;
  if (request.micro_batches < group) {
    return request.micro_batches;
  }
  return left < request.ranks ? group + left : group;
}

const std::vector<ScheduleRow>& schedule_rows() {
  static const std::vector<ScheduleRow> rows(kRows.begin(), kRows.end());
  return rows;
}

const ScheduleRow& row_of(Schedule schedule) { return kRows[static_cast<std::size_t>(schedule)]; }

PipelineSchedule::Place PipelineSchedule::place_of(int stage, int micro_batch) const {
  const int p = size();
  if (placement == StagePlacement::v_shape) {
    return stage < p ? Place{stage, 0} : Place{2 * p - 1 - stage, 1};
  }
  if (placement == StagePlacement::both_ends) {
    return micro_batch < micro_batches / 2 ? Place{stage, 0} : Place{p - 1 - stage, 1};
  }
  return {stage % p, stage / p};
}

int PipelineSchedule::stage_of(int rank, int chunk) const {
  const int p = size();
  if (placement == StagePlacement::looped) {
    return chunk * p + rank;
  }
  if (chunk == 0) {
    return rank;
  }
  return (placement == StagePlacement::v_shape ? 2 * p : p) - 1 - rank;
}

PipelineSchedule make_schedule(Schedule schedule, const ScheduleRequest& request) {
  if (request.ranks < 1 || request.chunks < 1 || request.micro_batches < 1 || request.group < 0) {
    throw std::invalid_argument("a schedule needs at least one rank, one chunk and one micro-batch");
  }
  const ScheduleRow& row = row_of(schedule);
  ScheduleRequest asked = request;
  PipelineSchedule out;
  out.placement = row.placement;
  asked.chunks = row.placement != StagePlacement::looped ? 2 : schedule == Schedule::interleaved ? request.chunks : 1;
  out.chunks = asked.chunks;
  out.micro_batches = request.micro_batches;
  out.weight_share = request.weight_share;
  out.ranks.resize(static_cast<std::size_t>(request.ranks));
  row.fill(asked, out);
  return out;
}

std::vector<int> chunks_held(const PipelineSchedule& schedule) {
  std::vector<int> most;
  for (const HeldActivations& held : held_activations(schedule)) {
    most.push_back(static_cast<int>(std::ceil(held.forward * schedule.chunks - 1e-6)));
  }
  return most;
}

std::vector<HeldActivations> held_activations(const PipelineSchedule& schedule) {
  const double share = schedule.weight_share;
  const double chunk = 1.0 / schedule.chunks;
  const std::array<double, 4> change{chunk, (share - 1) * chunk, -share * chunk, -chunk};  // by kind of pass
  std::vector<HeldActivations> all(schedule.ranks.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    HeldActivations& most = all[r];
    double held = 0;
    // Of two passes side by side the forward one stands first: it fills its memory while the other frees its own.
    for (const Pass& pass : schedule.ranks[r]) {
      const int stage = schedule.stage_of(static_cast<int>(r), pass.chunk);
      if (pass.kind == PassKind::backward || pass.kind == PassKind::whole_backward) {
        most.backward = std::max(most.backward, held);
      }
      held += change[static_cast<std::size_t>(pass.kind)];
      if (pass.kind == PassKind::forward) {
        most.forward = std::max(most.forward, held);
        most.loss = stage + 1 == schedule.depth() ? std::max(most.loss, held) : most.loss;
      } else if (pass.kind != PassKind::backward && (stage == 0 || stage + 1 == schedule.depth())) {
        most.end = std::max(most.end, held);
      }
    }
  }
  return all;
}

namespace {

/// Which passes of every rank, micro-batch and chunk have run.
class Progress {
 public:
  explicit Progress(const PipelineSchedule& schedule) : schedule_(schedule) {
    const auto cells = static_cast<std::size_t>(schedule.depth()) * static_cast<std::size_t>(schedule.micro_batches);
    for (auto& done : done_) {
      done.assign(cells, 0);
    }
  }
  /// The pass belongs to the schedule at all.
  [[nodiscard]] bool known(int rank, const Pass& pass) const {
    if (pass.micro_batch < 0 || pass.micro_batch >= schedule_.micro_batches || pass.chunk < 0 ||
        pass.chunk >= schedule_.chunks) {
      return false;
    }
    const auto place = schedule_.place_of(schedule_.stage_of(rank, pass.chunk), pass.micro_batch);
    return place.rank == rank && place.chunk == pass.chunk;
  }
  [[nodiscard]] bool ready(int rank, const Pass& pass) const {
    const int stage = schedule_.stage_of(rank, pass.chunk);
    switch (pass.kind) {
      case PassKind::forward:
        return stage == 0 || done_[0][cell(stage - 1, pass.micro_batch)] != 0;
      case PassKind::weight:
        return done_[1][cell(stage, pass.micro_batch)] != 0;
      default:
        return done_[0][cell(stage, pass.micro_batch)] != 0 &&
               (stage + 1 == schedule_.depth() || done_[1][cell(stage + 1, pass.micro_batch)] != 0);
    }
  }
  void run(int rank, const Pass& pass) {
    const auto at = cell(schedule_.stage_of(rank, pass.chunk), pass.micro_batch);
    if (pass.kind == PassKind::whole_backward) {
      ++done_[1][at];
      ++done_[2][at];
    } else {
      ++done_[static_cast<std::size_t>(pass.kind)][at];
    }
  }
  /// Times that pass `kind` ran of a stage and micro-batch.
  [[nodiscard]] int count(std::size_t kind, int stage, int micro_batch) const {
    return done_[kind][cell(stage, micro_batch)];
  }

 private:
  [[nodiscard]] std::size_t cell(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }
  const PipelineSchedule& schedule_;
  std::array<std::vector<int>, 3> done_;
};

constexpr std::size_t kMostMissing = 10000;  ///< beyond so many, missing passes are counted, not named

std::string rank_text(std::size_t rank) { return "rank " + std::to_string(rank) + ": "; }

}  // namespace

std::vector<std::string> problems_of(const PipelineSchedule& schedule, const std::vector<int>& most_held) {
  std::vector<std::string> problems;
  const std::size_t ranks = schedule.ranks.size();
  std::size_t passes_in_all = 0;
  for (const auto& passes : schedule.ranks) {
    passes_in_all += passes.size();
  }
  const auto cells = static_cast<std::size_t>(schedule.depth()) * static_cast<std::size_t>(schedule.micro_batches);
  if (cells > kMostMissing + passes_in_all) {
    problems.push_back(std::to_string(schedule.depth()) + " stages and " + std::to_string(schedule.micro_batches) +
                       " micro-batches need at least " + std::to_string(2 * cells) + " passes, not " +
                       std::to_string(passes_in_all));
    return problems;
  }
  Progress total(schedule);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const Pass& pass : schedule.ranks[r]) {
      if (total.known(static_cast<int>(r), pass)) {
        total.run(static_cast<int>(r), pass);
      } else {
        problems.push_back(rank_text(r) + to_text(pass, schedule.chunks) + " does not belong to this rank");
      }
    }
  }
  for (int stage = 0; stage < schedule.depth(); ++stage) {
    for (int m = 0; m < schedule.micro_batches; ++m) {
      for (std::size_t kind = 0; kind < 3; ++kind) {
        const int count = total.count(kind, stage, m);
        if (count != 1) {
          const auto place = schedule.place_of(stage, m);
          problems.push_back(rank_text(static_cast<std::size_t>(place.rank)) +
                             to_text(Pass{kPassKinds[kind].kind, m, place.chunk, false}, schedule.chunks) +
                             (count == 0 ? " is missing" : " comes " + std::to_string(count) + " times"));
        }
      }
    }
  }
  if (!problems.empty()) {
    return problems;
  }
  Progress progress(schedule);
  std::vector<std::size_t> next(ranks, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto& passes = schedule.ranks[r];
      const int rank = static_cast<int>(r);
      while (next[r] < passes.size()) {
        const std::size_t together = passes[next[r]].with_next && next[r] + 1 < passes.size() ? 2 : 1;
        if (!progress.ready(rank, passes[next[r]]) || (together == 2 && !progress.ready(rank, passes[next[r] + 1]))) {
          break;
        }
        for (std::size_t i = 0; i < together; ++i) {
          progress.run(rank, passes[next[r]++]);
        }
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (next[r] < schedule.ranks[r].size()) {
      problems.push_back(rank_text(r) + "waits forever before " + to_text(schedule.ranks[r][next[r]], schedule.chunks));
    }
  }
  const auto held = chunks_held(schedule);
  for (std::size_t r = 0; r < std::min(ranks, most_held.size()); ++r) {
    if (held[r] > most_held[r]) {
      problems.push_back(rank_text(r) + "holds the activations of " + std::to_string(held[r]) + " chunks, at most " +
                         std::to_string(most_held[r]) + " are allowed");
    }
  }
  return problems;
}

}  // namespace tpplan
