#include <algorithm>

#include "cost-model/simulate_work.h"

namespace tpplan {

/// Turns what the lanes did into operations, memory and parts.
void Simulator::Work::tell() {
  step_.passes_end = 0;
  for (int r = 0; r < layout_->pp; ++r) {
    const auto& rank = ranks_[static_cast<std::size_t>(r)];
    auto& told = step_.ranks[static_cast<std::size_t>(r)];
    told.end = 0;
    if (detail_ == Detail::times) {
      continue;
    }
    tell_passes(r);
    for (const Index lane :
         {rank.next, rank.previous, rank.background, rank.copies, rank.launches, rank.loads, barrier_}) {
      tell_lane(r, lane);
    }
    if (job_->profile.step_fixed_s > 0) {
      SimulatedOperation fixed;
      fixed.kind = SimulatedKind::host;
      fixed.stream = StreamKind::host;
      fixed.rank = r;
      fixed.start = end_;
      fixed.end = end_ + job_->profile.step_fixed_s;
      step_.operations.push_back(fixed);
    }
    follow_memory(step_.schedule, r, pass_times_, rank.tensors, contents_, layout_->offload == Offload::activations,
                  told);
  }
  step_.events += 2 * step_.parts.size();
}

void Simulator::Work::tell_passes(int r) {
  const auto& rank = ranks_[static_cast<std::size_t>(r)];
  auto& told = step_.ranks[static_cast<std::size_t>(r)];
  const auto& passes = step_.schedule.ranks[static_cast<std::size_t>(r)];
  const auto& ran = engine_.operations(rank.passes);
  const auto& marks = marks_[rank.passes];
  pass_times_.assign(passes.size(), PassTime{});
  told.passes = 0;
  std::int32_t open = -1;  // pass whose pieces follow one another
  std::size_t open_at = 0;
  for (std::size_t k = 0; k < ran.size(); ++k) {
    const Mark& mark = marks[k];
    if (!mark.shown) {
      if (mark.pass >= 0 && mark.pass == open && mark.kind == SimulatedKind::pass) {
        // The GPU has waited for the last launch.
        step_.operations[open_at].end = ran[k].end;
        pass_times_[static_cast<std::size_t>(open)].end = ran[k].end;
        told.last_end = ran[k].end;
        step_.passes_end = std::max(step_.passes_end, ran[k].end);
      }
      continue;
    }
    told.end = std::max(told.end, ran[k].end);
    if (mark.kind != SimulatedKind::pass) {
      SimulatedOperation operation;
      operation.kind = mark.kind;
      operation.stream = mark.stream;
      operation.rank = r;
      if (mark.kind == SimulatedKind::wait) {
        operation.pass = {static_cast<PassKind>(mark.pieces), mark.pass, mark.first_piece, false};
      }
      operation.start = ran[k].start;
      operation.end = ran[k].end;
      step_.operations.push_back(operation);
      continue;
    }
    const auto i = static_cast<std::size_t>(mark.pass);
    const bool pair = passes[i].with_next && i + 1 < passes.size();
    if (mark.pass != open) {
      open = mark.pass;
      open_at = step_.operations.size();
      SimulatedOperation operation;
      operation.rank = r;
      operation.pass = passes[i];
      operation.beside = pair ? passes[i + 1] : Pass{};
      operation.start = ran[k].start;
      step_.operations.push_back(operation);
      told.first_start = told.passes > 0 ? told.first_start : ran[k].start;
    }
    step_.operations[open_at].end = ran[k].end;
    pass_times_[i] = {step_.operations[open_at].start, ran[k].end};
    if (pair) {
      pass_times_[i + 1] = pass_times_[i];
    }
    told.passes += ran[k].end - ran[k].start;
    told.last_end = ran[k].end;
    step_.passes_end = std::max(step_.passes_end, ran[k].end);
    if (detail_ == Detail::parts) {
      step_.events -= 2;  // its parts count instead
      tell_parts(r, mark, ran[k], static_cast<std::uint32_t>(open_at));
    }
  }
}

/// Divides the time of a pass, or of one piece of it, among the streams it went through.
void Simulator::Work::tell_parts(int r, const Mark& mark, const LaneEngine::Operation& ran, std::uint32_t operation) {
  const auto& passes = step_.schedule.ranks[static_cast<std::size_t>(r)];
  const auto i = static_cast<std::size_t>(mark.pass);
  const std::size_t together = passes[i].with_next && i + 1 < passes.size() ? 2 : 1;
  const double scale = ran.amount > 0 ? (ran.end - ran.start) / ran.amount : 0;
  const double factor = [&] {
    double undisturbed = 0;
    for (std::size_t k = i; k < i + together; ++k) {
      const Stage& stage = stage_of(r, passes[k]);
      undisturbed += mark.pieces == 1 && together == 1 ? gpu_time_of(stage, mark.first_piece, passes[k].kind)
                                                       : gpu_time_of(r, passes[k]);
    }
    return undisturbed > 0 ? ran.amount / undisturbed * scale : 0;
  }();
  double at = ran.start;
  for (std::size_t k = i; k < i + together; ++k) {
    const Stage& stage = stage_of(r, passes[k]);
    const bool forward = passes[k].kind == PassKind::forward;
    const int count = mark.pieces == 1 && together == 1 ? 1 : stage.pieces();
    for (int n = 0; n < count; ++n) {
      const int piece = count == 1 ? mark.first_piece : forward ? n : count - 1 - n;
      for (const PiecePart& part : piece_parts_[stage.part].of(piece_kind(stage, piece), passes[k].kind)) {
        const double end = std::min(ran.end, at + part.seconds * factor);
        step_.parts.push_back({operation, part.stream, part.name, at, end});
        at = end;
      }
    }
  }
}

void Simulator::Work::tell_lane(int r, Index lane) {
  const auto& ran = engine_.operations(lane);
  const auto& marks = marks_[lane];
  const auto& schedule = step_.schedule;
  auto& told = step_.ranks[static_cast<std::size_t>(r)];
  for (std::size_t k = 0; k < ran.size(); ++k) {
    const Mark& mark = marks[k];
    if (!mark.shown) {
      continue;
    }
    SimulatedOperation operation;
    operation.kind = mark.kind;
    operation.stream = mark.stream;
    operation.rank = r;
    operation.start = ran[k].start;
    operation.end = ran[k].end;
    if (mark.kind == SimulatedKind::transfer) {
      operation.pass = {static_cast<PassKind>(mark.pieces), mark.pass, mark.first_piece, false};
      const int stage = schedule.stage_of(r, operation.pass.chunk);
      operation.receiver =
          schedule.place_of(operation.pass.kind == PassKind::forward ? stage + 1 : stage - 1, mark.pass).rank;
      operation.bytes = hop_.bytes;
    } else if (mark.kind == SimulatedKind::load) {
      operation.pass = {PassKind::forward, mark.pass, 0, false};
    } else if (mark.pass >= 0 && (mark.kind == SimulatedKind::copy || mark.kind == SimulatedKind::launch)) {
      operation.pass = schedule.ranks[static_cast<std::size_t>(r)][static_cast<std::size_t>(mark.pass)];
    }
    if (mark.kind != SimulatedKind::load) {
      told.end = std::max(told.end, ran[k].end);
    }
    step_.operations.push_back(operation);
  }
}

}  // namespace tpplan
