#pragma once

#include <array>
#include <span>
#include <vector>

#include "cost-model/data_loading.h"
#include "cost-model/estimate.h"
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
/// By precision, optimizer and the framework's habits. Training in fp32 or tf32 has no master copy beside its weights.
StateBytes state_bytes(const Job& job, Optimizer optimizer);

/// Time of an optimizer step beyond its memory traffic: Muon's five Newton-Schulz iterations, each of three products
/// (6 h FLOP a parameter of a square matrix), at the rate of a large product.
Seconds optimizer_products(const Job& job, Optimizer optimizer, double matrix_params);

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

/// What every way to shard states has in common for one layer key, pipeline and dp.
struct PipelineCosts {
  std::array<StageCosts, 4> known;  ///< of the first groups of the shape: ends, middle, uneven ranks
  double micro_batches = 1;
  Seconds slowest;                              ///< forward and backward of the slowest stage, one micro-batch
  Seconds span;                                 ///< pipeline_time()
  Seconds transfers;                            ///< exposed transfers between stages, per step
  Seconds tied_reduction;                       ///< all-reduce of a tied matrix between the two ends of the pipeline
  std::array<HeldActivations, 4> held_by_rule;  ///< of the first ranks of the first groups
  std::vector<HeldActivations> held;            ///< of every rank where counted in an order, else empty
  DataLoading loading;
};
/// `costs`: of each part of the cluster (one, unless stages lie on parts of a mixed cluster).
PipelineCosts pipeline_costs(const Job& job, const Layout& layout, std::span<const LayerCosts> costs,
                             const PipelineShape& shape, const TransferLaws& transfers);

/// combine() with those given; `costs` and `sharding` of each part of the cluster.
Estimate combine(const Job& job, const Layout& layout, std::span<const LayerCosts> costs, const PipelineShape& shape,
                 const PipelineCosts& pipeline, std::span<const ShardingLaws> sharding);

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

/// FSDP (ZeRO-3): per micro-batch gathers forward and backward and a reduce-scatter, prefetched beside the layers.
Seconds fsdp_exposed(const Job& job, const LayerCosts& costs, const StageContent& content, const StageCosts& stage,
                     const DataGroups& groups, double micro_batches);

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

/// Parameters whose gradients a rank reduces and whose states it updates: all, or the adapters beside frozen weights.
struct TrainedParameters {
  double dense = 0, expert = 0;
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
