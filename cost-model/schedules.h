#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/layout.h"

namespace tpplan {

/// What a rank does with one micro-batch on one chunk of layers. `backward` is the gradient of the input alone where
/// `weight` passes follow, `whole_backward` both gradients in one.
enum class PassKind : std::uint8_t { forward, backward, weight, whole_backward };
struct PassKindRow {
  std::string_view letter;  ///< in schedule texts and traces
  PassKind kind;
  std::string_view meaning;
};
inline constexpr std::array<PassKindRow, 4> kPassKinds{{
    {"F", PassKind::forward, "forward"},
    {"B", PassKind::backward, "gradient of the input"},
    {"W", PassKind::weight, "gradient of the weights"},
    {"BW", PassKind::whole_backward, "both gradients"},
}};
constexpr const PassKindRow& row_of(PassKind kind) { return kPassKinds[static_cast<std::size_t>(kind)]; }

struct Pass {
  PassKind kind = PassKind::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  ///< of the rank
  bool with_next = false;  ///< runs beside the next pass of the rank: both start and end together, in their summed time
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// How the stages that a micro-batch goes through lie on the ranks: round and round (chunk c of rank r is stage
/// c * p + r), down and up again (chunk 1 of rank r is stage 2p - 1 - r), or two copies of the model run from both ends
/// (the second half of the micro-batches enters at rank p - 1 and uses chunk 1).
enum class StagePlacement : std::uint8_t { looped, v_shape, both_ends };
inline constexpr std::array<NameRow<StagePlacement>, 3> kStagePlacementNames{
    {{"looped", StagePlacement::looped}, {"v", StagePlacement::v_shape}, {"both-ends", StagePlacement::both_ends}}};

/// The order of passes of every pipeline rank over one step.
struct PipelineSchedule {
  StagePlacement placement = StagePlacement::looped;
  int chunks = 1;  ///< per rank
  int micro_batches = 0;
  double weight_share = 1;  ///< of a chunk's activations: what stays from the backward pass to the weight gradient
  std::vector<std::vector<Pass>> ranks;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Stages that one micro-batch goes through.
  [[nodiscard]] int depth() const { return placement == StagePlacement::both_ends ? size() : size() * chunks; }
  struct Place {
    int rank = 0, chunk = 0;
  };
  /// Where stage `stage` of a micro-batch is computed.
  [[nodiscard]] Place place_of(int stage, int micro_batch) const;
  /// The stage that chunk `chunk` of rank `rank` computes.
  [[nodiscard]] int stage_of(int rank, int chunk) const;
};

/// Times that a generator orders split schedules by; only their ratios matter.
struct PassTimes {
  double forward = 1, backward = 1, weight = 1;
  double transfer = 0;  ///< from a stage to the next
};

/// Everything a generator is asked for.
struct ScheduleRequest {
  int ranks = 1;
  int chunks = 1;  ///< virtual stages per rank of the interleaved schedule
  int micro_batches = 1;
  int group = 0;  ///< interleaved: micro-batches that run on a chunk before the next chunk; 0: as many as ranks
  PassTimes times = {};
  double weight_share = 1;  ///< PipelineSchedule::weight_share
};

/// Micro-batches of the first group of the interleaved schedule, the largest. What is left over of whole groups forms a
/// last, smaller one (Megatron-LM core/pipeline_parallel/schedules.py), but joins the first when it is fewer than there
/// are ranks: a chunk that ends before the first of its micro-batches has been around all ranks would stall.
int first_group(const ScheduleRequest& request);

/// One generator.
struct ScheduleRow {
  Schedule schedule;
  StagePlacement placement;
  bool splits_backward;
  void (*fill)(const ScheduleRequest& request, PipelineSchedule& schedule);
  /// Chunks whose activations rank `rank` may hold at once.
  int (*most_held)(const ScheduleRequest& request, int rank);
  std::string_view source;
};
const std::vector<ScheduleRow>& schedule_rows();
const ScheduleRow& row_of(Schedule schedule);

/// The order of passes of a schedule, a single rank included. DualPipe needs an even number of ranks and an even number
/// of micro-batches of at least 2 p. Throws std::invalid_argument otherwise, and when a number is not positive.
PipelineSchedule make_schedule(Schedule schedule, const ScheduleRequest& request);

/// Most activations that each rank holds at once, in those of a chunk, rounded up. A chunk is held from its forward
/// pass to the pass that ends its backward, from the gradient of the input on with its `weight_share`.
std::vector<int> chunks_held(const PipelineSchedule& schedule);

/// Most activations that a rank holds by moments at which something else may join them, in those of one micro-batch on
/// all its layers.
struct HeldActivations {
  double forward = 0;   ///< after any forward pass: the most at all
  double loss = 0;      ///< after a forward pass of the last stage
  double backward = 0;  ///< before a gradient of the input
  double end = 0;       ///< after the pass that ends a backward of the first or the last stage
};
/// The same of every rank, by the order of its passes alone: a rank's memory does not depend on when they run. Chunks
/// of a rank count alike.
std::vector<HeldActivations> held_activations(const PipelineSchedule& schedule);

/// What is wrong with a schedule, empty when nothing is: a pass that is missing, doubled or unknown, a rank that waits
/// forever when all run their passes in order, more chunks held on a rank than `most_held` of it (when not empty).
std::vector<std::string> problems_of(const PipelineSchedule& schedule, const std::vector<int>& most_held = {});

/// Reads a schedule from text. A line per rank, "0: F0 F1 B0 W0 F2 ..." in order of the ranks; passes are F, B, W or
/// BW, the micro-batch, ".1" for chunk 1, and "+" when it runs beside the next. A line "placement v" (or looped,
/// both-ends) may stand first; # starts a comment. Throws SpecError with every problem, those of problems_of()
/// included.
PipelineSchedule parse_schedule(const std::string& name, std::string_view text);
/// The same from a file. Throws SpecError also when it cannot be read.
PipelineSchedule load_schedule(const std::string& path);
std::string to_text(const PipelineSchedule& schedule);
std::string to_text(const Pass& pass, int chunks);

namespace detail {
/// Bounds of an automatic order: activations in those of a micro-batch, and when not null the forward passes of a rank
/// before its first backward pass, which are otherwise found.
struct AutomaticLimits {
  int most_held = 1;
  int (*lead)(int ranks, int rank) = nullptr;
};
/// The order that the heuristic of arXiv 2401.10241 section 3.1 makes for the given times: forward passes until the
/// first gradient arrives, one F and one B in turn, weight gradients in the gaps; the best of its binary choices.
void fill_automatic(const ScheduleRequest& request, PipelineSchedule& schedule, const AutomaticLimits& limits);
/// Puts the W of a schedule, whose F and B have their order, where the same heuristic does: in gaps that hold them, in
/// one that would make the worst rank worse, and where `most_held` chunks of activations leave no room for a forward
/// pass. Returns longest_rank() of the result.
double place_weights(const ScheduleRequest& request, PipelineSchedule& schedule, double most_held);
/// Longest time between a rank's first and last pass, which is what a step costs when nothing joins the ranks between
/// steps; infinity when the ranks wait for each other.
double longest_rank(const ScheduleRequest& request, const PipelineSchedule& schedule);
/// ZB-V: its fixed phases, which leave no gap when F, B and W take equal times, or the same with other places for W,
/// whichever is better in the given times. Of fewer than 2 p micro-batches the phases keep what is there; ranks that
/// never wait while a B or F is ready are tried too.
void fill_v_shape(const ScheduleRequest& request, PipelineSchedule& schedule);
/// DualPipe's eight phases.
void fill_dualpipe(const ScheduleRequest& request, PipelineSchedule& schedule);
}  // namespace detail

}  // namespace tpplan
