#include "cost-model/simulate.h"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "cost-model/layer_sizes.h"
#include "cost-model/pipeline.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

using Index = OperationGraph::Index;
constexpr Index kNone = OperationGraph::kNone;

/// Layers of every stage that a micro-batch goes through.
std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth) {
  const auto& given = job.training.layers_per_stage;
  std::vector<int> layers;
  if (depth > ranks && static_cast<int>(given.size()) == ranks) {
    for (int stage = 0; stage < depth; ++stage) {
      layers.push_back(stage_layers(given[static_cast<std::size_t>(stage % ranks)], depth / ranks, stage / ranks));
    }
  } else {
    layers = pipeline_shape(job, depth, 1).layers_per_stage;
  }
  std::vector<StageContent> contents(layers.size());
  int begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const int end = std::min(job.model.layers, begin + layers[stage]);
    contents[stage].moe = job.moe_in(begin, end);
    contents[stage].dense = end - begin - contents[stage].moe;
    begin = end;
  }
  contents.front().embedding = true;
  contents.back().head = true;
  return contents;
}

/// Times of a rank's share of data parallelism and of what follows the passes, once per step unless stated.
struct RankEnds {
  Seconds gather;             ///< of parameters, on the DP stream
  bool gather_first = false;  ///< nothing runs before the gather has ended
  Seconds beside_forward;     ///< by which a gather beside it lengthens a forward pass that starts the step
  Seconds after_backward;     ///< exposed cost of the gradient reduction
  Seconds per_micro_batch;    ///< further exposed time of each micro-batch
  Seconds optimizer;
};

/// Divides the data-parallel terms of the estimate (combine() in estimate.cpp) among the operations of a rank.
RankEnds rank_ends(const Job& job, const Layout& layout, const LayerCosts& costs, const StageContent& content,
                   const DataGroups& groups, double micro_batches) {
  const auto& profile = job.profile;
  RankEnds ends;
  StageCosts stage = stage_costs(costs, content);
  const bool own_head = content.head && (!job.model.tied_embeddings || !content.embedding);
  const double layer_params = stage.params;
  if (own_head) {
    stage.params += costs.head_params;
  }
  const bool reduce_beside = switched_on(job.training.overlap_dp_grad, profile.dp_overlap_default);
  const bool gather_beside = switched_on(job.training.overlap_dp_param, profile.dp_overlap_default);
  if (layout.zero >= 3) {
    StageCosts body = stage;
    body.params = layer_params;
    ends.per_micro_batch = fsdp_exposed(job, costs, content, body, groups, micro_batches) / micro_batches;
  } else if (layout.dp * layout.cp > 1) {
    const auto t = data_parallel_times(job, layout, stage, groups);
    ends.gather = t.gather;
    ends.gather_first = !gather_beside;
    if (gather_beside) {
      ends.beside_forward = beside(stage.forward, t.gather, profile.dp_overlap_cost);
    }
    (layout.zero == 2 ? ends.per_micro_batch : ends.after_backward) =
        reduce_beside ? beside(stage.backward, t.reduce, profile.dp_overlap_cost) : t.reduce;
  }
  const int stride =
      layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp : layout.tp * layout.cp * layout.dp;
  if (job.model.tied_embeddings && layout.pp > 1 && content.embedding != content.head) {
    ends.after_backward +=
        collective_time(job, Collective::all_reduce, Bytes(costs.embedding_params * profile.gradient_wire_bytes),
                        place_group(job.cluster, 2, stride * (layout.pp - 1)));
  }
  const double local = layout.zero >= 1
                           ? stage.params / groups.dense_shards + stage.expert_params / groups.expert_shards
                           : stage.params + stage.expert_params;
  const Bytes traffic(std::max(8.0, profile.optimizer_bytes + row_of(layout.optimizer).traffic_bytes) * local);
  ends.optimizer = traffic / (job.cluster.gpu.memory_bandwidth * job.constants.memory_adam);
  if (layout.offload == Offload::optimizer && job.cluster.host_link.raw() > 0) {
    ends.optimizer = Bytes((4 + profile.weight_bytes) * local) / job.cluster.host_link;
  } else if (layout.offload == Offload::activations && job.cluster.host_link.raw() > 0) {
    const Bytes moved = costs.dense_activations * static_cast<double>(content.dense) +
                        costs.moe_activations * static_cast<double>(content.moe);
    const Seconds copy = moved / job.cluster.host_link;
    ends.per_micro_batch += max(Seconds(0), copy - stage.forward) + max(Seconds(0), copy - stage.backward);
  }
  return ends;
}

/// A transfer between neighbouring stages, alone on its way.
struct Hop {
  Bytes bytes;
  Seconds latency;
  BytesPerSecond bandwidth;
  Seconds sender_waits;  ///< of the sending rank's compute stream, beyond what the order of passes brings about
};

Hop hop_of(const Job& job, const Layout& layout, const LayerCosts& costs) {
  const auto& profile = job.profile;
  const int stride =
      layout.ranks_order == RanksOrder::tp_cp_pp_dp ? layout.tp * layout.cp : layout.tp * layout.cp * layout.dp;
  const auto neighbours = place_group(job.cluster, 2, stride);
  const bool parts = profile.pp_scatter_gather > 0.5 && layout.tp > 1 && !layout.sequence_parallel;
  Hop hop;
  hop.bytes = parts ? costs.boundary / layout.tp : costs.boundary;
  const Seconds alone = collective_time(job, Collective::send_recv, hop.bytes, neighbours);
  hop.bandwidth = group_bandwidth(job, Collective::send_recv, neighbours);
  if (hop.bytes / hop.bandwidth > alone) {
    hop.bandwidth = hop.bytes / alone;
  }
  hop.latency = max(Seconds(0), alone - hop.bytes / hop.bandwidth);
  if (parts) {
    hop.latency += collective_time(job, Collective::all_gather, costs.boundary, place_group(job.cluster, layout.tp, 1));
  }
  // A plain 1F1B rank waits for about two transfers a micro-batch by its order of passes alone; a profile that
  // measured more has its ranks wait for their sends too, one in each direction.
  const bool overlapped =
      layout.schedule == Schedule::interleaved && switched_on(job.training.overlap_pp, profile.pp_overlap_default);
  if (!overlapped) {
    hop.sender_waits =
        (hop.latency + hop.bytes / hop.bandwidth) * (std::max(0.0, profile.pp_exposed_transfers - 2) / 2);
  }
  return hop;
}

/// Builds the graph of one step.
class StepBuilder {
 public:
  StepBuilder(const Job& job, const Layout& layout, const Perturbation& perturbation, const PipelineSchedule* given)
      : job_(job), layout_(layout), perturbation_(perturbation), costs_(layer_costs(job, layer_key(layout))) {
    micro_batches_ = static_cast<int>(job.training.global_batch / (std::int64_t{layout.dp} * layout.micro_batch));
    if (micro_batches_ < 1) {
      throw std::invalid_argument("the global batch leaves no micro-batch for a step");
    }
    step_.schedule = given != nullptr ? *given : generated();
    if (step_.schedule.size() != layout.pp || step_.schedule.micro_batches != micro_batches_) {
      throw std::invalid_argument("the schedule is for " + std::to_string(step_.schedule.size()) + " ranks and " +
                                  std::to_string(step_.schedule.micro_batches) + " micro-batches, the layout has " +
                                  std::to_string(layout.pp) + " and " + std::to_string(micro_batches_));
    }
    contents_ = stage_contents(job, layout.pp, step_.schedule.depth());
    for (const auto& content : contents_) {
      stages_.push_back(stage_costs(costs_, content));
    }
  }

  SimulatedStep run() {
    add_ranks();
    for (int r = 0; r < layout_.pp; ++r) {
      add_passes(r);
    }
    add_waits();
    add_ends();
    Simulation simulation(graph_);
    const Timeline& timeline = simulation.run();
    collect(timeline);
    return std::move(step_);
  }

 private:
  struct Rank {
    std::array<Index, 4> streams{};  ///< compute, send to next, send to previous, data parallel
    Index out = 0, in = 0;           ///< ports
    StageContent content;
    RankEnds ends;
    double slowdown = 1;
    std::vector<Index> passes;  ///< operation of every pass, twice the same for two that run together
    Index reduce = kNone;
  };

  PipelineSchedule generated() const {
    ScheduleRequest request;
    request.ranks = layout_.pp;
    request.chunks = layout_.vpp;
    request.micro_batches = micro_batches_;
    const auto middle =
        stage_costs(costs_, stage_contents(job_, layout_.pp, layout_.pp)[static_cast<std::size_t>(layout_.pp / 2)]);
    request.times = {middle.forward.raw(), (middle.backward - middle.weight).raw(), middle.weight.raw()};
    return make_schedule(layout_.schedule, request);
  }

  /// The pipeline rank of a GPU.
  [[nodiscard]] int rank_of(int gpu) const {
    const int inner = layout_.tp * layout_.cp;
    return layout_.ranks_order == RanksOrder::tp_cp_pp_dp ? gpu / inner % layout_.pp : gpu / (inner * layout_.dp);
  }

  void add_ranks() {
    const auto groups = data_groups(job_, layout_);
    hop_ = hop_of(job_, layout_, costs_);
    ranks_.resize(static_cast<std::size_t>(layout_.pp));
    step_.ranks.resize(ranks_.size());
    for (int r = 0; r < layout_.pp; ++r) {
      auto& rank = ranks_[static_cast<std::size_t>(r)];
      for (auto& stream : rank.streams) {
        stream = graph_.add_stream();
        streams_.push_back({r, kStreamOfIndex[streams_.size() % kStreamOfIndex.size()]});
      }
      rank.out = graph_.add_link(hop_.bandwidth);
      rank.in = graph_.add_link(hop_.bandwidth);
      for (int chunk = 0; chunk < step_.schedule.chunks; ++chunk) {
        const auto& content = contents_[static_cast<std::size_t>(step_.schedule.stage_of(r, chunk))];
        rank.content.dense += content.dense;
        rank.content.moe += content.moe;
        rank.content.embedding = rank.content.embedding || content.embedding;
        rank.content.head = rank.content.head || content.head;
        step_.ranks[static_cast<std::size_t>(r)].chunk_activations.push_back(activations_of(content));
      }
      auto& simulated = step_.ranks[static_cast<std::size_t>(r)];
      simulated.layers = rank.content.dense + rank.content.moe;
      simulated.memory = stage_memory(job_, layout_, costs_, StageGroup{rank.content, r, 1},
                                      stage_costs(costs_, rank.content), groups, micro_batches_)
                             .at;
      rank.ends = rank_ends(job_, layout_, costs_, rank.content, groups, micro_batches_);
    }
    for (const SlowPart& part : perturbation_.slow) {
      auto& rank = ranks_[static_cast<std::size_t>(rank_of(part.gpu))];
      if (part.link) {
        graph_.scale_link(rank.out, 1 - part.slow);
        graph_.scale_link(rank.in, 1 - part.slow);
      } else {
        rank.slowdown /= 1 - part.slow;
      }
    }
  }

  /// Bytes kept for the backward pass of one micro-batch on one stage.
  [[nodiscard]] Bytes activations_of(const StageContent& content) const {
    const double layers = content.dense + content.moe;
    const double recomputed = layout_.recompute == RecomputeKind::full && layout_.recompute_layers > 0 && layers > 0
                                  ? std::min(1.0, layout_.recompute_layers / layers)
                                  : 1;
    const auto sum = [&content](Bytes dense, Bytes moe) {
      return dense * static_cast<double>(content.dense) + moe * static_cast<double>(content.moe);
    };
    return sum(costs_.dense_activations, costs_.moe_activations) * recomputed +
           sum(costs_.dense_activations_all, costs_.moe_activations_all) * (1 - recomputed);
  }

  [[nodiscard]] Seconds time_of(int r, const Pass& pass) const {
    const auto& stage = stages_[static_cast<std::size_t>(step_.schedule.stage_of(r, pass.chunk))];
    const std::array<Seconds, 4> times{stage.forward, stage.backward - stage.weight, stage.weight, stage.backward};
    return times[static_cast<std::size_t>(pass.kind)];
  }

  /// Deviation from 1 of a pass's time: a sum of twelve uniform numbers, nearly normal, the same on every machine.
  double jitter() {
    if (perturbation_.jitter <= 0) {
      return 1;
    }
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      sum += static_cast<double>(random_() >> 11) * 0x1p-53;
    }
    return std::max(0.1, 1 + perturbation_.jitter * sum);
  }

  Index add_operation(Index operation, SimulatedOperation what) {
    what.rank = streams_[graph_.stream_of(operation)].rank;
    what.stream = streams_[graph_.stream_of(operation)].kind;
    step_.operations.push_back(what);
    return operation;
  }

  void add_passes(int r) {
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    const auto& passes = step_.schedule.ranks[static_cast<std::size_t>(r)];
    Seconds per_micro_batch(0);  // of all passes of one micro-batch on this rank
    for (int chunk = 0; chunk < step_.schedule.chunks; ++chunk) {
      const auto& stage = stages_[static_cast<std::size_t>(step_.schedule.stage_of(r, chunk))];
      per_micro_batch += stage.forward + stage.backward;
    }
    // Both copies of DualPipe together see each micro-batch once.
    const double copies = step_.schedule.placement == StagePlacement::both_ends ? 2 : 1;
    const double exposed =
        per_micro_batch.raw() > 0 ? rank.ends.per_micro_batch.raw() * copies / per_micro_batch.raw() : 0;
    if (rank.ends.gather.raw() > 0) {
      SimulatedOperation what;
      what.kind = SimulatedKind::gather;
      gathers_.push_back(add_operation(graph_.add(rank.streams[3], rank.ends.gather), what));
    } else {
      gathers_.push_back(kNone);
    }
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const bool pair = passes[i].with_next && i + 1 < passes.size();
      Seconds time = time_of(r, passes[i]) + (pair ? time_of(r, passes[i + 1]) : Seconds(0));
      time *= (1 + exposed) * rank.slowdown * jitter();
      if (i == 0 && step_.schedule.stage_of(r, passes[i].chunk) == 0) {
        time += rank.ends.beside_forward;
      }
      SimulatedOperation what;
      what.pass = passes[i];
      what.beside = pair ? passes[i + 1] : Pass{};
      const Index operation = add_operation(graph_.add(rank.streams[0], time), what);
      for (std::size_t k = i; k < i + (pair ? 2 : 1); ++k) {
        rank.passes.push_back(operation);
        add_transfer(r, passes[k], operation);
      }
      i += pair ? 1 : 0;
    }
    add_reduction(r);
  }

  void add_transfer(int r, const Pass& pass, Index operation) {
    const auto& schedule = step_.schedule;
    const int stage = schedule.stage_of(r, pass.chunk);
    const bool forward = pass.kind == PassKind::forward;
    const int target = forward ? stage + 1 : stage - 1;
    if (pass.kind == PassKind::weight || target < 0 || target >= schedule.depth()) {
      return;
    }
    const int receiver = schedule.place_of(target, pass.micro_batch).rank;
    auto& sent = (forward ? forward_sent_ : backward_sent_);
    sent.resize(static_cast<std::size_t>(schedule.depth()) * static_cast<std::size_t>(micro_batches_), kNone);
    auto& arrival = sent[cell(target, pass.micro_batch)];
    if (receiver == r) {
      arrival = operation;
      return;
    }
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    const bool next = receiver == (r + 1) % schedule.size();
    SimulatedOperation what;
    what.kind = SimulatedKind::transfer;
    what.pass = pass;
    what.receiver = receiver;
    what.bytes = hop_.bytes;
    arrival = add_operation(graph_.add_flow(rank.streams[next ? 1 : 2], hop_.latency, hop_.bytes, rank.out,
                                            ranks_[static_cast<std::size_t>(receiver)].in),
                            what);
    graph_.add_dependency(operation, arrival);
    if (hop_.sender_waits.raw() > 0) {
      SimulatedOperation wait;
      wait.kind = SimulatedKind::wait;
      wait.pass = pass;
      add_operation(graph_.add(rank.streams[0], hop_.sender_waits), wait);
    }
  }

  [[nodiscard]] std::size_t cell(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(micro_batches_) +
           static_cast<std::size_t>(micro_batch);
  }

  /// Passes wait for what is sent to them. Passes of the same stage are in order on its rank.
  void add_waits() {
    const auto& schedule = step_.schedule;
    for (int r = 0; r < layout_.pp; ++r) {
      const auto& rank = ranks_[static_cast<std::size_t>(r)];
      const auto& passes = schedule.ranks[static_cast<std::size_t>(r)];
      for (std::size_t i = 0; i < passes.size(); ++i) {
        const int stage = schedule.stage_of(r, passes[i].chunk);
        const bool forward = passes[i].kind == PassKind::forward;
        if (passes[i].kind == PassKind::weight || (forward && stage == 0) ||
            (!forward && stage + 1 == schedule.depth())) {
          continue;
        }
        graph_.add_dependency((forward ? forward_sent_ : backward_sent_)[cell(stage, passes[i].micro_batch)],
                              rank.passes[i]);
      }
      // Ranks that do not start the step wait for work while they gather.
      const Index gather = gathers_[static_cast<std::size_t>(r)];
      if (gather != kNone && (rank.ends.gather_first || schedule.stage_of(r, passes.front().chunk) != 0)) {
        graph_.add_dependency(gather, rank.passes.front());
      }
    }
  }

  /// What the gradient reduction costs beyond the last backward pass. A rank that others wait for is not slowed by its
  /// own reduction: the last pass to end has the cost to bear, as in the estimate.
  void add_reduction(int r) {
    auto& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.ends.after_backward.raw() <= 0) {
      return;
    }
    SimulatedOperation what;
    what.kind = SimulatedKind::reduce;
    rank.reduce = add_operation(graph_.add(rank.streams[3], rank.ends.after_backward), what);
    graph_.add_dependency(rank.passes.back(), rank.reduce);
  }

  /// Optimizer steps. Clipping needs the norm of all gradients, so that every rank waits for all; zero-bubble schedules
  /// check the norm afterwards (arXiv 2401.10241 section 4).
  void add_ends() {
    const bool norm =
        layout_.pp > 1 && (!row_of(layout_.schedule).splits_backward || layout_.schedule == Schedule::dualpipe);
    const Index all = graph_.add_stream();
    streams_.push_back({0, StreamKind::compute});
    const Index everyone = graph_.add(all, Seconds(0));
    SimulatedOperation barrier;
    barrier.kind = SimulatedKind::wait;
    add_operation(everyone, barrier);
    for (auto& rank : ranks_) {
      SimulatedOperation what;
      what.kind = SimulatedKind::optimizer;
      const Index optimizer = add_operation(graph_.add(rank.streams[0], rank.ends.optimizer * rank.slowdown), what);
      for (const Index before : {rank.passes.back(), rank.reduce}) {
        if (before != kNone) {
          graph_.add_dependency(before, norm ? everyone : optimizer);
        }
      }
      if (norm) {
        graph_.add_dependency(everyone, optimizer);
      }
    }
    barrier_ = everyone;
  }

  void collect(const Timeline& timeline) {
    for (Index i = 0; i < step_.operations.size(); ++i) {
      auto& operation = step_.operations[i];
      operation.start = timeline.start[i];
      operation.end = timeline.end[i];
      auto& rank = step_.ranks[static_cast<std::size_t>(operation.rank)];
      if (operation.kind == SimulatedKind::pass) {
        rank.first_start = rank.passes > 0 ? rank.first_start : operation.start;
        rank.passes += operation.end - operation.start;
        rank.last_end = operation.end;
        step_.passes_end = std::max(step_.passes_end, operation.end);
      }
      rank.end = std::max(rank.end, operation.end);
    }
    step_.operations.erase(step_.operations.begin() + static_cast<std::ptrdiff_t>(barrier_));
    step_.makespan = timeline.makespan + job_.profile.step_fixed_s;
    step_.events = timeline.events;
    collect_memory(timeline);
  }

  void collect_memory(const Timeline& timeline) {
    const auto held = chunks_held(step_.schedule);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      auto& rank = step_.ranks[r];
      rank.most_held = held[r];
      Bytes kept(0);
      const auto& passes = step_.schedule.ranks[r];
      for (std::size_t i = 0; i < passes.size(); ++i) {
        const Bytes chunk = rank.chunk_activations[static_cast<std::size_t>(passes[i].chunk)];
        kept += passes[i].kind == PassKind::forward ? chunk : passes[i].kind == PassKind::backward ? Bytes(0) : -chunk;
        if (kept > rank.most_activations) {
          rank.most_activations = kept;
          rank.most_activations_at = timeline.end[ranks_[r].passes[i]];
        }
      }
    }
  }

  struct StreamOf {
    int rank;
    StreamKind kind;
  };
  static constexpr std::array<StreamKind, 4> kStreamOfIndex{StreamKind::compute, StreamKind::send_next,
                                                            StreamKind::send_previous, StreamKind::data_parallel};

  const Job& job_;
  const Layout& layout_;
  const Perturbation& perturbation_;
  LayerCosts costs_;
  int micro_batches_ = 1;
  std::vector<StageContent> contents_;
  std::vector<StageCosts> stages_;  ///< one per stage that a micro-batch goes through
  Hop hop_;
  OperationGraph graph_;
  std::vector<Rank> ranks_;
  std::vector<StreamOf> streams_;
  std::vector<Index> gathers_, forward_sent_, backward_sent_;  ///< arrival of each result, by stage and micro-batch
  Index barrier_ = kNone;
  std::mt19937_64 random_{perturbation_.seed};
  SimulatedStep step_;
};

}  // namespace

SimulatedStep simulate(const Job& job, const Layout& layout, const Perturbation& perturbation,
                       const PipelineSchedule* schedule) {
  return StepBuilder(job, layout, perturbation, schedule).run();
}

}  // namespace tpplan
