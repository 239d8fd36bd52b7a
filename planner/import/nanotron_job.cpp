// nanotron's YAML file.
#include "cost-model/words.h"
#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

void read_model(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const auto say = [&draft](std::string key, std::string value) {
    draft.model_words.emplace_back(std::move(key), std::move(value));
  };
  draft.describes_model = draft.number(JobFact::layers).has_value();
  say("gated_mlp", "true");
  say("norm", "\"rms\"");
  const bool bias = reader.on("model.model_config.attention_bias");
  const bool qwen = reader.on("model.model_config.is_qwen2_config");
  say("attention_bias", bias ? (qwen ? "\"qkv\"" : "\"all\"") : "\"none\"");
  reader.pass("model.model_config.max_position_embeddings");
  reader.take("model.model_config.moe_config.num_experts", JobFact::experts);
  reader.take("model.model_config.moe_config.top_k", JobFact::top_k);
  reader.take("model.model_config.moe_config.moe_intermediate_size", JobFact::expert_ffn);
  reader.take("model.model_config.moe_config.shared_expert_intermediate_size", JobFact::shared_ffn);
  reader.pass("model.model_config.moe_config.token_dispatcher_type");
  const bool shared = reader.on("model.model_config.moe_config.enable_shared_expert");
  if (!draft.number(JobFact::experts)) {
    return;
  }
  // Widths that are not given are those of the dense layer.
  for (const JobFact width : {JobFact::expert_ffn, JobFact::shared_ffn}) {
    if (!draft.number(width)) {
      draft.say_derived(width, draft.number_or(JobFact::ffn, 0), draft.origins(JobFact::ffn));
    }
  }
  if (!shared) {
    draft.forget(JobFact::shared_ffn);
  }
}

}  // namespace

void read_nanotron_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take_table(Target::nanotron);
  // Its stages are a switch: the optimizer is shared or not.
  if (const auto stage = draft.number(JobFact::zero); stage && *stage > 1) {
    draft.say(JobFact::zero, 1, reader.origin("optimizer.zero_stage"));
  } else if (!stage) {
    draft.say_derived(JobFact::zero, 0, {});
  }
  if (draft.number_or(JobFact::pp, 1) > 1 && draft.word("schedule").empty()) {
    draft.say("schedule", "gpipe", {});
    draft.assumed.emplace_back("schedule", "gpipe, nanotron's habit (afab)");
  }
  const std::string mode = reader.word("parallelism.tp_mode").value_or("ALL_REDUCE");
  draft.say_derived(JobFact::sequence_parallel, mode == "REDUCE_SCATTER" ? 1 : 0,
                    {reader.origin("parallelism.tp_mode")});
  if (const auto wide = reader.flag("optimizer.accumulate_grad_in_fp32")) {
    draft.say("gradient-dtype", *wide ? "fp32" : "bf16", {reader.origin("optimizer.accumulate_grad_in_fp32")});
  }
  const auto optimizer = lower(reader.word("optimizer.optimizer_factory.name").value_or("adamw"));
  if (optimizer == "sgd") {
    draft.say("optimizer", optimizer, {reader.origin("optimizer.optimizer_factory.name")});
  } else if (optimizer != "adam" && optimizer != "adamw") {
    draft.not_read(reader.origin("optimizer.optimizer_factory.name"), optimizer);
  }
  for (const std::string_view key :
       {"model.ddp_bucket_cap_mb", "parallelism.tp_linear_async_communication", "parallelism.tp_recompute_allgather",
        "model.model_config.pretraining_tp", "model.model_config._attn_implementation"}) {
    reader.pass(key);
  }
  read_model(reader);
}

}  // namespace tpplan
