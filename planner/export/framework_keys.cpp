#include "planner/export/framework_keys.h"

#include <algorithm>

namespace tpplan {
namespace {

using Q = JobFact;
using T = Target;
using U = KeyUnit;

}  // namespace

// Keys and their units: Megatron-LM megatron/training/arguments.py and core/transformer/transformer_config.py; Megatron
// Bridge training/config.py; DeepSpeed runtime/config.py, runtime/zero/config.py; TorchTitan config/configs.py and, of
// releases with TOML files, config/job_config.py; accelerate utils/dataclasses.py, parallelism_config.py; nanotron
// config/config.py; llm-foundry utils/config_utils.py; Colossal-AI booster/plugin/hybrid_parallel_plugin.py.
const std::vector<FrameworkKey>& framework_keys() {
  static const std::vector<FrameworkKey> rows{
      {T::megatron, "--num-layers", Q::layers},
      {T::megatron, "--hidden-size", Q::hidden},
      {T::megatron, "--ffn-hidden-size", Q::ffn},
      {T::megatron, "--num-attention-heads", Q::heads},
      {T::megatron, "--num-query-groups", Q::kv_heads},
      {T::megatron, "--kv-channels", Q::head_dim},
      {T::megatron, "--vocab-size", Q::vocab},
      {T::megatron, "--untie-embeddings-and-output-weights", Q::tied_embeddings, U::inverse},
      {T::megatron, "--num-experts", Q::experts},
      {T::megatron, "--moe-router-topk", Q::top_k},
      {T::megatron, "--moe-ffn-hidden-size", Q::expert_ffn},
      {T::megatron, "--moe-shared-expert-intermediate-size", Q::shared_ffn},
      {T::megatron, "--moe-router-num-groups", Q::routing_groups},
      {T::megatron, "--moe-router-group-topk", Q::routing_group_limit},
      {T::megatron, "--q-lora-rank", Q::q_lora},
      {T::megatron, "--kv-lora-rank", Q::kv_lora},
      {T::megatron, "--qk-head-dim", Q::qk_nope},
      {T::megatron, "--qk-pos-emb-head-dim", Q::qk_rope},
      {T::megatron, "--v-head-dim", Q::v_head},
      {T::megatron, "--mtp-num-layers", Q::mtp_layers},
      {T::megatron, "--tensor-model-parallel-size", Q::tp},
      {T::megatron, "--pipeline-model-parallel-size", Q::pp},
      {T::megatron, "--context-parallel-size", Q::cp},
      {T::megatron, "--cp-comm-type", Q::cp_type, U::word},
      {T::megatron, "--expert-model-parallel-size", Q::ep},
      {T::megatron, "--expert-tensor-parallel-size", Q::etp},
      {T::megatron, "--num-virtual-stages-per-pipeline-rank", Q::vpp},
      {T::megatron, "--microbatch-group-size-per-virtual-pipeline-stage", Q::vpp_group},
      {T::megatron, "--sequence-parallel", Q::sequence_parallel, U::on_off},
      {T::megatron, "--use-distributed-optimizer", Q::zero, U::sharded_or_not},
      {T::megatron, "--num-distributed-optimizer-instances", Q::dp_replicas},
      {T::megatron, "--recompute-num-layers", Q::recompute_layers},
      {T::megatron, "--seq-length", Q::seq},
      {T::megatron, "--micro-batch-size", Q::micro_batch},
      {T::megatron, "--global-batch-size", Q::global_batch},

      {T::megatron_bridge, "model.tensor_model_parallel_size", Q::tp},
      {T::megatron_bridge, "model.pipeline_model_parallel_size", Q::pp},
      {T::megatron_bridge, "model.virtual_pipeline_model_parallel_size", Q::vpp},
      {T::megatron_bridge, "model.microbatch_group_size_per_vp_stage", Q::vpp_group},
      {T::megatron_bridge, "model.context_parallel_size", Q::cp},
      {T::megatron_bridge, "model.cp_comm_type", Q::cp_type, U::word},
      {T::megatron_bridge, "model.expert_model_parallel_size", Q::ep},
      {T::megatron_bridge, "model.expert_tensor_parallel_size", Q::etp},
      {T::megatron_bridge, "model.sequence_parallel", Q::sequence_parallel, U::on_off},
      {T::megatron_bridge, "ddp.use_distributed_optimizer", Q::zero, U::sharded_or_not},
      {T::megatron_bridge, "optimizer.use_distributed_optimizer", Q::zero, U::sharded_or_not},
      {T::megatron_bridge, "ddp.num_distributed_optimizer_instances", Q::dp_replicas},
      {T::megatron_bridge, "model.recompute_num_layers", Q::recompute_layers},
      {T::megatron_bridge, "model.seq_length", Q::seq},
      {T::megatron_bridge, "dataset.seq_length", Q::seq},
      {T::megatron_bridge, "train.micro_batch_size", Q::micro_batch},
      {T::megatron_bridge, "train.global_batch_size", Q::global_batch},
      {T::megatron_bridge, "mixed_precision", Q::precision, U::word},

      {T::deepspeed, "train_batch_size", Q::global_batch},
      {T::deepspeed, "train_micro_batch_size_per_gpu", Q::micro_batch},
      {T::deepspeed, "gradient_accumulation_steps", Q::micro_batches},
      {T::deepspeed, "zero_optimization.stage", Q::zero},
      {T::deepspeed, "zero_optimization.zero_hpz_partition_size", Q::shard_group},
      {T::deepspeed, "zero_optimization.mics_shard_size", Q::shard_group},
      {T::deepspeed, "tensor_parallel.autotp_size", Q::tp},
      {T::deepspeed, "sequence_parallel_size", Q::cp},
      {T::deepspeed, "expert_parallel.autoep_size", Q::ep},

      {T::torchtitan, "parallelism.data_parallel_replicate_degree", Q::dp_replicas},
      {T::torchtitan, "parallelism.data_parallel_shard_degree", Q::dp_shards},
      {T::torchtitan, "parallelism.tensor_parallel_degree", Q::tp},
      {T::torchtitan, "parallelism.enable_sequence_parallel", Q::sequence_parallel, U::on_off},
      {T::torchtitan, "parallelism.pipeline_parallel_degree", Q::pp},
      {T::torchtitan, "parallelism.pipeline_parallel_schedule", Q::schedule, U::word},
      {T::torchtitan, "parallelism.num_pp_microbatches", Q::micro_batches},
      {T::torchtitan, "parallelism.context_parallel_degree", Q::cp},
      {T::torchtitan, "parallelism.expert_parallel_degree", Q::ep},
      {T::torchtitan, "training.max_context_length", Q::seq},
      {T::torchtitan, "training.num_tokens_per_microbatch_per_dp_rank", Q::micro_batch, U::tokens},
      {T::torchtitan, "training.num_tokens_per_train_step", Q::global_batch, U::tokens},
      {T::torchtitan, "training.mixed_precision_param", Q::precision, U::word},

      {T::torchtitan_toml, "parallelism.data_parallel_replicate_degree", Q::dp_replicas},
      {T::torchtitan_toml, "parallelism.data_parallel_shard_degree", Q::dp_shards},
      {T::torchtitan_toml, "parallelism.tensor_parallel_degree", Q::tp},
      {T::torchtitan_toml, "parallelism.pipeline_parallel_degree", Q::pp},
      {T::torchtitan_toml, "parallelism.pipeline_parallel_schedule", Q::schedule, U::word},
      {T::torchtitan_toml, "parallelism.context_parallel_degree", Q::cp},
      {T::torchtitan_toml, "parallelism.context_parallel_rotate_method", Q::cp_type, U::word},
      {T::torchtitan_toml, "parallelism.expert_parallel_degree", Q::ep},
      {T::torchtitan_toml, "parallelism.expert_tensor_parallel_degree", Q::etp},
      {T::torchtitan_toml, "training.seq_len", Q::seq},
      {T::torchtitan_toml, "training.global_batch_size", Q::global_batch},
      {T::torchtitan_toml, "training.mixed_precision_param", Q::precision, U::word},

      {T::accelerate, "num_processes", Q::world},
      {T::accelerate, "mixed_precision", Q::precision, U::word},
      {T::accelerate, "fsdp_config.fsdp_activation_checkpointing", Q::recompute, U::word},
      {T::accelerate, "parallelism_config.parallelism_config_dp_replicate_size", Q::dp_replicas},
      {T::accelerate, "parallelism_config.parallelism_config_dp_shard_size", Q::dp_shards},
      {T::accelerate, "parallelism_config.parallelism_config_tp_size", Q::tp},
      {T::accelerate, "parallelism_config.parallelism_config_cp_size", Q::cp},
      {T::accelerate, "parallelism_config.parallelism_config_cp_comm_strategy", Q::cp_type, U::word},

      {T::nanotron, "model.model_config.num_hidden_layers", Q::layers},
      {T::nanotron, "model.model_config.hidden_size", Q::hidden},
      {T::nanotron, "model.model_config.intermediate_size", Q::ffn},
      {T::nanotron, "model.model_config.num_attention_heads", Q::heads},
      {T::nanotron, "model.model_config.num_key_value_heads", Q::kv_heads},
      {T::nanotron, "model.model_config.vocab_size", Q::vocab},
      {T::nanotron, "model.model_config.tie_word_embeddings", Q::tied_embeddings, U::on_off},
      {T::nanotron, "model.dtype", Q::precision, U::word},
      {T::nanotron, "optimizer.zero_stage", Q::zero},
      {T::nanotron, "parallelism.dp", Q::dp},
      {T::nanotron, "parallelism.tp", Q::tp},
      {T::nanotron, "parallelism.pp", Q::pp},
      {T::nanotron, "parallelism.context_parallel_size", Q::cp},
      {T::nanotron, "parallelism.expert_parallel_size", Q::ep},
      {T::nanotron, "parallelism.pp_engine", Q::schedule, U::word},
      {T::nanotron, "parallelism.recompute_layer", Q::recompute, U::word},
      {T::nanotron, "tokens.sequence_length", Q::seq},
      {T::nanotron, "tokens.micro_batch_size", Q::micro_batch},
      {T::nanotron, "tokens.batch_accumulation_per_replica", Q::micro_batches},

      {T::llm_foundry, "max_seq_len", Q::seq},
      {T::llm_foundry, "global_train_batch_size", Q::global_batch},
      {T::llm_foundry, "device_train_microbatch_size", Q::micro_batch},
      {T::llm_foundry, "precision", Q::precision, U::word},
      {T::llm_foundry, "model.n_layers", Q::layers},
      {T::llm_foundry, "model.d_model", Q::hidden},
      {T::llm_foundry, "model.n_heads", Q::heads},
      {T::llm_foundry, "model.vocab_size", Q::vocab},
      {T::llm_foundry, "model.tie_word_embeddings", Q::tied_embeddings, U::on_off},
      {T::llm_foundry, "model.attn_config.kv_n_heads", Q::kv_heads},
      {T::llm_foundry, "model.ffn_config.ffn_hidden_size", Q::ffn},
      {T::llm_foundry, "fsdp_config.activation_checkpointing", Q::recompute, U::word},
      {T::llm_foundry, "fsdp_config.data_parallel_replicate_degree", Q::dp_replicas},
      {T::llm_foundry, "fsdp_config.data_parallel_shard_degree", Q::dp_shards},
      {T::llm_foundry, "tp_config.tensor_parallel_degree", Q::tp},

      {T::colossalai, "tp_size", Q::tp},
      {T::colossalai, "pp_size", Q::pp},
      {T::colossalai, "sp_size", Q::cp},
      {T::colossalai, "ep_size", Q::ep},
      {T::colossalai, "pp_style", Q::schedule, U::word},
      {T::colossalai, "num_model_chunks", Q::vpp},
      {T::colossalai, "microbatch_size", Q::micro_batch},
      {T::colossalai, "zero_stage", Q::zero},
      {T::colossalai, "precision", Q::precision, U::word},
  };
  return rows;
}

const std::vector<FrameworkWord>& framework_words() {
  static const std::vector<FrameworkWord> rows{
      {T::megatron, Q::precision, "bf16", "--bf16"},
      {T::megatron, Q::precision, "fp16", "--fp16"},
      {T::megatron, Q::precision, "fp32", ""},
      {T::megatron, Q::precision, "fp8", "--bf16 --fp8-format hybrid"},
      {T::megatron, Q::precision, "fp8:delayed", "--bf16 --fp8-format hybrid --fp8-recipe delayed"},
      {T::megatron, Q::precision, "fp8:tensorwise", "--bf16 --fp8-format hybrid --fp8-recipe tensorwise"},
      {T::megatron, Q::precision, "fp8:blockwise", "--bf16 --fp8-format e4m3 --fp8-recipe blockwise"},
      {T::megatron, Q::precision, "mxfp8", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8"},
      {T::megatron, Q::precision, "nvfp4", "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4"},
      {T::megatron, Q::schedule, "1f1b", ""},
      {T::megatron, Q::schedule, "interleaved", ""},
      {T::megatron, Q::cp_type, "ring", "p2p"},
      {T::megatron, Q::cp_type, "all-gather", "all_gather"},
      {T::megatron, Q::cp_type, "ulysses", "a2a"},
      {T::megatron_bridge, Q::precision, "bf16", "bf16_mixed"},
      {T::megatron_bridge, Q::precision, "fp16", "fp16_mixed"},
      {T::megatron_bridge, Q::precision, "fp8", "bf16_with_fp8_delayed_scaling_mixed"},
      {T::megatron_bridge, Q::precision, "fp8:delayed", "bf16_with_fp8_delayed_scaling_mixed"},
      {T::megatron_bridge, Q::precision, "fp8:tensorwise", "bf16_with_fp8_current_scaling_mixed"},
      {T::megatron_bridge, Q::precision, "fp8:blockwise", "bf16_with_fp8_subchannel_scaling_mixed"},
      {T::megatron_bridge, Q::precision, "mxfp8", "bf16_with_mxfp8_mixed"},
      {T::megatron_bridge, Q::precision, "nvfp4", "bf16_with_nvfp4_mixed"},
      {T::megatron_bridge, Q::schedule, "1f1b", ""},
      {T::megatron_bridge, Q::schedule, "interleaved", ""},
      {T::megatron_bridge, Q::cp_type, "ring", "p2p"},
      {T::megatron_bridge, Q::cp_type, "all-gather", "all_gather"},
      {T::megatron_bridge, Q::cp_type, "ulysses", "a2a"},
      {T::deepspeed, Q::precision, "bf16", "bf16"},
      {T::deepspeed, Q::precision, "fp16", "fp16"},
      {T::deepspeed, Q::precision, "fp32", ""},
      {T::deepspeed, Q::schedule, "1f1b", ""},
      {T::deepspeed, Q::cp_type, "ulysses", ""},
      {T::torchtitan, Q::precision, "bf16", "bfloat16"},
      {T::torchtitan, Q::precision, "fp32", "float32"},
      {T::torchtitan, Q::schedule, "gpipe", "GPipe"},
      {T::torchtitan, Q::schedule, "1f1b", "1F1B"},
      {T::torchtitan, Q::schedule, "interleaved", "Interleaved1F1B"},
      {T::torchtitan, Q::schedule, "zb-v", "ZBVZeroBubble"},
      {T::torchtitan_toml, Q::precision, "bf16", "bfloat16"},
      {T::torchtitan_toml, Q::precision, "fp32", "float32"},
      {T::torchtitan_toml, Q::schedule, "gpipe", "GPipe"},
      {T::torchtitan_toml, Q::schedule, "1f1b", "1F1B"},
      {T::torchtitan_toml, Q::schedule, "interleaved", "Interleaved1F1B"},
      {T::torchtitan_toml, Q::schedule, "zb-v", "ZBVZeroBubble"},
      {T::torchtitan_toml, Q::cp_type, "all-gather", "allgather"},
      {T::torchtitan_toml, Q::cp_type, "ring", "alltoall"},
      {T::accelerate, Q::precision, "bf16", "bf16"},
      {T::accelerate, Q::precision, "fp16", "fp16"},
      {T::accelerate, Q::precision, "fp32", "no"},
      {T::accelerate, Q::precision, "fp8", "fp8"},
      {T::accelerate, Q::cp_type, "all-gather", "allgather"},
      {T::accelerate, Q::cp_type, "ring", "alltoall"},
      {T::accelerate, Q::recompute, "full", "true"},
      {T::accelerate, Q::recompute, "none", "false"},
      {T::nanotron, Q::precision, "bf16", "bfloat16"},
      {T::nanotron, Q::precision, "fp32", "float32"},
      {T::nanotron, Q::cp_type, "ring", ""},
      {T::nanotron, Q::schedule, "1f1b", "1f1b"},
      {T::nanotron, Q::schedule, "gpipe", "afab"},
      {T::nanotron, Q::recompute, "full", "true"},
      {T::nanotron, Q::recompute, "none", "false"},
      {T::llm_foundry, Q::precision, "bf16", "amp_bf16"},
      {T::llm_foundry, Q::precision, "fp16", "amp_fp16"},
      {T::llm_foundry, Q::precision, "fp8", "amp_fp8"},
      {T::llm_foundry, Q::precision, "fp32", "fp32"},
      {T::llm_foundry, Q::recompute, "full", "true"},
      {T::llm_foundry, Q::recompute, "none", "false"},
      {T::colossalai, Q::precision, "bf16", "bf16"},
      {T::colossalai, Q::precision, "fp16", "fp16"},
      {T::colossalai, Q::precision, "fp8", "bf16"},
      {T::colossalai, Q::precision, "fp32", "fp32"},
      {T::colossalai, Q::schedule, "1f1b", "1f1b"},
      {T::colossalai, Q::schedule, "interleaved", "interleaved"},
      {T::colossalai, Q::schedule, "zb-v", "zbv"},
      {T::colossalai, Q::cp_type, "ulysses", "all_to_all"},
      {T::colossalai, Q::cp_type, "ring", "ring_attn"},
  };
  return rows;
}

const FrameworkKey* key_of(Target target, JobFact fact) {
  const auto& rows = framework_keys();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const FrameworkKey& row) { return row.target == target && row.fact == fact; });
  return found == rows.end() ? nullptr : &*found;
}

const FrameworkKey* key_named(Target target, std::string_view key) {
  const auto& rows = framework_keys();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const FrameworkKey& row) { return row.target == target && row.key == key; });
  return found == rows.end() ? nullptr : &*found;
}

std::optional<std::string_view> their_word(Target target, JobFact fact, std::string_view ours) {
  for (const FrameworkWord& row : framework_words()) {
    if (row.target == target && row.fact == fact && row.ours == ours) {
      return row.theirs;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> our_word(Target target, JobFact fact, std::string_view theirs) {
  for (const FrameworkWord& row : framework_words()) {
    if (row.target == target && row.fact == fact && row.theirs == theirs) {
      return row.ours;
    }
  }
  return std::nullopt;
}

}  // namespace tpplan
