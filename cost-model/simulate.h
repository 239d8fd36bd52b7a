#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"
#include "cost-model/schedules.h"

namespace tpplan {

/// What of a GPU may be slow: itself, its network port, or the processor that launches its work.
enum class SlowKind : std::uint8_t { gpu, link, host };
inline constexpr std::array<NameRow<SlowKind>, 3> kSlowKindNames{
    {{"gpu", SlowKind::gpu}, {"link", SlowKind::link}, {"host", SlowKind::host}}};

/// Something that runs slower than planned.
struct SlowPart {
  SlowKind kind = SlowKind::gpu;
  int gpu = 0;      ///< number in rank order
  double slow = 0;  ///< share of the speed that is lost
  friend bool operator==(const SlowPart&, const SlowPart&) = default;
};

/// How a simulated step differs from the plan.
struct Perturbation {
  std::vector<SlowPart> slow;
  double jitter = 0;  ///< standard deviation of every pass's time, relative
  std::uint64_t seed = 1;
  std::optional<Seconds> load;  ///< of the tokens of a micro-batch, on every rank that loads
};

/// Reads "gpu=3 slow=20%", "link=5 slow=50%", "host=2 slow=50%", "data=40ms", "jitter=3% seed=7", in any combination,
/// blanks or commas between; slow belongs to the gpu, link or host before it. Throws SpecError with every problem.
Perturbation parse_what_if(std::string_view text, int world);

/// What a pipeline rank has running side by side. The streams of tensor, context and expert parallelism take turns with
/// compute, whose results they carry; those of data parallelism run beside it and slow it down.
enum class StreamKind : std::uint8_t {
  compute,
  send_next,
  send_previous,
  receive_previous,
  receive_next,
  data_parallel,
  parameter_gather,
  tensor_parallel,
  context_parallel,
  expert_parallel,
  host_copy,
  host,
  data
};
struct StreamKindRow {
  std::string_view name;
  StreamKind kind;
};
inline constexpr std::array<StreamKindRow, 13> kStreamKinds{{{"compute", StreamKind::compute},
                                                             {"PP send to next", StreamKind::send_next},
                                                             {"PP send to previous", StreamKind::send_previous},
                                                             {"PP receive from previous", StreamKind::receive_previous},
                                                             {"PP receive from next", StreamKind::receive_next},
                                                             {"DP comm", StreamKind::data_parallel},
                                                             {"DP gather", StreamKind::parameter_gather},
                                                             {"TP comm", StreamKind::tensor_parallel},
                                                             {"CP comm", StreamKind::context_parallel},
                                                             {"EP comm", StreamKind::expert_parallel},
                                                             {"host copies", StreamKind::host_copy},
                                                             {"host", StreamKind::host},
                                                             {"data loading", StreamKind::data}}};

enum class SimulatedKind : std::uint8_t {
  pass,
  transfer,
  wait,
  gather,
  reduce,
  optimizer,
  clip,
  copy,
  host,
  launch,
  load
};

/// One operation that ran. Times are seconds since the start of the step.
struct SimulatedOperation {
  SimulatedKind kind = SimulatedKind::pass;
  StreamKind stream = StreamKind::compute;
  int rank = 0;
  int receiver = -1;  ///< rank that a transfer goes to
  Pass pass;          ///< of a pass, wait, copy or launch: it, with the chunk; of a transfer: the pass whose result is
                      ///< sent; of a load: the forward pass that needs the tokens, maybe of the next step
  Pass beside;        ///< the second pass when pass.with_next
  Bytes bytes;
  double start = 0, end = 0;
};

/// A part of a pass on one stream: what a layer does between two changes of stream.
struct SimulatedPart {
  std::uint32_t operation = 0;  ///< index of the pass
  StreamKind stream = StreamKind::compute;
  std::uint16_t name = 0;  ///< index into part_names
  double start = 0, end = 0;
};

/// What a rank holds beyond its resident bytes from this moment on.
struct MemorySample {
  double at = 0;  ///< seconds
  Bytes activations, loss, gathered, communication;
  Bytes working;  ///< of the layer that a backward pass is in
};

/// The fullest moment of a rank.
struct MemoryPeak {
  MemoryEstimate parts;  ///< `allocated` of the moment by owner; slack and context stay the estimate's
  double at = 0;         ///< seconds
  Pass pass;             ///< that runs then
  bool in_pass = false;  ///< false: resident bytes alone
};

/// One pipeline rank over the step, all its data-, tensor- and context-parallel GPUs alike.
struct SimulatedRank {
  double passes = 0;                     ///< seconds that passes run
  double first_start = 0, last_end = 0;  ///< of its passes
  double end = 0;                        ///< of its optimizer step
  int layers = 0;
  MemoryEstimate memory;                 ///< at the rank's worst moment, as the estimate has it
  MemoryPeak peak;                       ///< the same as the simulation has it
  int most_held = 0;                     ///< chunks
  Bytes most_activations;                ///< kept for backward passes at the worst moment
  double most_activations_at = 0;        ///< seconds
  std::vector<Bytes> chunk_activations;  ///< one micro-batch of each chunk
  std::vector<MemorySample> samples;     ///< in order of time
  [[nodiscard]] double idle_between() const { return last_end - first_start - passes; }
};

struct SimulatedStep {
  double makespan = 0;    ///< seconds, the fixed time of a step included
  double passes_end = 0;  ///< end of the last pass of any rank
  std::uint64_t events = 0;
  PipelineSchedule schedule;
  std::vector<SimulatedRank> ranks;
  std::vector<SimulatedOperation> operations;  ///< in order of the ranks, of each stream in order of time
  std::vector<SimulatedPart> parts;            ///< of passes, in order of the ranks and of time
  std::vector<std::string> part_names;
};

/// How much of a simulated step is told: its makespan alone, also every operation and the memory, also the streams
/// inside the passes. A part that is not told is not counted among the events either.
enum class Detail : std::uint8_t { times, operations, parts };

/// Simulates steps one after another; what it allocates for one it keeps for the next.
class Simulator {
 public:
  Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  /// Runs one training step of a layout event by event: every pass of the schedule on every pipeline rank with the
  /// times of stage_costs(); transfers between stages over the ports of sending and receiving GPU, which gradient and
  /// parameter traffic of the same network shares; parameter gathers layer by layer (FSDP with its limit of gathered
  /// layers, ZeRO-1/2 before the first forward pass of each layer); gradient reduction layer by layer beside every
  /// backward pass where every micro-batch's are reduced, else beside the last one of the rank that ends last, after
  /// the passes of the others, which wait then (as Megatron-Core does); clipping, optimizer step and host copies.
  /// Data-parallel traffic beside passes slows both, see LaneEngine.
  ///
  /// Ranks that differ only in their tensor-, context- or data-parallel place behave alike and are simulated once; a
  /// slow GPU holds up all its replicas, as they wait for it. Where launching a layer takes longer than the layer, or a
  /// host is slow, the host of each rank launches layer after layer ahead of the GPU, which waits where it falls
  /// behind; elsewhere launches never show. Tokens are loaded ahead as far as the program does so. `schedule` replaces
  /// the generated order of passes when given. The result lives until the next call. Throws std::invalid_argument when
  /// the schedule cannot be made for the layout's numbers.
  const SimulatedStep& run(const Job& job, const Layout& layout, Detail detail, const Perturbation& perturbation = {},
                           const PipelineSchedule* schedule = nullptr);

  /// `makespan` of run(), seconds, of a step with many micro-batches to a thousandth. The middle of a long step repeats
  /// itself: after the pipeline has filled, each period of two ways through it adds to every rank's time what the one
  /// before did. Three steps of a few periods, one period apart, tell the whole one when both differences agree to 1e-4
  /// of the step on every rank; otherwise longer periods are tried, and at last the whole step. Throws what run()
  /// throws.
  double makespan(const Job& job, const Layout& layout);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

/// One step by a simulator of its own, in all detail.
SimulatedStep simulate(const Job& job, const Layout& layout, const Perturbation& perturbation = {},
                       const PipelineSchedule* schedule = nullptr);

}  // namespace tpplan
