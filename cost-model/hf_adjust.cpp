#include "cost-model/hf_adjust.h"

#include <algorithm>
#include <optional>

namespace tpplan::detail {

namespace {

MoeSpec& moe_of(HfConfig& config) { return *config.model.moe; }

/// Learned positions; `offset` rows more than the file says (OPT keeps two for padding).
void read_positions(HfConfig& config, int offset) {
  const int positions = config.count("n_positions max_position_embeddings n_ctx", kMaxTokens);
  config.model.learned_positions = positions + offset;
  config.model.default_seq = std::min(positions, 4096);
}

}  // namespace

/// Multi-head latent attention under DeepSeek's keys.
void read_latent(HfConfig& config) {
  LatentAttention latent;
  latent.q_lora = config.count("q_lora_rank", kMaxWidth, 0);
  latent.kv_lora = config.count("kv_lora_rank", kMaxWidth);
  latent.qk_nope = config.count("qk_nope_head_dim", kMaxWidth);
  latent.qk_rope = config.count("qk_rope_head_dim", kMaxWidth);
  latent.v = config.count("v_head_dim", kMaxWidth, std::max(1, config.model.hidden / config.model.heads));
  config.model.latent = latent;
}

void adjust_deepseek_v2(HfConfig& config) {
  read_latent(config);
  if (config.model.moe) {
    moe_of(config).router_bias = config.text.text("topk_method", "") == "noaux_tc";
  }
}

void adjust_deepseek_v3(HfConfig& config) {
  read_latent(config);
  if (config.model.moe) {
    moe_of(config).router_bias = config.text.text("topk_method", "noaux_tc") == "noaux_tc";
  }
}

void adjust_router_bias(HfConfig& config) {
  if (config.model.moe) {
    moe_of(config).router_bias = true;
  }
}

void adjust_qwen2_moe(HfConfig& config) {
  if (config.model.moe) {
    moe_of(config).shared_gate = moe_of(config).shared_ffn > 0;
  }
}

void adjust_gpt_oss(HfConfig& config) {
  config.model.attention_sinks = true;
  if (config.model.moe) {
    moe_of(config).router_bias = true;
    moe_of(config).expert_bias = true;
  }
}

/// Experts have the plain width, dense layers a width of their own, and one expert is shared.
void adjust_llama4(HfConfig& config) {
  ModelSpec& model = config.model;
  if (model.moe) {
    model.moe->shared_ffn = model.moe->expert_ffn;
    model.ffn_hidden = config.count("intermediate_size_mlp", kMaxWidth, config.nested ? 16384 : -1);
  }
  // Layers with rotary positions attend within a chunk; every fourth layer, or those marked 0, attends to everything.
  model.attention_window = config.count("attention_chunk_size", kMaxTokens, config.nested ? 8192 : 0);
  model.full_attention_every = model.attention_window > 0 ? 4 : 0;
  if (config.text.is_array("no_rope_layers")) {
    const std::vector<std::int64_t> marks = config.text.counts("no_rope_layers", 0, 1);
    const auto full = std::count(marks.begin(), marks.end(), 0);
    if (!marks.empty() && model.attention_window > 0) {
      model.full_attention_every = full == 0 ? 0 : static_cast<int>(static_cast<std::ptrdiff_t>(marks.size()) / full);
    }
  }
}

void adjust_gpt2(HfConfig& config) { read_positions(config, 0); }

void adjust_gpt_bigcode(HfConfig& config) {
  read_positions(config, 0);
  if (config.flag("multi_query", true)) {
    config.model.kv_heads = 1;
  }
}

void adjust_gpt_neo(HfConfig& config) {
  read_positions(config, 0);
  config.model.output_bias = true;
  const int window = config.count("window_size", kMaxTokens, 256);
  if (config.has("attention_types attention_layers")) {
    config.model.attention_window = window;
    config.model.full_attention_every = 2;
  }
}

void adjust_opt(HfConfig& config) {
  ModelSpec& model = config.model;
  read_positions(config, 2);
  const int width = config.count("word_embed_proj_dim", kMaxWidth, model.hidden);
  model.embedding_projection = width == model.hidden ? 0 : width;
  model.final_norm = config.flag("do_layer_norm_before", true) && !config.flag("_remove_final_layer_norm", false);
  if (!config.flag("enable_bias", true)) {
    model.attention_bias = AttentionBias::none;
    model.mlp_bias = false;
  }
  if (!config.flag("layer_norm_elementwise_affine", true)) {
    model.norm = NormKind::unweighted;
  }
}

void adjust_bloom(HfConfig& config) { config.model.embedding_norm = true; }

/// Two decoder layouts: the newer with grouped key/value heads and two norms, the older with one of each.
void adjust_falcon(HfConfig& config) {
  ModelSpec& model = config.model;
  const bool grouped = config.flag("new_decoder_architecture", config.text.has("n_head_kv"));
  const bool parallel = config.flag("parallel_attn", true);
  const int parallel_norms = config.count("num_ln_in_parallel_attn", 2, grouped ? 2 : 1);
  model.norms_per_layer = parallel ? parallel_norms : 2;
  const bool one_head = config.flag("multi_query", true) && !grouped;
  model.kv_heads = one_head ? 1 : grouped ? model.kv_heads : model.heads;
}

void adjust_mpt(HfConfig& config) {
  ModelSpec& model = config.model;
  config.text.ignore("expansion_ratio");
  if (config.text.has("expansion_ratio")) {
    model.ffn_hidden = static_cast<int>(config.text.number("expansion_ratio", 0.01, 64) * model.hidden);
  }
  bool alibi = true;
  if (std::optional<ObjectReader> attention = config.text.optional_object("attn_config")) {
    alibi = attention->flag("alibi", config.text.is_flag("learned_pos_emb") ? false : true);
    const std::string kind = attention->text("attn_type", "multihead_attention");
    if (kind == "multiquery_attention") {
      model.kv_heads = 1;
    } else if (attention->has("kv_n_heads")) {
      model.kv_heads = static_cast<int>(attention->count("kv_n_heads", 1, kMaxHeads));
    }
    model.qk_norm = attention->flag("qk_ln", false) ? QkNorm::full_width : QkNorm::none;
    const bool rotary = attention->flag("rope", false);
    alibi = alibi || rotary;
    attention->ignore_rest();
  }
  const bool bias = !config.flag("no_bias", true);
  model.norm = bias ? NormKind::layer : NormKind::layer_no_bias;
  model.attention_bias = bias ? AttentionBias::all : AttentionBias::none;
  model.mlp_bias = bias;
  if (!alibi && config.flag("learned_pos_emb", true)) {
    model.learned_positions = config.count("max_seq_len", kMaxTokens);
  }
}

void adjust_dbrx(HfConfig& config) {
  ModelSpec& model = config.model;
  if (std::optional<ObjectReader> attention = config.text.optional_object("attn_config")) {
    model.kv_heads = static_cast<int>(attention->count("kv_n_heads", 1, kMaxHeads, 1));
    attention->ignore_rest();
  }
  ObjectReader ffn = config.text.object("ffn_config");
  MoeSpec moe;
  moe.expert_ffn = static_cast<int>(ffn.count("ffn_hidden_size", 1, kMaxWidth, 3584));
  moe.experts = static_cast<int>(ffn.count("moe_num_experts", 1, kMaxExperts, 4));
  moe.top_k = static_cast<int>(ffn.count("moe_top_k", 1, kMaxExperts, 1));
  check_moe(ffn, "moe_num_experts", "moe_top_k", moe);
  ffn.ignore_rest();
  model.ffn_hidden = moe.expert_ffn;
  model.moe = moe;
  model.moe_layers.assign(static_cast<std::size_t>(model.layers), 1);
}

/// Width of both halves of the gated FFN in one number.
void adjust_qwen(HfConfig& config) { config.model.ffn_hidden = std::max(1, config.model.ffn_hidden / 2); }

void adjust_chatglm(HfConfig& config) {
  ModelSpec& model = config.model;
  if (!config.flag("multi_query_attention", false)) {
    model.kv_heads = model.heads;
  }
  const bool all = config.flag("add_bias_linear", false);
  model.attention_bias = all                                  ? AttentionBias::all
                         : config.flag("add_qkv_bias", false) ? AttentionBias::qkv
                                                              : AttentionBias::none;
  model.mlp_bias = all;
  model.norm = config.flag("rmsnorm", true) ? NormKind::rms : NormKind::layer;
  model.final_norm = config.flag("post_layer_norm", true);
}

/// The class ties, and so do the 3B and 7B checkpoints; the 15B one (6144 wide) holds a head although its file is
/// silent.
void adjust_starcoder2(HfConfig& config) {
  ModelSpec& model = config.model;
  if (!config.text.has("tie_word_embeddings") && model.hidden == 6144) {
    model.tied_embeddings = false;
    model.assumed.emplace_back("tied_embeddings = false: as in the StarCoder2-15B checkpoint, the file does not say");
  }
}

void adjust_phimoe(HfConfig& config) { config.model.head_bias = config.flag("lm_head_bias", false); }

void adjust_stablelm(HfConfig& config) {
  config.model.norms_per_layer = config.flag("use_parallel_residual", false) ? 1 : 2;
}

void adjust_seed_oss(HfConfig& config) { config.model.output_bias = config.flag("attention_out_bias", false); }

/// Granite 4: dense attention-only variants keep their FFN under the name of the shared expert.
void adjust_granite_hybrid(HfConfig& config) {
  ModelSpec& model = config.model;
  if (!model.moe) {
    model.ffn_hidden = config.count("shared_intermediate_size", kMaxWidth, model.ffn_hidden);
  }
}

/// Experts from one layer to another, every n-th, under ERNIE's keys.
void adjust_ernie_moe(HfConfig& config) {
  ModelSpec& model = config.model;
  if (!model.moe) {
    return;
  }
  model.moe->router_bias = config.flag("moe_use_aux_free", true);
  const int first = config.count("moe_layer_start_index", kMaxLayers, 1);
  const int every = std::max(1, config.count("moe_layer_interval", kMaxLayers, 1));
  config.text.ignore("moe_layer_end_index");
  const int last = config.text.is_number("moe_layer_end_index")
                       ? static_cast<int>(config.text.number("moe_layer_end_index", -1, kMaxLayers))
                       : -1;
  for (int layer_index = 0; layer_index < model.layers; ++layer_index) {
    const bool inside = layer_index >= first && (last < 0 || layer_index <= last);
    model.moe_layers[static_cast<std::size_t>(layer_index)] = inside && (layer_index + 1) % every == 0 ? 1 : 0;
  }
}

/// The activation xIELU has two learned numbers in each layer.
void adjust_apertus(HfConfig& config) { config.model.activation_weights = 2; }

void adjust_bailing(HfConfig& config) {
  config.model.output_bias = config.flag("use_bias", false);
  if (config.model.moe) {
    moe_of(config).router_bias = config.flag("moe_router_enable_expert_bias", false);
    moe_of(config).shared_ffn =
        config.count("moe_shared_expert_intermediate_size", kMaxWidth, moe_of(config).shared_ffn);
  }
}

/// Experts from the first layer that is not skipped; the shared experts are as wide as the routed ones.
void adjust_hunyuan(HfConfig& config) {
  ModelSpec& model = config.model;
  if (model.moe) {
    const int skipped = config.count("moe_layer_num_skipped", kMaxLayers, 0);
    std::fill_n(model.moe_layers.begin(), std::min(skipped, model.layers), std::uint8_t{0});
  }
}

}  // namespace tpplan::detail
