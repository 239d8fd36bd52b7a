#include "planner/import/imported_job.h"

#include <algorithm>
#include <array>

#include "cost-model/units.h"
#include "planner/import/job_readers.h"
#include "planner/rules.h"

namespace tpplan {
namespace {

using Number = std::optional<std::int64_t>;

struct FactRow {
  JobFact fact;
  std::string_view key, what;
};
constexpr std::array<FactRow, 11> kRows{{{JobFact::tp, "tp", "tensor parallel"},
                                         {JobFact::pp, "pp", "pipeline stages"},
                                         {JobFact::vpp, "vpp", "virtual stages per rank"},
                                         {JobFact::vpp_group, "vpp_group", "micro-batches in a group"},
                                         {JobFact::cp, "cp", "context parallel"},
                                         {JobFact::ep, "ep", "expert parallel"},
                                         {JobFact::etp, "etp", "tensor parallel in experts"},
                                         {JobFact::zero, "zero", "ZeRO stage"},
                                         {JobFact::shard_group, "shard_group", "GPUs that share states"},
                                         {JobFact::micro_batch, "micro_batch", "micro-batch"},
                                         {JobFact::micro_batches, "micro_batches", "micro-batches per step"}}};

struct WordRow {
  std::string_view option, what;
  bool of_layout;
};
constexpr std::array<WordRow, 11> kWords{{{"recompute", "recomputation", true},
                                          {"schedule", "schedule", true},
                                          {"cp-type", "context-parallel exchange", true},
                                          {"ranks-order", "order of ranks", true},
                                          {"optimizer", "optimizer", true},
                                          {"offload", "offload", true},
                                          {"precision", "precision", false},
                                          {"gradient-dtype", "gradients", false},
                                          {"overlap", "overlap", false},
                                          {"dispatcher", "dispatcher", false},
                                          {"expert-capacity", "expert capacity", false}}};

/// Works out sizes one after the other; each step may rely on those before it.
class Finisher {
 public:
  Finisher(JobDraft& draft, const ImportHelp& help) : draft_(draft), help_(help) {}

  ImportedJob finish() {
    job_.program = draft_.program;
    job_.framework = draft_.framework.value_or(Framework::megatron);
    for (const JobFact fact : {JobFact::tp, JobFact::pp, JobFact::cp}) {
      if (draft_.number(fact) == 0) {
        draft_.forget(fact);
      }
    }
    take_world();
    take_virtual_stages();
    take_batches();
    draft_.throw_errors();
    fill_layout();
    fill_rows();
    if (!draft_.number(JobFact::seq)) {
      assume("sequence length", "not in the files: the model file's, or --seq");
    }
    const bool of_script = job_.framework == Framework::deepspeed || job_.framework == Framework::fsdp;
    if (of_script && draft_.word("recompute").empty()) {
      assume("recomputation", "none: the training script may ask for it");
    }
    if (job_.framework == Framework::deepspeed && !draft_.number(JobFact::pp)) {
      assume("pipeline stages", "1: the training script may have PipelineModule");
    }
    if (draft_.word("precision").empty()) {
      assume("precision", "not in the files: bf16 where the GPU has it, or --precision");
    }
    job_.assumed.insert(job_.assumed.end(), draft_.assumed.begin(), draft_.assumed.end());
    job_.open = draft_.open;
    job_.unread = draft_.unread;
    job_.remarks = draft_.remarks;
    job_.passed_over = draft_.passed_over;
    job_.model_name = draft_.model_name;
    return std::move(job_);
  }

 private:
  [[nodiscard]] std::int64_t product() const {
    return draft_.number_or(JobFact::tp, 1) * draft_.number_or(JobFact::pp, 1) * draft_.number_or(JobFact::cp, 1);
  }
  [[nodiscard]] std::string product_text() const {
    return "tp " + std::to_string(draft_.number_or(JobFact::tp, 1)) + " x pp " +
           std::to_string(draft_.number_or(JobFact::pp, 1)) + " x cp " +
           std::to_string(draft_.number_or(JobFact::cp, 1));
  }
  void assume(std::string what, std::string value) { job_.assumed.emplace_back(std::move(what), std::move(value)); }

  /// The first place of the facts that has one.
  [[nodiscard]] Origin place_of_one(std::initializer_list<JobFact> facts) const {
    for (const JobFact fact : facts) {
      const std::vector<Origin> from = draft_.origins(fact);
      if (!from.empty()) {
        return from.front();
      }
    }
    return {};
  }
  void error(std::initializer_list<JobFact> facts, const std::string& message, const std::string& hint) {
    const Origin origin = place_of_one(facts);
    if (origin.file == nullptr) {
      throw SpecError(message + (hint.empty() ? "" : "; " + hint));
    }
    draft_.error(origin, message, hint);
  }

  /// Data-parallel ranks that the files themselves tell.
  [[nodiscard]] Number told_dp() const {
    if (const Number dp = draft_.number(JobFact::dp)) {
      return dp;
    }
    const Number shards = draft_.number(JobFact::dp_shards);
    const bool both = job_.framework == Framework::torchtitan || job_.framework == Framework::fsdp;
    if (shards && *shards > 0 && both) {
      return *shards * draft_.number_or(JobFact::dp_replicas, 1);
    }
    const Number batch = draft_.number(JobFact::global_batch);
    const Number micro = draft_.number(JobFact::micro_batch);
    const Number runs = draft_.number(JobFact::micro_batches);
    if (job_.framework == Framework::deepspeed && batch && micro && runs && *micro * *runs > 0 &&
        *batch % (*micro * *runs) == 0) {
      return *batch / (*micro * *runs);
    }
    return std::nullopt;
  }

  void take_world() {
    const Number told = told_dp();
    Number world = draft_.number(JobFact::world);
    std::vector<Origin> from = draft_.origins(JobFact::world);
    if (help_.world) {
      if (world && world != help_.world) {
        draft_.remark("the files start " + with_separators(*world) + " GPUs (" +
                      (from.empty() ? "" : place_of(from.front())) + "), --cluster has " +
                      with_separators(*help_.world) + ": planned for those");
      }
      if (world != help_.world) {
        from.clear();
      }
      world = help_.world;
    }
    job_.gpus_per_node = help_.world ? help_.gpus_per_node : draft_.gpus_per_node;
    if (told && !world) {
      world = *told * product();
      from = draft_.origins(draft_.number(JobFact::dp) ? JobFact::dp : JobFact::dp_shards);
    }
    if (!world) {
      return;
    }
    if (*world % product() != 0) {
      error({JobFact::pp, JobFact::tp, JobFact::cp},
            with_separators(*world) + " GPUs are no multiple of " + product_text() + " = " + std::to_string(product()),
            "--cluster NODESxGPUSxGPU says how many GPUs the job has");
      return;
    }
    const std::int64_t ranks = told.value_or(*world / product());
    if (ranks * product() != *world) {
      error({JobFact::dp, JobFact::dp_shards, JobFact::tp},
            "dp " + std::to_string(ranks) + " x " + product_text() + " is " + with_separators(ranks * product()) +
                " GPUs, not " + with_separators(*world),
            "");
      return;
    }
    job_.world = *world;
    draft_.say_derived(JobFact::world, *world, from);
    draft_.say_derived(JobFact::dp, *world / product(), draft_.origins(JobFact::dp));
    if (job_.gpus_per_node && *job_.gpus_per_node > 0 && *world % *job_.gpus_per_node == 0) {
      job_.nodes = *world / *job_.gpus_per_node;
    }
  }

  void take_virtual_stages() {
    const std::int64_t pp = draft_.number_or(JobFact::pp, 1);
    const Number layers = help_.layers ? help_.layers : draft_.number(JobFact::layers);
    const std::string schedule = draft_.word("schedule");
    if (pp > 1 && draft_.several_stages_per_rank && schedule == "interleaved") {
      if (draft_.layers_in_stage > 0 && layers) {
        const std::int64_t all = *layers + draft_.counted_ends;
        const std::int64_t stages = (all + draft_.layers_in_stage - 1) / draft_.layers_in_stage;
        if (stages % pp != 0) {
          throw SpecError(std::to_string(*layers) + " layers in stages of " + std::to_string(draft_.layers_in_stage) +
                          " make " + std::to_string(stages) + " stages, no multiple of " + std::to_string(pp) +
                          " pipeline ranks");
        }
        draft_.say_derived(JobFact::vpp, stages / pp, {});
      } else {
        draft_.say_derived(JobFact::vpp, 2, {});
        assume("virtual stages per rank", draft_.layers_in_stage > 0
                                              ? "2: the number of layers is not in the files (--model)"
                                              : "2, TorchTitan's habit");
      }
    }
    if (pp > 1 && schedule == "zb-v") {
      draft_.say_derived(JobFact::vpp, 2, {});
    }
    if (draft_.recompute_every > 1) {
      const std::int64_t chunks = pp * draft_.number_or(JobFact::vpp, 1);
      if (layers) {
        const std::int64_t every = draft_.recompute_every;
        const std::int64_t recomputed = std::max<std::int64_t>(1, (*layers / chunks + every - 1) / every);
        draft_.say("recompute", "full:" + std::to_string(recomputed), draft_.words().find("recompute")->second.from);
      } else {
        draft_.say("recompute", "full", draft_.words().find("recompute")->second.from);
        assume("recomputation", "of every layer: one of " + std::to_string(draft_.recompute_every) +
                                    " is asked for, of how many layers the files do not say (--model)");
      }
    }
  }

  void take_batches() {
    if (help_.seq) {
      draft_.say_derived(JobFact::seq, *help_.seq, {});
    }
    if (help_.global_batch) {
      draft_.say_derived(JobFact::global_batch, *help_.global_batch, {});
    }
    const std::int64_t dp = job_.world > 0 ? draft_.number_or(JobFact::dp, 0) : 0;  // 0: not known, as below
    std::int64_t batch = draft_.number_or(JobFact::global_batch, 0);
    std::int64_t micro = draft_.number_or(JobFact::micro_batch, 0);
    const std::int64_t runs = draft_.number_or(JobFact::micro_batches, 0);
    if (micro == 0 && batch > 0 && runs > 0 && dp > 0 && batch % (runs * dp) == 0) {
      micro = batch / (runs * dp);
      draft_.say_derived(JobFact::micro_batch, micro, {});
    }
    if (micro == 0) {
      micro = 1;
      draft_.say_derived(JobFact::micro_batch, 1, {});
      assume("micro-batch", "1 sequence: not in the files");
    }
    if (batch == 0 && dp > 0) {
      batch = micro * std::max<std::int64_t>(1, runs) * dp;
      draft_.say_derived(JobFact::global_batch, batch, {});
      if (runs == 0) {
        assume("global batch", std::to_string(batch) + " sequences: one micro-batch per data-parallel rank");
      }
    }
    if (batch == 0 || dp == 0) {
      return;
    }
    const std::int64_t unit = micro * dp;
    if (runs > 0 && unit * runs != batch && !help_.global_batch) {
      error({JobFact::global_batch, JobFact::micro_batches, JobFact::micro_batch},
            "a global batch of " + std::to_string(batch) + " is not micro-batch " + std::to_string(micro) + " x " +
                std::to_string(runs) + " micro-batches x dp " + std::to_string(dp) + " = " +
                std::to_string(unit * runs),
            "dp is " + with_separators(job_.world) + " GPUs / (" + product_text() + ")");
      return;
    }
    if (batch % unit != 0) {
      error({JobFact::global_batch, JobFact::micro_batch},
            "a global batch of " + std::to_string(batch) + " is no multiple of micro-batch " + std::to_string(micro) +
                " x dp " + std::to_string(dp),
            "nearest: " + (batch > unit ? std::to_string(batch / unit * unit) + " or " : std::string()) +
                std::to_string((batch / unit + 1) * unit));
      return;
    }
    draft_.say_derived(JobFact::micro_batches, batch / unit, draft_.origins(JobFact::micro_batches));
  }

  void take_shard_group(std::int64_t dp, std::int64_t cp) {
    Number group = draft_.number(JobFact::shard_group);
    std::vector<Origin> from = draft_.origins(JobFact::shard_group);
    const std::int64_t replicas = draft_.number_or(JobFact::dp_replicas, 1);
    if (!group && replicas > 1) {
      group = draft_.number_or(JobFact::dp_shards, dp / replicas) * cp;
      from = draft_.origins(JobFact::dp_replicas);
    }
    if (!group && draft_.shards_of_node) {
      constexpr std::int64_t kUsualNode = 8;
      group = job_.gpus_per_node.value_or(kUsualNode);
      if (!job_.gpus_per_node) {
        assume("GPUs that share states", "8, those of a node");
      }
    }
    if (group && *group > 0 && *group < dp * cp && draft_.number_or(JobFact::zero, 0) > 0) {
      job_.layout.shard_group = static_cast<std::int32_t>(*group);
      draft_.say_derived(JobFact::shard_group, *group, from);
    } else {
      draft_.forget(JobFact::shard_group);
    }
  }

  [[nodiscard]] std::int32_t axis(JobFact fact) const {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(draft_.number_or(fact, 1), 1, 1 << 24));
  }

  void fill_layout() {
    Layout& layout = job_.layout;
    layout.tp = axis(JobFact::tp);
    layout.pp = axis(JobFact::pp);
    layout.cp = axis(JobFact::cp);
    layout.ep = axis(JobFact::ep);
    layout.vpp = layout.pp > 1 ? axis(JobFact::vpp) : 1;
    layout.micro_batch = axis(JobFact::micro_batch);
    layout.dp = job_.world > 0 ? axis(JobFact::dp) : 1;
    layout.zero = static_cast<std::uint8_t>(std::clamp<std::int64_t>(draft_.number_or(JobFact::zero, 0), 0, 3));
    layout.sequence_parallel = layout.tp > 1 && draft_.number_or(JobFact::sequence_parallel, 0) != 0;
    if (layout.vpp > 1) {
      layout.vpp_group = static_cast<std::int32_t>(draft_.number_or(JobFact::vpp_group, 0));
    } else {
      draft_.forget(JobFact::vpp_group);
    }
    // Experts are cut as the rest where the framework does not say otherwise.
    const bool experts = layout.ep > 1 || draft_.number_or(JobFact::experts, 0) > 0;
    const bool cut =
        job_.framework == Framework::megatron || job_.framework == Framework::megatron_deepspeed || layout.ep == 1;
    layout.etp = !experts ? 1 : draft_.number(JobFact::etp) ? axis(JobFact::etp) : cut ? layout.tp : 1;
    take_shard_group(layout.dp, layout.cp);
    const auto word = [this](std::string_view option) { return draft_.word(option); };
    set_recompute(layout, word("recompute").empty() ? "none" : word("recompute"));
    layout.schedule = layout.vpp > 1 ? Schedule::interleaved : Schedule::f1b1;
    if (layout.pp > 1) {
      layout.schedule = value_in(kScheduleNames, word("schedule")).value_or(layout.schedule);
    }
    layout.cp_type = habits_of(job_.framework).cp_types.front();
    layout.cp_type = value_in(kCpTypeNames, word("cp-type")).value_or(layout.cp_type);
    layout.optimizer = value_in(kOptimizerNames, word("optimizer")).value_or(Optimizer::adam);
    layout.offload = value_in(kOffloadNames, word("offload")).value_or(Offload::none);
    layout.ranks_order = value_in(kRanksOrderNames, word("ranks-order")).value_or(layout.ranks_order);
    job_.layers_per_stage = layout.pp > 1 ? draft_.layers_per_stage : std::vector<int>{};
    job_.layout_text = layout_text(experts);
    fill_options();
  }

  [[nodiscard]] std::string layout_text(bool experts) const {
    std::string text = to_text(job_.layout);
    if (job_.world == 0) {
      const std::size_t at = text.find(" dp=");
      text.erase(at, text.find(' ', at + 1) - at);
    }
    if (experts && job_.layout.ep == 1 && job_.layout.etp == 1 && job_.layout.tp > 1) {
      text += " etp=1";
    }
    for (std::size_t i = 0; i < job_.layers_per_stage.size(); ++i) {
      text += (i == 0 ? " layers-per-stage=" : "+") + std::to_string(job_.layers_per_stage[i]);
    }
    return text;
  }

  void fill_options() {
    const auto add = [this](std::string name, std::string value) {
      job_.options.emplace_back(std::move(name), std::move(value));
    };
    if (const Number seq = draft_.number(JobFact::seq)) {
      add("seq", std::to_string(*seq));
    }
    if (const Number batch = draft_.number(JobFact::global_batch)) {
      add("global-batch", std::to_string(*batch));
    }
    add("framework", std::string(name_of(job_.framework)));
    for (const WordRow& row : kWords) {
      const std::string word = draft_.word(row.option);
      if (row.of_layout || word.empty()) {
        continue;
      }
      const std::size_t colon = word.find(':');
      add(std::string(row.option), word.substr(0, colon));
      if (colon != std::string::npos) {
        add("fp8-recipe", word.substr(colon + 1));
      }
    }
  }

  void add_row(std::string_view key, std::string_view what, std::string value, const std::vector<Origin>& from) {
    ImportedRow row{std::string(key), std::string(what), std::move(value), {}};
    for (const Origin& origin : from) {
      if (origin.file != nullptr) {
        row.from.push_back(place_of(origin));
      }
    }
    job_.rows.push_back(std::move(row));
  }

  void fill_rows() {
    if (job_.world > 0) {
      const std::string nodes = job_.nodes && *job_.nodes > 0 ? " (" + with_separators(*job_.nodes) + " x " +
                                                                    std::to_string(*job_.gpus_per_node) + ")"
                                                              : "";
      add_row("world", "GPUs", with_separators(job_.world) + nodes, draft_.origins(JobFact::world));
      add_row("dp", "data parallel", std::to_string(job_.layout.dp), draft_.origins(JobFact::dp));
    }
    for (const FactRow& row : kRows) {
      if (const Number number = draft_.number(row.fact)) {
        add_row(row.key, row.what, std::to_string(*number), draft_.origins(row.fact));
      }
    }
    if (job_.layout.tp > 1) {
      add_row("sequence_parallel", "sequence parallel", job_.layout.sequence_parallel ? "on" : "off",
              draft_.origins(JobFact::sequence_parallel));
    }
    if (const Number seq = draft_.number(JobFact::seq)) {
      add_row("seq", "sequence", with_separators(*seq) + " tokens", draft_.origins(JobFact::seq));
    }
    if (const Number batch = draft_.number(JobFact::global_batch)) {
      add_row("global_batch", "global batch", with_separators(*batch) + " sequences",
              draft_.origins(JobFact::global_batch));
    }
    for (const WordRow& row : kWords) {
      const auto found = draft_.words().find(row.option);
      const bool idle = (row.option == "schedule" && job_.layout.pp == 1) ||
                        (row.option == "cp-type" && job_.layout.cp == 1) ||
                        (row.option == "recompute" && found != draft_.words().end() && found->second.value == "none");
      if (found != draft_.words().end() && !idle) {
        add_row(row.option, row.what, found->second.value, found->second.from);
      }
    }
  }

  JobDraft& draft_;
  const ImportHelp& help_;
  ImportedJob job_;
};

/// What a script without settings of its own says about where they are.
std::string named_files(const ConfigFile& file) {
  constexpr std::array<std::string_view, 4> kKeys{"--deepspeed", "--deepspeed-config", "launcher --config-file",
                                                  "--config-file"};
  for (const ConfigEntry& entry : file.entries) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) != kKeys.end() && !entry.value.empty()) {
      return "; it hands " + entry.value + " on: give that file too";
    }
  }
  return ", and no configuration file beside it; files of one job may be given together, and --kind says what they "
         "are";
}

}  // namespace

ImportedJob finish_job(JobDraft& draft, const ImportHelp& help) { return Finisher(draft, help).finish(); }

ImportedJob import_job(std::vector<ConfigFile>& files, std::optional<Target> kind, const ImportHelp& help) {
  JobDraft draft(files);
  const JobKind* leading = nullptr;
  std::vector<const JobKind*> kinds;
  for (const ConfigFile& file : files) {
    const bool fits = kind && (file.format == ConfigFormat::shell || files.size() == 1);
    kinds.push_back(fits ? &kind_row(*kind) : kind_of(file));
    if (kinds.back() == nullptr && file.format != ConfigFormat::shell) {
      throw SpecError(file.name + ": no configuration of a training job that is known; --kind says which it is");
    }
    // The first in the table leads: a script beside a JSON file, a YAML file before what it points to.
    if (kinds.back() != nullptr && (leading == nullptr || kinds.back() < leading)) {
      leading = kinds.back();
    }
  }
  if (leading == nullptr) {
    throw SpecError(files.front().name + ": no flags of a training program that is known" + named_files(files.front()));
  }
  draft.program = leading->program;
  draft.framework = leading->framework;
  for (std::size_t i = 0; i < files.size(); ++i) {
    SettingReader reader(files[i], draft);
    if (files[i].format == ConfigFormat::shell || kinds[i] == &kind_row(Target::megatron_bridge)) {
      read_launcher(reader);
    }
    if (kinds[i] != nullptr) {
      kinds[i]->read(reader);
    } else {
      read_trainer_flags(reader);
    }
    reader.close();
    for (const std::string& remark : files[i].remarks) {
      draft.remark(files[i].name + ": " + remark);
    }
  }
  if (draft.framework == Framework::megatron && kinds.size() > 1 &&
      std::find(kinds.begin(), kinds.end(), &kind_row(Target::deepspeed)) != kinds.end()) {
    draft.framework = Framework::megatron_deepspeed;
    draft.program = "Megatron-DeepSpeed";
  }
  draft.throw_errors();
  if (!draft.says_something()) {
    throw SpecError(files.front().name + ": nothing in it says how " + draft.program + " runs a job" +
                    (kind ? "; is it of another --kind?" : ""));
  }
  ImportedJob job = finish_job(draft, help);
  if (draft.describes_model) {
    std::string name = files.front().name;
    name = name.substr(name.rfind('/') + 1);
    job.model_text = model_file_of(draft, name.substr(0, name.rfind('.')), "read from " + name);
  }
  return job;
}

}  // namespace tpplan
