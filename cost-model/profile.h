#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/cluster_spec.h"
#include "cost-model/spec_reader.h"
#include "cost-model/units.h"

namespace tpplan {

/// The training programs whose rules, memory layout and speed are known.
enum class Framework : std::uint8_t {
  megatron,
  megatron_deepspeed,
  deepspeed,
  fsdp,
  torchtitan,
  nanotron,
  internevo,
  plain
};
struct FrameworkRow {
  std::string_view name;
  Framework framework;
  bool pads_vocab_128;   ///< vocabulary padded to 128 * tp rows, else to tp
  bool experts_span_tp;  ///< an expert group may reach beyond dp x cp into tp
};
inline constexpr std::array<FrameworkRow, 8> kFrameworkTable{{
    {"megatron", Framework::megatron, true, true},
    {"megatron-deepspeed", Framework::megatron_deepspeed, true, false},
    {"deepspeed", Framework::deepspeed, false, false},
    {"fsdp", Framework::fsdp, false, false},
    {"torchtitan", Framework::torchtitan, false, true},
    {"nanotron", Framework::nanotron, false, false},
    {"internevo", Framework::internevo, false, false},
    {"plain", Framework::plain, false, true},
}};
constexpr const FrameworkRow& row_of(Framework framework) {
  return kFrameworkTable[static_cast<std::size_t>(framework)];
}
std::optional<Framework> framework_from(std::string_view name);
std::string_view name_of(Framework framework);

/// Where a constant of a profile comes from; `fitted` ones count against the limit of five per framework and era.
enum class ConstantSource : std::uint8_t { measured, code, fitted, assumed };
std::string_view name_of(ConstantSource source);

/// Constants of a GPU, pinned for every framework: fractions of data-sheet rates that kernels sustain inside a training
/// step. Read from clusters/profiles/gpu-constants.json, one row per GPU or architecture.
struct GpuConstants {
  std::string id;
  double gemm_16bit = 0.7;  ///< large matrix products, fraction of the dense peak
  double gemm_tf32 = 0.7;
  double gemm_fp8 = 0.6;
  double gemm_fp4 = 0.5;
  double gemm_k0 = 100;          ///< a product of inner size k costs (1 + k0/k) times its FLOP
  double gemm_k0_narrow = 350;   ///< the same for 8-bit and 4-bit products
  double gemm_occupancy = 0.45;  ///< exponent on the share of multiprocessors that have a 128 x 128 tile
  double gemm_bytes = 0.8;       ///< fraction of memory bandwidth a bandwidth-bound product reaches
  double batched_gemm = 0.5;     ///< products of unfused attention, fraction of peak
  double flash_forward = 0.6;    ///< fused attention without its tail, fraction of peak
  double flash_backward = 0.5;
  double flash_tail_forward = 0.5;  ///< full-length query tiles per multiprocessor that run alone at the end
  double flash_tail_backward = 0.5;
  double flash_d64 = 1.35;     ///< time factor of head size 64 and below
  double memory_plain = 0.82;  ///< copies and adds, fraction of memory bandwidth
  double memory_norm = 0.55;
  double memory_adam = 0.7;
  double memory_dynamic = 0.25;  ///< elementwise kernels compiled for dynamic shapes
  double power_factor = 1;       ///< sustained peak of a power-limited part over the full part
};
struct GpuConstantRow {
  std::string_view key;
  double GpuConstants::*field;
  std::string_view meaning;
};
extern const std::array<GpuConstantRow, 19> kGpuConstantTable;

/// Collective speed of a kind of link when no calibration covers it: busbw = fraction * rated bandwidth,
/// t = base + step * ring steps + wire * S / busbw.
struct LinkConstants {
  std::string link;          ///< "nvlink3", "nvlink4", "pcie", "infiniband", ...
  double all_reduce = 0.75;  ///< fraction of the rated bandwidth per direction
  double gather = 0.75;      ///< all-gather, reduce-scatter, broadcast
  double all_to_all = 0.7;
  double send_recv = 0.7;
  double shared = 0;       ///< PCIe trees: fraction of one link's rate that all groups crossing the root share, 0: none
  double beyond_four = 1;  ///< further factor for groups of more than four (PCIe trees that cross sockets)
  Seconds base;
  Seconds step;
};

enum class MemoryKind : std::uint8_t { plain, norm, adam, dynamic };

/// Memory traffic of one elementwise operation of a layer, bytes per token: h*hidden + q*heads*head_dim +
/// kv*kv_heads*head_dim + f*ffn (of the tokens' FFN). `sharded_by` tells what divides it.
enum class ShardedBy : std::uint8_t { nothing, tp, sequence };
struct TokenBytes {
  std::string name;
  double h = 0, q = 0, kv = 0, f = 0, heads = 0, scores = 0, constant = 0;
  ShardedBy sharded_by = ShardedBy::tp;
  MemoryKind kind = MemoryKind::plain;
  std::uint16_t module = 0;       ///< recompute module it belongs to (RecomputeModule bits)
  std::int8_t flash = -1;         ///< 1: only with fused attention, 0: only without, -1: always
  std::int8_t rms_kernel = -1;    ///< 1: only with a fused norm kernel, 0: only without, -1: always
  std::int8_t tp_above_one = -1;  ///< 1: only when tp > 1, 0: only when tp = 1, -1: always
  std::int8_t frozen = -1;        ///< 1: only with frozen norm weights, 0: only with trained ones, -1: always
  std::int8_t grouped = -1;       ///< 1: only with fewer key/value heads than heads, 0: only with as many, -1: always
  double f_plain = -1;            ///< f of an FFN without a gate; -1: as f
  double narrow = 1;              ///< factor on the bytes when products take 8-bit inputs
  double rate_fraction = 0;       ///< fraction of memory bandwidth this kernel was traced at; 0: that of its kind
};

/// How one framework of one era spends time and memory; every number is data with its source.
struct FrameworkProfile {
  std::string name;
  Framework framework = Framework::megatron;
  std::string program;                     ///< fine-tuning program it speaks for, "": the framework in general
  std::string since;                       ///< "2023-11": newest profile that starts no later than the run's date
  std::vector<std::string> architectures;  ///< GPU architectures it holds for; empty: all
  std::vector<std::string> dispatchers;    ///< for runs that state one of these; empty: all
  bool only_by_date = false;               ///< for runs that carry a date, never the newest profile of a plan
  int compiled = -1;                       ///< 1: for compiled programs only, 0: for eager ones only, -1: both

  // Time.
  double elementwise_factor = 1;    ///< on every memory-bound operation of the layers
  double fast_link_factor = 1;      ///< on the bus bandwidth inside the fast domain
  double network_factor = 1;        ///< on the bus bandwidth of the network
  double collective_latency_s = 0;  ///< added to every collective of a step
  double launch_s = 0;              ///< host time per kernel launch
  double kernels_forward = 16;      ///< launches of one dense layer
  double kernels_backward = 40;
  double collective_launches = 1;  ///< launches a collective costs the host
  double layer_host_s = 0;         ///< host time of a layer's forward pass beside its launches: modules, autograd graph
  double checkpoint_host_s = 0;    ///< host time of checkpointing a layer beside its second forward pass
  double kernel_gap_s = 0;         ///< GPU idle time between two kernels
  double moe_host_forward_s = 0;   ///< host time of one MoE layer's forward pass beyond a dense layer's
  double moe_host_backward_factor = 2;
  double moe_host_proxied = 1;  ///< times both where processes of the host move the tokens (deepep-proxied)
  double moe_host_graphed =
      0.45;                   ///< of both, what stays when graphs replay all but the exchange and the routed experts
  double permute_factor = 1;  ///< time of sorting routed rows and summing them back over that of their bytes
  double routed_outputs_kept = 0;  ///< 1: experts' outputs are kept too, as their weights are applied after the experts
  double loss_bytes_per_logit = 40;
  double weight_gradient_bytes = 8;  ///< traffic of accumulating weight gradients, per parameter and micro-batch
  double flash_forward_factor = 1;   ///< rate of this era's fused attention over the GPU constant
  double small_head_factor = 0;      ///< attention time of head sizes up to 64; 0: the GPU constant
  double flash_backward_factor = 1;
  double gemm_factor = 1;          ///< rate of the products over the GPU constant (1 unless a source says so)
  double score_bytes_forward = 9;  ///< unfused attention, bytes per score
  double score_bytes_backward = 13;
  double misaligned_head_factor = 0.12;  ///< unfused products whose head size is no multiple of 8
  double tp_hidden = 0;                  ///< share of tensor-parallel communication hidden when its overlap is on
  double tp_overlap_default = 0;         ///< 1: overlap is on unless the user says otherwise
  double dp_overlap_default = 1;
  double pp_overlap_default = 0;
  double dp_overlap_cost = 0.6;     ///< cost of overlapped gradient reduction, share of its isolated time
  double fsdp_overlap_cost = 0.6;   ///< the same for FSDP gathers and scatters
  double pp_exposed_transfers = 2;  ///< exposed transfers per micro-batch and chunk, not overlapped
  double pp_scatter_gather = 0;     ///< 1: without sequence parallelism 1/tp of a stage's output crosses the network
  double ep_exposed = 1;            ///< share of expert all-to-all exposed without overlap
  double ep_exposed_overlapped = 0.3;
  double expert_gemm_factor_16bit = 1;  ///< the same for 16-bit products
  double expert_gemm_factor = 0.8;      ///< rate of grouped products over the GPU constant
  double all_to_all_factor = 1;
  double optimizer_bytes = 50;  ///< memory traffic of the optimizer per local fp32 parameter
  double step_fixed_s = 0.01;
  double selective_op_share = 0.4;  ///< share of the products that per-operation recompute runs again
  double cp_attention_factor = 1;
  double fp8_cast_bytes = 8;  ///< half per input element of a product forward, half per output element backward
  double gradient_wire_bytes = 4;
  double owner_broadcast = 0;       ///< 1: every owner of a shard broadcasts it after the update, one after the other
  double far_network_exponent = 0;  ///< busbw of the network falls with (nodes/16)^-x beyond 16 nodes

  // Memory.
  double weight_bytes = 2;
  double gradient_bytes = 4;
  double optimizer_state_bytes = 12;
  double bf16_gradient_bytes = 0;     ///< further resident bytes per parameter when training in bf16
  double sharded_gradient_bytes = 0;  ///< further bytes per parameter divided by the shard group
  double bucket_bytes = 0;            ///< resident when dp > 1
  double shards_gradients = 0;        ///< 1: ZeRO-1 divides gradients as the optimizer
  double unsynced_gradients = 0;      ///< 1: FSDP keeps unsharded fp32 gradients over accumulation
  double loss_allocated_per_logit = 6;
  double head_input_bytes = 4;        ///< times hidden per token, held at the loss
  double dummy_weight_gradients = 0;  ///< 1: one 16-bit buffer per distinct weight shape
  double activation_factor = 1;
  double constant_gib = 0;
  double constant_tp_gib = 0;  ///< further constant when tp > 1
  double context_gib = 1.6;
  double context_p2p_gib = 0.43;
  double workspace_gib = 0.0625;
  double stage_buffer_bytes = 0;  ///< times hidden per micro-batch in flight when pp > 1
  double reserved_factor = 1.03;
  double reserved_loss_factor = 0;  ///< reserved - allocated, in units of the loss transient
  double replay_allocator = 0;      ///< 1: slack of shown plans comes from a replay of PyTorch's allocator
  double fsdp_prefetch_layers = 2;  ///< gathered layers in flight
  double fsdp_gradient_pool = 1;    ///< reduce-scatter outputs sit in a pool of their own
  double fsdp_shard_bytes = 0;      ///< weight shard per parameter beside the optimizer states (16-bit training)
  double fsdp_gradient_bytes = 4;   ///< gradients per parameter under FSDP

  // Memory of fine-tuning with adapters.
  double adapter_bytes = 4;           ///< per adapter parameter
  double adapter_gradient_bytes = 4;  ///< per adapter parameter
  double adapter_state_bytes = 8;     ///< Adam's moments per adapter parameter
  double adapter_dropout = 0;         ///< 1: each adapter drops out its input: a 16-bit copy and a mask of one byte
  double adapter_output_bytes = 0;    ///< per output element that scattering fused query/key/value adapters keeps
  double adapter_loss_per_logit = 0;  ///< bytes per logit at the loss with adapters; 0: as in training of all weights
  double quantised_input_bytes = 0;   ///< per input element that a product with 4-bit weights keeps
  double quantised_head = 0;          ///< 1: the head is quantised too
  double unquantised_bytes = 2;       ///< per weight of embedding, head and norms beside 4-bit weights
  double dequantised_copies = 1;      ///< 16-bit copies of the largest 4-bit matrix alive at once
  double flat_gradients = 0;          ///< 1: FSDP gives frozen weights gradients, for they share a flat parameter
  double paged_states = 0;  ///< 1: optimizer states are paged to the host with 4-bit weights, 2: on one device always

  std::string inventory;          ///< name of the elementwise inventory (inventories.json)
  std::string activation_list;    ///< name of the list of kept tensors
  std::string selective_op_list;  ///< the same under per-operation recomputation; empty: not offered
  std::vector<TokenBytes> elementwise_forward, elementwise_backward;
  std::vector<TokenBytes> activations, activations_selective_op;

  std::vector<std::pair<std::string, ConstantSource>> sources;  ///< key -> where it comes from
  std::vector<std::string> citations;
  struct Bounds {
    std::string key;
    double low = 0, high = 0;
  };
  std::vector<Bounds> free_constants;                      ///< what --fit may move
  std::vector<Bounds> intervals;                           ///< 80 % intervals of fitted values
  std::vector<std::pair<std::string, std::string>> cites;  ///< key -> what its value rests on
  double step_error = 0.15;  ///< half width of the 80 % interval of the step time, relative
  double memory_error = 0.05;
  double step_error_known = 0;    ///< 1 when the width of the step time comes from residuals
  double memory_error_known = 0;  ///< the same of memory
  std::string interval_note;      ///< what the widths rest on
  std::string fitted_on;
  int fitted_count() const;
};
struct ProfileScalarRow {
  std::string_view key;
  double FrameworkProfile::*field;
  std::string_view meaning;
  bool memory = false;  ///< decides memory, not time
};
/// Every scalar of a profile by its JSON key.
const std::vector<ProfileScalarRow>& profile_scalars();

/// All data of clusters/profiles.
struct ProfileSet {
  std::vector<FrameworkProfile> frameworks;
  std::vector<GpuConstants> gpus;
  std::vector<std::pair<std::string, std::vector<std::string>>> gpu_sources;
  std::vector<LinkConstants> links;

  struct Inventory {
    std::string name;
    std::vector<TokenBytes> forward, backward;  ///< memory traffic of the elementwise operations
    std::vector<std::string> citations;
  };
  struct ActivationList {
    std::string name;
    std::vector<TokenBytes> tensors;
    std::vector<std::string> citations;
  };
  std::vector<Inventory> inventories;
  std::vector<ActivationList> activation_lists;

  /// Reads inventories.json, gpu-constants.json, links.json and every other *.json of the folder as a profile.
  static ProfileSet load(const std::string& folder);
  /// One more profile file, resolved against the inventories of this set.
  [[nodiscard]] FrameworkProfile read_profile(const std::string& path) const;
  /// Profile of a framework on a GPU architecture at a date ("" = newest): the newest era that starts no later, among
  /// those that hold for the program (compiled or not) and for the dispatcher of routed tokens it states ("" = none).
  [[nodiscard]] const FrameworkProfile& find(Framework framework, const GpuSpec& gpu, std::string_view date,
                                             bool compiled = false, std::string_view dispatcher = {}) const;
  /// Profile of a fine-tuning program at a date, the newest era that starts no later; throws SpecError without one.
  [[nodiscard]] const FrameworkProfile& find_program(std::string_view program, std::string_view date) const;
  /// By GPU id, else by architecture, else the generic row.
  [[nodiscard]] GpuConstants constants_of(const GpuSpec& gpu) const;
  [[nodiscard]] LinkConstants link_of(const NetworkTier& tier, const GpuSpec& gpu) const;
};

/// The text of a profile file: constants with their sources, bounds and citations; inventories stay references.
std::string to_json(const FrameworkProfile& profile);

}  // namespace tpplan
