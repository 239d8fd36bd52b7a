// llm-foundry: the YAML file of scripts/train/train.py, with an MPT model; ${oc.env:...} reads the environment.
#include "planner/export/export_target.h"
#include "planner/export/settings.h"

namespace tpplan {
namespace {

std::string sharding_of(const Layout& layout) {
  if (layout.zero == 0) {
    return "NO_SHARD";
  }
  if (layout.shard_group > 0) {
    return "HYBRID_SHARD";
  }
  return layout.zero == 3 ? "FULL_SHARD" : "SHARD_GRAD_OP";
}

}  // namespace

std::string write_llm_foundry(const ExportRequest& request) {
  const Layout& layout = request.layout();
  const ModelSpec& model = request.job.model;
  std::vector<JobFact> except{JobFact::tp};
  if (model.kv_heads == model.heads) {
    except.push_back(JobFact::kv_heads);
  }
  if (layout.shard_group == 0) {
    except.insert(except.end(), {JobFact::dp_replicas, JobFact::dp_shards});
  }
  Settings settings = settings_of(request, Target::llm_foundry, except);
  const auto say = [&settings](std::string key, const auto& value, std::string comment = "") {
    settings.push_back({std::move(key), value, std::move(comment)});
  };
  const std::string seq = "${max_seq_len}";
  say("model.name", std::string("mpt_causal_lm"));
  say("model.init_device", std::string("meta"));
  say("model.max_seq_len", seq);
  say("model.no_bias", model.attention_bias == AttentionBias::none && !model.mlp_bias);
  say("model.norm_type", std::string(model.norm == NormKind::rms ? "rmsnorm" : "low_precision_layernorm"));
  say("model.learned_pos_emb", model.learned_positions > 0);
  say("model.attn_config.attn_type",
      std::string(model.kv_heads == model.heads ? "multihead_attention" : "grouped_query_attention"));
  say("model.attn_config.attn_impl", std::string(request.job.training.flash_attention ? "flash" : "torch"));
  say("model.attn_config.rope", model.learned_positions == 0,
      model.learned_positions == 0 ? "positions are not in the model file: alibi: true instead for MPT's own" : "");
  if (model.attention_window > 0) {
    say("model.attn_config.sliding_window_size", std::int64_t{model.attention_window});
  }
  say("model.ffn_config.ffn_type", std::string(model.gated_mlp ? "mptglu" : "mptmlp"));
  say("tokenizer.name", std::string("${oc.env:TOKENIZER}"));
  say("tokenizer.kwargs.model_max_length", seq);
  say("train_loader.name", std::string("text"));
  say("train_loader.dataset.local", std::string("${oc.env:DATA_LOCAL}"));
  say("train_loader.dataset.split", std::string("train"));
  say("train_loader.dataset.shuffle", true);
  say("train_loader.dataset.max_seq_len", seq);
  say("train_loader.drop_last", true);
  say("train_loader.num_workers", std::int64_t{8});
  say("optimizer.name", std::string("decoupled_adamw"));
  say("optimizer.lr", std::string("${oc.decode:${oc.env:LR}}"));
  say("scheduler.name", std::string("cosine_with_warmup"));
  say("scheduler.t_warmup", std::string("100ba"));
  say("scheduler.alpha_f", std::string("0.1"));
  say("max_duration", std::string("${oc.env:MAX_DURATION}"));
  say("fsdp_config.sharding_strategy", sharding_of(layout));
  say("fsdp_config.mixed_precision", std::string("PURE"));
  say("fsdp_config.activation_checkpointing_reentrant", false);
  say("fsdp_config.activation_cpu_offload", false);
  say("fsdp_config.limit_all_gathers", true);
  say("fsdp_config.state_dict_type", std::string("sharded"));
  return as_yaml(settings);
}

LaunchLine launch_llm_foundry(const ExportRequest& request) {
  return {"composer -n \"$GPUS_PER_NODE\" --world_size " + std::to_string(request.layout().world()) +
              " --node_rank \"$NODE_RANK\" --master_addr \"$HEAD\" --master_port 29500 \\\n  train.py \"" +
              request.file + "\" \"$@\"",
          true};
}

}  // namespace tpplan
