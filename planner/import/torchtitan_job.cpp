// TorchTitan: TOML files of releases that have them, and --section.option flags.
#include <array>

#include "cost-model/words.h"
#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

struct OldKeyRow {
  std::string_view key;
  JobFact fact;
};
/// Keys of earlier releases.
constexpr std::array<OldKeyRow, 8> kOldKeys{{{"training.tensor_parallel_degree", JobFact::tp},
                                             {"training.data_parallel_degree", JobFact::dp_shards},
                                             {"training.data_parallel_shard_degree", JobFact::dp_shards},
                                             {"training.data_parallel_replicate_degree", JobFact::dp_replicas},
                                             {"experimental.pipeline_parallel_degree", JobFact::pp},
                                             {"experimental.context_parallel_degree", JobFact::cp},
                                             {"training.context_parallel_degree", JobFact::cp},
                                             {"training.seq_len", JobFact::seq}}};

/// Schedules with several stages on each rank.
bool has_virtual_stages(std::string_view schedule) {
  return schedule == "interleaved" || schedule == "zb-v" || schedule == "dualpipe";
}

/// A number of tokens as sequences.
void in_sequences(SettingReader& reader, std::string_view key, JobFact fact) {
  JobDraft& draft = reader.draft();
  const auto tokens = reader.count(key);
  const auto seq = draft.number(JobFact::seq);
  if (!tokens) {
    return;
  }
  draft.forget(fact);
  if (!seq || *seq <= 0) {
    draft.leave_open(reader.origin(key), "needs training.max_context_length");
  } else if (*tokens % *seq != 0) {
    draft.error(reader.origin(key),
                std::to_string(*tokens) + " tokens are no whole number of sequences of " + std::to_string(*seq));
  } else {
    draft.say(fact, *tokens / *seq, reader.origin(key));
  }
}

void read_batches(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const auto pp = draft.number_or(JobFact::pp, 1);
  for (const std::string_view key : {"training.local_batch_size", "training.batch_size"}) {
    const auto local = reader.count(key);
    if (!local) {
      continue;
    }
    if (pp == 1) {
      draft.say(JobFact::micro_batch, *local, reader.origin(key));
      continue;
    }
    // With stages the local batch is that of one run through the pipeline.
    std::int64_t micro_batch = 1;
    for (const std::string_view part :
         {"parallelism.pipeline_parallel_microbatch_size", "experimental.pipeline_parallel_microbatch_size"}) {
      micro_batch = reader.count(part).value_or(micro_batch);
    }
    for (const std::string_view number :
         {"parallelism.pipeline_parallel_microbatches", "experimental.pipeline_parallel_microbatches"}) {
      const auto runs = reader.count(number);
      micro_batch = runs && *runs > 0 ? *local / *runs : micro_batch;
    }
    if (micro_batch < 1 || *local % micro_batch != 0) {
      draft.error(reader.origin(key), "a local batch of " + std::to_string(*local) +
                                          " is no whole number of micro-batches of " + std::to_string(micro_batch));
      continue;
    }
    draft.say_derived(JobFact::micro_batch, micro_batch, {reader.origin(key)});
    if (!draft.number(JobFact::global_batch)) {
      draft.say_derived(JobFact::micro_batches, *local / micro_batch, {reader.origin(key)});
    }
  }
  in_sequences(reader, "training.num_tokens_per_microbatch_per_dp_rank", JobFact::micro_batch);
  in_sequences(reader, "training.num_tokens_per_train_step", JobFact::global_batch);
  if (draft.number(JobFact::global_batch)) {
    draft.forget(JobFact::micro_batches);  // of one run through the pipeline; a step may have several
  } else if (!draft.number(JobFact::micro_batches)) {
    draft.say_derived(JobFact::micro_batches, 1, {});
  }
}

void read_sharding(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const std::string policy = reader.word("parallelism.fsdp_reshard_after_forward").value_or("default");
  const bool sharded = draft.number_or(JobFact::dp_shards, 2) > 1 || draft.number_or(JobFact::cp, 1) > 1;
  const bool keeps = policy == "never" || (policy == "default" && draft.number_or(JobFact::pp, 1) > 1);
  std::vector<Origin> from = draft.origins(JobFact::dp_shards);
  if (reader.has("parallelism.fsdp_reshard_after_forward")) {
    from.push_back(reader.origin("parallelism.fsdp_reshard_after_forward"));
  }
  draft.say_derived(JobFact::zero, !sharded ? 0 : keeps ? 2 : 3, from);
}

void read_recompute(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  constexpr std::string_view kMode = "activation_checkpoint.mode";
  constexpr std::string_view kOption = "activation_checkpoint.selective_ac_option";
  const auto mode = reader.word(kMode);
  const std::string option = reader.word(kOption).value_or("2");
  if (mode == "full") {
    draft.say("recompute", "full", {reader.origin(kMode)});
  } else if (mode == "selective" && option == "op") {
    draft.say("recompute", "selective:op", {reader.origin(kMode), reader.origin(kOption)});
  } else if (mode == "selective") {
    draft.recompute_every = reader.count(kOption).value_or(2);
    draft.say("recompute", "full", {reader.origin(kMode), reader.origin(kOption)});
  } else if (mode && *mode != "none") {
    draft.not_read(reader.origin(kMode), *mode);
  }
}

void read_precision(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  if (draft.word("precision").empty()) {
    draft.say("precision", "bf16", {});
    draft.assumed.emplace_back("precision", "bf16, TorchTitan's habit");
  }
  const std::string converters = reader.word("model.converters").value_or("");
  const std::string recipe = reader.word("float8.recipe_name").value_or("tensorwise");
  if (converters.find("float8") != std::string::npos) {
    draft.say("precision", "fp8:" + recipe, {reader.origin("model.converters")});
  } else if (converters.find("mx") != std::string::npos) {
    draft.say("precision", "mxfp8", {reader.origin("model.converters")});
  }
}

}  // namespace

void read_torchtitan_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const bool tokens = reader.has("training.num_tokens_per_train_step") ||
                      reader.has("training.num_tokens_per_microbatch_per_dp_rank") ||
                      reader.has("training.max_context_length");
  for (const OldKeyRow& row : kOldKeys) {
    reader.take(row.key, row.fact);
  }
  reader.take_table(tokens ? Target::torchtitan : Target::torchtitan_toml);
  if (const std::string old = reader.word("experimental.pipeline_parallel_schedule").value_or(""); !old.empty()) {
    const auto ours = our_word_in_any_case(Target::torchtitan_toml, JobFact::schedule, old);
    ours ? draft.say("schedule", std::string(*ours), {reader.origin("experimental.pipeline_parallel_schedule")})
         : draft.not_read(reader.origin("experimental.pipeline_parallel_schedule"), old);
  }
  draft.several_stages_per_rank = has_virtual_stages(draft.word("schedule"));
  draft.layers_in_stage = reader.count("parallelism.pipeline_parallel_layers_per_stage").value_or(0);
  draft.counted_ends = reader.count("parallelism.pipeline_parallel_first_stage_less_layers").value_or(1) +
                       reader.count("parallelism.pipeline_parallel_last_stage_less_layers").value_or(1);
  read_batches(reader);
  read_sharding(reader);
  read_recompute(reader);
  read_precision(reader);
  const bool parallel = reader.flag("parallelism.enable_sequence_parallel").value_or(true);
  if (!draft.number(JobFact::sequence_parallel)) {
    draft.say_derived(JobFact::sequence_parallel, parallel ? 1 : 0, {});
  }
  if (draft.number_or(JobFact::ep, 1) <= 1) {
    draft.forget(JobFact::etp);  // experts are cut as the rest
  }
  if (reader.flag("parallelism.enable_async_tensor_parallel").value_or(false)) {
    draft.say("overlap", "tp=on", {reader.origin("parallelism.enable_async_tensor_parallel")});
  }
  const auto optimizer = lower(reader.word("optimizer.name").value_or("adamw"));
  if (optimizer != "adam" && optimizer != "adamw") {
    draft.not_read(reader.origin("optimizer.name"), optimizer);
  }
  const std::string name = reader.word("model.name").value_or("");
  const std::string flavor = reader.word("model.flavor").value_or("");
  if (!name.empty()) {
    draft.model_name = name + (flavor.empty() ? "" : "-" + flavor);
  }
}

}  // namespace tpplan
