#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// Parts of a model that adapters sit beside (bit mask): matrices, and what the adapters of LLaMA-Adapter are made of.
enum AdapterTarget : std::uint16_t {
  kAdaptQuery = 1,
  kAdaptKey = 2,
  kAdaptValue = 4,
  kAdaptOutput = 8,
  kAdaptGate = 16,
  kAdaptUp = 32,
  kAdaptDown = 64,
  kAdaptHead = 128,
  kAdaptPrompts = 256,  ///< prompts and gates in the attention of all but the first layers
  kAdaptOutputs = 512   ///< instead of low-rank products a bias and a scale per output; the norms are trained too
};
/// Prompts per layer and the first layers without them: 10 prompts in the topmost 30 of 32 layers (LLaMA-Adapter,
/// section 4.1), the habits of the programs too (adapter_prompt_length, adapter_start_layer of Lightning-AI/litgpt).
inline constexpr int kPromptLength = 10;
inline constexpr int kLayersWithoutPrompts = 2;

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

/// Parts that have adapters (AdapterTarget bits); none when every weight is trained.
std::uint16_t adapted_parts(const TrainingSpec& training);

/// Adapter parameters of one layer on one rank, on average over the layers. Low-rank: rank x (inputs + outputs) per
/// adapted matrix, where tensor parallelism divides the outputs of the first product of a block and the inputs of the
/// second. Prompts: kPromptLength x hidden and a gate per head in every layer that has them. Outputs: two per output of
/// every matrix, and the norms.
double layer_adapters(const Job& job, const LayerKey& key, bool moe_layer);
/// The same of the head: rank x (hidden + vocabulary / tp), or two per output and the last norm.
double head_adapters(const Job& job, const LayerSizes& s);

/// Weights of one layer on one rank that are held in 4 bits: every matrix, but not norms and routers. 0 without.
double layer_quantised(const Job& job, const LayerKey& key, bool moe_layer);

/// What adapters change in the bytes that a layer keeps per token: the inputs of frozen matrices go (a frozen product
/// needs none for its backward pass), inputs and low-rank outputs of adapters come, or the attention over the prompts,
/// or the outputs before they are scaled. `dropped`: recomputed modules.
double adapter_token_bytes(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer,
                           std::uint16_t dropped);

/// Bytes of an element of the hidden state in 16-bit training: beside 4-bit weights those of embedding and norms, whose
/// type bitsandbytes' Linear4bit hands on (out.to(inp_dtype)) and the residual sums keep.
double hidden_bytes(const Job& job);

/// Turns the operations of a layer that is trained whole into those of a frozen one with adapters: no weight-gradient
/// products, adapter products, and for 4-bit weights their dequantisation before each product.
void freeze_layer(const Job& job, const LayerKey& key, const LayerSizes& s, bool moe_layer, OperationList& list);
/// The same for the operations of embedding and head.
void freeze_ends(const Job& job, const LayerSizes& s, bool head, OperationList& list);

/// Fills the adapter members of `costs`; leaves them zero when every weight is trained.
void add_adapter_sizes(const Job& job, const LayerKey& key, const LayerSizes& s, LayerCosts& costs);

}  // namespace tpplan
