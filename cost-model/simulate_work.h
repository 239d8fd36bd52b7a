#pragma once

#include <random>
#include <vector>

#include "cost-model/data_loading.h"
#include "cost-model/simulate.h"
#include "cost-model/simulate_engine.h"
#include "cost-model/simulate_memory.h"
#include "cost-model/simulate_parts.h"

namespace tpplan {

/// Builds the lanes of one step, runs them and tells what happened. Everything is kept for the next step.
class Simulator::Work {
 public:
  const SimulatedStep& run(const Job& job, const Layout& layout, Detail detail, const Perturbation& perturbation,
                           const PipelineSchedule* given);
  /// Seconds that each rank of the last step took: up to where all wait for each other, else from its first operation
  /// to its last. The longest is the makespan but for what comes once a step.
  [[nodiscard]] const std::vector<double>& spans() const { return spans_; }

 private:
  using Index = LaneEngine::Index;
  using After = LaneEngine::After;
  static constexpr Index kNone = LaneEngine::kNone;

  /// A transfer between neighbouring stages, alone on its way.
  struct Hop {
    Bytes bytes;
    Seconds latency;
    BytesPerSecond bandwidth;
    Seconds sender_waits;  ///< of the sending rank's passes, beyond what the order of passes brings about
    std::size_t tier = 0;  ///< of the cluster that it crosses
  };

  /// Data-parallel and final operations of a rank.
  struct RankTimes {
    Seconds gather;  ///< ZeRO-1/2: of all parameters
    Seconds reduce;  ///< of all gradients, each time they are
    Seconds tied;    ///< all-reduce of a matrix that both ends of the pipeline hold
    Seconds optimizer, optimizer_copy;
    Seconds activation_copy;  ///< activations of one micro-batch to host memory, or frozen weights from there
    FsdpTimes fsdp;
    double params = 0;  ///< that `gather` and `reduce` are spread over
  };

  struct Rank {
    Index passes = 0, background = 0, next = 0, previous = 0, copies = 0;  ///< lanes
    Index launches = 0, loads = 0;                                         ///< the same
    Index out = 0, in = 0;                                                 ///< ports
    Index to_next = kNone, to_previous = kNone;                            ///< kinds of flows
    Index collective = kNone;                                              ///< where it shares the ports
    double collective_rate = 0;                                            ///< bytes per second of it
    StageContent content;
    std::size_t part = 0;
    RankTimes times;
    StageTensors tensors;
    double slowdown = 1, link_slowdown = 1, host_slowdown = 1;
    Index passes_joined = 0, background_joined = 0;  ///< operations before the end, where ranks may wait for each other
    std::vector<Index> begins;                       ///< first operation of every pass
    std::vector<Index> launch_begins;                ///< first launch of every pass
    std::vector<Index> launched_ends;             ///< operations of `passes` up to the end of what each launch starts
    std::vector<std::vector<Index>> gather_ends;  ///< per chunk and layer: operations of the background to wait for
  };

  /// What an operation of a lane is in the step.
  struct Mark {
    SimulatedKind kind = SimulatedKind::wait;
    StreamKind stream = StreamKind::compute;
    std::int32_t pass = -1;  ///< of the rank; -1: none
    std::int32_t first_piece = 0, pieces = 0;
    bool shown = false;
  };

  /// The layers and ends of a stage.
  struct Stage {
    StageContent content;
    int begin = 0;         ///< first layer
    std::size_t part = 0;  ///< of a mixed cluster
    StageCosts costs;
    [[nodiscard]] int layers() const { return content.dense + content.moe; }
    [[nodiscard]] int pieces() const { return layers() + (content.embedding ? 1 : 0) + (content.head ? 1 : 0); }
  };

  [[nodiscard]] bool waits_for_norm() const;
  void measure_spans();
  void choose_schedule(const PipelineSchedule* given);
  void prepare_stages();
  void prepare_ranks(bool given);
  void perturb();
  [[nodiscard]] Hop hop() const;
  [[nodiscard]] RankTimes rank_times(const Rank& rank, const StageCosts& stage, const DataGroups& groups) const;
  /// What prices ranks and stages on a part.
  [[nodiscard]] const Job& job_of(std::size_t part) const { return mixed_ ? job_->parts[part] : *job_; }
  [[nodiscard]] int rank_of(int gpu) const;
  [[nodiscard]] PieceKind piece_kind(const Stage& stage, int piece) const;
  [[nodiscard]] double piece_params(const Stage& stage, int piece) const;
  [[nodiscard]] Bytes activations_of(const Stage& stage) const;
  [[nodiscard]] const Stage& stage_of(int r, const Pass& pass) const;
  [[nodiscard]] double time_of(int r, const Pass& pass) const;
  [[nodiscard]] double lone_time_of(int r, const Pass& pass) const;
  [[nodiscard]] bool reduces_beside(int r) const;
  double jitter();

  Index add(Index lane, double seconds, const Mark& mark, After first = {}, After second = {});
  [[nodiscard]] double gpu_time_of(int r, const Pass& pass) const;
  [[nodiscard]] double gpu_time_of(const Stage& stage, int piece, PassKind pass) const;
  [[nodiscard]] bool host_may_fall_behind() const;
  [[nodiscard]] double launch_time(int r, const Stage& stage, int piece, PassKind pass) const;
  void add_launch(int r, std::size_t i, double seconds);
  void add_launched_end(int r, std::size_t i);
  void prepare_loads();
  void add_load(int r, const Pass& pass);
  Index add_collective(int r, double seconds, SimulatedKind kind, After after);
  void add_first_gather(int r);
  void add_passes(int r);
  void add_pass(int r, std::size_t i);
  void add_pieces(int r, std::size_t i, double factor, bool scatters, bool gated);
  void add_transfer(int r, const Pass& pass);
  void add_copy(int r, std::size_t i);
  void add_arrivals();
  void add_reduction(int r);
  void add_standing_reduction(int r, const Pass& pass);
  void add_ends();
  [[nodiscard]] std::size_t cell(int stage, int micro_batch) const;

  void tell();
  void tell_passes(int r);
  void tell_lane(int r, Index lane);
  void tell_parts(int r, const Mark& mark, const LaneEngine::Operation& ran, std::uint32_t operation);
  void tell_memory(int r);

  const Job* job_ = nullptr;
  const Layout* layout_ = nullptr;
  const Perturbation* perturbation_ = nullptr;
  Detail detail_ = Detail::times;
  std::vector<LayerCosts> costs_;        ///< of each part of a mixed cluster; else one
  std::vector<PieceParts> piece_parts_;  ///< the same
  bool mixed_ = false;                   ///< stages lie on parts of their own
  int micro_batches_ = 1;
  bool fsdp_ = false;
  bool every_micro_batch_ = false;  ///< gradients are reduced after each
  bool keeps_gathered_ = false;     ///< FSDP: from the forward to the backward pass
  bool launches_ = false;           ///< launching is simulated
  bool drains_ = false;             ///< the host waits for the GPU at the end of each pass
  Hop hop_;
  DataLoading loading_;
  double end_ = 0;             ///< of the last operation
  std::vector<double> spans_;  ///< of the ranks
  LaneEngine engine_;
  std::vector<Stage> stages_;
  std::vector<StageContent> contents_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Mark>> marks_;  ///< per lane and operation
  std::vector<After> forward_sent_, backward_sent_;
  std::vector<Index> gates_;  ///< of the layers of one pass
  std::vector<int> chunk_first_, chunk_last_;
  std::vector<PassTime> pass_times_;
  Index barrier_ = kNone;
  std::uint64_t silent_ = 0;  ///< operations that only hold others up
  std::mt19937_64 random_;
  ScheduleRequest last_request_;
  Schedule last_schedule_ = Schedule::f1b1;
  bool schedule_known_ = false;
  SimulatedStep step_;
};

}  // namespace tpplan
