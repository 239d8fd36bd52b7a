#include "cost-model/simulate.h"

#include <algorithm>
#include <stdexcept>

#include "cost-model/layer_sizes.h"
#include "cost-model/mixed.h"
#include "cost-model/pipeline.h"
#include "cost-model/simulate_work.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

bool ends_backward(PassKind kind) { return kind == PassKind::weight || kind == PassKind::whole_backward; }

}  // namespace

Simulator::Simulator() : work_(std::make_unique<Work>()) {}
Simulator::~Simulator() = default;

const SimulatedStep& Simulator::run(const Job& job, const Layout& layout, Detail detail,
                                    const Perturbation& perturbation, const PipelineSchedule* schedule) {
  return work_->run(job, layout, detail, perturbation, schedule);
}

SimulatedStep simulate(const Job& job, const Layout& layout, const Perturbation& perturbation,
                       const PipelineSchedule* schedule) {
  Simulator simulator;
  return simulator.run(job, layout, Detail::parts, perturbation, schedule);
}

const SimulatedStep& Simulator::Work::run(const Job& job, const Layout& layout, Detail detail,
                                          const Perturbation& perturbation, const PipelineSchedule* given) {
  job_ = &job;
  layout_ = &layout;
  perturbation_ = &perturbation;
  detail_ = detail;
  mixed_ = stages_keep_to_parts(job, layout);
  const std::size_t parts = mixed_ ? job.parts.size() : 1;
  costs_.resize(parts);
  piece_parts_.resize(parts);
  for (std::size_t part = 0; part < parts; ++part) {
    costs_[part] = layer_costs(job_of(part), layer_key(layout));
    if (detail == Detail::parts) {
      piece_parts_[part].build(job_of(part), layer_key(layout), costs_[part], step_.part_names);
    }
  }
  micro_batches_ = static_cast<int>(job.training.global_batch / (std::int64_t{layout.dp} * layout.micro_batch));
  if (micro_batches_ < 1) {
    throw std::invalid_argument("the global batch leaves no micro-batch for a step");
  }
  random_.seed(perturbation.seed);
  engine_.clear();
  for (auto& marks : marks_) {
    marks.clear();
  }
  silent_ = 0;
  step_.operations.clear();
  step_.parts.clear();
  hop_ = hop();
  choose_schedule(given);
  prepare_stages();
  prepare_ranks();
  perturb();
  for (int r = 0; r < layout.pp; ++r) {
    add_first_gather(r);
    add_passes(r);
    add_reduction(r);
  }
  add_arrivals();
  add_ends();
  end_ = engine_.run();
  step_.makespan = period() + job.profile.step_fixed_s;
  step_.events = engine_.events() - 2 * silent_;
  tell();
  return step_;
}

/// Clipping needs the norm of all gradients, so that every rank waits for all; zero-bubble schedules check the norm
/// afterwards (arXiv 2401.10241 section 4).
bool Simulator::Work::waits_for_norm() const {
  return !row_of(layout_->schedule).splits_backward || layout_->schedule == Schedule::dualpipe;
}

/// Time from one step to the next. Where the ranks do not wait for each other at the end, the next step starts on each
/// as soon as that rank is free: the rank that takes longest decides, its gather before the first pass included.
double Simulator::Work::period() const {
  if (waits_for_norm()) {
    return end_;
  }
  double longest = 0;
  for (const auto& rank : ranks_) {
    double end = 0;
    for (const Index lane : {rank.passes, rank.background, rank.copies}) {
      for (const auto& operation : engine_.operations(lane)) {
        end = std::max(end, operation.end);
      }
    }
    const double begin = engine_.operations(rank.passes)[rank.begins.front()].start - rank.times.gather.raw();
    longest = std::max(longest, end - std::max(0.0, begin));
  }
  return longest;
}

void Simulator::Work::choose_schedule(const PipelineSchedule* given) {
  if (given != nullptr) {
    step_.schedule = *given;
    step_.schedule.weight_share = costs_.front().weight_share;
    schedule_known_ = false;
  } else {
    ScheduleRequest request;
    request.ranks = layout_->pp;
    request.chunks = layout_->vpp;
    request.micro_batches = micro_batches_;
    const auto contents = stage_contents(*job_, layout_->pp, layout_->pp);
    const auto middle = stage_costs(costs_.front(), contents[static_cast<std::size_t>(layout_->pp / 2)]);
    if (row_of(layout_->schedule).splits_backward) {
      const double chunks = chunks_of(layout_->schedule, 1);
      request.times = {middle.forward.raw() / chunks, (middle.backward - middle.weight).raw() / chunks,
                       middle.weight.raw() / chunks, (hop_.latency + hop_.bytes / hop_.bandwidth).raw()};
      request.weight_share = costs_.front().weight_share;
    }
    const auto same = [](const ScheduleRequest& a, const ScheduleRequest& b) {
      return a.ranks == b.ranks && a.chunks == b.chunks && a.micro_batches == b.micro_batches &&
             a.times.forward == b.times.forward && a.times.backward == b.times.backward &&
             a.times.weight == b.times.weight && a.times.transfer == b.times.transfer &&
             a.weight_share == b.weight_share;
    };
    if (!schedule_known_ || last_schedule_ != layout_->schedule || !same(request, last_request_)) {
      step_.schedule = make_schedule(layout_->schedule, request);
      last_request_ = request;
      last_schedule_ = layout_->schedule;
      schedule_known_ = true;
    }
  }
  const auto& schedule = step_.schedule;
  if (schedule.size() != layout_->pp || schedule.micro_batches != micro_batches_) {
    throw std::invalid_argument("the schedule is for " + std::to_string(schedule.size()) + " ranks and " +
                                std::to_string(schedule.micro_batches) + " micro-batches, the layout has " +
                                std::to_string(layout_->pp) + " and " + std::to_string(micro_batches_));
  }
}

void Simulator::Work::prepare_stages() {
  stages_.clear();
  int begin = 0;
  const auto add_stage = [&](const StageContent& content, std::size_t part) {
    stages_.push_back({content, begin, part, stage_costs(costs_[part], content)});
    begin += content.dense + content.moe;
  };
  if (mixed_) {
    const PipelineShape shape = pipeline_shape(*job_, *layout_);
    contents_.clear();
    for (const auto& group : shape.groups) {
      for (int i = 0; i < group.count; ++i) {
        contents_.push_back(group.content);
        add_stage(group.content, static_cast<std::size_t>(std::max(0, group.part)));
      }
    }
  } else {
    contents_ = stage_contents(*job_, layout_->pp, step_.schedule.depth());
    for (const auto& content : contents_) {
      add_stage(content, 0);
    }
  }
  const auto cells = static_cast<std::size_t>(step_.schedule.depth()) * static_cast<std::size_t>(micro_batches_);
  forward_sent_.assign(cells, After{});
  backward_sent_.assign(cells, After{});
}

Simulator::Work::Hop Simulator::Work::hop() const {
  const auto& profile = job_->profile;
  const auto neighbours = stage_pair(*job_, *layout_, 1);
  const Bytes boundary = costs_.front().boundary;
  const bool parts = profile.pp_scatter_gather > 0.5 && layout_->tp > 1 && !layout_->sequence_parallel;
  Hop hop;
  hop.tier = neighbours.tier;
  hop.bytes = parts ? boundary / layout_->tp : boundary;
  const Seconds alone = collective_time(*job_, Collective::send_recv, hop.bytes, neighbours);
  hop.bandwidth = group_bandwidth(*job_, Collective::send_recv, neighbours);
  if (hop.bytes / hop.bandwidth > alone) {
    hop.bandwidth = hop.bytes / alone;
  }
  hop.latency = max(Seconds(0), alone - hop.bytes / hop.bandwidth);
  if (parts) {
    hop.latency += collective_time(*job_, Collective::all_gather, boundary, place_group(job_->cluster, layout_->tp, 1));
  }
  // A plain 1F1B rank waits for about two transfers a micro-batch by its order of passes alone; a profile that
  // measured more has its ranks wait for their sends too, one in each direction.
  const bool overlapped =
      layout_->schedule == Schedule::interleaved && switched_on(job_->training.overlap_pp, profile.pp_overlap_default);
  if (!overlapped) {
    hop.sender_waits =
        (hop.latency + hop.bytes / hop.bandwidth) * (std::max(0.0, profile.pp_exposed_transfers - 2) / 2);
  }
  return hop;
}

/// The data-parallel terms of the estimate (combine() in estimate.cpp) as operations.
Simulator::Work::RankTimes Simulator::Work::rank_times(const Rank& rank, const StageCosts& whole,
                                                       const DataGroups& groups) const {
  const Job& job = job_of(rank.part);
  const LayerCosts& costs = costs_[rank.part];
  const StageContent& content = rank.content;
  const auto& profile = job.profile;
  RankTimes times;
  StageCosts stage = whole;
  if (layout_->zero >= 3) {
    times.fsdp = fsdp_times(job, costs, content, stage, groups);
  }
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  if (own_head) {
    stage.params += costs.head_params;
  }
  if (layout_->zero < 3 && layout_->dp * layout_->cp > 1) {
    const auto t = data_parallel_times(job, *layout_, stage, groups);
    times.gather = t.gather;
    times.reduce = t.reduce;
  }
  times.params = stage.params + stage.expert_params;
  if (job.model.tied_embeddings && layout_->pp > 1 && content.embedding != content.head) {
    times.tied =
        collective_time(*job_, Collective::all_reduce, Bytes(costs.embedding_params * profile.gradient_wire_bytes),
                        stage_pair(*job_, *layout_, layout_->pp - 1));
  }
  const double local = layout_->zero >= 1
                           ? stage.params / groups.dense_shards + stage.expert_params / groups.expert_shards
                           : stage.params + stage.expert_params;
  const Bytes traffic(std::max(8.0, profile.optimizer_bytes + row_of(layout_->optimizer).traffic_bytes) * local);
  times.optimizer = traffic / (job.cluster.gpu.memory_bandwidth * job.constants.memory_adam);
  const bool host_link = job.cluster.host_link.raw() > 0;
  if (layout_->offload == Offload::optimizer && host_link) {
    // Gradients go down and updated weights come back; the update itself runs at host memory speed beside them.
    times.optimizer_copy = Bytes((4 + profile.weight_bytes) * local) / job.cluster.host_link;
    times.optimizer = Seconds(0);
  } else if (layout_->offload == Offload::activations && host_link) {
    const Bytes moved = costs.dense_activations * static_cast<double>(content.dense) +
                        costs.moe_activations * static_cast<double>(content.moe);
    times.activation_copy = moved / job.cluster.host_link;
  }
  return times;
}

void Simulator::Work::prepare_ranks() {
  const auto& schedule = step_.schedule;
  const auto groups = data_groups(job_of(0), *layout_);
  fsdp_ = layout_->zero >= 3 && groups.dense_shard.ranks > 1;
  every_micro_batch_ = fsdp_ ? job_->profile.unsynced_gradients < 0.5 : layout_->zero == 2;
  const double share = fsdp_ ? job_->profile.fsdp_overlap_cost : job_->profile.dp_overlap_cost;
  const auto pp = static_cast<std::size_t>(layout_->pp);
  ranks_.resize(pp);
  step_.ranks.resize(pp);
  for (std::size_t r = 0; r < pp; ++r) {
    auto& rank = ranks_[r];
    auto& told = step_.ranks[r];
    for (Index* lane : {&rank.passes, &rank.background, &rank.next, &rank.previous, &rank.copies}) {
      *lane = engine_.add_lane();
    }
    engine_.couple(rank.passes, rank.background, share);
    rank.content = StageContent{};
    rank.slowdown = 1;
    rank.link_slowdown = 1;
    rank.begins.clear();
    told.chunk_activations.clear();
    StageContent& sum = rank.content;
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const auto& stage = stages_[static_cast<std::size_t>(schedule.stage_of(static_cast<int>(r), chunk))];
      const auto& content = stage.content;
      rank.part = stage.part;
      sum.dense += content.dense;
      sum.moe += content.moe;
      sum.embedding = sum.embedding || content.embedding;
      sum.head = sum.head || content.head;
      told.chunk_activations.push_back(activations_of(stage));
    }
    const Job& job = job_of(rank.part);
    const LayerCosts& costs = costs_[rank.part];
    const auto stage = stage_costs(costs, sum);
    const auto own_groups = mixed_ ? data_groups(job, *layout_) : groups;
    const StageGroup group{sum, static_cast<int>(r), 1, mixed_ ? static_cast<int>(rank.part) : -1};
    told.layers = sum.dense + sum.moe;
    told.passes = 0;
    if (detail_ != Detail::times) {
      told.memory = stage_memory(job, *layout_, costs, group, stage, own_groups, micro_batches_).at;
      rank.tensors = stage_tensors(job, *layout_, costs, group, stage, own_groups, micro_batches_);
    }
    rank.times = rank_times(rank, stage, own_groups);
  }
  marks_.resize(std::max(marks_.size(), engine_.lanes() + 1));
}

/// Slow parts, then the ports and what flows over them.
void Simulator::Work::perturb() {
  for (const SlowPart& part : perturbation_->slow) {
    auto& rank = ranks_[static_cast<std::size_t>(rank_of(part.gpu))];
    (part.link ? rank.link_slowdown : rank.slowdown) /= 1 - part.slow;
  }
  for (auto& rank : ranks_) {
    rank.out = engine_.add_link(hop_.bandwidth / rank.link_slowdown);
    rank.in = engine_.add_link(hop_.bandwidth / rank.link_slowdown);
    rank.collective = kNone;
  }
  if (layout_->pp == 1) {
    return;
  }
  const auto groups = data_groups(job_of(0), *layout_);
  const auto& group = fsdp_ ? groups.dense_shard : groups.dense;
  const bool shares = !mixed_ && group.ranks > 1 && group.tier == hop_.tier;
  BytesPerSecond most = hop_.bandwidth;
  if (shares) {
    const auto law =
        collective_law(*job_, layout_->zero == 0 ? Collective::all_reduce : Collective::reduce_scatter, group);
    most = law.measured.nearest == nullptr ? min(most, law.bandwidth / static_cast<double>(std::max(1, group.inside))) : most;
  }
  const std::size_t pp = ranks_.size();
  for (std::size_t r = 0; r < pp; ++r) {
    auto& rank = ranks_[r];
    LaneEngine::FlowKind kind;
    kind.latency = hop_.latency;
    kind.from = rank.out;
    kind.to = ranks_[(r + 1) % pp].in;
    rank.to_next = engine_.add_flow_kind(kind);
    kind.to = ranks_[(r + pp - 1) % pp].in;
    rank.to_previous = engine_.add_flow_kind(kind);
    if (shares) {
      rank.collective = engine_.add_flow_kind({Seconds(0), most, rank.out, rank.in});
      rank.collective_rate = most.raw();
    }
  }
}

int Simulator::Work::rank_of(int gpu) const {
  const int inner = layout_->tp * layout_->cp;
  return layout_->ranks_order == RanksOrder::tp_cp_pp_dp ? gpu / inner % layout_->pp : gpu / (inner * layout_->dp);
}

PieceKind Simulator::Work::piece_kind(const Stage& stage, int piece) const {
  const int layer = piece - (stage.content.embedding ? 1 : 0);
  if (layer < 0) {
    return PieceKind::embedding;
  }
  if (layer >= stage.layers()) {
    return PieceKind::head;
  }
  return job_->moe_in(stage.begin + layer, stage.begin + layer + 1) > 0 ? PieceKind::moe : PieceKind::dense;
}

double Simulator::Work::piece_params(const Stage& stage, int piece) const {
  const LayerCosts& costs = costs_[stage.part];
  switch (piece_kind(stage, piece)) {
    case PieceKind::embedding:
      return costs.embedding_params;
    case PieceKind::head:
      return job_->model.tied_embeddings && stage.content.embedding ? 0 : costs.head_params;
    case PieceKind::moe:
      return costs.moe_params + costs.expert_params;
    default:
      return costs.dense_params;
  }
}

/// Bytes kept for the backward pass of one micro-batch on one stage.
Bytes Simulator::Work::activations_of(const Stage& stage) const {
  const LayerCosts& costs = costs_[stage.part];
  const StageContent& content = stage.content;
  const double layers = content.dense + content.moe;
  const double recomputed = layout_->recompute == RecomputeKind::full && layout_->recompute_layers > 0 && layers > 0
                                ? std::min(1.0, layout_->recompute_layers / layers)
                                : 1;
  const auto sum = [&content](Bytes dense, Bytes moe) {
    return dense * static_cast<double>(content.dense) + moe * static_cast<double>(content.moe);
  };
  return sum(costs.dense_activations, costs.moe_activations) * recomputed +
         sum(costs.dense_activations_all, costs.moe_activations_all) * (1 - recomputed);
}

const Simulator::Work::Stage& Simulator::Work::stage_of(int r, const Pass& pass) const {
  return stages_[static_cast<std::size_t>(step_.schedule.stage_of(r, pass.chunk))];
}

double Simulator::Work::time_of(int r, const Pass& pass) const {
  const auto& costs = stage_of(r, pass).costs;
  const std::array<Seconds, 4> times{costs.forward, costs.backward - costs.weight, costs.weight, costs.backward};
  return times[static_cast<std::size_t>(pass.kind)].raw();
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
  bool first = layout_->zero == 2;
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
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const bool pair = passes[i].with_next && i + 1 < passes.size();
    add_pass(r, i);
    for (std::size_t k = i; k < i + (pair ? 2 : 1); ++k) {
      add_transfer(r, passes[k]);
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
  rank.begins[i] = engine_.size(rank.passes);
  if (pair) {
    rank.begins[i + 1] = rank.begins[i];
  }
  const bool beside = fsdp_ || (rank.times.reduce.raw() > 0 && reduces_beside(r));
  const auto reduces = [&](std::size_t k) {
    const bool last = chunk_last_[static_cast<std::size_t>(passes[k].chunk)] == static_cast<int>(k);
    return beside && ends_backward(passes[k].kind) && (every_micro_batch_ || last);
  };
  const auto chunk = static_cast<std::size_t>(pass.chunk);
  const bool gathered = chunk_first_[chunk] == static_cast<int>(i) && !rank.gather_ends[chunk].empty();
  if (!pair && stage_of(r, pass).pieces() > 0 && (fsdp_ || reduces(i) || gathered)) {
    add_pieces(r, i, factor, reduces(i), gathered);
    return;
  }
  const double time = (time_of(r, pass) + (pair ? time_of(r, passes[i + 1]) : 0)) * factor;
  const Mark mark{
      SimulatedKind::pass, StreamKind::compute, static_cast<std::int32_t>(i), 0, stage_of(r, pass).pieces(), true};
  add(rank.passes, time, mark);
  if (!pair) {
    return;
  }
  // Two passes at once: their traffic runs beside them, in no order with their layers.
  const double layers = stage_of(r, pass).layers();
  const auto& t = rank.times.fsdp;
  if (fsdp_) {
    add_collective(r, (t.layer_gather + t.expert_gather).raw() * 2 * layers, SimulatedKind::gather,
                   {rank.passes, rank.begins[i]});
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
  const int limit = std::max(1, static_cast<int>(job_->profile.fsdp_prefetch_layers));
  const bool gathers = fsdp_ && pass.kind != PassKind::weight;
  // Pieces that run before the first layer.
  const int lead = forward ? (stage.content.embedding ? 1 : 0) : (stage.content.head ? 1 : 0);
  const auto layer_end = [&](int layer) { return first + static_cast<Index>(lead + layer) + 1; };
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
      gates_[static_cast<std::size_t>(lead + layer)] = engine_.size(rank.background);
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
      add_collective(r, time, SimulatedKind::reduce, {rank.passes, first + static_cast<Index>(pieces)});
    }
  }
  for (int k = 0; k < pieces; ++k) {
    const int piece = forward ? k : pieces - 1 - k;
    const auto at = static_cast<std::size_t>(k);
    if (gated) {
      gates_[at] = std::max(gates_[at], rank.gather_ends[static_cast<std::size_t>(pass.chunk)][at]);
    }
    const Mark mark{SimulatedKind::pass, StreamKind::compute, static_cast<std::int32_t>(i), piece, 1, true};
    add(rank.passes, piece_time(costs_[stage.part], piece_kind(stage, piece), pass.kind) * factor, mark, {},
        gates_[at] > 0 ? After{rank.background, gates_[at]} : After{});
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
    }
  }
}

/// What is reduced after the last pass of a rank.
void Simulator::Work::add_reduction(int r) {
  auto& rank = ranks_[static_cast<std::size_t>(r)];
  if (fsdp_ || rank.times.reduce.raw() <= 0 || reduces_beside(r)) {
    return;
  }
  const int times = every_micro_batch_ ? micro_batches_ : 1;
  for (int i = 0; i < times; ++i) {
    add_collective(r, rank.times.reduce.raw(), SimulatedKind::reduce, {rank.passes, engine_.size(rank.passes)});
  }
}

/// Optimizer steps.
void Simulator::Work::add_ends() {
  const bool norm = waits_for_norm();
  // Both ends of the pipeline reduce the matrix they share when both are ready.
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
    add_collective(r, rank.times.tied.raw(), SimulatedKind::reduce, {other.background, ready});
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
