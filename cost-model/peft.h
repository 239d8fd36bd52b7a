#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// Matrices that low-rank adapters sit beside (bit mask).
enum AdapterTarget : std::uint16_t {
  kAdaptQuery = 1,
  kAdaptKey = 2,
  kAdaptValue = 4,
  kAdaptOutput = 8,
  kAdaptGate = 16,
  kAdaptUp = 32,
  kAdaptDown = 64,
  kAdaptHead = 128
};
/// Words of --peft targets= and the matrices they mean: the names of Hugging Face modules and short forms. Of latent
/// attention "q" means both query projections, "k" the key/value down and "v" the key/value up projection.
struct AdapterTargetRow {
  std::string_view name;
  std::uint16_t mask;
};
inline constexpr std::array<AdapterTargetRow, 20> kAdapterTargets{{{"all", 127},
                                                                   {"all-linear", 127},
                                                                   {"attention", 15},
                                                                   {"qkv", 7},
                                                                   {"mlp", 112},
                                                                   {"q", kAdaptQuery},
                                                                   {"k", kAdaptKey},
                                                                   {"v", kAdaptValue},
                                                                   {"o", kAdaptOutput},
                                                                   {"gate", kAdaptGate},
                                                                   {"up", kAdaptUp},
                                                                   {"down", kAdaptDown},
                                                                   {"head", kAdaptHead},
                                                                   {"q_proj", kAdaptQuery},
                                                                   {"k_proj", kAdaptKey},
                                                                   {"v_proj", kAdaptValue},
                                                                   {"o_proj", kAdaptOutput},
                                                                   {"gate_proj", kAdaptGate},
                                                                   {"up_proj", kAdaptUp},
                                                                   {"down_proj", kAdaptDown}}};

/// The matrices that words name; no word means "all". A word that is none of the table is a problem, with the nearest
/// known word.
struct AdapterTargets {
  std::uint16_t mask = 0;
  std::vector<std::string> problems;
};
AdapterTargets adapter_targets(const std::vector<std::string>& words);

/// Bytes of one weight in NF4: half a byte, and per block of 64 weights an fp32 constant, or with double quantisation
/// an 8-bit one and an fp32 constant per 256 of those (Dettmers et al. 2023, arXiv:2305.14314, section 3).
constexpr double quantised_weight_bytes(bool doubly) { return 0.5 + (doubly ? 1.0 / 64 + 4.0 / (64 * 256) : 4.0 / 64); }

struct LayerSizes;

/// Adapter parameters of one layer on one rank: rank x (inputs + outputs) per adapted matrix, where tensor parallelism
/// divides the outputs of the first product of a block and the inputs of the second.
double layer_adapters(const Job& job, const LayerKey& key, bool moe_layer);
/// The same of the head, rank x (hidden + vocabulary / tp).
double head_adapters(const Job& job, const LayerSizes& s);

/// Weights of one layer on one rank that QLoRA holds in 4 bits: every matrix, but not norms and routers. 0 for others.
double layer_quantised(const Job& job, const LayerKey& key, bool moe_layer);

/// What adapters change in the bytes that a layer keeps per token: the inputs of frozen matrices go (a frozen product
/// needs none for its backward pass), inputs and low-rank outputs of adapters come. `dropped`: recomputed modules.
double adapter_token_bytes(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer,
                           std::uint16_t dropped);

/// Turns the operations of a layer that is trained whole into those of a frozen one with adapters: no weight-gradient
/// products, adapter products, and for 4-bit weights their dequantisation before each product.
void freeze_layer(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer, OperationList& list);
/// The same for the operations of embedding and head.
void freeze_ends(const Job& job, const LayerSizes& s, bool head, OperationList& list);

/// Fills the adapter members of `costs`; leaves them zero when every weight is trained.
void add_adapter_sizes(const Job& job, const LayerKey& key, const LayerSizes& s, LayerCosts& costs);

}  // namespace tpplan
