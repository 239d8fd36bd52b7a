// The project's own model format (models/README.md) and the cross-checks that every model passes.

#include <algorithm>
#include <cmath>

#include "cost-model/model_checks.h"

namespace tpplan {
namespace {

using detail::kMaxExperts;
using detail::kMaxHeads;
using detail::kMaxLayers;
using detail::kMaxTokens;
using detail::kMaxWidth;

constexpr double kMaxParameters = 1e16;

int count(ObjectReader& object, std::string_view key, int low, int high) {
  return static_cast<int>(object.count(key, low, high));
}

int count(ObjectReader& object, std::string_view key, int low, int high, int fallback) {
  return static_cast<int>(object.count(key, low, high, fallback));
}

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

/// A text that stands for one of a few values.
template <typename Value, std::size_t N>
Value choice(ObjectReader& object, std::string_view key, const Named<Value> (&rows)[N]) {
  std::vector<std::string> names;
  for (const Named<Value>& row : rows) {
    names.emplace_back(row.name);
  }
  const std::string name = object.choice(key, names, names.front());
  return rows[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())].value;
}

// The first row is the default.
constexpr Named<AttentionBias> kAttentionBiases[] = {
    {"none", AttentionBias::none}, {"qkv", AttentionBias::qkv}, {"all", AttentionBias::all}};
constexpr Named<NormKind> kNorms[] = {{"rms", NormKind::rms},
                                      {"layer", NormKind::layer},
                                      {"layer-no-bias", NormKind::layer_no_bias},
                                      {"unweighted", NormKind::unweighted}};
constexpr Named<QkNorm> kQkNorms[] = {
    {"none", QkNorm::none}, {"per-head", QkNorm::per_head}, {"full-width", QkNorm::full_width}};

LatentAttention read_latent(ObjectReader& object) {
  LatentAttention latent;
  latent.q_lora = count(object, "q_lora", 0, kMaxWidth, 0);
  latent.kv_lora = count(object, "kv_lora", 1, kMaxWidth);
  latent.qk_nope = count(object, "qk_nope", 1, kMaxWidth);
  latent.qk_rope = count(object, "qk_rope", 0, kMaxWidth);
  latent.v = count(object, "v", 1, kMaxWidth);
  object.close();
  return latent;
}

/// Which layers have experts: all but the first `dense_layers`, or all but a list of them, or every n-th.
std::vector<std::uint8_t> read_moe_layers(ObjectReader& object, int layers) {
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(layers), 1);
  const int every = count(object, "every", 1, kMaxLayers, 1);
  for (int layer = 0; layer < layers; ++layer) {
    flags[static_cast<std::size_t>(layer)] = (layer + 1) % every == 0 ? 1 : 0;
  }
  if (object.is_array("dense_layers")) {
    for (const std::int64_t layer : object.counts("dense_layers", 0, layers - 1)) {
      flags[static_cast<std::size_t>(layer)] = 0;
    }
  } else {
    const int dense = count(object, "dense_layers", 0, layers, 0);
    std::fill(flags.begin(), flags.begin() + dense, std::uint8_t{0});
  }
  return flags;
}

void read_moe(ObjectReader& object, ModelSpec& model) {
  MoeSpec moe;
  moe.experts = count(object, "experts", 1, kMaxExperts);
  moe.top_k = count(object, "top_k", 1, kMaxExperts);
  moe.expert_ffn = count(object, "expert_ffn", 1, kMaxWidth);
  moe.shared_ffn = count(object, "shared_ffn", 0, kMaxWidth, 0);
  moe.shared_gate = object.flag("shared_gate", false);
  moe.router_bias = object.flag("router_bias", false);
  moe.expert_bias = object.flag("expert_bias", false);
  moe.routing_groups = count(object, "routing_groups", 0, kMaxExperts, 0);
  moe.routing_group_limit = count(object, "routing_group_limit", 0, kMaxExperts, 0);
  model.moe_layers = read_moe_layers(object, model.layers);
  detail::check_moe(object, "experts", "top_k", moe);
  object.close();
  model.moe = moe;
}

/// Parameters of all layers and tables in floating point, before exact integers can overflow.
double rough_parameters(const ModelSpec& model) {
  const double hidden = model.hidden;
  const double attention = hidden * model.head_dim * (2.0 * model.heads + 2.0 * model.kv_heads);
  double mlp = 3.0 * hidden * model.ffn_hidden;
  if (model.moe) {
    mlp =
        std::max(mlp, 3.0 * hidden * (model.moe->shared_ffn + double{1} * model.moe->experts * model.moe->expert_ffn));
  }
  return model.layers * (attention + mlp) + 2.0 * model.vocab * hidden;
}

}  // namespace

void detail::complete_shapes(ObjectReader& object, const ShapeKeys& keys, ModelSpec& model) {
  const bool heads_known = object.good(keys.heads);
  if (model.latent) {
    model.kv_heads = model.heads;
    model.head_dim = model.latent->qk_nope + model.latent->qk_rope;
  }
  if (model.head_dim == 0) {
    if (heads_known && object.good(keys.hidden) && model.hidden % model.heads != 0) {
      object.error(keys.heads,
                   std::to_string(model.heads) + " does not divide " + keys.hidden + " " + std::to_string(model.hidden),
                   "or give " + keys.head_dim);
    }
    model.head_dim = std::max(1, model.hidden / model.heads);
  }
  if (model.kv_heads == 0) {
    model.kv_heads = model.heads;
    model.assumed.push_back(keys.kv_heads + " = " + std::to_string(model.heads) + ": not given, as many as " +
                            keys.heads);
  } else if (heads_known && object.good(keys.kv_heads) && model.heads % model.kv_heads != 0) {
    object.error(keys.kv_heads,
                 std::to_string(model.kv_heads) + " does not divide " + keys.heads + " " + std::to_string(model.heads));
  }
  const double parameters = rough_parameters(model);
  if (parameters > kMaxParameters) {
    object.error(keys.layers, "the shapes give " + shortest(parameters) + " parameters, more than " +
                                  shortest(kMaxParameters) + " are not planned");
  }
}

void detail::check_moe(ObjectReader& object, const std::string& experts_key, const std::string& top_k_key,
                       const MoeSpec& moe) {
  if (object.good(experts_key) && object.good(top_k_key) && moe.top_k > moe.experts) {
    object.error(top_k_key, "a token cannot visit " + std::to_string(moe.top_k) + " of " + std::to_string(moe.experts) +
                                " experts");
  }
}

ModelSpec read_model(ObjectReader& object, const std::string& fallback_name) {
  ModelSpec model;
  model.name = object.text("name", fallback_name);
  model.architecture = "tpplan";
  for (const char* note : {"source", "notes"}) {
    object.ignore(note);
  }
  model.layers = count(object, "layers", 1, kMaxLayers);
  model.hidden = count(object, "hidden", 1, kMaxWidth);
  model.heads = count(object, "heads", 1, kMaxHeads);
  model.kv_heads = count(object, "kv_heads", 1, kMaxHeads, 0);
  model.head_dim = count(object, "head_dim", 1, kMaxWidth, 0);
  model.vocab = count(object, "vocab", 1, kMaxWidth);
  if (std::optional<ObjectReader> latent = object.optional_object("mla")) {
    model.latent = read_latent(*latent);
  }
  if (std::optional<ObjectReader> moe = object.optional_object("moe")) {
    read_moe(*moe, model);
  }
  const bool all_moe = model.moe && model.moe_layer_count() == model.layers;
  model.ffn_hidden = all_moe ? count(object, "ffn_hidden", 1, kMaxWidth, model.moe->expert_ffn)
                             : count(object, "ffn_hidden", 1, kMaxWidth);
  model.gated_mlp = object.flag("gated_mlp", true);
  model.tied_embeddings = object.flag("tied_embeddings", false);
  model.mtp_layers = count(object, "mtp_layers", 0, 64, 0);
  model.attention_window = count(object, "attention_window", 1, kMaxTokens, 0);
  model.full_attention_every = count(object, "full_attention_every", 1, kMaxLayers, 0);
  model.attention_bias = choice(object, "attention_bias", kAttentionBiases);
  model.output_bias = object.flag("output_bias", false);
  model.mlp_bias = object.flag("mlp_bias", false);
  model.head_bias = object.flag("head_bias", false);
  model.norm = choice(object, "norm", kNorms);
  model.norms_per_layer = count(object, "norms_per_layer", 0, 8, 2);
  model.qk_norm = choice(object, "qk_norm", kQkNorms);
  model.attention_sinks = object.flag("attention_sinks", false);
  model.final_norm = object.flag("final_norm", true);
  model.embedding_norm = object.flag("embedding_norm", false);
  model.learned_positions = count(object, "learned_positions", 0, kMaxTokens, 0);
  model.embedding_projection = count(object, "embedding_projection", 1, kMaxWidth, 0);
  model.query_gate = object.flag("query_gate", false);
  model.activation_weights = count(object, "activation_weights", 0, 64, 0);
  model.vision_params = object.count("vision_params", 0, 1'000'000'000'000, 0);
  model.default_seq = count(object, "seq", 1, kMaxTokens, 0);
  model.default_global_batch = count(object, "global_batch", 1, kMaxTokens, 0);
  detail::complete_shapes(object, detail::ShapeKeys{}, model);
  const std::int64_t stated = object.count("parameters", 1, 10'000'000'000'000'000, 0);
  if (stated > 0 && object.good("layers") && object.good("hidden") && object.good("heads") && object.good("vocab")) {
    const std::int64_t counted = parameter_counts(model).total;
    if (counted != stated) {
      object.error("parameters",
                   "the shapes give " + with_separators(counted) + " parameters, not " + with_separators(stated));
    }
  }
  return model;
}

}  // namespace tpplan
