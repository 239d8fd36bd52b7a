// llm-foundry's YAML file, with an MPT model or one of the Hugging Face hub.
#include <array>
#include <cmath>
#include <cstdlib>

#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

void read_sharding(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  constexpr std::string_view kStrategy = "fsdp_config.sharding_strategy";
  if (!reader.file().has_section("fsdp_config")) {
    draft.say_derived(JobFact::zero, 0, {});
    draft.assumed.emplace_back("zero", "0: without fsdp_config every rank holds the whole model");
    return;
  }
  const std::string strategy = reader.word(kStrategy).value_or("FULL_SHARD");
  struct Row {
    std::string_view word;
    int zero;
    bool of_node;
  };
  constexpr std::array<Row, 5> kRows{{{"FULL_SHARD", 3, false},
                                      {"SHARD_GRAD_OP", 2, false},
                                      {"NO_SHARD", 0, false},
                                      {"HYBRID_SHARD", 3, true},
                                      {"_HYBRID_SHARD_ZERO2", 2, true}}};
  for (const Row& row : kRows) {
    if (row.word == strategy) {
      draft.say_derived(JobFact::zero, row.zero, {reader.origin(kStrategy)});
      draft.shards_of_node = row.of_node && !draft.number(JobFact::dp_shards);
      return;
    }
  }
  draft.error(reader.origin(kStrategy), "unknown sharding strategy \"" + strategy + "\"",
              "FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD or NO_SHARD");
}

/// Experts of MPT's MegaBlocks layers, in every layer.
void read_experts(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take("model.ffn_config.moe_num_experts", JobFact::experts);
  reader.take("model.ffn_config.moe_top_k", JobFact::top_k);
  reader.take("model.ffn_config.moe_world_size", JobFact::ep);
  if (!draft.number(JobFact::experts)) {
    return;
  }
  if (!draft.number(JobFact::top_k)) {
    draft.say_derived(JobFact::top_k, 1, {});
  }
  draft.say_derived(JobFact::expert_ffn, draft.number_or(JobFact::ffn, 0), draft.origins(JobFact::ffn));
  reader.pass("model.ffn_config.mlp_impl");
}

/// MPT: llmfoundry/models/mpt/configuration_mpt.py has the defaults.
void read_mpt(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  draft.describes_model = draft.number(JobFact::layers).has_value();
  const auto say = [&draft](std::string key, std::string value) {
    draft.model_words.emplace_back(std::move(key), std::move(value));
  };
  const auto hidden = draft.number_or(JobFact::hidden, 0);
  const std::string ratio = reader.word("model.expansion_ratio").value_or("4");
  if (!draft.number(JobFact::ffn)) {
    draft.say_derived(JobFact::ffn, std::llround(static_cast<double>(hidden) * std::strtod(ratio.c_str(), nullptr)),
                      {reader.origin("model.expansion_ratio")});
  }
  const std::string kind = reader.word("model.ffn_config.ffn_type").value_or("mptmlp");
  const bool glu = reader.word("model.ffn_config.mlp_type") == "glu";
  say("gated_mlp", kind == "mptglu" || kind == "mptgeglu" || glu ? "true" : "false");
  read_experts(reader);
  const bool bias = !reader.on("model.no_bias");
  const std::string norm = reader.word("model.norm_type").value_or("low_precision_layernorm");
  const bool rms = norm.find("rms") != std::string::npos;
  say("norm", rms ? "\"rms\"" : bias ? "\"layer\"" : "\"layer-no-bias\"");
  say("attention_bias", bias ? "\"all\"" : "\"none\"");
  say("mlp_bias", bias ? "true" : "false");
  const bool rotary = reader.on("model.attn_config.alibi") || reader.on("model.attn_config.rope");
  const bool learned = reader.flag("model.learned_pos_emb").value_or(true) && !rotary;
  const auto rows = reader.count("model.max_seq_len");
  if (learned) {
    say("learned_positions", std::to_string(rows.value_or(draft.number_or(JobFact::seq, 2048))));
  }
  if (!draft.number(JobFact::tied_embeddings)) {
    draft.say_derived(JobFact::tied_embeddings, 1, {});
  }
  const std::string attention = reader.word("model.attn_config.attn_type").value_or("multihead_attention");
  if (attention == "multiquery_attention") {
    draft.say_derived(JobFact::kv_heads, 1, {reader.origin("model.attn_config.attn_type")});
  }
  if (const auto window = reader.count("model.attn_config.sliding_window_size"); window && *window > 0) {
    say("attention_window", std::to_string(*window));
  }
  reader.pass("model.attn_config.attn_impl");
}

}  // namespace

void read_llm_foundry_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take("variables.max_seq_len", JobFact::seq);
  reader.take("variables.global_train_batch_size", JobFact::global_batch);
  reader.take_table(Target::llm_foundry);
  reader.take("device_train_grad_accum", JobFact::micro_batches);
  read_sharding(reader);
  draft.say_derived(JobFact::sequence_parallel, 0, {});
  const std::string name = reader.word("model.name").value_or("mpt_causal_lm");
  if (name.find("mpt") != std::string::npos || name == "mosaic_gpt") {
    read_mpt(reader);
  } else {
    draft.model_name = reader.word("model.pretrained_model_name_or_path").value_or(name);
  }
  const auto optimizer = reader.word("optimizer.name").value_or("decoupled_adamw");
  if (optimizer.find("lion") != std::string::npos) {
    draft.say("optimizer", "lion", {reader.origin("optimizer.name")});
  } else if (optimizer.find("adam") == std::string::npos) {
    draft.not_read(reader.origin("optimizer.name"), optimizer);
  }
  const std::string mixed = reader.word("fsdp_config.mixed_precision").value_or("PURE");
  if (mixed == "DEFAULT") {
    draft.say("gradient-dtype", "fp32", {reader.origin("fsdp_config.mixed_precision")});
  } else if (mixed != "PURE") {
    draft.not_read(reader.origin("fsdp_config.mixed_precision"), mixed);
  }
  if (reader.on("fsdp_config.activation_cpu_offload")) {
    draft.say("offload", "activations", {reader.origin("fsdp_config.activation_cpu_offload")});
  }
  for (const std::string_view key : {"fsdp_config.backward_prefetch", "fsdp_config.forward_prefetch",
                                     "fsdp_config.flatten_parameters", "device_eval_batch_size"}) {
    reader.pass(key);
  }
}

}  // namespace tpplan
