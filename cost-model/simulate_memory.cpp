#include "cost-model/simulate_memory.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tpplan {
namespace {

class Ledger {
 public:
  Ledger(const StageTensors& tensors, SimulatedRank& rank) : tensors_(tensors), rank_(rank) {
    rank_.samples.clear();
    rank_.most_held = 0;
    rank_.most_activations = Bytes(0);
    rank_.most_activations_at = 0;
    rank_.peak = MemoryPeak{};
    rank_.peak.parts = tensors.resident;
    rank_.peak.parts.moment = 4;
    rank_.samples.push_back(now_);
  }

  MemorySample& now() { return now_; }

  void note(double at, std::uint8_t moment, const Pass& pass) {
    now_.at = at;
    rank_.samples.push_back(now_);
    const Bytes extra = now_.activations + now_.working + now_.loss + now_.gathered + now_.communication;
    if (extra > most_) {
      most_ = extra;
      auto& peak = rank_.peak;
      peak.parts = tensors_.resident;
      peak.parts.activations += now_.activations + now_.working;
      peak.parts.loss += now_.loss;
      peak.parts.gathered += now_.gathered;
      peak.parts.communication += now_.communication;
      peak.parts.moment = moment;
      peak.at = at;
      peak.pass = pass;
      peak.in_pass = true;
    }
  }

  /// Activations that are kept, without what a pass in work adds.
  void note_kept(double at, Bytes kept) {
    if (kept > rank_.most_activations) {
      rank_.most_activations = kept;
      rank_.most_activations_at = at;
    }
  }

 private:
  const StageTensors& tensors_;
  SimulatedRank& rank_;
  MemorySample now_;
  Bytes most_ = Bytes(-1);
};

}  // namespace

void follow_memory(const PipelineSchedule& schedule, int r, const std::vector<PassTime>& times,
                   const StageTensors& tensors, const std::vector<StageContent>& stages, bool offloaded,
                   SimulatedRank& rank) {
  const auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
  Ledger ledger(tensors, rank);
  auto& now = ledger.now();
  const double chunks = schedule.chunks;
  double held = 0;
  Bytes kept(0);
  const double share = schedule.weight_share;
  const std::array<double, 4> change{1, share - 1, -share, -1};  // of what is held, by kind of pass
  const auto hold = [&](const Pass& pass) {
    const double part = change[static_cast<std::size_t>(pass.kind)];
    held += part;
    rank.most_held = std::max(rank.most_held, static_cast<int>(std::ceil(held - 1e-6)));
    kept += rank.chunk_activations[static_cast<std::size_t>(pass.chunk)] * part;
    now.activations = offloaded ? Bytes(0) : kept;
    now.communication = tensors.buffer * (held / chunks);
  };
  const auto stage_of = [&](const Pass& pass) { return schedule.stage_of(r, pass.chunk); };
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::size_t together = passes[i].with_next && i + 1 < passes.size() ? 2 : 1;
    const double start = times[i].start;
    const double end = times[i].end;
    // A forward pass beside a backward pass fills its memory while the other frees its own.
    const bool beside = together == 2;
    if (now.gathered.raw() > 0) {
      now.gathered = Bytes(0);
      ledger.note(start, 3, passes[i]);
    }
    for (std::size_t k = i; k < i + together; ++k) {
      if (passes[k].kind == PassKind::forward && beside) {
        hold(passes[k]);
        ledger.note_kept(start, kept);
        ledger.note(start, 5, passes[k]);
      }
    }
    for (std::size_t k = i; k < i + together; ++k) {
      const Pass& pass = passes[k];
      if (pass.kind == PassKind::forward || pass.kind == PassKind::weight) {
        continue;
      }
      if (now.loss.raw() > 0) {
        ledger.note(start, 0, pass);
        now.loss = Bytes(0);
      }
      now.working = tensors.first_backward;
      ledger.note(start, 1, pass);
      now.working = Bytes(0);
    }
    now.loss = Bytes(0);
    for (std::size_t k = i; k < i + together; ++k) {
      const Pass& pass = passes[k];
      const auto& content = stages[static_cast<std::size_t>(stage_of(pass))];
      if (pass.kind == PassKind::forward) {
        if (!beside) {
          hold(pass);
          ledger.note_kept(end, kept);
        }
        if (stage_of(pass) + 1 == schedule.depth()) {
          now.loss = tensors.at_loss;
          ledger.note(end, 0, pass);
          // Logits stay only where the backward pass of the micro-batch follows.
          const std::size_t next = i + together;
          const bool turns = !beside && next < passes.size() && passes[next].micro_batch == pass.micro_batch &&
                             passes[next].chunk == pass.chunk && passes[next].kind != PassKind::forward;
          now.loss = turns ? now.loss : Bytes(0);
        } else if (!beside) {
          ledger.note(end, 5, pass);
        }
      } else {
        hold(pass);
        if (pass.kind != PassKind::backward && (content.embedding || content.head)) {
          now.gathered = tensors.embedding_gradient;
        }
        ledger.note(end, 2, pass);
      }
    }
    i += together - 1;
  }
  if (now.gathered.raw() > 0) {
    now.gathered = Bytes(0);
    ledger.note(times.empty() ? 0 : times.back().end, 3, passes.back());
  }
}

}  // namespace tpplan
