#pragma once

#include "cost-model/estimate.h"
#include "cost-model/schedules.h"

namespace tpplan {

/// Layers of every stage that a micro-batch goes through, `depth` stages on `ranks` ranks.
std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth);
/// The same with `given` layers per rank or per stage (evenly where there are none such).
std::vector<StageContent> stage_contents(const Job& job, int ranks, int depth, const std::vector<int>& given);

/// Chunks of layers that a rank's content consists of.
int chunks_of(Schedule schedule, int vpp);

/// Stages that one micro-batch goes through.
int depth_of(Schedule schedule, int pp, int vpp);

/// What closed forms ask of a schedule's row. `vpp_group` is Layout::vpp_group.
ScheduleRequest rule_request(int pp, int vpp, double micro_batches, int vpp_group);

/// Micro-batches (in units of all layers of the rank) whose activations rank r may hold at once: the limit of the
/// schedule's row, which orders that do not depend on times reach.
double in_flight(Schedule schedule, int pp, int vpp, int rank, double micro_batches, int vpp_group = 0);

/// Times of the stages of a pipeline per micro-batch: sums over all ranks and those of the slowest one.
struct PipelineTimes {
  Seconds forward_sum, backward_sum, weight_sum;  ///< over stages, per micro-batch; backward includes the weight part
  Seconds slowest, slowest_forward, slowest_backward, slowest_weight;
  Seconds transfer;         ///< from a stage to the next; counted for schedules that split the backward pass alone
  double weight_share = 1;  ///< PipelineSchedule::weight_share
};

/// Time from the first to the last pass of a step, closed form per schedule, exact for equal stages. Of schedules that
/// split the backward pass it is the longest such time of any rank, since the next step starts on a rank as soon as the
/// rank is free, and transfers count; of the others of all ranks together, without transfers. It is the same for every
/// group of the interleaved schedule that is allowed: of at least pp micro-batches, the first is back from the other
/// ranks before the last has left, so that the last rank works without a break once it has begun.
Seconds pipeline_time(Schedule schedule, int pp, int vpp, double micro_batches, const PipelineTimes& t);

/// Transfers of a step that the order of the interleaved schedule shows, beyond `wait`, which every pass of a chunk
/// waits for its own. One way down and one up again, 2 (p - 1). At the ends: while the pipeline fills, the first
/// micro-batch of a group goes round all ranks, p transfers, before rank 0 can begin its next chunk, whose own p passes
/// wait too, and the group's micro-batches beyond the first p are all it has to do meanwhile; gradients of the last
/// group do the same while it drains. Between, nothing as long as a transfer is no longer than a pass of a chunk: a
/// rank has two passes more ahead than the next one, so that k ranks down and up again, k + 1 passes of either kind and
/// 2 k transfers, may take 2 k + 1 turns, and a round of all ranks p passes more. Exact up to there (in larger groups
/// that leave a smaller one, up to a third of it), a lower bound beyond.
Seconds interleaved_transfers(const ScheduleRequest& request, const PipelineTimes& t, Seconds transfer, Seconds wait);

/// Forward passes of a rank, on average over the ranks, that DualPipe runs beside no backward pass, and as many
/// backward passes: those that fill and drain the pipeline. Of rank r of either half of h = pp / 2 ranks 3h - 1 - r,
/// and one more of the two in the middle, from the order of passes in its authors' program.
double lone_passes(int pp);

}  // namespace tpplan
