// What export writes, import reads back: hundreds of random legal layouts per target come back as they were.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "planner/export/export_target.h"
#include "planner/import/imported_job.h"
#include "planner/inputs.h"

using namespace tpplan;

namespace {

constexpr int kWanted = 120;       // layouts per target
constexpr int kTries = 2'000'000;  // random ones, most of which break a rule

template <class Value>
Value any_of(std::mt19937& random, const std::vector<Value>& values) {
  return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
}

Layout random_layout(std::mt19937& random, const Job& job) {
  Layout layout;
  layout.tp = any_of<int>(random, {1, 1, 2, 4, 8});
  layout.pp = any_of<int>(random, {1, 1, 2, 4, 8});
  layout.cp = any_of<int>(random, {1, 1, 1, 2, 4});
  const int product = layout.tp * layout.pp * layout.cp;
  layout.dp = std::max(1, job.cluster.gpus() / product);
  if (job.moe()) {
    layout.ep = any_of<int>(random, {1, 2, 4, 8});
    layout.etp = any_of<int>(random, {1, layout.tp});
  }
  layout.vpp = layout.pp > 1 ? any_of<int>(random, {1, 1, 2, 4}) : 1;
  layout.vpp_group = layout.vpp > 1 ? any_of<int>(random, {0, 0, 2 * layout.pp}) : 0;
  layout.micro_batch = any_of<int>(random, {1, 2, 4});
  layout.zero = static_cast<std::uint8_t>(any_of<int>(random, {0, 1, 2, 3}));
  layout.shard_group = layout.zero > 0 ? any_of<int>(random, {0, 0, 8, 16}) : 0;
  layout.sequence_parallel = layout.tp > 1 && any_of<int>(random, {0, 1}) == 1;
  set_recompute(layout, any_of<std::string>(random, {"none", "selective", "selective:core_attn+norm", "selective:op",
                                                     "full", "full:2"}));
  layout.schedule = any_of<Schedule>(random, {Schedule::f1b1, layout.vpp > 1 ? Schedule::interleaved : Schedule::f1b1,
                                              Schedule::gpipe, Schedule::zb_v});
  layout.cp_type = any_of<CpType>(random, {CpType::ring, CpType::all_gather, CpType::ulysses});
  layout.optimizer =
      any_of<Optimizer>(random, {Optimizer::adam, Optimizer::adam, Optimizer::sgd, Optimizer::adam_bf16});
  layout.offload = any_of<Offload>(random, {Offload::none, Offload::none, Offload::optimizer, Offload::activations});
  layout.ranks_order = layout.pp > 1 ? any_of<RanksOrder>(random, {RanksOrder::tp_cp_dp_pp, RanksOrder::tp_cp_pp_dp})
                                     : RanksOrder::tp_cp_dp_pp;
  return layout;
}

/// Parts of a layout that a target's file does not hold (its script does) take their usual values.
void leave_to_script(Target target, bool moe, Layout& layout) {
  if (target == Target::deepspeed) {
    layout.pp = 1;
    layout.vpp = 1;
    layout.schedule = Schedule::f1b1;
    layout.dp = 64 / (layout.tp * layout.cp);
    layout.ranks_order = RanksOrder::tp_cp_dp_pp;
    set_recompute(layout, "none");
  }
  if (target == Target::accelerate) {
    layout.micro_batch = 1;
    if (layout.zero == 0) {
      set_recompute(layout, "none");
    }
  }
  if (target == Target::torchtitan_toml) {
    layout.zero = layout.dp * layout.cp == 1 ? 0 : layout.zero;   // nothing to share
    layout.etp = moe && layout.ep == 1 ? layout.tp : layout.etp;  // experts are cut as the rest
  }
  if (target != Target::megatron) {
    layout.optimizer = Optimizer::adam;
  }
  if (layout.cp == 1) {
    layout.cp_type = CpType::ring;
  }
  if (layout.shard_group >= layout.dp * layout.cp) {
    layout.shard_group = 0;  // all ranks share
  }
}

Job job_for(const ExportTarget& target, const std::string& model) {
  PlannerOptions options = parse_options({"explain", "--model", model, "--cluster", "8x8xh100-80gb-sxm", "--seq",
                                          "2048", "--global-batch", "512", "--layout", "tp=1"});
  options.framework = target.framework;
  return job_from(options);
}

/// The first difference between a layout and what its exported file says; empty when there is none.
std::string lost(const ExportTarget& target, const Job& job, const Layout& layout) {
  ExportRequest request{.job = job, .plan = {}};
  request.plan.layout = layout;
  request.file = "plan" + std::string(target.suffix);
  request.stage_layers = export_stage_layers(job, layout);
  const std::string text = export_files(target, request).main;
  std::vector<ConfigFile> files{parse_config(request.file, text)};
  const ImportHelp help{64, 8, job.model.layers, {}, {}};
  const ImportedJob read = import_job(files, std::nullopt, help);
  Layout back = parse_layout(read.layout_text, 64, usual_layout(job));
  back.cp_type = layout.cp == 1 ? layout.cp_type : back.cp_type;
  return back == layout && read.framework == target.framework
             ? ""
             : to_text(layout) + " came back as " + read.layout_text + "\n" + text;
}

int round_trips(Target target, const std::string& model) {
  const ExportTarget& row = row_of(target);
  const Job job = job_for(row, model);
  std::mt19937 random(static_cast<unsigned>(target) + 1);
  int done = 0;
  for (int i = 0; i < kTries && done < kWanted; ++i) {
    Layout layout = random_layout(random, job);
    leave_to_script(target, job.moe(), layout);
    if (first_broken_rule(job, layout) >= 0 || !export_refusals(target, row.expresses, job, layout).empty()) {
      continue;
    }
    const std::string difference = lost(row, job, layout);
    CHECK_MESSAGE(difference.empty(), difference);
    if (!difference.empty()) {
      break;
    }
    ++done;
  }
  return done;
}

}  // namespace

TEST_CASE("layouts of a dense model come back from every file that export writes and import reads") {
  for (const Target target :
       {Target::megatron, Target::deepspeed, Target::torchtitan_toml, Target::accelerate, Target::nanotron}) {
    CAPTURE(name_in(kTargetNames, target));
    CHECK(round_trips(target, "7b") == kWanted);
  }
}

TEST_CASE("layouts come back from the overrides of Megatron-Bridge") {
  CHECK(round_trips(Target::megatron_bridge, "llama3-8b") == kWanted);
}

TEST_CASE("layouts of an MPT model come back from llm-foundry's file") {
  CHECK(round_trips(Target::llm_foundry, "mpt-7b") > 20);
}

TEST_CASE("layouts of a mixture of experts come back from Megatron's flags with experts cut and whole") {
  CHECK(round_trips(Target::megatron, "mixtral-8x7b") == kWanted);
  CHECK(round_trips(Target::torchtitan_toml, "mixtral-8x7b") > 20);
}

TEST_CASE("a model comes back from Megatron's flags with the same number of parameters") {
  for (const std::string name :
       {"7b", "llama3-70b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3", "gpt3-175b", "qwen2.5-7b", "qwen3-30b-a3b"}) {
    CAPTURE(name);
    const ExportTarget& row = row_of(Target::megatron);
    const Job job = job_for(row, name);
    ExportRequest request{.job = job, .plan = {}};
    request.plan.layout.dp = 64;
    request.plan.layout.etp = 1;
    request.stage_layers = export_stage_layers(job, request.plan.layout);
    std::vector<ConfigFile> files{parse_config("plan.sh", export_files(row, request).main)};
    const ImportedJob read = import_job(files, std::nullopt, {});
    REQUIRE(!read.model_text.empty());
    const ModelSpec model = parse_model("model", read.model_text);
    CHECK(parameter_counts(model).total == parameter_counts(job.model).total);
    CHECK(parameter_counts(model).active == parameter_counts(job.model).active);
    CHECK(model.mtp_layers == job.model.mtp_layers);
  }
}
