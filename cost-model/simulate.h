#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"
#include "cost-model/schedules.h"
#include "cost-model/simulate_engine.h"

namespace tpplan {

/// Something that runs slower than planned.
struct SlowPart {
  bool link = false;  ///< the network port of the GPU instead of the GPU
  int gpu = 0;        ///< number in rank order
  double slow = 0;    ///< share of the speed that is lost
  friend bool operator==(const SlowPart&, const SlowPart&) = default;
};

/// How a simulated step differs from the plan.
struct Perturbation {
  std::vector<SlowPart> slow;
  double jitter = 0;  ///< standard deviation of every pass's time, relative
  std::uint64_t seed = 1;
};

/// Reads "gpu=3 slow=20%", "link=5 slow=50%", "jitter=3% seed=7", in any combination, blanks or commas between; slow
/// belongs to the gpu or link before it. Throws SpecError with every problem.
Perturbation parse_what_if(std::string_view text, int world);

/// What a pipeline rank has running side by side.
enum class StreamKind : std::uint8_t {
  compute,
  send_next,
  send_previous,
  receive_previous,
  receive_next,
  data_parallel
};
struct StreamKindRow {
  std::string_view name;
  StreamKind kind;
};
inline constexpr std::array<StreamKindRow, 6> kStreamKinds{{{"compute", StreamKind::compute},
                                                            {"PP send to next", StreamKind::send_next},
                                                            {"PP send to previous", StreamKind::send_previous},
                                                            {"PP receive from previous", StreamKind::receive_previous},
                                                            {"PP receive from next", StreamKind::receive_next},
                                                            {"DP comm", StreamKind::data_parallel}}};

enum class SimulatedKind : std::uint8_t { pass, transfer, wait, gather, reduce, optimizer };

/// One operation that ran. Times are seconds since the start of the step.
struct SimulatedOperation {
  SimulatedKind kind = SimulatedKind::pass;
  StreamKind stream = StreamKind::compute;
  int rank = 0;
  int receiver = -1;  ///< rank that a transfer goes to
  Pass pass;          ///< of a pass: it, with the chunk; of a transfer: the pass whose result is sent
  Pass beside;        ///< the second pass when pass.with_next
  Bytes bytes;
  double start = 0, end = 0;
};

/// One pipeline rank over the step, all its data-, tensor- and context-parallel GPUs alike.
struct SimulatedRank {
  double passes = 0;                     ///< seconds that passes run
  double first_start = 0, last_end = 0;  ///< of its passes
  double end = 0;                        ///< of its optimizer step
  int layers = 0;
  MemoryEstimate memory;                 ///< at the rank's worst moment, as the estimate has it
  int most_held = 0;                     ///< chunks
  Bytes most_activations;                ///< kept for backward passes at the worst moment
  double most_activations_at = 0;        ///< seconds
  std::vector<Bytes> chunk_activations;  ///< one micro-batch of each chunk
  [[nodiscard]] double idle_between() const { return last_end - first_start - passes; }
};

struct SimulatedStep {
  double makespan = 0;    ///< seconds, the fixed time of a step included
  double passes_end = 0;  ///< end of the last pass of any rank
  std::uint64_t events = 0;
  PipelineSchedule schedule;
  std::vector<SimulatedRank> ranks;
  std::vector<SimulatedOperation> operations;  ///< in order of the ranks, of each stream in order of time
};

/// Runs one training step of a layout event by event: every pass of the schedule on every pipeline rank with the times
/// of stage_costs(), transfers between stages over the ports of sending and receiving GPU, gradient reduction,
/// parameter gathering and optimizer step of each rank. Ranks that differ only in their tensor-, context- or
/// data-parallel place behave alike and are simulated once; a slow GPU holds up all its replicas, as they wait for it.
/// A collective beside compute costs what beside() of stage_cost.h says. `schedule` replaces the generated order of
/// passes when given. Throws std::invalid_argument when the schedule cannot be made for the layout's numbers.
SimulatedStep simulate(const Job& job, const Layout& layout, const Perturbation& perturbation = {},
                       const PipelineSchedule* schedule = nullptr);

}  // namespace tpplan
