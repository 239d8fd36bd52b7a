// Megatron-LM's flags, and the keys of Megatron-Bridge, NeMo and Megatron-LM's YAML files that mean the same.
#include <algorithm>
#include <array>

#include "planner/import/job_readers.h"

namespace tpplan {
namespace {

struct RenameRow {
  std::string_view leaf, flag;
};
/// Last parts of keys whose flag has another name.
constexpr std::array<RenameRow, 20> kRenamed{
    {{"virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
     {"encoder_seq_length", "--seq-length"},
     {"num_moe_experts", "--num-experts"},
     {"activations_checkpoint_granularity", "--recompute-granularity"},
     {"activations_checkpoint_method", "--recompute-method"},
     {"activations_checkpoint_num_layers", "--recompute-num-layers"},
     {"microbatch_group_size_per_vp_stage", "--microbatch-group-size-per-virtual-pipeline-stage"},
     {"num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
     {"num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
     {"ub_tp_comm_overlap", "--tp-comm-overlap"},
     {"gated_linear_unit", "--swiglu"},
     {"fp8_e4m3", "--fp8-format"},
     {"fp8_hybrid", "--fp8-format"},
     {"fp8", "--fp8-format"},
     {"fp4", "--fp4-format"},
     {"model_parallel_size", "--tensor-model-parallel-size"},
     {"tensor_parallel", "--tensor-model-parallel-size"},
     {"batch_size", "--micro-batch-size"},
     {"use_precision_aware_optimizer", "--use-precision-aware-optimizer"},
     {"expert_tensor_parallel_size", "--expert-tensor-parallel-size"}}};

/// Names that flags had in earlier releases.
constexpr std::array<RenameRow, 5> kOldFlags{{{"--moe-expert-parallel-size", "--expert-model-parallel-size"},
                                              {"--fp8-hybrid", "--fp8-format"},
                                              {"--model-parallel-size", "--tensor-model-parallel-size"},
                                              {"--batch-size", "--micro-batch-size"},
                                              {"--use-custom-fsdp", "--use-megatron-fsdp"}}};

constexpr std::array<std::string_view, 13> kSections{
    "model",        "train", "dataset",    "data",           "ddp",           "trainer", "optimizer", "dist",
    "comm_overlap", "optim", "checkpoint", "model_parallel", "language_model"};

/// The flag that a key stands for; empty when the key is of a section without flags.
std::string flag_of(const std::string& key) {
  if (key.rfind("--", 0) == 0) {
    for (const RenameRow& row : kOldFlags) {
      if (row.leaf == key) {
        return std::string(row.flag);
      }
    }
    return key;
  }
  const std::size_t dot = key.find('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  std::string leaf = key.substr(dot == std::string::npos ? 0 : dot + 1);
  if (leaf.find('.') != std::string::npos || key.find(' ') != std::string::npos ||
      (!section.empty() && std::find(kSections.begin(), kSections.end(), section) == kSections.end())) {
    return "";
  }
  for (const RenameRow& row : kRenamed) {
    if (row.leaf == leaf) {
      return std::string(row.flag);
    }
  }
  std::replace(leaf.begin(), leaf.end(), '_', '-');
  return "--" + leaf;
}

using Keys = MegatronKeys;

void read_precision(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  std::string precision;
  std::vector<Origin> from;
  const auto set = [&](std::string word, std::string_view key) {
    precision = std::move(word);
    from.push_back(reader.origin(key));
  };
  for (const std::string_view flag : {"--bf16", "--fp16"}) {
    if (reader.on(keys(flag))) {
      set(std::string(flag.substr(2)), keys(flag));
    }
  }
  if (const auto word = reader.word("trainer.precision")) {
    const bool bf16 = word->find("bf16") != std::string::npos;
    set(bf16 ? "bf16" : word->find("16") != std::string::npos ? "fp16" : "fp32", "trainer.precision");
  }
  if (const auto word = reader.word("mixed_precision")) {
    const auto ours = our_word_in_any_case(Target::megatron_bridge, JobFact::precision, *word);
    ours ? set(std::string(*ours), "mixed_precision") : draft.not_read(reader.origin("mixed_precision"), *word);
  }
  const std::string recipe = reader.word(keys("--fp8-recipe")).value_or("");
  const auto narrow = [&](std::string_view flag) { return reader.on(keys(flag)); };
  if (narrow("--fp8-format")) {
    set(recipe == "mxfp8" ? "mxfp8" : recipe.empty() ? "fp8" : "fp8:" + recipe, keys("--fp8-format"));
  }
  if (narrow("--fp4-format")) {
    set("nvfp4", keys("--fp4-format"));
    reader.pass(keys("--fp4-recipe"));
  }
  if (!precision.empty()) {
    draft.say("precision", precision, from);
  } else if (reader.file().format == ConfigFormat::shell && reader.file().has("--num-layers")) {
    draft.say("precision", "fp32", {});
    draft.assumed.emplace_back("precision", "fp32, Megatron's habit without --bf16 or --fp16");
  }
}

void read_recompute(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  const std::string_view granularity_key = keys("--recompute-granularity");
  const auto method = reader.word(keys("--recompute-method"));
  const auto layers = reader.count(keys("--recompute-num-layers"));
  const auto modules = reader.word(keys("--recompute-modules"));
  std::string granularity = reader.word(granularity_key).value_or("");
  std::vector<Origin> from{reader.origin(granularity_key)};
  for (const std::string_view flag : {"--recompute-activations", "--checkpoint-activations"}) {
    if (granularity.empty() && reader.on(keys(flag))) {
      granularity = flag == "--recompute-activations" ? "selective" : "full";
      from = {reader.origin(keys(flag))};
    }
  }
  if (granularity == "full") {
    // uniform keeps the input of every so many layers, block recomputes that many layers of each stage.
    draft.say("recompute", method == "block" && layers ? "full:" + std::to_string(*layers) : "full", from);
    if (method == "uniform" && layers.value_or(1) > 1) {
      draft.remark("recomputation of " + std::to_string(*layers) +
                   " layers at a time (uniform) is planned as one layer at a time");
    }
  } else if (granularity == "selective") {
    const auto list = megatron_modules(modules.value_or("core_attn"));
    if (list) {
      draft.say("recompute", *list, from);
    } else {
      draft.say("recompute", "selective", from);
      draft.not_read(reader.origin(keys("--recompute-modules")), *modules);
    }
  } else if (!granularity.empty()) {
    draft.error(from.front(), "unknown granularity \"" + granularity + "\"", "full or selective");
  }
}

void read_sharding(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  const bool torch = reader.on(keys("--use-torch-fsdp2"));
  if (const auto name = reader.word("model.optim.name"); name == "distributed_fused_adam") {
    draft.say(JobFact::zero, 1, reader.origin("model.optim.name"));
  }
  if (torch || reader.on(keys("--use-megatron-fsdp"))) {
    const std::string_view key = keys("--data-parallel-sharding-strategy");
    const std::string strategy = reader.word(key).value_or(torch ? "optim_grads_params" : "no_shard");
    constexpr std::array<std::string_view, 4> kStrategies{"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const auto found = std::find(kStrategies.begin(), kStrategies.end(), strategy);
    if (found == kStrategies.end()) {
      draft.error(reader.origin(key), "unknown sharding strategy \"" + strategy + "\"",
                  "no_shard, optim, optim_grads or optim_grads_params");
    } else {
      draft.say(JobFact::zero, found - kStrategies.begin(),
                reader.origin(key.empty() ? keys(torch ? "--use-torch-fsdp2" : "--use-megatron-fsdp") : key));
    }
  }
  if (!draft.number(JobFact::zero)) {
    draft.say_derived(JobFact::zero, 0, {});
  }
  reader.pass(keys("--outer-dp-sharding-strategy"));
  reader.pass(keys("--ckpt-format"));
}

/// "dp-grad=on,dp-param=off": what runs beside compute.
void read_overlaps(SettingReader& reader, const Keys& keys) {
  struct Row {
    std::string_view flag, word;
  };
  constexpr std::array<Row, 4> kRows{{{"--overlap-grad-reduce", "dp-grad"},
                                      {"--overlap-param-gather", "dp-param"},
                                      {"--tp-comm-overlap", "tp"},
                                      {"--overlap-moe-expert-parallel-comm", "ep"}}};
  std::string text;
  std::vector<Origin> from;
  for (const Row& row : kRows) {
    const auto on = reader.flag(keys(row.flag));
    if (on) {
      from.push_back(reader.origin(keys(row.flag)));
    }
    // On a command line what is not there is off; a recipe under overrides may have it on.
    if (on || reader.file().format == ConfigFormat::shell) {
      const bool needed = row.word == "tp"   ? reader.draft().number_or(JobFact::tp, 1) > 1
                          : row.word == "ep" ? on.has_value()
                                             : true;
      const bool bridge = !reader.has("--num-layers") && !on;
      if (needed && !bridge) {
        text += (text.empty() ? "" : ",") + std::string(row.word) + (on.value_or(false) ? "=on" : "=off");
      }
    }
  }
  if (reader.on(keys("--no-overlap-p2p-communication"))) {
    text += (text.empty() ? "" : ",") + std::string("pp=off");
    from.push_back(reader.origin(keys("--no-overlap-p2p-communication")));
  }
  if (!text.empty()) {
    reader.draft().say("overlap", text, from);
  }
}

void read_stages(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  const std::string_view list_key = keys("--pipeline-model-parallel-layout");
  const auto pp = draft.number_or(JobFact::pp, 1);
  if (const auto text = reader.word(list_key)) {
    const auto stages = megatron_stage_list(*text);
    if (!stages || static_cast<std::int64_t>(stages->size()) % pp != 0) {
      draft.error(
          reader.origin(list_key),
          stages ? std::to_string(stages->size()) + " stages cannot lie on " + std::to_string(pp) + " pipeline ranks"
                 : "this list of stages cannot be read",
          "stages of E, t, m and L between |, such as \"Et*3|t*4|t*3L\"");
      return;
    }
    draft.layers_per_stage = *stages;
    if (const auto chunks = static_cast<std::int64_t>(stages->size()) / pp; chunks > 1) {
      draft.say(JobFact::vpp, chunks, reader.origin(list_key));
    }
    return;
  }
  const auto layers = draft.number(JobFact::layers);
  const std::string_view per_stage_key = keys("--num-layers-per-virtual-pipeline-stage");
  if (const auto per_stage = reader.count(per_stage_key); per_stage && *per_stage > 0) {
    if (!layers) {
      draft.leave_open(reader.origin(per_stage_key), "needs --num-layers");
    } else if (*layers % (pp * *per_stage) != 0) {
      draft.error(reader.origin(per_stage_key),
                  std::to_string(*layers) + " layers are no multiple of " + std::to_string(pp) + " pipeline ranks x " +
                      std::to_string(*per_stage) + " layers",
                  std::to_string(*layers / pp) + " layers per rank");
    } else if (*layers / pp / *per_stage > 1) {
      draft.say(JobFact::vpp, *layers / pp / *per_stage, reader.origin(per_stage_key));
    }
  }
  const auto first = reader.count(keys("--decoder-first-pipeline-num-layers"));
  const auto last = reader.count(keys("--decoder-last-pipeline-num-layers"));
  if ((first || last) && layers && pp > 1) {
    const std::int64_t middle = pp - (first ? 1 : 0) - (last ? 1 : 0);
    const std::int64_t left = *layers - first.value_or(0) - last.value_or(0);
    const std::string_view key =
        keys(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers");
    if (left < 0 || (middle == 0 ? left != 0 : left % middle != 0)) {
      draft.error(reader.origin(key), std::to_string(left) + " layers do not divide over the " +
                                          std::to_string(middle) + " other pipeline ranks");
      return;
    }
    const auto each = static_cast<int>(middle == 0 ? 0 : left / middle);
    draft.layers_per_stage.assign(static_cast<std::size_t>(pp), each);
    if (first) {
      draft.layers_per_stage.front() = static_cast<int>(*first);
    }
    if (last) {
      draft.layers_per_stage.back() = static_cast<int>(*last);
    }
  }
}

void read_optimizer(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  const auto name = reader.word(keys("--optimizer"));
  if (name == "sgd" || name == "muon") {
    draft.say("optimizer", *name, {reader.origin(keys("--optimizer"))});
  } else if (name && *name != "adam" && *name != "adamw") {
    draft.not_read(reader.origin(keys("--optimizer")), *name);
  }
  const auto moment = reader.word(keys("--exp-avg-dtype"));
  const auto square = reader.word(keys("--exp-avg-sq-dtype"));
  if (moment == "bf16" && square == "bf16") {
    draft.say("optimizer", "adam-bf16", {reader.origin(keys("--exp-avg-dtype"))});
  }
  reader.pass(keys("--use-precision-aware-optimizer"));
  if (reader.on(keys("--optimizer-cpu-offload"))) {
    draft.say("offload", "optimizer", {reader.origin(keys("--optimizer-cpu-offload"))});
  }
  if (const auto layers = reader.count(keys("--cpu-offloading-num-layers")); layers && *layers > 0) {
    draft.say("offload", "activations", {reader.origin(keys("--cpu-offloading-num-layers"))});
    reader.pass(keys("--cpu-offloading"));
  }
}

void read_experts(SettingReader& reader, const Keys& keys) {
  JobDraft& draft = reader.draft();
  const auto type = reader.word(keys("--moe-token-dispatcher-type"));
  const auto backend = reader.word(keys("--moe-flex-dispatcher-backend"));
  if (type == "flex" || reader.on(keys("--moe-enable-deepep"))) {
    draft.say("dispatcher", backend == "hybridep" ? "hybridep" : "deepep",
              {reader.origin(keys(type ? "--moe-token-dispatcher-type" : "--moe-enable-deepep"))});
  } else if (type && *type != "alltoall") {
    draft.not_read(reader.origin(keys("--moe-token-dispatcher-type")), *type);
  }
  if (const auto factor = reader.word(keys("--moe-expert-capacity-factor"))) {
    draft.say("expert-capacity", *factor, {reader.origin(keys("--moe-expert-capacity-factor"))});
  }
  reader.pass(keys("--moe-grouped-gemm"));
  reader.pass(keys("--moe-permute-fusion"));
}

}  // namespace

MegatronKeys::MegatronKeys(SettingReader& reader) : reader_(reader) {
  for (const ConfigEntry& entry : reader.file().entries) {
    const std::string flag = flag_of(entry.key);
    const auto [begin, end] = keys_.equal_range(flag);
    const bool known = std::any_of(begin, end, [&entry](const auto& row) { return row.second == entry.key; });
    // A key set to nothing gives way to another one for the same flag.
    if (!flag.empty() && !known) {
      keys_.emplace(flag, entry.key);
    }
  }
}

std::string_view MegatronKeys::operator()(std::string_view flag) const {
  const auto [begin, end] = keys_.equal_range(flag);
  std::string_view chosen;
  for (auto row = begin; row != end; ++row) {
    reader_.pass(row->second);
    const auto& entries = reader_.file().entries;
    const bool set = std::any_of(entries.begin(), entries.end(), [&](const ConfigEntry& entry) {
      return entry.key == row->second && (row->second.rfind("--", 0) == 0 || !is_off(entry.value)) &&
             !is_open(entry.value);
    });
    if (chosen.empty() || set) {
      chosen = row->second;
    }
  }
  return chosen;
}

void read_megatron_job(SettingReader& reader) {
  JobDraft& draft = reader.draft();
  const MegatronKeys keys(reader);
  for (const FrameworkKey& row : framework_keys()) {
    if (row.target != Target::megatron || !keys.has(row.key)) {
      continue;
    }
    FrameworkKey here = row;
    here.key = keys(row.key);
    if (row.fact == JobFact::zero && !reader.on(here.key)) {
      continue;
    }
    reader.take(here);
  }
  if (const auto vpp = draft.number(JobFact::vpp); vpp && *vpp <= 1) {
    draft.forget(JobFact::vpp);
  }
  read_stages(reader, keys);
  read_sharding(reader, keys);
  read_precision(reader, keys);
  read_recompute(reader, keys);
  draft.forget(JobFact::recompute_layers);
  const bool deepspeed = reader.on("--deepspeed") || reader.has("--deepspeed-config");
  if (!deepspeed) {  // whose file says it
    read_overlaps(reader, keys);
  }
  read_optimizer(reader, keys);
  read_experts(reader, keys);
  if (reader.on(keys("--use-tp-pp-dp-mapping"))) {
    draft.say("ranks-order", "tp-cp-pp-dp", {reader.origin(keys("--use-tp-pp-dp-mapping"))});
  }
  for (const std::string_view flag : {"--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32"}) {
    if (reader.on(keys(flag))) {
      draft.say("gradient-dtype", flag == "--grad-reduce-in-bf16" ? "bf16" : "fp32", {reader.origin(keys(flag))});
    }
  }
  if (const auto wide = reader.flag(keys("--grad-reduce-in-fp32"))) {
    draft.say("gradient-dtype", *wide ? "fp32" : "bf16", {reader.origin(keys("--grad-reduce-in-fp32"))});
  }
  // Kernels that the planner takes for granted.
  for (const std::string_view flag :
       {"--use-flash-attn", "--attention-backend", "--transformer-impl", "--cross-entropy-loss-fusion",
        "--use-mcore-models", "--apply-rope-fusion", "--masked-softmax-fusion", "--bias-dropout-add-fusion",
        "--bias-activation-fusion", "--gradient-accumulation-fusion", "--overlap-p2p-comm",
        "--overlap-p2p-communication", "--moe-router-dtype"}) {
    reader.pass(keys(flag));
  }
  read_megatron_model(reader, keys);
  // Megatron-DeepSpeed takes the ZeRO stage as a flag beside the file.
  if (deepspeed) {
    draft.framework = Framework::megatron_deepspeed;
    draft.program = "Megatron-DeepSpeed";
    reader.pass("--deepspeed-config");
    reader.pass("--deepspeed-activation-checkpointing");
    if (const auto stage = reader.count("--zero-stage")) {
      draft.say(JobFact::zero, *stage, reader.origin("--zero-stage"));
    }
    reader.pass("--no-pipeline-parallel");
    if (reader.on("--cpu-optimizer")) {
      draft.say("offload", "optimizer", {reader.origin("--cpu-optimizer")});
    }
  }
}

}  // namespace tpplan
