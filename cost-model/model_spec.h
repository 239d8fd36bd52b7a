#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost-model/spec_reader.h"

namespace tpplan {

/// Weights of one normalisation: `rms` and `layer_no_bias` hold hidden, `layer` twice hidden, `unweighted` none.
enum class NormKind : std::uint8_t { rms, layer, layer_no_bias, unweighted };
enum class AttentionBias : std::uint8_t { none, qkv, all };
enum class QkNorm : std::uint8_t { none, per_head, full_width };

/// Multi-head latent attention (DeepSeek-V2 and later): widths of the compressed query and key/value paths.
struct LatentAttention {
  int q_lora = 0;  ///< 0: queries are not compressed
  int kv_lora = 0;
  int qk_nope = 0;
  int qk_rope = 0;
  int v = 0;
};

/// Mixture of experts: which layers have it is in ModelSpec::moe_layers.
struct MoeSpec {
  int experts = 0;
  int top_k = 0;
  int expert_ffn = 0;        ///< FFN width of one routed expert
  int shared_ffn = 0;        ///< total FFN width of the shared experts, 0 for none
  bool shared_gate = false;  ///< a gate of `hidden` weights on the shared expert (Qwen2-MoE)
  bool router_bias = false;  ///< one bias per expert (gpt-oss; DeepSeek-V3's correction bias)
  bool expert_bias = false;  ///< biases in the experts' linears (gpt-oss)
  int routing_groups = 0;    ///< expert groups of group-limited routing, 0 for none
  int routing_group_limit = 0;
};

/// A decoder-only transformer: shapes that decide cost and memory, and the details that make parameter counts exact.
struct ModelSpec {
  std::string name;
  std::string architecture;  ///< "llama", "deepseek_v3", ...: the Hugging Face model_type, or "tpplan" for own files
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn_hidden = 0;  ///< width of the dense FFN
  int vocab = 0;       ///< as in the checkpoint, before framework padding
  bool gated_mlp = true;
  bool tied_embeddings = false;
  std::optional<LatentAttention> latent;
  std::optional<MoeSpec> moe;
  std::vector<std::uint8_t> moe_layers;  ///< one flag per layer; empty when the model is dense
  int mtp_layers = 0;                    ///< multi-token prediction modules (not in total_params)
  int attention_window = 0;              ///< tokens of sliding-window layers, 0 for full attention everywhere
  int full_attention_every = 0;          ///< every n-th layer attends fully although a window is set; 0: none does

  AttentionBias attention_bias = AttentionBias::none;
  bool output_bias = false;  ///< bias of the attention output although attention_bias is not `all` (GPT-Neo)
  bool mlp_bias = false;
  bool head_bias = false;
  NormKind norm = NormKind::rms;
  int norms_per_layer = 2;
  QkNorm qk_norm = QkNorm::none;
  bool attention_sinks = false;
  bool final_norm = true;
  bool embedding_norm = false;
  int learned_positions = 0;     ///< rows of a learned position table
  int embedding_projection = 0;  ///< width of the embedding when projected to `hidden` (OPT-350M), 0 for none
  bool query_gate = false;       ///< queries doubled by an output gate
  int activation_weights = 0;    ///< learned numbers in the activation function of each layer (Apertus: 2)

  std::int64_t vision_params = 0;  ///< vision tower of a multimodal file: reported, not planned

  int default_seq = 0;               ///< tokens per sequence the file asks for, 0 for none
  int default_global_batch = 0;      ///< sequences per step the file asks for, 0 for none
  std::vector<std::string> assumed;  ///< defaults that the reader filled in, in words

  [[nodiscard]] bool is_moe_layer(int layer) const {
    return !moe_layers.empty() && moe_layers[static_cast<std::size_t>(layer)] != 0;
  }
  [[nodiscard]] int moe_layer_count() const;
};

/// Weights of one layer, whole (before any parallelism), grouped by how parallelism divides them. Biases count with
/// their matrix.
struct LayerParameters {
  std::int64_t attention = 0;             ///< divided by tp: projections and their biases
  std::int64_t attention_replicated = 0;  ///< on every tp rank: latent down-projections, their norms, q/k norms
  std::int64_t mlp = 0;                   ///< dense FFN or shared experts, divided by tp
  std::int64_t router = 0;                ///< replicated: router, shared gate
  std::int64_t experts = 0;               ///< all routed experts, divided by ep * etp
  std::int64_t norms = 0;                 ///< replicated: normalisations, learned numbers of an activation
  [[nodiscard]] std::int64_t total() const { return attention + attention_replicated + mlp + router + experts + norms; }
};

/// Weights of one layer (dense FFN or MoE); exact, per family rules of the published checkpoints.
LayerParameters layer_parameters(const ModelSpec& model, bool moe_layer);

struct ParameterCounts {
  std::int64_t total = 0;      ///< each weight once (a tied matrix once), no buffers, no MTP module
  std::int64_t active = 0;     ///< total without the experts a token does not visit; both embedding matrices included
  std::int64_t embedding = 0;  ///< input embedding and, when untied, the head
  std::int64_t vision = 0;
  std::int64_t mtp = 0;  ///< multi-token prediction modules, on top of total
};
ParameterCounts parameter_counts(const ModelSpec& model);

/// Rows of the embedding: input table (and positions, embedding norm, projection) and the output head, whole.
std::int64_t embedding_parameters(const ModelSpec& model);
std::int64_t head_parameters(const ModelSpec& model);  ///< 0 when tied (except a bias)

/// Reads a model in the project's own format or a Hugging Face config.json (recognised by its keys): a file, a folder
/// that holds config.json, or "-" for standard input. Throws SpecError with every problem; a kind of model that cannot
/// be planned is refused with "not supported, because ...". `warnings` receives rendered warnings when not null.
ModelSpec load_model(const std::string& path, std::string* warnings = nullptr);
/// As load_model, from a text; `name` stands for the file in messages.
ModelSpec parse_model(std::string name, std::string source, std::string* warnings = nullptr);

/// Reads a model in the project's own keys (models/README.md) from an object inside another file, such as a run record.
/// Problems are noted in the object's document; it is left to the caller to close the object.
ModelSpec read_model(ObjectReader& object, const std::string& fallback_name);

}  // namespace tpplan
