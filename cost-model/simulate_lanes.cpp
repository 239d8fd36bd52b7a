#include <algorithm>
#include <array>
#include <cmath>

#include "cost-model/layer_sizes.h"
#include "cost-model/simulate_work.h"

namespace tpplan {
namespace {

bool ends_backward(PassKind kind) { return kind == PassKind::weight || kind == PassKind::whole_backward; }

}  // namespace

const Simulator::Work::Stage& Simulator::Work::stage_of(int r, const Pass& pass) const {
  return stages_[static_cast<std::size_t>(step_.schedule.stage_of(r, pass.chunk))];
}

double Simulator::Work::time_of(int r, const Pass& pass) const {
  const auto& costs = stage_of(r, pass).costs;
  const std::array<Seconds, 4> times{costs.forward, costs.backward - costs.weight, costs.weight, costs.backward};
  return times[static_cast<std::size_t>(pass.kind)].raw();
}

/// The same of a pass that no other hides the exchanges of.
double Simulator::Work::lone_time_of(int r, const Pass& pass) const {
  const auto& sums = stage_of(r, pass).costs.sums;
  const std::array<Seconds, 4> exchanges{sums.ep_hidden_forward, sums.ep_hidden_backward, Seconds(0),
                                         sums.ep_hidden_backward};
  return time_of(r, pass) + exchanges[static_cast<std::size_t>(pass.kind)].raw();
}

/// Deviation from 1 of a pass's time: a sum of twelve uniform numbers, nearly normal, the same on every machine.
double Simulator::Work::jitter() {
  if (perturbation_->jitter <= 0) {
    return 1;
  }
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  return std::max(0.1, 1 + perturbation_->jitter * sum);
}

std::size_t Simulator::Work::cell(int stage, int micro_batch) const {
  return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) +
         static_cast<std::size_t>(micro_batch);
}

/// The ranks that end a step reduce gradients beside their last backward passes; the others wait for them anyway and
/// reduce after their passes, so that nobody is slowed down whom others wait for.
bool Simulator::Work::reduces_beside(int r) const {
  if (!switched_on(job_->training.overlap_dp_grad, job_->profile.dp_overlap_default)) {
    return false;
  }
  bool first = every_micro_batch_;
  for (int chunk = 0; chunk < step_.schedule.chunks; ++chunk) {
    first = first || step_.schedule.stage_of(r, chunk) == 0;
  }
  return first;
}

Simulator::Work::Index Simulator::Work::add(Index lane, double seconds, const Mark& mark, After first, After second) {
  LaneEngine::Operation operation;
  operation.amount = seconds;
  operation.after = {first, second};
  silent_ += mark.shown ? 0 : 1;
  if (detail_ != Detail::times) {
    marks_[lane].push_back(mark);
  }
  return engine_.add(lane, operation);
}

Simulator::Work::Index Simulator::Work::add_collective(int r, double seconds, SimulatedKind kind, After after) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  Mark mark;
  mark.kind = kind;
  mark.stream = kind == SimulatedKind::gather ? StreamKind::parameter_gather : StreamKind::data_parallel;
  mark.shown = true;
  if (rank.collective == kNone) {
    return add(rank.background, seconds * rank.link_slowdown, mark, after);
  }
  const Index place = add(rank.background, seconds * rank.collective_rate, mark, after);
  engine_.operation(rank.background, place).flow = rank.collective;
  return place;
}

/// ZeRO-1/2: parameters come back before the first forward pass of each layer.
void Simulator::Work::add_first_gather(int r) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const auto chunks = static_cast<std::size_t>(step_.schedule.chunks);
  rank.gather_ends.resize(chunks);
  for (auto& ends : rank.gather_ends) {
    ends.clear();
  }
  const double gather = rank.times.gather.raw();
  if (gather <= 0) {
    return;
  }
  if (!switched_on(job_->training.overlap_dp_param, job_->profile.dp_overlap_default)) {
    Mark held;
    add_collective(r, gather, SimulatedKind::gather, {});
    add(rank.passes, 0, held, {rank.background, 1});
    return;
  }
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const auto& stage = stages_[static_cast<std::size_t>(step_.schedule.stage_of(r, static_cast<int>(chunk)))];
    for (int piece = 0; piece < stage.pieces(); ++piece) {
      const double part = gather * piece_params(stage, piece) / rank.times.params;
      if (part > 0) {
        add_collective(r, part, SimulatedKind::gather, {});
      }
      rank.gather_ends[chunk].push_back(engine_.size(rank.background));
    }
  }
}

void Simulator::Work::add_passes(int r) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& passes = step_.schedule.ranks[static_cast<std::size_t>(r)];
  const auto chunks = static_cast<std::size_t>(step_.schedule.chunks);
  chunk_first_.assign(chunks, -1);
  chunk_last_.assign(chunks, -1);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const auto chunk = static_cast<std::size_t>(passes[i].chunk);
    if (chunk_first_[chunk] < 0) {
      chunk_first_[chunk] = static_cast<int>(i);
    }
    chunk_last_[chunk] = ends_backward(passes[i].kind) ? static_cast<int>(i) : chunk_last_[chunk];
  }
  rank.begins.resize(passes.size());
  rank.launch_begins.resize(launches_ ? passes.size() : 0);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const bool pair = passes[i].with_next && i + 1 < passes.size();
    add_pass(r, i);
    for (std::size_t k = i; k < i + (pair ? 2 : 1); ++k) {
      add_transfer(r, passes[k]);
      add_standing_reduction(r, passes[k]);
    }
    for (std::size_t k = i; k < i + (pair ? 2 : 1); ++k) {
      add_copy(r, k);
    }
    i += pair ? 1 : 0;
  }
}

void Simulator::Work::add_pass(int r, std::size_t i) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const auto& passes = step_.schedule.ranks[static_cast<std::size_t>(r)];
  const Pass& pass = passes[i];
  const bool pair = pass.with_next && i + 1 < passes.size();
  const double factor = rank.slowdown * jitter();
  add_load(r, pass);
  if (pair) {
    add_load(r, passes[i + 1]);
  }
  rank.begins[i] = engine_.size(rank.passes);
  if (pair) {
    rank.begins[i + 1] = rank.begins[i];
  }
  const bool beside = fsdp_ || (rank.times.reduce.raw() > 0 && reduces_beside(r));
  const auto reduces = [&](std::size_t k) {
    const bool last = chunk_last_[static_cast<std::size_t>(passes[k].chunk)] == static_cast<int>(k);
    return beside && ends_backward(passes[k].kind) && (every_micro_batch_ || last);
  };
  if (launches_) {
    rank.launch_begins[i] = engine_.size(rank.launches);
    rank.launch_begins[i + (pair ? 1 : 0)] = rank.launch_begins[i];
  }
  const auto chunk = static_cast<std::size_t>(pass.chunk);
  const bool gathered = chunk_first_[chunk] == static_cast<int>(i) && !rank.gather_ends[chunk].empty();
  if (!pair && stage_of(r, pass).pieces() > 0 && (fsdp_ || reduces(i) || gathered || launches_)) {
    add_pieces(r, i, factor, reduces(i), gathered);
    return;
  }
  const double time =
      (gpu_time_of(r, pass) + (pair ? gpu_time_of(r, passes[i + 1]) : lone_time_of(r, pass) - time_of(r, pass))) *
      factor;
  const Mark mark{
      SimulatedKind::pass, StreamKind::compute, static_cast<std::int32_t>(i), 0, stage_of(r, pass).pieces(), true};
  if (launches_) {
    double launching = 0;
    for (std::size_t k = i; k < i + (pair ? 2 : 1); ++k) {
      const Stage& stage = stage_of(r, passes[k]);
      for (int piece = 0; piece < stage.pieces(); ++piece) {
        launching += launch_time(r, stage, piece, passes[k].kind);
      }
    }
    add_launch(r, i, launching);
  }
  add(rank.passes, time, mark);
  if (launches_) {
    add_launched_end(r, i);
  }
  if (!pair) {
    return;
  }
  // Two passes at once: their traffic runs beside them, in no order with their layers.
  const double layers = stage_of(r, pass).layers();
  const auto& t = rank.times.fsdp;
  if (fsdp_) {
    add_collective(r, (t.layer_gather + t.expert_gather).raw() * (keeps_gathered_ ? 1 : 2) * layers,
                   SimulatedKind::gather, {rank.passes, rank.begins[i]});
  }
  for (const std::size_t k : {i, i + 1}) {
    if (reduces(k)) {
      const double scatter =
          fsdp_ ? (t.layer_scatter + t.expert_scatter).raw() * layers : rank.times.reduce.raw() / step_.schedule.chunks;
      add_collective(r, scatter, SimulatedKind::reduce, {rank.passes, rank.begins[i] + 1});
    }
  }
}

/// A pass as its layers, with what is gathered before each and reduced after it.
void Simulator::Work::add_pieces(int r, std::size_t i, double factor, bool scatters, bool gated) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const Pass& pass = step_.schedule.ranks[static_cast<std::size_t>(r)][i];
  const Stage& stage = stage_of(r, pass);
  const bool forward = pass.kind == PassKind::forward;
  const int pieces = stage.pieces();
  const int layers = stage.layers();
  const Index first = engine_.size(rank.passes);
  const auto& t = rank.times.fsdp;
  const int limit = std::max(1, static_cast<int>(gathered_layers(*job_)));
  const bool gathers = fsdp_ && (forward || (!keeps_gathered_ && pass.kind != PassKind::weight));
  // Pieces that run before the first layer.
  const int lead = forward ? (stage.content.embedding ? 1 : 0) : (stage.content.head ? 1 : 0);
  // A piece is one operation, and one more that waits for its last launch.
  const Index stride = launches_ ? 2 : 1;
  const auto layer_end = [&](int layer) { return first + stride * (static_cast<Index>(lead + layer) + 1); };
  gates_.assign(static_cast<std::size_t>(pieces), 0);
  const auto scatter = [&](int layer) {
    const int piece = forward ? lead + layer : pieces - 1 - lead - layer;
    const double time = fsdp_ ? (t.layer_scatter + t.expert_scatter).raw()
                              : rank.times.reduce.raw() * piece_params(stage, piece) / rank.times.params;
    add_collective(r, time, SimulatedKind::reduce, {rank.passes, layer_end(layer)});
  };
  if (gathers && forward && t.root_gather.raw() > 0 && (stage.content.embedding || stage.content.head)) {
    add_collective(r, t.root_gather.raw(), SimulatedKind::gather, {rank.passes, first});
    gates_[0] = engine_.size(rank.background);
  }
  for (int layer = 0; layer < layers; ++layer) {
    if (gathers) {
      add_collective(r, (t.layer_gather + t.expert_gather).raw(), SimulatedKind::gather,
                     {rank.passes, layer >= limit ? layer_end(layer - limit) : first});
      gates_[static_cast<std::size_t>(lead) + static_cast<std::size_t>(layer)] = engine_.size(rank.background);
    }
    if (scatters && layer >= limit) {
      scatter(layer - limit);
    }
  }
  for (int layer = std::max(0, layers - limit); scatters && layer < layers; ++layer) {
    scatter(layer);
  }
  if (scatters && (stage.content.embedding || stage.content.head)) {
    const double ends = (stage.content.embedding ? piece_params(stage, 0) : 0) +
                        (stage.content.head ? piece_params(stage, pieces - 1) : 0);
    const double time = fsdp_ ? t.root_scatter.raw() : rank.times.reduce.raw() * ends / rank.times.params;
    if (time > 0) {
      add_collective(r, time, SimulatedKind::reduce, {rank.passes, first + stride * static_cast<Index>(pieces)});
    }
  }
  // Prediction modules, and layers left out of full recomputation, are told apart by the stage's whole time only.
  double sum = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    sum += piece_time(costs_[stage.part], piece_kind(stage, piece), pass.kind);
  }
  const double whole = lone_time_of(r, pass);
  const double scale = std::abs(whole - sum) > 1e-9 * whole ? whole / sum : 1;
  for (int k = 0; k < pieces; ++k) {
    const int piece = forward ? k : pieces - 1 - k;
    const auto at = static_cast<std::size_t>(k);
    if (gated) {
      gates_[at] = std::max(gates_[at], rank.gather_ends[static_cast<std::size_t>(pass.chunk)][at]);
    }
    const Mark mark{SimulatedKind::pass, StreamKind::compute, static_cast<std::int32_t>(i), piece, 1, true};
    if (launches_) {
      add_launch(r, i, launch_time(r, stage, piece, pass.kind) * scale);
    }
    add(rank.passes, gpu_time_of(stage, piece, pass.kind) * factor * scale, mark, {},
        gates_[at] > 0 ? After{rank.background, gates_[at]} : After{});
    if (launches_) {
      add_launched_end(r, i);
    }
  }
  if (fsdp_ && scatters) {
    // The end of a backward pass waits for its reductions.
    add(rank.passes, 0, Mark{}, {rank.background, engine_.size(rank.background)});
  }
}

void Simulator::Work::add_transfer(int r, const Pass& pass) {
  const auto& schedule = step_.schedule;
  const int stage = schedule.stage_of(r, pass.chunk);
  const bool forward = pass.kind == PassKind::forward;
  const int target = forward ? stage + 1 : stage - 1;
  if (pass.kind == PassKind::weight || target < 0 || target >= schedule.depth()) {
    return;
  }
  const int receiver = schedule.place_of(target, pass.micro_batch).rank;
  auto& arrival = (forward ? forward_sent_ : backward_sent_)[cell(target, pass.micro_batch)];
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  if (receiver == r) {
    return;  // the rank's own order of passes
  }
  const bool next = receiver == (r + 1) % schedule.size();
  Mark mark{SimulatedKind::transfer, next ? StreamKind::send_next : StreamKind::send_previous, 0, 0, 0, true};
  // Which of two passes that run together is known by its place.
  mark.pass = pass.micro_batch;
  mark.first_piece = pass.chunk;
  mark.pieces = static_cast<std::int32_t>(pass.kind);
  const Index lane = next ? rank.next : rank.previous;
  const Index place = add(lane, hop_.bytes.raw(), mark, {rank.passes, engine_.size(rank.passes)});
  engine_.operation(lane, place).flow = next ? rank.to_next : rank.to_previous;
  arrival = {lane, place + 1};
  if (hop_.sender_waits.raw() > 0) {
    Mark wait = mark;
    wait.kind = SimulatedKind::wait;
    wait.stream = StreamKind::compute;
    add(rank.passes, hop_.sender_waits.raw(), wait);
  }
}

/// Activations on their way to host memory and back: a pass makes room no faster than they leave.
void Simulator::Work::add_copy(int r, std::size_t i) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  const Pass& pass = step_.schedule.ranks[static_cast<std::size_t>(r)][i];
  const Stage& stage = stage_of(r, pass);
  const int layers = rank.content.dense + rank.content.moe;
  if (rank.times.activation_copy.raw() <= 0 || pass.kind == PassKind::weight || layers == 0) {
    return;
  }
  const Mark mark{SimulatedKind::copy, StreamKind::host_copy, static_cast<std::int32_t>(i), 0, 0, true};
  add(rank.copies, rank.times.activation_copy.raw() * stage.layers() / layers, mark, {rank.passes, rank.begins[i]});
  add(rank.passes, 0, Mark{}, {rank.copies, engine_.size(rank.copies)});
}

/// Passes wait for what is sent to them. Passes of the same stage are in order on its rank.
void Simulator::Work::add_arrivals() {
  const auto& schedule = step_.schedule;
  for (int r = 0; r < layout_->pp; ++r) {
    const auto& rank = ranks_[static_cast<std::size_t>(r)];
    const auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < passes.size(); ++i) {
      if (passes[i].kind == PassKind::weight) {
        continue;
      }
      const int stage = schedule.stage_of(r, passes[i].chunk);
      const bool forward = passes[i].kind == PassKind::forward;
      const After arrival = (forward ? forward_sent_ : backward_sent_)[cell(stage, passes[i].micro_batch)];
      const bool second = i > 0 && rank.begins[i] == rank.begins[i - 1];
      engine_.operation(rank.passes, rank.begins[i]).after[second ? 1 : 0] = arrival;
      if (launches_ && drains_ && !second) {
        engine_.operation(rank.launches, rank.launch_begins[i]).after[1] = arrival;
      }
    }
  }
}

/// What is reduced after the last pass of a rank.
void Simulator::Work::add_reduction(int r) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  if (fsdp_ || rank.times.reduce.raw() <= 0 || reduces_beside(r)) {
    return;
  }
  if (!every_micro_batch_) {
    add_collective(r, rank.times.reduce.raw(), SimulatedKind::reduce, {rank.passes, engine_.size(rank.passes)});
  }
}

/// Gradients reduced after every micro-batch by a rank that does nothing else meanwhile.
void Simulator::Work::add_standing_reduction(int r, const Pass& pass) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  if (fsdp_ || !every_micro_batch_ || rank.times.reduce.raw() <= 0 || reduces_beside(r) || !ends_backward(pass.kind)) {
    return;
  }
  const Stage& stage = stage_of(r, pass);
  double params = 0;
  for (int piece = 0; piece < stage.pieces(); ++piece) {
    params += piece_params(stage, piece);
  }
  add_collective(r, rank.times.reduce.raw() * params / rank.times.params, SimulatedKind::reduce,
                 {rank.passes, engine_.size(rank.passes)});
  add(rank.passes, 0, Mark{}, {rank.background, engine_.size(rank.background)});
}

/// Optimizer steps.
void Simulator::Work::add_ends() {
  const bool norm = waits_for_norm();
  // Both ends of the pipeline reduce the matrix they share when both are ready. Zero-bubble runs show no such wait:
  // their steps have no constant part of the length of the pipeline (tests/data/runs/zerobubble.jsonl).
  std::vector<int> ends;
  for (int r = 0; r < layout_->pp; ++r) {
    if (ranks_[static_cast<std::size_t>(r)].times.tied.raw() > 0) {
      ends.push_back(r);
    }
  }
  for (const int r : ends) {
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    add(rank.background, 0, Mark{}, {rank.passes, engine_.size(rank.passes)});
  }
  for (const int r : ends) {
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    const auto& other = ranks_[static_cast<std::size_t>(r == ends.front() ? ends.back() : ends.front())];
    const Index ready = engine_.size(other.background) - (r == ends.front() ? 0 : 1);
    const After both = norm ? After{other.background, ready} : After{};
    add_collective(r, rank.times.tied.raw(), SimulatedKind::reduce, both);
  }
  barrier_ = engine_.add_lane();
  if (norm) {
    for (const auto& rank : ranks_) {
      add(barrier_, 0, Mark{}, {rank.passes, engine_.size(rank.passes)},
          {rank.background, engine_.size(rank.background)});
    }
    const Seconds clip = collective_time(*job_, Collective::all_reduce, Bytes(4),
                                         place_group(job_->cluster, static_cast<int>(layout_->world()), 1));
    add(barrier_, clip.raw(), Mark{SimulatedKind::clip, StreamKind::data_parallel, -1, 0, 0, true});
  }
  const After all{barrier_, engine_.size(barrier_)};
  for (auto& rank : ranks_) {
    const After before = norm ? all : After{rank.background, engine_.size(rank.background)};
    if (rank.times.optimizer_copy.raw() > 0) {
      add(rank.copies, rank.times.optimizer_copy.raw(),
          Mark{SimulatedKind::copy, StreamKind::host_copy, -1, 0, 0, true}, before,
          {rank.passes, engine_.size(rank.passes)});
    } else {
      add(rank.passes, rank.times.optimizer.raw() * rank.slowdown,
          Mark{SimulatedKind::optimizer, StreamKind::compute, -1, 0, 0, true}, before);
    }
  }
}

}  // namespace tpplan
