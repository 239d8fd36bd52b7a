// The rules of frameworks against what was really trained, and against a list of what cannot be.
#include <doctest/doctest.h>

#include "planner/import/run_records.h"
#include "planner/rules.h"
#include "planner/spec_files.h"
#include "planner/validate.h"
#include "tests/planner/jobs.h"

namespace tpplan {
namespace {

const std::string kRoot = TPPLAN_SOURCE_DIR;

std::string rule_names(const Job& job, const Layout& layout) {
  std::string names;
  for (const int broken : broken_rules(job, layout)) {
    names += (names.empty() ? "" : ", ") + std::string(rules()[static_cast<std::size_t>(broken)].name);
  }
  return names;
}

TEST_CASE("every layout of the measured runs is legal in its framework") {
  const GpuCatalogue catalogue = shipped_gpus();
  const ProfileSet profiles = ProfileSet::load(kRoot + "/clusters/profiles");
  for (const char* name :
       {"megatron-bridge-dense", "megatron-bridge-moe", "nemo-archive", "mcore-moe", "torchtitan", "internevo"}) {
    CAPTURE(std::string(name));
    std::string warnings;
    const auto records = read_runs(kRoot + "/tests/data/runs/" + name + ".jsonl", catalogue, warnings);
    CHECK(records.size() > 10);
    for (const RunPrediction& run : prepare(records, profiles)) {
      CHECK_MESSAGE(run.skipped == "", run.record->id);
      CHECK_MESSAGE(rule_names(run.job, run.record->layout) == "",
                    run.record->id << ": " << to_text(run.record->layout));
    }
  }
}

/// What Megatron's arguments refuse, and the nearest layout that they take. Jobs: GPT-3 175B (96 heads and layers,
/// 2,048 tokens, 1,536 sequences) or Mixtral 8x7B (8 experts, 32 layers, 8 key/value heads).
struct Refusal {
  const char* what;
  bool moe;
  int gpus;
  const char* illegal;
  const char* rule;
  const char* legal;
};

TEST_CASE("what Megatron cannot run is refused by the rule that says so and its neighbour is not") {
  constexpr std::array<Refusal, 31> kRefusals{{
      {"W % (TP PP CP) = 0", false, 96, "tp=8 pp=5", "world-divides", "tp=8 pp=6"},
      {"W % (ETP EP PP) = 0", true, 12, "pp=3 ep=8", "expert-grid-divides-world", "pp=3 ep=4"},
      {"EP spans DP x CP, and TP when ETP < TP", true, 16, "tp=2 ep=16 etp=1", "experts-divide-ep", "tp=2 ep=8 etp=1"},
      {"experts % EP = 0", true, 64, "ep=16 etp=1", "experts-divide-ep", "ep=8 etp=1"},
      {"a % TP = 0", false, 512, "tp=64", "heads-divide-tp", "tp=32"},
      {"kv % TP = 0 or TP % kv = 0", true, 64, "tp=32 etp=1", "", "tp=16 etp=1"},
      {"s % (2 CP) = 0", false, 8192, "cp=2048", "sequence-divides-cp", "cp=1024"},
      {"tokens of a rank divide by TP again", false, 8192, "tp=32 cp=128", "sequence-divides-tp", "tp=32 cp=64"},
      {"TP = 1 forces sequence parallelism off", false, 64, "sequence-parallel=on", "sequence-parallel-needs-tp",
       "tp=2"},
      {"MoE with TP > 1 requires it", true, 64, "tp=2 sequence-parallel=off", "moe-needs-sequence-parallel",
       "tp=2 sequence-parallel=on"},
      {"GBS % (MBS DP) = 0", false, 512, "tp=8 pp=8 micro-batch=5", "batch-divides", "tp=8 pp=8 micro-batch=6"},
      {"virtual stages need PP > 1", false, 512, "tp=8 vpp=2", "chunks-need-pipeline", "tp=8 pp=2 vpp=2"},
      {"interleaved: M >= PP", false, 512, "tp=8 pp=8 vpp=2 micro-batch=32", "interleaved-micro-batches",
       "tp=8 pp=8 vpp=2 micro-batch=24"},
      {"interleaved: M % PP = 0", false, 512, "tp=8 pp=8 vpp=2 micro-batch=16", "interleaved-micro-batches",
       "tp=8 pp=8 vpp=2 micro-batch=12"},
      {"N >= PP", false, 512, "tp=8 pp=8 vpp=2 micro-batch=8 group=4", "vpp-group-range",
       "tp=8 pp=8 vpp=2 micro-batch=8 group=8"},
      {"N <= M", false, 512, "tp=8 pp=8 vpp=2 micro-batch=8 group=25", "vpp-group-range",
       "tp=8 pp=8 vpp=2 micro-batch=8 group=24"},
      {"M no multiple of PP but of N", false, 512, "tp=8 pp=8 vpp=2 micro-batch=16", "interleaved-micro-batches",
       "tp=8 pp=8 vpp=2 micro-batch=16 group=12"},
      {"0 < M % N < PP", false, 512, "tp=8 pp=8 vpp=2 micro-batch=8 group=22", "vpp-group-remainder",
       "tp=8 pp=8 vpp=2 micro-batch=8 group=12"},
      {"no groups without interleaving", false, 512, "tp=8 pp=8 micro-batch=8 group=8", "vpp-group-offered",
       "tp=8 pp=8 micro-batch=8"},
      {"plain 1F1B: any M", false, 512, "tp=8 pp=8 micro-batch=48", "", "tp=8 pp=8 micro-batch=16"},
      {"96 layers and both ends on PP VPP stages", false, 128, "pp=64 vpp=2", "layers-fill-stages", "pp=32 vpp=3"},
      {"full recomputation of at most a stage's layers", false, 512, "tp=8 pp=8 recompute=full:13",
       "recompute-fits-stage", "tp=8 pp=8 recompute=full:12"},
      {"selective recomputation of modules there are", false, 512, "recompute=selective:moe", "recompute-modules",
       "recompute=selective:mlp"},
      {"DP % distributed-optimizer instances = 0", false, 512, "tp=8 pp=8 shard-group=3", "shard-group-divides",
       "tp=8 pp=8 shard-group=4"},
      {"EDP % instances = 0", true, 64, "ep=8 etp=1 shard-group=4", "shard-group-divides", "ep=8 etp=1 shard-group=8"},
      {"FSDP without a pipeline", false, 512, "tp=8 pp=2 zero=3", "sharding-without-pipeline", "tp=8 zero=3"},
      {"gradients of the distributed optimizer reduced on the last", false, 512, "tp=8 zero=1 grad-reduce=each",
       "reduction-offered", "tp=8 zero=1 grad-reduce=last"},
      {"gradients of data parallelism reduced on the last", false, 512, "tp=8 zero=0 grad-reduce=each",
       "reduction-offered", "tp=8 zero=0 grad-reduce=last"},
      {"sharded gradients reduced on each", false, 512, "tp=8 zero=2 grad-reduce=last", "reduction-offered",
       "tp=8 zero=2 grad-reduce=each"},
      {"Ulysses: (a / TP) % CP = 0", false, 512, "tp=8 cp=8 cp-type=ulysses", "ulysses-heads-divide-cp",
       "tp=8 cp=4 cp-type=ulysses"},
      {"no experts in a dense model", false, 512, "ep=4", "experts-need-moe", "ep=1"},
  }};
  for (const Refusal& row : kRefusals) {
    const Job job = tests::bare_job(row.moe ? tests::mixtral_8x7b() : tests::gpt3_175b(), row.gpus);
    const auto first = [&](const char* text) {
      const int broken = first_broken_rule(job, parse_layout(text, row.gpus, usual_layout(job)));
      return broken < 0 ? std::string() : std::string(rules()[static_cast<std::size_t>(broken)].name);
    };
    CAPTURE(std::string(row.what));
    CHECK(first(row.illegal) == row.rule);
    CHECK(first(row.legal) == "");
  }
}

TEST_CASE("who reduces gradients when is the framework's choice but PyTorch leaves it open") {
  struct Choice {
    Framework framework;
    const char* layout;
    bool legal;
  };
  constexpr std::array<Choice, 13> kChoices{{{Framework::fsdp, "zero=3 grad-reduce=last", true},
                                             {Framework::fsdp, "zero=3 grad-reduce=each", true},
                                             {Framework::fsdp, "zero=2 grad-reduce=last", true},
                                             {Framework::fsdp, "zero=0 grad-reduce=each", true},
                                             {Framework::torchtitan, "zero=3 grad-reduce=last", true},
                                             {Framework::deepspeed, "zero=1 grad-reduce=last", true},
                                             {Framework::deepspeed, "zero=1 grad-reduce=each", false},
                                             {Framework::deepspeed, "zero=2 grad-reduce=last", false},
                                             {Framework::deepspeed, "zero=3 grad-reduce=last", false},
                                             {Framework::megatron_deepspeed, "zero=2 grad-reduce=each", true},
                                             {Framework::nanotron, "zero=1 grad-reduce=each", false},
                                             {Framework::internevo, "zero=1 grad-reduce=each", false},
                                             {Framework::internevo, "zero=1 grad-reduce=last", true}}};
  for (const Choice& row : kChoices) {
    const Job job = tests::bare_job(tests::gpt3_175b(), 8, row.framework);
    CAPTURE(std::string(name_of(row.framework)));
    CAPTURE(std::string(row.layout));
    CHECK((rule_names(job, parse_layout(row.layout, 8, usual_layout(job))) == "") == row.legal);
  }
}

}  // namespace
}  // namespace tpplan
