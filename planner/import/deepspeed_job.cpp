// DeepSpeed's JSON file. Batches are counted per data-parallel rank, whatever the keys say of GPUs.
#include "cost-model/words.h"
#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

void read_offload(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  constexpr std::string_view kOptimizer = "zero_optimization.offload_optimizer.device";
  constexpr std::string_view kWeights = "zero_optimization.offload_param.device";
  if (const auto device = reader.word(kOptimizer); device && *device != "none") {
    draft.say("offload", "optimizer", {reader.origin(kOptimizer)});
    if (*device != "cpu") {
      draft.remark("optimizer states on " + *device + " are planned as in host memory");
    }
  }
  reader.pass("zero_optimization.offload_optimizer.pin_memory");
  if (const auto device = reader.word(kWeights); device && *device != "none") {
    draft.not_read(reader.origin(kWeights), *device);
  }
  if (reader.on("zero_optimization.cpu_offload")) {
    draft.say("offload", "optimizer", {reader.origin("zero_optimization.cpu_offload")});
  }
}

void read_optimizer(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const auto type = reader.word("optimizer.type");
  if (!type) {
    return;
  }
  const std::string name = lower(*type);
  if (name == "lion" || name == "muon" || name == "sgd") {
    draft.say("optimizer", name, {reader.origin("optimizer.type")});
  } else if (name.find("adam") == std::string::npos) {
    draft.not_read(reader.origin("optimizer.type"), *type);
  }
}

}  // namespace

void read_deepspeed_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  reader.take_table(Target::deepspeed);
  if (draft.number_or(JobFact::cp, 1) > 1) {
    draft.say("cp-type", "ulysses", draft.origins(JobFact::cp));
  }
  const bool experts = reader.flag("expert_parallel.enabled").value_or(false);
  if (!experts) {
    draft.forget(JobFact::ep);
  }
  if (!draft.number(JobFact::zero)) {
    draft.say_derived(JobFact::zero, 0, {});
  }
  if (draft.number_or(JobFact::shard_group, 0) <= 1) {
    draft.forget(JobFact::shard_group);
  }
  for (const std::string_view name : {"bf16", "fp16"}) {
    const std::string key = std::string(name) + ".enabled";
    const auto text = reader.word(key);
    if (text && !is_off(*text)) {
      draft.say("precision", std::string(name), {reader.origin(key)});
    }
  }
  if (draft.word("precision").empty() && draft.open.empty()) {
    draft.say("precision", "fp32", {});
    draft.assumed.emplace_back("precision", "fp32, DeepSpeed's habit without bf16 or fp16");
  }
  for (const std::string_view key : {"communication_data_type", "data_types.grad_accum_dtype"}) {
    const auto type = reader.word(key);
    if (type == "bf16" || type == "fp32") {
      draft.say("gradient-dtype", *type, {reader.origin(key)});
    }
  }
  if (const auto overlap = reader.flag("zero_optimization.overlap_comm")) {
    draft.say("overlap", *overlap ? "dp-grad=on" : "dp-grad=off", {reader.origin("zero_optimization.overlap_comm")});
  }
  read_offload(reader);
  read_optimizer(reader);
}

}  // namespace tpplan
