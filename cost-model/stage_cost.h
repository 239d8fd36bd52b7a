#pragma once

#include <limits>
#include <span>
#include <vector>

#include "cost-model/pipeline.h"
#include "cost-model/schedules.h"

namespace tpplan {

/// Bytes of optimizer state per parameter beside Adam's fp32 master, momentum and variance (12). 8-bit Adam: two bytes
/// and, for each moment, an fp32 scale per block of 256 (bitsandbytes). Adafactor: the master copy, and sums over the
/// rows and columns of a matrix, which are under 0.01 bytes a parameter. Muon: of matrices; see stage_memory().
struct OptimizerRow {
  Optimizer optimizer;
  double state_bytes;    ///< resident per parameter, master weights included
  double traffic_bytes;  ///< read and written per parameter and step beyond Adam's
};
const OptimizerRow& row_of(Optimizer optimizer);

/// Bytes per parameter that training keeps: `optimizer` holds master weights and moments, and is what sharding divides.
struct StateBytes {
  double weight = 2, gradient = 4, optimizer = 12;
  double wire = 4;  ///< of a gradient on its way
};
/// Whether weights, gradients and activations are four bytes wide (fp32, tf32).
bool training_in_fp32(const Job& job);
/// By precision, optimizer and the framework's habits. Training in fp32 or tf32 has no master copy beside its weights.
StateBytes state_bytes(const Job& job, Optimizer optimizer);

/// Time of an optimizer step beyond its memory traffic: Muon's five Newton-Schulz iterations, each of three products
/// (6 h FLOP a parameter of a square matrix), at the rate of a large product.
Seconds optimizer_products(const Job& job, Optimizer optimizer, double matrix_params);

/// Time a step of fp16 training spends on its loss scale, for `local` gradients of a GPU: one kernel reads and writes
/// them all to divide them by the scale and to look for infinities, an all-reduce of four bytes over all ranks spreads
/// what it found, and the host waits for that before it launches the update (a copy and a launch). 0 in other
/// precisions and where the host runs the update. Source: torch._amp_foreach_non_finite_check_and_unscale_ as
/// torch.amp.GradScaler and megatron/core/optimizer call it. Steps that are skipped for an infinity are not counted.
Seconds loss_scaling(const Job& job, const Layout& layout, double local);

/// What offloaded optimizer states of `local` parameters per GPU need: host memory, and what of it storage must take.
struct OffloadedStates {
  Bytes host;        ///< per GPU
  Bytes capacity;    ///< host memory per GPU, 0 unknown
  Bytes in_storage;  ///< per GPU: beyond the host's memory, where the cluster has storage
};
OffloadedStates offloaded_states(const Job& job, const Layout& layout, double local);
/// Time of an update on the host: gradients go down and weights come back over the host link, while the update passes
/// over its states in host memory; states in storage are read and written besides.
Seconds offloaded_update(const Job& job, const Layout& layout, double local);

/// What one pipeline rank costs per micro-batch, and what it holds.
struct StageCosts {
  double params = 0;  ///< dense parameters of the rank
  double expert_params = 0;
  double adapters = 0;   ///< adapter parameters of the layers
  double quantised = 0;  ///< weights of the layers held in 4 bits
  Seconds forward, backward, weight;
  PassCosts sums;  ///< of the rank's layers and ends, one micro-batch
};

/// Share of a stage's layers that take part in the backward pass: less those below every adapter.
double trained_share(const LayerCosts& costs, const StageContent& content);

StageCosts stage_costs(const LayerCosts& costs, const StageContent& content);

/// Groups over which gradients are reduced and states sharded. Two copies of the model that run from both ends of a
/// pipeline are replicas too.
struct DataGroups {
  GroupPlacement dense;        ///< dp x cp
  GroupPlacement dense_shard;  ///< ranks that share ZeRO states
  GroupPlacement dense_replicas;
  GroupPlacement expert;  ///< ranks that hold the same experts and share their states: dp x cp x tp / (ep x etp)
  GroupPlacement expert_replicas;
  GroupPlacement secondary;  ///< hpZ: ranks that share a second copy of the weights, gathered in the backward pass
  double dense_shards = 1, expert_shards = 1;
};

DataGroups data_groups(const Job& job, const Layout& layout);

/// Whether gradients are reduced after the backward pass of every micro-batch, not of the last one alone: as the layout
/// asks, else as the framework does. ZeRO-2 and ZeRO-3 keep a shard of the gradients and have to; PyTorch's FSDP can
/// put it off (no_sync, set_requires_gradient_sync), for gradients of full size between micro-batches.
bool reduces_each(const Job& job, const Layout& layout);

/// Whether layers are gathered and reduced one by one in every micro-batch: ZeRO-3, and ZeRO-2 of PyTorch, which is
/// FSDP too. Elsewhere ZeRO-2 gathers once a step.
bool gathers_by_layer(const Job& job, const Layout& layout);
/// Of those, whether a layer stays gathered until its backward pass (reshard_after_forward off): PyTorch's ZeRO-2.
bool keeps_gathered(const Job& job, const Layout& layout);

/// FSDP layers whose gathered weights are alive at once: the one in work and those gathered ahead.
double gathered_layers(const Job& job);

/// Isolated times of a rank's data-parallel collectives, once per step.
struct DataParallelTimes {
  Seconds reduce;  ///< gradients, isolated
  Seconds gather;  ///< parameters, isolated (ZeRO-1/2)
};

DataParallelTimes data_parallel_times(const Job& job, const Layout& layout, const StageCosts& stage,
                                      const DataGroups& groups);

/// The collectives behind those times, which depend on the groups alone: one look-up serves every stage.
struct DataParallelLaws {
  CollectiveLaw reduce, replicas, gather;  ///< of dense parameters; all-reduce, or reduce-scatter with sharding
  CollectiveLaw expert_reduce, expert_replicas, expert_gather;
  double shard_ranks = 1, expert_shard_ranks = 1;
  double gather_rounds = 1;  ///< in which dense parameters come back: one per owner of a shard where each broadcasts
};
DataParallelLaws data_parallel_laws(const Job& job, const Layout& layout, const DataGroups& groups);
DataParallelTimes data_parallel_times(const Job& job, const DataParallelLaws& laws, double params,
                                      double expert_params);

/// Groups and laws of a way to shard states: the same for every micro-batch, recomputation and sequence parallelism.
struct ShardingLaws {
  DataGroups groups;
  DataParallelLaws laws;
};
ShardingLaws sharding_laws(const Job& job, const Layout& layout);

/// Two pipeline ranks `distance` stages apart. Between the parts of a mixed cluster lies its joining network, and some
/// pair of such stages always has it between them.
GroupPlacement stage_pair(const Job& job, const Layout& layout, int distance);

/// Laws of the transfers of a pipeline; the same for every micro-batch, recomputation and sequence parallelism.
struct TransferLaws {
  CollectiveLaw neighbours;  ///< from one stage to the next
  CollectiveLaw gather;      ///< over tp, where stage outputs travel in tp parts
  CollectiveLaw ends;        ///< all-reduce between first and last stage
};
/// Whether first and last stage hold one matrix twice: tied embeddings, or a prediction module that embeds tokens too.
bool ends_share_embedding(const Job& job, const Layout& layout);
TransferLaws transfer_laws(const Job& job, const Layout& layout);
/// Time of handing one stage's output to the next, alone on its way.
Seconds transfer_time(const Job& job, const Layout& layout, const LayerCosts& costs, const TransferLaws& laws);

/// What every way to shard states has in common for one layer key, pipeline and dp: the stages, one micro-batch each.
struct PipelineStages {
  std::array<StageCosts, 4> known;  ///< of the first groups of the shape: ends, middle, uneven ranks
  double micro_batches = 1;
  std::vector<HeldActivations> held;  ///< of every rank where counted in its order; else held_by_rule() holds
  PipelineTimes times;
  Seconds hidden_exchanges;  ///< of experts, by DualPipe: one micro-batch, over all ranks
  /// No order of passes is faster: the slowest stage, busy with every micro-batch. Seconds of a step.
  [[nodiscard]] Seconds lower_bound() const { return times.slowest * micro_batches; }
};
/// `costs`: of each part of the cluster (one, unless stages lie on parts of a mixed cluster).
PipelineStages pipeline_stages(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                               const PipelineShape& shape);

/// How long those stages take in the order of the schedule, per step.
struct PipelineSpan {
  Seconds span;            ///< pipeline_time()
  Seconds transfers;       ///< exposed transfers between stages
  Seconds lone_exchanges;  ///< expert exchanges of DualPipe's passes that run beside no other
  Seconds tied_reduction;  ///< all-reduce of a tied matrix between the two ends of the pipeline
};
PipelineSpan pipeline_span(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                           const PipelineStages& stages, const TransferLaws& transfers);

/// The two halves of an estimate with what they share; `costs` and `sharding` of each part of the cluster. A search
/// asks for the time only of what may be among the best, and for the memory no further than the first rank that holds
/// more than `enough`, which is then the one returned.
MemoryEstimate fullest_memory(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                              const PipelineShape& shape, const PipelineStages& stages,
                              std::span<const ShardingLaws> sharding,
                              Bytes enough = Bytes(std::numeric_limits<double>::infinity()));
StepEstimate step_estimate(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                           const PipelineShape& shape, const PipelineStages& stages, const PipelineSpan& span,
                           std::span<const ShardingLaws> sharding);
/// Both.
Estimate combine(const Job& job, const Layout& layout, std::span<const LayerCosts> costs, const PipelineShape& shape,
                 std::span<const ShardingLaws> sharding);

/// Exposed cost of collectives that run beside compute: slowed compute plus what sticks out.
inline Seconds beside(Seconds compute, Seconds communication, double share) {
  return min(compute, communication) * share + max(Seconds(0), communication - compute);
}

/// Isolated times of the collectives of one FSDP unit: an average layer of the rank, and the root unit (embedding,
/// head).
struct FsdpTimes {
  Seconds layer_gather, layer_scatter, root_gather, root_scatter;
  Seconds layer_gather_again;             ///< in the backward pass: inside a node where that keeps a second copy
  Seconds expert_gather, expert_scatter;  ///< of the experts of an average layer, beside the rest of the layer's
};
FsdpTimes fsdp_times(const Job& job, const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                     const DataGroups& groups);

/// FSDP, per step: gathers of every micro-batch forward and, unless layers stay gathered, backward, beside the layer
/// before unless nothing is gathered ahead; reduce-scatters of every micro-batch or of the last one.
Seconds fsdp_exposed(const Job& job, const Layout& layout, const LayerCosts& costs, const StageContent& content,
                     const StageCosts& stage, const DataGroups& groups, double micro_batches);

/// Activations of one micro-batch that stay on the layers of a rank, of which each of `chunks` recomputes its first
/// ones. Layers below every adapter, which are the first too, keep nothing.
Bytes kept_activations(const Layout& layout, const LayerCosts& costs, const StageContent& content, int chunks);

/// What a rank of a stage group holds, by when it does.
struct StageTensors {
  MemoryEstimate resident;   ///< all through the step; of activations what offloading leaves on the GPU
  Bytes one;                 ///< kept activations of one micro-batch on all the rank's layers
  Bytes buffer;              ///< communication buffers of one micro-batch in flight
  Bytes at_loss;             ///< logits and their softmax, the head's input
  Bytes first_backward;      ///< added by the first layer of a backward pass
  Bytes embedding_gradient;  ///< at the end of a backward pass
};
StageTensors stage_tensors(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                           const StageCosts& stage, const DataGroups& groups, double micro_batches);

/// Memory of a rank at its worst moment.
struct StageMemory {
  MemoryEstimate at;
  Bytes total;
};

/// Weights, gradients, optimizer states and gathered parameters of a rank whose weights are frozen: those of `m`.
void frozen_states(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                   const StageCosts& stage, const DataGroups& groups, double micro_batches, MemoryEstimate& m);

/// Time that paged optimizer states of a GPU travel in a step: what of them the GPU has no room for beside its peak
/// comes up page by page, and as many pages go down for it (unified memory; bitsandbytes' paged optimizers). 0 for
/// programs that do not page, under ZeRO and for adapters, whose states are small.
Seconds paged_update(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                     const StageCosts& stage, const DataGroups& groups, double micro_batches);

/// Frozen weights of a rank that stand in host memory and cross the host link in every pass: those of ZeRO-3 and FSDP
/// with offload. 0 otherwise: weights that are trained go up once, with the update.
Bytes hosted_weights(const Job& job, const Layout& layout, const LayerCosts& costs, const StageContent& content,
                     const StageCosts& stage, const DataGroups& groups);

/// Parameters whose gradients a rank reduces and whose states it updates: all, or the adapters beside frozen weights.
struct TrainedParameters {
  double dense = 0, expert = 0;
  double matrices = 0;  ///< of both, those that Muon updates: all but embedding and head
};
TrainedParameters trained_parameters(const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                                     bool own_head);

/// The first rank of a group, which holds `held` activations.
StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches,
                         const HeldActivations& held);
/// The same by the rule of the schedule, held_by_rule().
StageMemory stage_memory(const Job& job, const Layout& layout, const LayerCosts& costs, const StageGroup& group,
                         const StageCosts& stage, const DataGroups& groups, double micro_batches);

}  // namespace tpplan
