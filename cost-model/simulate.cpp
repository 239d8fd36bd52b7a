#include "cost-model/simulate.h"

#include <algorithm>
#include <stdexcept>

#include "cost-model/in_flight.h"
#include "cost-model/layer_sizes.h"
#include "cost-model/mixed.h"
#include "cost-model/pipeline.h"
#include "cost-model/simulate_host.h"
#include "cost-model/simulate_work.h"
#include "cost-model/stage_balance.h"
#include "cost-model/stage_cost.h"

namespace tpplan {

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
  }
  launches_ = host_may_fall_behind();
  drains_ = drains_every_pass(job.training.framework, layout.pp);
  for (std::size_t part = 0; part < parts; ++part) {
    if (detail == Detail::parts) {
      piece_parts_[part].build(job_of(part), layer_key(layout), costs_[part], launches_, step_.part_names);
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
  prepare_loads();
  prepare_ranks(given != nullptr);
  perturb();
  for (int r = 0; r < layout.pp; ++r) {
    add_first_gather(r);
    add_passes(r);
    add_reduction(r);
  }
  add_arrivals();
  for (auto& rank : ranks_) {
    rank.passes_joined = engine_.size(rank.passes);
    rank.background_joined = engine_.size(rank.background);
  }
  add_ends();
  end_ = engine_.run();
  measure_spans();
  const double period = waits_for_norm() ? end_ : *std::max_element(spans_.begin(), spans_.end());
  step_.makespan = period + job.profile.step_fixed_s;
  step_.events = engine_.events() - 2 * silent_;
  tell();
  return step_;
}

/// Clipping needs the norm of all gradients, so that every rank waits for all; zero-bubble schedules check the norm
/// afterwards (arXiv 2401.10241 section 4).
bool Simulator::Work::waits_for_norm() const {
  return !row_of(layout_->schedule).splits_backward || layout_->schedule == Schedule::dualpipe;
}

/// Where the ranks do not wait for each other at the end, the next step starts on each as soon as that rank is free:
/// its time runs from its first operation, the gather before the first pass included.
void Simulator::Work::measure_spans() {
  const bool joined = waits_for_norm();
  spans_.clear();
  for (const auto& rank : ranks_) {
    const auto& passes = engine_.operations(rank.passes);
    const auto& background = engine_.operations(rank.background);
    double end = 0;
    if (joined) {
      end = rank.passes_joined > 0 ? passes[rank.passes_joined - 1].end : 0;
      end = rank.background_joined > 0 ? std::max(end, background[rank.background_joined - 1].end) : end;
      spans_.push_back(end);
      continue;
    }
    for (const Index lane : {rank.passes, rank.background, rank.copies, rank.loads}) {
      const auto& operations = engine_.operations(lane);
      end = operations.empty() ? end : std::max(end, operations.back().end);
    }
    const double begin = passes[rank.begins.front()].start - rank.times.gather.raw();
    spans_.push_back(end - std::max(0.0, begin));
  }
}

void Simulator::Work::choose_schedule(const PipelineSchedule* given) {
  if (given != nullptr) {
    step_.schedule = *given;
    step_.schedule.weight_share = costs_.front().weight_share;
    schedule_known_ = false;
  } else {
    const ScheduleRequest request = order_request(*job_, *layout_, costs_.front(), micro_batches_);
    const auto same = [](const ScheduleRequest& a, const ScheduleRequest& b) {
      return a.ranks == b.ranks && a.chunks == b.chunks && a.micro_batches == b.micro_batches && a.group == b.group &&
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
    const int depth = step_.schedule.depth();
    contents_ = stages_are_balanced(*job_, layout_->pp)
                    ? stage_contents(*job_, layout_->pp, depth, balanced_stages(*job_, *layout_, costs_.front()))
                    : stage_contents(*job_, layout_->pp, depth);
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
  // A rank of 1F1B and of the schedules that split its backward pass waits for about two transfers a micro-batch by its
  // order of passes alone: down and up again between a forward pass and its gradient, as many micro-batches later as
  // there are stages. Interleaving leaves more than a pass between what one rank sends and the next needs. What a
  // profile measured beyond that are waits of the senders: Megatron-LM, unless it overlaps, exchanges after every pass
  // of a chunk and goes on when that has ended. One transfer of two is in each direction.
  const bool interleaved = layout_->schedule == Schedule::interleaved;
  const bool overlapped = interleaved && switched_on(job_->training.overlap_pp, profile.pp_overlap_default);
  if (!overlapped) {
    const double by_order = interleaved ? 0 : 2;
    hop.sender_waits =
        (hop.latency + hop.bytes / hop.bandwidth) * (std::max(0.0, profile.pp_exposed_transfers - by_order) / 2);
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
  if (gathers_by_layer(job, *layout_)) {
    times.fsdp = fsdp_times(job, costs, content, stage, groups);
  }
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  if (own_head) {
    stage.params += costs.head_params;
  }
  times.params = stage.params + stage.expert_params;
  const auto trained = trained_parameters(costs, content, whole, own_head);
  if (costs.frozen) {
    // Of a frozen rank only the adapters are reduced and updated.
    stage.params = trained.dense;
    stage.expert_params = trained.expert;
  }
  if (!gathers_by_layer(job, *layout_) && layout_->dp * layout_->cp > 1) {
    const auto t = data_parallel_times(job, *layout_, stage, groups);
    times.gather = t.gather;
    times.reduce = t.reduce;
  }
  if (ends_share_embedding(job, *layout_) && !costs.frozen && content.embedding != content.head) {
    times.tied = collective_time(*job_, Collective::all_reduce,
                                 Bytes(costs.embedding_params * state_bytes(job, layout_->optimizer).wire),
                                 stage_pair(*job_, *layout_, layout_->pp - 1));
  }
  const double local = layout_->zero >= 1
                           ? stage.params / groups.dense_shards + stage.expert_params / groups.expert_shards
                           : stage.params + stage.expert_params;
  const Bytes traffic(std::max(8.0, profile.optimizer_bytes + row_of(layout_->optimizer).traffic_bytes) * local);
  times.optimizer = traffic / (job.cluster.gpu.memory_bandwidth * job.constants.memory_adam);
  times.optimizer += optimizer_products(job, layout_->optimizer, trained.matrices);
  times.optimizer += loss_scaling(job, *layout_, local);
  times.optimizer += paged_update(job, *layout_, costs, {content, 0, 1, -1}, whole, groups, micro_batches_);
  const bool host_link = job.cluster.host_link.raw() > 0;
  if (layout_->offload == Offload::optimizer && host_link) {
    times.optimizer_copy = offloaded_update(job, *layout_, local);
    times.optimizer = Seconds(0);
    times.activation_copy = hosted_weights(job, *layout_, costs, content, whole, groups) / job.cluster.host_link;
  } else if (layout_->offload == Offload::activations && host_link) {
    const Bytes moved = costs.dense_activations * static_cast<double>(content.dense) +
                        costs.moe_activations * static_cast<double>(content.moe);
    times.activation_copy = moved / job.cluster.host_link;
  }
  return times;
}

void Simulator::Work::prepare_ranks(bool given) {
  const auto& schedule = step_.schedule;
  const auto groups = data_groups(job_of(0), *layout_);
  fsdp_ = gathers_by_layer(*job_, *layout_) && groups.dense_shard.ranks > 1;
  every_micro_batch_ = reduces_each(*job_, *layout_);
  keeps_gathered_ = keeps_gathered(*job_, *layout_);
  const double share = fsdp_ ? job_->profile.fsdp_overlap_cost : job_->profile.dp_overlap_cost;
  const auto pp = static_cast<std::size_t>(layout_->pp);
  ranks_.resize(pp);
  step_.ranks.resize(pp);
  const bool by_order = detail_ != Detail::times && (given || holds_by_order(layout_->schedule));
  const auto counted = by_order ? held_activations(schedule) : std::vector<HeldActivations>{};
  for (std::size_t r = 0; r < pp; ++r) {
    auto& rank = ranks_[r];
    auto& told = step_.ranks[r];
    for (Index* lane :
         {&rank.passes, &rank.background, &rank.next, &rank.previous, &rank.copies, &rank.launches, &rank.loads}) {
      *lane = engine_.add_lane();
    }
    engine_.couple(rank.passes, rank.background, share);
    rank.content = StageContent{};
    rank.slowdown = 1;
    rank.link_slowdown = 1;
    rank.host_slowdown = 1;
    rank.begins.clear();
    rank.launch_begins.clear();
    rank.launched_ends.clear();
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
      sum.mtp += content.mtp;
      sum.chunks = chunks_of(layout_->schedule, layout_->vpp);
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
      const auto held = by_order ? counted[r] : held_by_rule(*layout_, costs, static_cast<int>(r), micro_batches_);
      told.memory = stage_memory(job, *layout_, costs, group, stage, own_groups, micro_batches_, held).at;
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
    double& slowed = part.kind == SlowKind::gpu    ? rank.slowdown
                     : part.kind == SlowKind::link ? rank.link_slowdown
                                                   : rank.host_slowdown;
    slowed /= 1 - part.slow;
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
    most = law.measured.nearest == nullptr ? min(most, law.bandwidth / static_cast<double>(std::max(1, group.inside)))
                                           : most;
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
      return (job_->model.tied_embeddings && stage.content.embedding ? 0 : costs.head_params) +
             stage.content.mtp * (costs.mtp_params + costs.expert_params) +
             (stage.content.mtp > 0 && !stage.content.embedding ? costs.embedding_params : 0);
    case PieceKind::moe:
      return costs.moe_params + costs.expert_params;
    default:
      return costs.dense_params;
  }
}

/// Bytes kept for the backward pass of one micro-batch on one stage.
Bytes Simulator::Work::activations_of(const Stage& stage) const {
  return kept_activations(*layout_, costs_[stage.part], stage.content, 1);
}

}  // namespace tpplan
