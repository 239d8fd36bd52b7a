#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cost-model/job.h"
#include "cost-model/rank_law.h"

namespace tpplan {

/// The part of a layout that decides what one layer costs per micro-batch.
struct LayerKey {
  std::int32_t tp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1;
  std::int32_t recompute_layers = 0;  ///< of each stage under full recomputation; 0: all
  bool sequence_parallel = false;
  bool paired = false;  ///< the schedule runs a forward pass beside each backward pass, which hides expert exchanges
  RecomputeKind recompute = RecomputeKind::none;
  std::uint16_t recompute_modules = 0;
  CpType cp_type = CpType::ring;
  RanksOrder ranks_order = RanksOrder::tp_cp_dp_pp;
  friend bool operator==(const LayerKey&, const LayerKey&) = default;
};
LayerKey layer_key(const Layout& layout);

enum class OperationKind : std::uint8_t { gemm, attention, memory, tp_comm, cp_comm, ep_comm, host };
std::string_view name_of(OperationKind kind);

/// One operation of a layer, per GPU and micro-batch. Times are of one layer; for a GEMM m x n x k is its forward
/// shape.
struct Operation {
  const char* name = "";
  OperationKind kind = OperationKind::memory;
  double m = 0, n = 0, k = 0;
  double count = 1;  ///< how often it runs in one pass
  Bytes bytes_forward, bytes_backward;
  Flops flops_forward, flops_backward;
  Seconds forward;           ///< one forward pass
  Seconds input_gradient;    ///< backward, gradient of the input (all of the backward for non-GEMMs)
  Seconds weight_gradient;   ///< backward, gradient of the weights
  std::uint16_t module = 0;  ///< recompute module it belongs to
  const char* formula = "";
};

/// A list with inline storage: building it allocates nothing.
struct OperationList {
  static constexpr std::size_t kCapacity = 64;
  std::array<Operation, kCapacity> items{};
  std::size_t size = 0;
  void add(const Operation& operation) {
    if (size < kCapacity) {
      items[size++] = operation;
    }
  }
  [[nodiscard]] const Operation* begin() const { return items.data(); }
  [[nodiscard]] const Operation* end() const { return items.data() + size; }
};

/// Operations of one transformer layer (attention and dense FFN, or attention and MoE).
OperationList layer_operations(const Job& job, const LayerKey& key, bool moe_layer);
/// Operations of the embedding (first stage) and of head and loss (last stage), forward and backward.
OperationList embedding_operations(const Job& job, const LayerKey& key);
OperationList head_operations(const Job& job, const LayerKey& key);
/// Operations of a multi-token prediction module besides its layer and head: two norms and the projection of both
/// inputs (DeepSeek-V3 report, section 2.2).
OperationList mtp_operations(const Job& job, const LayerKey& key);

/// Sums of an operation list per micro-batch and GPU.
struct PassCosts {
  Seconds forward;                  ///< compute of one forward pass
  Seconds backward;                 ///< compute, without recomputation
  Seconds weight_gradient;          ///< part of backward that may be delayed (zero-bubble schedules)
  Seconds recompute;                ///< compute repeated in the backward pass
  Seconds tp_forward, tp_backward;  ///< exposed tensor-parallel communication (backward includes recomputed ones)
  Seconds cp_forward, cp_backward;
  Seconds ep_forward, ep_backward;
  Seconds ep_hidden_forward, ep_hidden_backward;  ///< what DualPipe hides beside a pass of another micro-batch
  Seconds host_forward, host_backward;        ///< time by which launching exceeds the GPU's work (exposed host time)
  Seconds forward_launch, backward_launch;    ///< host time of all launches
  Seconds starved_forward, starved_backward;  ///< part of the host time: what launches take longer than the work itself
  [[nodiscard]] Seconds forward_total() const { return forward + tp_forward + cp_forward + ep_forward + host_forward; }
  [[nodiscard]] Seconds backward_total() const {
    return backward + recompute + tp_backward + cp_backward + ep_backward + host_backward;
  }
  [[nodiscard]] Seconds total() const { return forward_total() + backward_total(); }
  PassCosts& operator+=(const PassCosts& other);
  friend PassCosts operator*(PassCosts costs, double n);
};
PassCosts operator*(PassCosts costs, double n);

/// What the rest of the chain needs of a layer key: costs and sizes of each kind of layer and of the two ends.
struct LayerCosts {
  PassCosts dense, moe, embedding, head;
  PassCosts dense_once, moe_once;     ///< of a layer left out of full recomputation; of no use otherwise
  PassCosts mtp;                      ///< a whole multi-token prediction module: projection, layer, head and loss
  std::int32_t recompute_layers = 0;  ///< of the key
  double dense_params = 0;            ///< parameters per rank of a dense layer
  double moe_params = 0;              ///< parameters per rank of a MoE layer without its routed experts
  double expert_params = 0;           ///< routed-expert parameters per rank of a MoE layer
  double embedding_params = 0;        ///< per rank
  double head_params = 0;             ///< per rank, also when tied (the matrix is held by both ends of a pipeline)
  double mtp_params = 0;              ///< per rank of a prediction module without its routed experts
  Bytes dense_activations;            ///< kept per layer and micro-batch with this recomputation
  Bytes moe_activations;
  Bytes dense_activations_all;  ///< the whole list, held while a layer is recomputed
  Bytes moe_activations_all;
  double weight_share = 1;   ///< of a layer's activations: inputs and output gradients of its products, kept until the
                             ///< weight gradients where these are delayed
  Bytes mtp_activations;     ///< kept by a prediction module per micro-batch, its head excepted
  Bytes layer_input;         ///< one checkpoint
  Bytes backward_transient;  ///< gradients alive in the first layer of the backward pass beyond the kept list
  Bytes backward_transient_split;  ///< the same where weight gradients come later
  Bytes head_activations;          ///< head input kept and gathered, held at the loss
  Bytes loss_transient;            ///< logits and their softmax at the worst moment
  Bytes boundary;                  ///< one stage output per micro-batch
  // With adapters: the weights above are frozen, these are trained. All per rank.
  bool frozen = false;
  double dense_adapters = 0, moe_adapters = 0, head_adapters = 0;     ///< adapter parameters of a layer, of the head
  double dense_quantised = 0, moe_quantised = 0, head_quantised = 0;  ///< weights held in 4 bits
  Bytes dequantised;                                                  ///< 16-bit copies of a matrix while it multiplies
  int untouched_layers = 0;  ///< first layers of the model below every adapter: nothing kept, no backward pass
  Bytes dummy_gradients;     ///< shared weight-gradient buffers, without the head's
  Bytes head_dummy_gradient;
  /// Per GPU and micro-batch: 3 x forward, causal halved.
  Flops model_flops_dense, model_flops_moe, model_flops_head, model_flops_mtp;
};
LayerCosts layer_costs(const Job& job, const LayerKey& key);

/// The operation lists behind those costs. What is computed again and what runs beside what is no part of them, so that
/// keys which differ in that alone share them.
struct LayerLists {
  LayerKey key;  ///< without recomputation
  OperationList dense, moe, embedding, head, mtp;
  [[nodiscard]] bool serve(const LayerKey& other) const;
};
LayerLists layer_lists(const Job& job, const LayerKey& key);
/// With the lists given: the same bit for bit.
LayerCosts layer_costs(const Job& job, const LayerKey& key, const LayerLists& lists);

/// Where the ranks of a parallel group sit: group size, distance between neighbours in rank order.
struct GroupPlacement {
  int ranks = 1;
  int stride = 1;
  int inside = 1;        ///< members inside one block of the innermost tier that holds more than one of them
  std::size_t tier = 0;  ///< outermost tier that the group crosses
};
GroupPlacement place_group(const ClusterSpec& cluster, int ranks, int stride);

/// Time of one collective over one group as a function of its payload alone: a measured curve (of the group itself or
/// carried over from the nearest one), or latency plus bytes over bandwidth; of an all-to-all over several nodes the
/// slower of what leaves the node and what stays.
struct CollectiveLaw {
  RankLaw measured;  ///< where it has a curve
  Source source = Source::assumed;
  bool silent = true;  ///< a group of one: no time
  Seconds latency;
  double wire = 1;           ///< bytes that cross `bandwidth` per byte of payload
  BytesPerSecond bandwidth;  ///< beside a measured curve: a limit that it does not know of, 0 none
  double inner_wire = 0;     ///< the same inside the nodes, at the same time; 0: nothing
  BytesPerSecond inner_bandwidth;

  [[nodiscard]] Seconds time(Bytes bytes) const {
    if (silent || bytes.raw() <= 0) {
      return Seconds(0);
    }
    if (measured.nearest != nullptr) {
      const Seconds time = measured.time(bytes);
      return latency + (bandwidth.raw() > 0 ? max(time, bytes * wire / bandwidth) : time);
    }
    const Seconds outside = bytes * wire / bandwidth;
    return latency + (inner_wire > 0 ? max(outside, bytes * inner_wire / inner_bandwidth) : outside);
  }
};
/// The law of a group: a curve measured on its placement, else one of the same link and class of nodes carried over by
/// step laws and the ratio of assumed bandwidths (rank_law()), else link constants. Where equal groups that run at once
/// share a node and only one of them was measured, the rated share of the network is a limit.
CollectiveLaw collective_law(const Job& job, Collective collective, GroupPlacement group);
/// The law by link constants, whatever was measured.
CollectiveLaw rated_law(const Job& job, Collective collective, GroupPlacement group);

/// Time of one collective of `bytes` payload (size convention of collectives.h) over a group, alone in its streams:
/// collective_law() at that size. `source` tells what it rests on when not null.
Seconds collective_time(const Job& job, Collective collective, Bytes bytes, GroupPlacement group,
                        Source* source = nullptr);
/// Bus bandwidth that the assumed law gives the group.
BytesPerSecond group_bandwidth(const Job& job, Collective collective, GroupPlacement group);

/// An m x k by k x n product with its FLOPs, forward and both gradients; no times yet.
Operation gemm_operation(const char* name, const char* formula, double m, double n, double k, std::uint16_t module);
/// Time of a matrix product of these sizes at the given precision.
Seconds gemm_time(const Job& job, double m, double n, double k, Precision precision, double rate_factor = 1);

}  // namespace tpplan
