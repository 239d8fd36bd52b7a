// accelerate's YAML file: FSDP of both versions, DeepSpeed, and plain replicas.
#include <array>

#include "cost-model/words.h"
#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

/// PyTorch's names for sharding, which earlier releases wrote as numbers from 1.
struct StrategyRow {
  std::string_view word, number;
  int zero;
  bool of_node;
};
constexpr std::array<StrategyRow, 5> kStrategies{{{"FULL_SHARD", "1", 3, false},
                                                  {"SHARD_GRAD_OP", "2", 2, false},
                                                  {"NO_SHARD", "3", 0, false},
                                                  {"HYBRID_SHARD", "4", 3, true},
                                                  {"HYBRID_SHARD_ZERO2", "5", 2, true}}};

void read_fsdp(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  constexpr std::string_view kReshard = "fsdp_config.fsdp_reshard_after_forward";
  constexpr std::string_view kStrategy = "fsdp_config.fsdp_sharding_strategy";
  std::string strategy = reader.word(kStrategy).value_or("FULL_SHARD");
  const std::string reshard = reader.word(kReshard).value_or("");
  std::string_view key = kStrategy;
  const bool second = reader.count("fsdp_config.fsdp_version").value_or(1) == 2;
  if (second || (!reader.has(kStrategy) && !reshard.empty())) {
    key = kReshard;
    strategy = lower(reshard) == "false"                     ? "SHARD_GRAD_OP"
               : lower(reshard) == "true" || reshard.empty() ? "FULL_SHARD"
                                                             : reshard;
  }
  for (const StrategyRow& row : kStrategies) {
    if (strategy == row.word || strategy == row.number) {
      reader.has(key) ? draft.say(JobFact::zero, row.zero, reader.origin(key))
                      : draft.say_derived(JobFact::zero, row.zero, {});
      draft.shards_of_node = row.of_node;
      return;
    }
  }
  draft.error(reader.origin(key), "unknown sharding \"" + strategy + "\"",
              "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
}

void read_deepspeed(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  draft.framework = Framework::deepspeed;
  draft.program = "DeepSpeed through accelerate";
  reader.take("deepspeed_config.zero_stage", JobFact::zero);
  reader.take("deepspeed_config.gradient_accumulation_steps", JobFact::micro_batches);
  constexpr std::string_view kDevice = "deepspeed_config.offload_optimizer_device";
  if (const auto device = reader.word(kDevice); device && !is_off(*device)) {
    draft.say("offload", "optimizer", {reader.origin(kDevice)});
  }
  constexpr std::string_view kWeights = "deepspeed_config.offload_param_device";
  if (const auto device = reader.word(kWeights); device && !is_off(*device)) {
    draft.not_read(reader.origin(kWeights), *device);
  }
  if (const auto file = reader.word("deepspeed_config.deepspeed_config_file")) {
    draft.remark("the job has a DeepSpeed file too (" + *file + "): give it as another FILE");
  } else if (!draft.number(JobFact::zero)) {
    draft.say_derived(JobFact::zero, 2, {});
    draft.assumed.emplace_back("zero", "2, accelerate's habit");
  }
}

void read_megatron(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  draft.framework = Framework::megatron;
  draft.program = "Megatron-LM through accelerate";
  reader.take("megatron_lm_config.megatron_lm_tp_degree", JobFact::tp);
  reader.take("megatron_lm_config.megatron_lm_pp_degree", JobFact::pp);
  reader.take("megatron_lm_config.megatron_lm_num_micro_batches", JobFact::micro_batches);
  const auto flag = [&](std::string_view key) { return reader.on(key) ? 1 : 0; };
  draft.say_derived(JobFact::zero, flag("megatron_lm_config.megatron_lm_use_distributed_optimizer"),
                    {reader.origin("megatron_lm_config.megatron_lm_use_distributed_optimizer")});
  draft.say_derived(JobFact::sequence_parallel, flag("megatron_lm_config.megatron_lm_sequence_parallelism"),
                    {reader.origin("megatron_lm_config.megatron_lm_sequence_parallelism")});
  constexpr std::string_view kRecompute = "megatron_lm_config.megatron_lm_recompute_activations";
  if (reader.on(kRecompute)) {
    draft.say("recompute", "selective", {reader.origin(kRecompute)});
  }
}

}  // namespace

void read_accelerate_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take_table(Target::accelerate);
  if (const auto nodes = reader.count("num_machines"); nodes && *nodes > 0) {
    draft.nodes = nodes;
    if (const auto world = draft.number(JobFact::world); world && *world % *nodes == 0) {
      draft.gpus_per_node = *world / *nodes;
    }
  }
  const std::string type =
      reader.word("distributed_type").value_or(reader.has("fsdp_config.fsdp_version") ? "FSDP" : "");
  if (type == "FSDP") {
    read_fsdp(reader);
  } else if (type == "DEEPSPEED") {
    read_deepspeed(reader);
  } else if (type == "MEGATRON_LM") {
    read_megatron(reader);
  } else if (type == "MULTI_GPU" || type == "NO" || type.empty()) {
    draft.say_derived(JobFact::zero, 0, {reader.origin("distributed_type")});
  } else {
    draft.not_read(reader.origin("distributed_type"), type);
  }
  if (reader.on("fsdp_config.fsdp_offload_params")) {
    draft.not_read(reader.origin("fsdp_config.fsdp_offload_params"), "true");
  }
  if (!draft.number(JobFact::sequence_parallel)) {
    draft.say_derived(JobFact::sequence_parallel, 0, {});
  }
  if (const auto backend = reader.word("parallelism_config.parallelism_config_sp_backend"); backend == "deepspeed") {
    reader.take("parallelism_config.parallelism_config_sp_size", JobFact::cp);
    draft.say("cp-type", "ulysses", {reader.origin("parallelism_config.parallelism_config_sp_backend")});
  }
  for (const std::string_view key :
       {"parallelism_config.parallelism_config_cp_backend", "downcast_bf16", "fsdp_config.fsdp_backward_prefetch"}) {
    reader.pass(key);
  }
}

}  // namespace tpplan
