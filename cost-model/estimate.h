#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost-model/layer_cost.h"

namespace tpplan {

/// Layers of one pipeline rank (all its virtual stages).
struct StageContent {
  int dense = 0;
  int moe = 0;
  bool embedding = false;
  bool head = false;
  int mtp = 0;     ///< multi-token prediction modules, each a layer, a projection and a head of its own
  int chunks = 1;  ///< stages that the rank computes
  friend bool operator==(const StageContent&, const StageContent&) = default;
};

/// Ranks of a pipeline that hold the same content, first rank and count: what a closed form needs to know.
struct StageGroup {
  StageContent content;
  int first_rank = 0;
  int count = 0;
  int part = -1;  ///< of a mixed cluster, that the ranks lie on; -1: the cluster as a whole
};

/// How the layers lie on a pipeline of pp ranks with vpp chunks each.
struct PipelineShape {
  int pp = 1, vpp = 1;
  std::vector<StageGroup> groups;
  std::vector<int> layers_per_stage = {};  ///< per rank
  double copies = 1;                       ///< of the model in the pipeline: DualPipe's two share the micro-batches
  bool down_and_up = false;                ///< chunk 1 of a rank lies on the way back
};
/// Stages lie round and round on the ranks; ZB-V's go down and up again, DualPipe's ranks hold one of each direction.
PipelineShape pipeline_shape(const Job& job, int pp, int vpp, Schedule schedule = Schedule::f1b1);
/// The same of a layout, whose costs decide where the job asks for balanced stages and where stages lie on different
/// parts of a mixed cluster.
PipelineShape pipeline_shape(const Job& job, const Layout& layout);
PipelineShape pipeline_shape(const Job& job, const Layout& layout, const LayerCosts& costs);
bool stages_are_balanced(const Job& job, int pp);

/// Seconds of one step by what they are spent on, of the pipeline rank that finishes last; they add up to total().
/// The members are the keys of `breakdown_s`.
struct StepEstimate {
  Seconds compute, recompute, tp_comm, cp_comm, ep_comm, pp_comm, dp_comm, bubble, optimizer, host, offload, data;
  Seconds lower_bound;  ///< no schedule of this layout is faster
  Flops model_flops;    ///< of one GPU's share of a step: 3 x forward, causal halved, head included, no recomputation
  double step_error = 0.15;  ///< half width of the 80 % interval, relative
  [[nodiscard]] Seconds total() const {
    return compute + recompute + tp_comm + cp_comm + ep_comm + pp_comm + dp_comm + bubble + optimizer + host + offload +
           data;
  }
};
struct StepTermRow {
  std::string_view key;
  Seconds StepEstimate::*field;
  std::string_view meaning;
};
inline constexpr std::array<StepTermRow, 12> kStepTerms{{
    {"compute", &StepEstimate::compute, "forward and backward kernels"},
    {"recompute", &StepEstimate::recompute, "kernels run again for activation recomputation"},
    {"tp_comm", &StepEstimate::tp_comm, "exposed tensor-parallel collectives"},
    {"cp_comm", &StepEstimate::cp_comm, "exposed context-parallel transfers"},
    {"ep_comm", &StepEstimate::ep_comm, "exposed expert all-to-all"},
    {"pp_comm", &StepEstimate::pp_comm, "exposed pipeline transfers"},
    {"dp_comm", &StepEstimate::dp_comm, "exposed gradient reduction and parameter gathering"},
    {"bubble", &StepEstimate::bubble, "idle time of the pipeline rank that finishes last"},
    {"optimizer", &StepEstimate::optimizer, "optimizer step and gradient norm"},
    {"host", &StepEstimate::host, "time the GPU waits for kernel launches"},
    {"offload", &StepEstimate::offload, "exposed copies to and from host memory"},
    {"data", &StepEstimate::data, "waits for the next tokens"},
}};

/// Bytes of the fullest GPU at its worst moment; the members are the keys of `memory_bytes`.
struct MemoryEstimate {
  Bytes weights, gradients, optimizer, activations, loss, gathered, communication, workspace, allocator_slack, context;
  Bytes host_bytes;         ///< host memory per GPU that offloading needs
  Bytes host_capacity;      ///< host memory per GPU, 0 where it is unknown or storage takes what it cannot hold
  Bytes capacity;           ///< usable bytes of the GPU
  double in_flight = 0;     ///< micro-batches on all layers of the rank whose activations are held then
  int stage = 0;            ///< pipeline rank of the fullest GPU
  std::uint8_t moment = 0;  ///< index into kMoments
  double error = 0.05;      ///< half width of the 80 % interval, relative
  [[nodiscard]] Bytes allocated() const {
    return weights + gradients + optimizer + activations + loss + gathered + communication + workspace;
  }
  [[nodiscard]] Bytes reserved() const { return allocated() + allocator_slack; }
  [[nodiscard]] Bytes total() const { return reserved() + context; }
};
struct MemoryTermRow {
  std::string_view key;
  Bytes MemoryEstimate::*field;
  std::string_view meaning;
};
inline constexpr std::array<MemoryTermRow, 10> kMemoryTerms{{
    {"weights", &MemoryEstimate::weights, "parameters in training precision"},
    {"gradients", &MemoryEstimate::gradients, "gradients and their buckets"},
    {"optimizer", &MemoryEstimate::optimizer, "master weights and moments"},
    {"activations", &MemoryEstimate::activations, "tensors kept for the backward pass, and the layer in work"},
    {"loss", &MemoryEstimate::loss, "logits, softmax and the head's input"},
    {"gathered", &MemoryEstimate::gathered, "gathered parameters and unsharded gradients (FSDP)"},
    {"communication", &MemoryEstimate::communication, "send, receive and gather buffers"},
    {"workspace", &MemoryEstimate::workspace, "library workspaces and shared gradient buffers"},
    {"allocator_slack", &MemoryEstimate::allocator_slack, "reserved by the caching allocator but not allocated"},
    {"context", &MemoryEstimate::context, "driver context, libraries, communicators"},
}};
inline constexpr std::array<std::string_view, 6> kMoments{{"loss", "first layer of the backward pass",
                                                           "end of the backward pass", "optimizer step", "states",
                                                           "end of a forward pass"}};

/// The 80 % interval of a predicted value: four of five measured ones lie in it. Profiles hold the relative width so
/// that over- and underestimates of the same factor count alike.
template <class T>
struct Interval {
  T low, high;
};
template <class T>
constexpr Interval<T> interval80(T value, double error) {
  return {value / (1 + error), value * (1 + error)};
}

enum class Fits : std::uint8_t { fits, tight, no };
std::string_view name_of(Fits fits);
/// fits: reserved + context <= capacity x (1 - headroom); tight: allocated + context <= capacity; else no.
Fits verdict(const MemoryEstimate& memory, double headroom);

/// The estimate of one layout: what the search ranks by.
struct Estimate {
  StepEstimate step;
  MemoryEstimate memory;
};

/// The whole chain for one layout.
Estimate estimate(const Job& job, const Layout& layout);

/// The same from parts computed once for many layouts: `costs` of layer_key(layout) and `shape` of its pp and vpp.
/// Equal to estimate() bit for bit.
Estimate combine(const Job& job, const Layout& layout, const LayerCosts& costs, const PipelineShape& shape);

/// Share of the GPUs' dense peak that the model FLOPs of the step use.
double mfu(const Job& job, const Layout& layout, const StepEstimate& step);
double tokens_per_second(const Job& job, const StepEstimate& step);

/// The largest term of the step other than compute when compute is under two thirds of it, else "compute".
std::string_view bound_by(const StepEstimate& step);

}  // namespace tpplan
