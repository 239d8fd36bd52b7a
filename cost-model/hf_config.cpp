#include "cost-model/hf_config.h"

#include <algorithm>
#include <cmath>

namespace tpplan::detail {
namespace {

constexpr Aliases kLayers = "num_hidden_layers n_layer n_layers num_layers";
constexpr Aliases kHidden = "hidden_size n_embd n_embed d_model";
constexpr Aliases kHeads = "num_attention_heads n_head n_heads num_heads attention_heads";
constexpr Aliases kKvHeads = "num_key_value_heads num_kv_heads n_head_kv kv_n_heads multi_query_group_num";
constexpr Aliases kHeadDim = "head_dim kv_channels";
constexpr Aliases kFfn = "intermediate_size ffn_dim n_inner d_ff ffn_hidden_size";
constexpr Aliases kVocab = "vocab_size padded_vocab_size";
constexpr Aliases kExperts = "num_local_experts num_experts n_routed_experts num_routed_experts moe_num_experts";
constexpr Aliases kTopK =
    "num_experts_per_tok num_experts_per_token experts_per_token moe_top_k top_k_experts moe_k moe_topk";
constexpr Aliases kExpertFfn = "moe_intermediate_size expert_ffn_hidden_size";
constexpr Aliases kSharedExperts = "n_shared_experts num_shared_experts moe_num_shared_experts num_shared_expert";

/// The value of a nested part's class when the part leaves a shape out; -1 makes it a missing key.
int class_default(const HfConfig& config, int value) { return config.nested && value > 0 ? value : -1; }

int shape(HfConfig& config, Aliases aliases, int high, int default_value) {
  const bool given = config.has(aliases);
  const int fallback = class_default(config, default_value);
  const int value = config.count(aliases, high, fallback);
  if (!given && fallback > 0) {
    config.model.assumed.push_back(std::string(aliases.substr(0, aliases.find(' '))) + " = " +
                                   std::to_string(fallback) + ": not in the file, the default of its class");
  }
  return value;
}

void read_shapes(HfConfig& config) {
  const Family& family = *config.family;
  ModelSpec& model = config.model;
  config.keys = {config.key_of(kLayers), config.key_of(kHidden), config.key_of(kHeads), config.key_of(kKvHeads),
                 config.key_of(kHeadDim)};
  model.layers = shape(config, kLayers, kMaxLayers, family.defaults.layers);
  model.hidden = shape(config, kHidden, kMaxWidth, family.defaults.hidden);
  model.heads = shape(config, kHeads, kMaxHeads, family.defaults.heads);
  model.vocab = shape(config, kVocab, kMaxWidth, family.defaults.vocab);

  const int head_dim = family.head_dim > 0 ? family.head_dim : config.nested ? family.defaults.head_dim : 0;
  model.head_dim = config.count(kHeadDim, kMaxWidth, head_dim);
  // A null stands for as many as heads; an absent key for the default of the class, where that fits.
  const int class_kv = family.defaults.kv_heads;
  const bool fits = class_kv > 0 && model.heads % class_kv == 0 && !config.text.has_null(config.keys.kv_heads);
  const bool kv_given = config.has(kKvHeads);
  model.kv_heads = config.count(kKvHeads, kMaxHeads, fits ? class_kv : 0);
  if (model.kv_heads == 0 && !family.gated && !config.text.has_null(config.keys.kv_heads)) {
    model.kv_heads = model.heads;  // families from before grouped queries have no key for it: nothing is assumed
  }
  if (!kv_given && fits) {
    model.assumed.push_back("num_key_value_heads = " + std::to_string(class_kv) +
                            ": not in the file, the default of its class");
  }

  model.ffn_hidden = family.ffn_times > 0 ? config.count(kFfn, kMaxWidth, family.ffn_times * model.hidden)
                                          : shape(config, kFfn, kMaxWidth, family.defaults.ffn);
}

void read_tied(HfConfig& config) {
  constexpr std::string_view kKey = "tie_word_embeddings";
  const bool fallback = config.root.flag(kKey, config.family->tied);
  config.model.tied_embeddings = config.text.flag(kKey, fallback);
}

void read_details(HfConfig& config) {
  const Family& family = *config.family;
  ModelSpec& model = config.model;
  const auto on = [&](std::string_view key, bool fallback) { return key.empty() || config.flag(key, fallback); };
  model.gated_mlp = family.gated;
  model.norm = family.norm;
  model.norms_per_layer = family.norms;
  model.head_bias = family.head_bias;
  if (family.attention_bias.kind != AttentionBias::none &&
      on(family.attention_bias.key, family.attention_bias.fallback)) {
    model.attention_bias = family.attention_bias.kind;
  }
  model.mlp_bias = family.mlp_bias.present ||
                   (!family.mlp_bias.key.empty() && config.flag(family.mlp_bias.key, family.mlp_bias.fallback));
  if (family.qk_norm.kind != QkNorm::none && on(family.qk_norm.key, family.qk_norm.fallback)) {
    model.qk_norm = family.qk_norm.kind;
  }
  model.mtp_layers = config.count("num_nextn_predict_layers num_mtp_modules", 64, 0);
}

/// Which layers have experts, by all keys that published files use for it.
std::vector<std::uint8_t> moe_layers(HfConfig& config) {
  ObjectReader& text = config.text;
  const int layers = config.model.layers;
  const int first = config.count("first_k_dense_replace", kMaxLayers, 0);
  const int step = std::max(1, config.count("decoder_sparse_step interleave_moe_layer_step", kMaxLayers, 1));
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(layers), 0);
  std::vector<std::int64_t> frequencies = {1};
  text.ignore("moe_layer_freq");
  if (text.is_array("moe_layer_freq")) {
    frequencies = text.counts("moe_layer_freq", 0, 1);
  } else {
    frequencies[0] = text.count("moe_layer_freq", 1, kMaxLayers, 1);
  }
  for (int layer = 0; layer < layers; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const bool by_list = frequencies.size() == flags.size() && frequencies.size() > 1;
    const bool by_frequency = by_list ? frequencies[index] != 0 : layer % frequencies[0] == 0;
    flags[index] = layer >= first && by_frequency && (layer + 1) % step == 0 ? 1 : 0;
  }
  if (text.is_array("moe_layers")) {
    const std::vector<std::int64_t> list = text.counts("moe_layers", 0, layers - 1);
    std::fill(flags.begin(), flags.end(), std::uint8_t{0});
    for (const std::int64_t layer : list) {
      flags[static_cast<std::size_t>(layer)] = 1;
    }
  }
  if (text.is_array("mlp_only_layers")) {
    for (const std::int64_t layer : text.counts("mlp_only_layers", 0, layers - 1)) {
      flags[static_cast<std::size_t>(layer)] = 0;
    }
  }
  text.ignore("moe_layers");
  text.ignore("mlp_only_layers");
  return flags;
}

void read_moe(HfConfig& config) {
  const Family& family = *config.family;
  ModelSpec& model = config.model;
  const std::string experts_key = config.key_of(kExperts);
  const int absent = std::max(0, class_default(config, family.defaults.experts));
  // DeepSeek's and Granite's files leave the experts out, or say null or 0, when the model is dense.
  const bool given = config.has(kExperts);
  const bool dense = !given && absent == 0 && (config.text.has_null(experts_key) || !config.has(kTopK));
  const int experts = given || absent > 0 || dense
                          ? static_cast<int>(config.text.count(experts_key, 0, kMaxExperts, absent))
                          : config.count(kExperts, kMaxExperts);
  if (experts == 0) {
    return;
  }
  MoeSpec moe;
  moe.experts = experts;
  moe.top_k = config.count(kTopK, kMaxExperts, class_default(config, family.defaults.top_k));
  const int expert_default = std::max(class_default(config, family.defaults.expert_ffn), 0);
  moe.expert_ffn = config.count(kExpertFfn, kMaxWidth, expert_default > 0 ? expert_default : model.ffn_hidden);
  const int shared = config.count(kSharedExperts, kMaxExperts, 0);
  moe.shared_ffn =
      config.count("shared_expert_intermediate_size shared_intermediate_size", kMaxWidth, shared * moe.expert_ffn);
  const int groups = config.count("n_group", kMaxExperts, 0);
  if (groups > 1) {
    moe.routing_groups = groups;
    moe.routing_group_limit = config.count("topk_group", kMaxExperts, 0);
  }
  check_moe(config.text, experts_key, config.key_of(kTopK), moe);
  model.moe_layers = moe_layers(config);
  model.moe = moe;
}

/// Stores a window that `full` of the layers do without.
void set_window(ModelSpec& model, int tokens, int full) {
  if (tokens <= 0 || full >= model.layers) {
    return;
  }
  model.attention_window = tokens;
  model.full_attention_every = full <= 0 ? 0 : std::max(2, static_cast<int>(std::lround(double(model.layers) / full)));
}

void read_window(HfConfig& config) {
  const Family& family = *config.family;
  ObjectReader& text = config.text;
  ModelSpec& model = config.model;
  if (family.window == WindowRule::none) {
    return;
  }
  const int fallback = text.has_null("sliding_window") ? 0 : family.window_tokens;
  const int tokens = config.count("sliding_window sliding_window_size", kMaxTokens, fallback);
  if (family.window == WindowRule::flagged && !text.flag("use_sliding_window", false)) {
    return;
  }
  if (text.is_array("layer_types")) {
    const std::vector<std::string> types = text.texts("layer_types");
    set_window(model, tokens, static_cast<int>(std::count(types.begin(), types.end(), "full_attention")));
    return;
  }
  int full = 0;
  if (family.window == WindowRule::flagged) {
    full = config.count("max_window_layers", kMaxLayers, 0);
  } else if (family.window == WindowRule::pattern) {
    const std::string key = config.key_of("sliding_window_pattern _sliding_window_pattern");
    // A pattern is a period, or a text with one letter for each layer of it ("LLLG").
    const int period = text.is_text(key) ? static_cast<int>(text.text(key).size())
                                         : config.count(key, kMaxLayers, family.window_every);
    full = model.layers / std::max(1, period);
    if (full > 0) {
      model.attention_window = tokens;
      model.full_attention_every = tokens > 0 ? period : 0;
      return;
    }
  }
  set_window(model, tokens, full);
}

/// Structure that makes any family impossible to plan, whatever it calls itself.
std::string structural_reason(ObjectReader& text) {
  for (const char* key : {"mamba_d_state", "ssm_state_size", "ssm_cfg", "hybrid_override_pattern", "attn_layer_period",
                          "linear_num_value_heads"}) {
    if (text.has(key) && !text.is_array("layer_types")) {
      return "it is a hybrid of attention and state-space or linear-attention layers (" + std::string(key) + ")";
    }
  }
  if (text.is_array("block_configs")) {
    return "its layers differ from each other (block_configs of an architecture search)";
  }
  if (text.has("index_topk")) {
    return "its sparse-attention indexer has weights and costs that are not modelled";
  }
  if (text.is_array("layer_types")) {
    ArrayReader types = text.array("layer_types");
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string type = types.is_text(i) ? types.text(i) : "";
      if (!type.empty() && type.find("attention") == std::string::npos) {
        return "it has layers of type \"" + type + "\" beside attention";
      }
      if (type.find("linear") != std::string::npos) {
        return "it is a hybrid of attention and linear-attention layers";
      }
    }
  }
  return "";
}

std::string first_architecture(ObjectReader& object) {
  object.ignore("architectures");
  if (!object.is_array("architectures")) {
    return object.is_text("architectures") ? object.text("architectures") : "";
  }
  ArrayReader names = object.array("architectures");
  return names.size() > 0 && names.is_text(0) ? names.text(0) : "";
}

bool refuse(HfConfig& config, const std::string& type, const std::string& architecture, ObjectReader& place) {
  std::string reason = refusal_reason(type, architecture);
  if (reason.empty() && place.is_flag("is_encoder_decoder") && place.flag("is_encoder_decoder")) {
    reason = "it is an encoder-decoder model; only decoder-only transformers can be planned";
  }
  if (reason.empty()) {
    reason = structural_reason(place);
  }
  if (reason.empty()) {
    return false;
  }
  const std::string shown = type.empty() ? architecture : type;
  place.error_at_key(place.has("model_type") ? "model_type" : "architectures",
                     "\"" + shown + "\" is not supported, because " + reason);
  config.root.ignore_rest();
  config.text.ignore_rest();
  return true;
}

void unknown_architecture(HfConfig& config, const std::string& type, const std::string& architecture) {
  std::string names;
  for (const std::string& name : family_names()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  const std::string shown = type.empty() ? architecture : type;
  const std::string key = config.root.has("model_type") ? "model_type" : "architectures";
  if (shown.empty()) {
    config.root.error_at_key(key, "unknown architecture: no model_type and no architectures", "known: " + names);
  } else {
    const std::optional<std::string> meant = nearest_name(shown, family_names());
    config.root.error_at_key(key, "unknown architecture \"" + shown + "\"",
                             (meant ? "did you mean \"" + *meant + "\"? " : "") + "known: " + names);
  }
  config.root.ignore_rest();
  config.text.ignore_rest();
}

void read_language_model(HfConfig& config) {
  read_shapes(config);
  read_tied(config);
  read_details(config);
  if (config.family->moe) {
    read_moe(config);
  }
  read_window(config);
  if (config.family->adjust != nullptr) {
    config.family->adjust(config);
  }
  complete_shapes(config.text, config.keys, config.model);
}

}  // namespace

std::string HfConfig::key_of(Aliases aliases) {
  std::string given;
  std::string null;  // a null under one of the names is as good as the name: messages point at it
  any_word(aliases, [&](std::string_view name) {
    given = given.empty() && text.has(name) ? std::string(name) : given;
    null = null.empty() && text.has_null(name) ? std::string(name) : null;
    return false;
  });
  // Once one name is given, a near miss of another is some key of its own.
  any_word(aliases, [&](std::string_view name) {
    if (given.empty()) {
      text.expect(name);
    } else {
      text.ignore(name);
    }
    return false;
  });
  return !given.empty() ? given : !null.empty() ? null : std::string(aliases.substr(0, aliases.find(' ')));
}

bool HfConfig::has(Aliases aliases) { return text.has(key_of(aliases)); }

int HfConfig::count(Aliases aliases, int high, int fallback) {
  const std::string key = key_of(aliases);
  const int low = fallback == 0 ? 0 : 1;
  if (text.is_array(key)) {
    const std::vector<std::int64_t> layers = text.counts(key, low, high);
    if (layers.empty() || std::any_of(layers.begin(), layers.end(), [&](auto n) { return n != layers.front(); })) {
      text.error(key, "not supported, because its layers differ", "one number, or the same number for every layer");
      return low;
    }
    return static_cast<int>(layers.front());
  }
  return static_cast<int>(fallback < 0 ? text.count(key, low, high) : text.count(key, low, high, fallback));
}

ModelSpec read_hugging_face(SpecDocument& document, const std::string& name) {
  document.accept_text_numbers();
  ObjectReader root = document.root();
  HfConfig config{root, root, false, nullptr, {}, {}};
  const std::string type = root.text("model_type", "");
  const std::string architecture = first_architecture(root);
  std::string text_type = type;
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (std::optional<ObjectReader> part = config.nested ? std::nullopt : root.optional_object(key)) {
      config.text = *part;
      config.nested = true;
      text_type = config.text.text("model_type", type);
    }
  }
  config.model.name = name;
  config.model.architecture = text_type.empty() ? architecture : text_type;
  const std::string text_architecture = config.nested ? first_architecture(config.text) : architecture;
  if (refuse(config, type, architecture, root) ||
      (config.nested && refuse(config, text_type, text_architecture, config.text))) {
    return config.model;
  }
  config.family = find_family(text_type, text_architecture);
  if (config.family == nullptr) {
    config.family = find_family(type, architecture);
  }
  if (config.family == nullptr) {
    unknown_architecture(config, type, architecture);
    return config.model;
  }
  read_language_model(config);
  root.ignore("vision_config");
  if (root.is_object("vision_config")) {
    config.model.vision_params = vision_parameters(config, type);
  }
  config.text.close_near_misses();
  config.root.close_near_misses();
  return config.model;
}

}  // namespace tpplan::detail
