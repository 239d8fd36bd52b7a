#include "cost-model/model_spec.h"

#include <algorithm>
#include <filesystem>

#include "cost-model/hf_config.h"

namespace tpplan {
namespace {

std::int64_t wide(int value) { return value; }

std::int64_t norm_weights(NormKind kind, std::int64_t width) {
  return kind == NormKind::unweighted ? 0 : kind == NormKind::layer ? 2 * width : width;
}

/// A fully connected block of one token path: three matrices when gated, else two.
std::int64_t mlp_weights(std::int64_t hidden, std::int64_t width, bool gated, bool bias) {
  const std::int64_t inner = gated ? 2 : 1;
  return (inner + 1) * hidden * width + (bias ? inner * width + hidden : 0);
}

/// Multi-head, grouped or multi-query attention.
void add_grouped_attention(const ModelSpec& model, LayerParameters& layer) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = wide(model.heads) * model.head_dim;
  const std::int64_t keys = wide(model.kv_heads) * model.head_dim;
  const std::int64_t query_rows = model.query_gate ? 2 * queries : queries;
  layer.attention = hidden * (query_rows + 2 * keys) + queries * hidden;
  if (model.attention_bias != AttentionBias::none) {
    layer.attention += query_rows + 2 * keys;
  }
  if (model.attention_bias == AttentionBias::all || model.output_bias) {
    layer.attention += hidden;
  }
}

/// Latent attention (DeepSeek-V2 report, section 2.1): the down-projections and their norms stay whole on every rank.
void add_latent_attention(const ModelSpec& model, LayerParameters& layer) {
  const LatentAttention& latent = *model.latent;
  const std::int64_t hidden = model.hidden;
  const std::int64_t heads = model.heads;
  const std::int64_t query_width = heads * (latent.qk_nope + latent.qk_rope);
  const bool bias = model.attention_bias != AttentionBias::none;
  if (latent.q_lora > 0) {
    layer.attention_replicated += hidden * latent.q_lora + latent.q_lora + (bias ? latent.q_lora : 0);
    layer.attention += latent.q_lora * query_width;
  } else {
    layer.attention += hidden * query_width;
  }
  const std::int64_t compressed = wide(latent.kv_lora) + latent.qk_rope;
  layer.attention_replicated += hidden * compressed + latent.kv_lora + (bias ? compressed : 0);
  layer.attention += latent.kv_lora * heads * (wide(latent.qk_nope) + latent.v);
  layer.attention += heads * latent.v * hidden + (bias ? hidden : 0);
}

std::int64_t qk_norm_weights(const ModelSpec& model) {
  return model.qk_norm == QkNorm::none       ? 0
         : model.qk_norm == QkNorm::per_head ? 2 * norm_weights(model.norm, model.head_dim)
                                             : (wide(model.heads) + model.kv_heads) * model.head_dim;
}

/// Token tables alone: the input table and, when untied, the head.
std::int64_t token_tables(const ModelSpec& model) {
  const std::int64_t width = model.embedding_projection > 0 ? model.embedding_projection : model.hidden;
  return wide(model.vocab) * width * (model.tied_embeddings ? 1 : 2);
}

bool is_hugging_face(const ObjectReader& root) {
  constexpr const char* kKeys[] = {"model_type",        "architectures", "text_config", "llm_config",
                                   "num_hidden_layers", "hidden_size",   "n_embd",      "transformers_version"};
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) { return root.has(key); });
}

/// A name for a model whose file has none: the file's stem, or the folder's for a config.json.
std::string name_from_path(const std::string& path) {
  const std::filesystem::path file(path);
  std::string name = file.stem().string();
  if (name == "config") {
    std::error_code code;
    const std::filesystem::path folder = std::filesystem::absolute(file, code).lexically_normal().parent_path();
    name = code ? name : folder.filename().string();
  }
  return name;
}

ModelSpec read_document(SpecDocument document, std::string* warnings) {
  ObjectReader root = document.root();
  ModelSpec model;
  if (root.has("gpus_per_node") && !root.has("layers")) {
    root.error_at_key("gpus_per_node", "this file describes a cluster, not a model");
    root.ignore_rest();
  } else if (is_hugging_face(root)) {
    model = detail::read_hugging_face(document, name_from_path(document.name()));
  } else {
    model = read_model(root, name_from_path(document.name()));
    root.close();
  }
  document.finish();
  if (warnings != nullptr) {
    *warnings = document.warnings();
  }
  return model;
}

}  // namespace

int ModelSpec::moe_layer_count() const {
  return static_cast<int>(std::count_if(moe_layers.begin(), moe_layers.end(), [](auto flag) { return flag != 0; }));
}

LayerParameters layer_parameters(const ModelSpec& model, bool moe_layer) {
  LayerParameters layer;
  if (model.latent) {
    add_latent_attention(model, layer);
  } else {
    add_grouped_attention(model, layer);
  }
  layer.attention += model.attention_sinks ? model.heads : 0;
  layer.attention_replicated += qk_norm_weights(model);
  layer.norms = model.norms_per_layer * norm_weights(model.norm, model.hidden) + model.activation_weights;
  if (!moe_layer || !model.moe) {
    layer.mlp = mlp_weights(model.hidden, model.ffn_hidden, model.gated_mlp, model.mlp_bias);
    return layer;
  }
  const MoeSpec& moe = *model.moe;
  layer.experts = moe.experts * mlp_weights(model.hidden, moe.expert_ffn, model.gated_mlp, moe.expert_bias);
  if (moe.shared_ffn > 0) {
    layer.mlp = mlp_weights(model.hidden, moe.shared_ffn, model.gated_mlp, model.mlp_bias);
  }
  layer.router = wide(moe.experts) * model.hidden + (moe.router_bias ? moe.experts : 0);
  layer.router += moe.shared_gate ? model.hidden : 0;
  return layer;
}

std::int64_t embedding_parameters(const ModelSpec& model) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t width = model.embedding_projection > 0 ? model.embedding_projection : hidden;
  std::int64_t total = model.vocab * width + model.learned_positions * hidden;
  // The two projections of OPT-350M: into the layers and back to the width of the tied head.
  total += model.embedding_projection > 0 ? 2 * width * hidden : 0;
  total += model.embedding_norm ? norm_weights(model.norm, hidden) : 0;
  return total;
}

std::int64_t head_parameters(const ModelSpec& model) {
  const std::int64_t width = model.embedding_projection > 0 ? model.embedding_projection : model.hidden;
  return (model.tied_embeddings ? 0 : model.vocab * width) + (model.head_bias ? model.vocab : 0);
}

ParameterCounts parameter_counts(const ModelSpec& model) {
  const std::int64_t moe_layers = model.moe_layer_count();
  const std::int64_t hidden = model.hidden;
  ParameterCounts counts;
  counts.embedding = token_tables(model);
  counts.vision = model.vision_params;
  counts.total = embedding_parameters(model) + head_parameters(model);
  counts.total += model.final_norm ? norm_weights(model.norm, hidden) : 0;
  counts.total += (model.layers - moe_layers) * layer_parameters(model, false).total();
  counts.active = counts.total;
  if (moe_layers > 0) {
    const LayerParameters layer = layer_parameters(model, true);
    counts.total += moe_layers * layer.total();
    counts.active +=
        moe_layers * (layer.total() - layer.experts / model.moe->experts * (model.moe->experts - model.moe->top_k));
  }
  if (model.mtp_layers > 0) {
    // DeepSeek-V3 report, section 2.2: one more layer behind two norms, a projection of both inputs, and a last norm.
    const std::int64_t module =
        layer_parameters(model, moe_layers > 0).total() + 2 * hidden * hidden + 3 * norm_weights(model.norm, hidden);
    counts.mtp = model.mtp_layers * module;
  }
  return counts;
}

ModelSpec parse_model(std::string name, std::string source, std::string* warnings) {
  return read_document(SpecDocument::parse(std::move(name), std::move(source)), warnings);
}

ModelSpec load_model(const std::string& path, std::string* warnings) {
  std::error_code code;
  if (path != "-" && std::filesystem::is_directory(path, code)) {
    const std::filesystem::path file = std::filesystem::path(path) / "config.json";
    if (!std::filesystem::exists(file, code)) {
      throw SpecError("no config.json in the folder " + path);
    }
    return read_document(SpecDocument::load(file.string()), warnings);
  }
  return read_document(SpecDocument::load(path), warnings);
}

}  // namespace tpplan
