#include <algorithm>

#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

bool has_flag(const ConfigFile& file, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&file](std::string_view key) { return file.has(key); });
}

bool starts_megatron(const ConfigFile& file) {
  return file.format == ConfigFormat::shell &&
         has_flag(file, {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--model-parallel-size",
                         "--num-attention-heads", "--use-distributed-optimizer", "--use-mcore-models"});
}

bool is_bridge(const ConfigFile& file) {
  return has_flag(file, {"model.tensor_model_parallel_size", "model.pipeline_model_parallel_size",
                         "train.global_batch_size", "train.micro_batch_size", "ddp.use_distributed_optimizer",
                         "model_parallel.tensor_model_parallel_size", "model.num_attention_heads"}) &&
         file.format != ConfigFormat::json;
}

bool is_torchtitan_flags(const ConfigFile& file) {
  return file.format == ConfigFormat::shell &&
         (has_flag(file, {"job.config_file", "training.local_batch_size", "training.batch_size"}) ||
          file.has_section("parallelism") || std::any_of(file.programs.begin(), file.programs.end(), [](const auto& p) {
            return p.find("torchtitan") != std::string::npos;
          }));
}

bool is_torchtitan_toml(const ConfigFile& file) {
  return file.format == ConfigFormat::toml && (file.has_section("parallelism") || file.has_section("training"));
}

bool is_deepspeed(const ConfigFile& file) {
  return file.format == ConfigFormat::json &&
         (has_flag(file, {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) ||
          file.has_section("zero_optimization") || file.has_section("bf16") || file.has_section("fp16"));
}

bool is_accelerate(const ConfigFile& file) {
  return file.format == ConfigFormat::yaml &&
         (has_flag(file, {"compute_environment", "distributed_type"}) || file.has_section("parallelism_config"));
}

bool is_nanotron(const ConfigFile& file) {
  return file.format == ConfigFormat::yaml && file.has("parallelism.tp") &&
         (file.has_section("tokens") || file.has_section("general"));
}

bool is_llm_foundry(const ConfigFile& file) {
  return file.format == ConfigFormat::yaml &&
         has_flag(file, {"max_seq_len", "global_train_batch_size", "device_train_microbatch_size", "max_duration",
                         "fsdp_config.sharding_strategy", "variables.max_seq_len"});
}

}  // namespace

const std::vector<JobKind>& job_kinds() {
  static const std::vector<JobKind> rows{
      {Target::megatron, "Megatron-LM", Framework::megatron, starts_megatron, read_megatron_job},
      {Target::torchtitan, "TorchTitan", Framework::torchtitan, is_torchtitan_flags, read_torchtitan_job},
      {Target::torchtitan_toml, "TorchTitan", Framework::torchtitan, is_torchtitan_toml, read_torchtitan_job},
      {Target::nanotron, "nanotron", Framework::nanotron, is_nanotron, read_nanotron_job},
      {Target::accelerate, "accelerate", Framework::fsdp, is_accelerate, read_accelerate_job},
      {Target::llm_foundry, "llm-foundry", Framework::fsdp, is_llm_foundry, read_llm_foundry_job},
      {Target::megatron_bridge, "Megatron-Bridge or NeMo", Framework::megatron, is_bridge, read_megatron_job},
      {Target::deepspeed, "DeepSpeed", Framework::deepspeed, is_deepspeed, read_deepspeed_job},
  };
  return rows;
}

const JobKind* kind_of(const ConfigFile& file) {
  for (const JobKind& kind : job_kinds()) {
    if (kind.recognised(file)) {
      return &kind;
    }
  }
  return nullptr;
}

const JobKind& kind_row(Target target) {
  const auto& rows = job_kinds();
  const auto found = std::find_if(rows.begin(), rows.end(), [target](const JobKind& k) { return k.target == target; });
  return found == rows.end() ? rows.front() : *found;
}

}  // namespace tpplan
