// What `tpplan export` refuses, what it only tells, and the tables behind both.
#include "planner/export/export_rules.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/export/export_target.h"
#include "tests/planner/exported.h"

using namespace tpplan;

TEST_CASE("what a target cannot run is refused with its nearest legal value and nothing is written") {
  struct Row {
    std::string target, model, cluster, layout, refusal, legal;
    std::vector<std::string> more = {};
  };
  const std::vector<Row> rows{
      {"megatron", "7b", "8xH100", "pp=4 schedule=zb-h1", "value-known: megatron has no schedule zb-h1",
       "pp=4 schedule=1f1b"},
      {"megatron", "7b", "8xH100", "tp=2 optimizer=lion", "optimizer-known: optimizer lion",
       "tp=2 optimizer=adam-bf16"},
      {"megatron", "7b", "8xH100", "tp=2 zero=0 optimizer=adam-bf16",
       "optimizer-known: optimizer adam-bf16 with zero 0", "tp=2 zero=1 optimizer=adam-bf16"},
      {"megatron", "7b", "8xH100", "tp=2 zero=1 optimizer=sgd offload=optimizer",
       "optimizer-known: optimizer sgd with offload optimizer", "tp=2 zero=1 optimizer=adam offload=optimizer"},
      {"deepspeed",
       "7b",
       "8xH100",
       "pp=2 zero=2",
       "zero-without-pipeline: zero 2 with pp 2",
       "pp=2 zero=1",
       {"--framework", "plain"}},
      {"deepspeed", "7b", "2x8xh100-80gb-sxm", "zero=1 shard-group=8",
       "shard-group-needs-zero-3: shard-group 8 with zero 1", "zero=3 shard-group=8"},
      {"deepspeed", "7b", "8xH100", "pp=2 zero=3", "sharding-without-pipeline: zero 3 with pp 2", "pp=2 zero=1"},
      {"nanotron", "llama3-8b", "2x8xh100-80gb-sxm", "tp=16", "kv-heads-divide-tp: 8 key/value heads % tp 16", "tp=8"},
      {"nanotron", "7b", "8xH100", "tp=2 zero=2", "zero-offered: nanotron has no ZeRO-2", "tp=2 zero=1"},
      {"torchtitan", "7b", "8xH100", "pp=2 vpp=4 schedule=zb-v zero=2", "schedule-suits-chunks: zb-v with vpp 4",
       "pp=2 vpp=2 schedule=zb-v zero=2"},
      {"torchtitan", "7b", "8xH100", "pp=4 vpp=5 zero=2", "stages-by-layers: pp 4 x vpp 5 = 20 stages",
       "pp=4 vpp=4 zero=2"},
      {"torchtitan",
       "7b",
       "8xH100",
       "tp=4 cp=2 zero=3",
       "tokens-divide: 1,032 tokens of a micro-batch % 16 slices",
       "tp=2 cp=2 zero=3",
       {"--seq", "1032"}},
      {"torchtitan", "7b", "8xH100", "zero=3 recompute=selective", "recompute-kind: torchtitan has no recompute",
       "zero=3 recompute=selective:op"},
      {"torchtitan", "7b", "2x8xh100-80gb-sxm", "cp=2 zero=0", "cp-shards-states: zero 0 with cp 2", "cp=2 zero=3"},
      {"torchtitan", "mixtral-8x7b", "4x8xh100-80gb-sxm", "tp=4 ep=2 etp=1 zero=3", "ep-spans-tp: ep 2 < tp 4",
       "tp=4 ep=4 etp=1 zero=3"},
      {"torchtitan-toml", "mixtral-8x7b", "4x8xh100-80gb-sxm", "tp=2 etp=1 zero=3",
       "ep-borrows-ranks: ep 1 with etp 1 and tp 2", "tp=2 etp=2 zero=3"},
      {"torchtitan-toml", "7b", "8xH100", "tp=2 sequence-parallel=off zero=3",
       "sequence-parallelism: torchtitan-toml has no tp without", "tp=2 zero=3"},
      {"torchtitan-toml", "7b", "8xH100", "pp=2 zero=2 schedule=dualpipe",
       "value-known: torchtitan-toml has no schedule dualpipe", "pp=2 zero=2 schedule=1f1b"},
      {"accelerate", "7b", "8xH100", "pp=2 zero=3", "no-pipeline: accelerate has no pp 2; nearest: pp 1", "zero=3"},
      {"accelerate", "7b", "8xH100", "zero=1", "zero-stage: accelerate has no zero 1; nearest: zero 0 or 2", "zero=2"},
      {"accelerate", "7b", "8xH100", "zero=3 recompute=selective:op", "recompute-kind", "zero=3 recompute=full"},
      {"nanotron",
       "llama3-8b",
       "2x8xh100-80gb-sxm",
       "tp=16",
       "kv-heads-whole: 8 key/value heads % tp 16 = 8",
       "tp=8",
       {"--framework", "plain"}},
      {"nanotron", "mixtral-8x7b", "8x8xh100-80gb-sxm", "tp=2", "no-experts: nanotron has no Mixtral 8x7B", ""},
      {"nanotron", "mpt-7b", "8xH100", "tp=2", "llama-shape: MPT 7B has", ""},
      {"llm-foundry", "7b", "8xH100", "tp=2 zero=3", "no-tensor-parallelism: llm-foundry has no tp 2", "zero=3"},
      {"llm-foundry", "7b", "2x8xh100-80gb-sxm", "zero=2 shard-group=8", "shard-group-zero-3", "zero=3 shard-group=8"},
      {"colossalai", "7b", "8xH100", "pp=2 zero=2", "zero-without-pipeline", "pp=2 zero=1"},
      {"colossalai", "7b", "8xH100", "zero=3", "zero-stage: colossalai has no zero 3", "zero=2"},
      {"colossalai", "7b", "8xH100", "tp=2 cp=2 cp-type=ring", "one-sequence-mode",
       "tp=2 cp=2 cp-type=ring sequence-parallel=off"},
      {"colossalai", "7b", "8xH100", "pp=4 vpp=2 schedule=zb-v", "zbv-graph", "pp=4 vpp=2 schedule=interleaved"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.target);
    CAPTURE(row.layout);
    const auto refused = exported(row.target, row.model, row.cluster, row.layout, row.more);
    CHECK(refused.code == 1);
    CHECK(refused.out.empty());
    CHECK_MESSAGE(has(refused.err, "tpplan: " + row.refusal), refused.err);
    CHECK(has(refused.err, "nothing was written"));
    if (!row.legal.empty()) {
      const auto legal = exported(row.target, row.model, row.cluster, row.legal, row.more);
      CHECK_MESSAGE(!legal.out.empty(), legal.err);
    }
  }
}

TEST_CASE("a layout that breaks a rule of the framework is refused as explain refuses it") {
  const Scratch scratch;
  const auto outcome = exported("megatron", "7b", "8xA100", "tp=3", {"-o", scratch.file("run.sh")});
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "heads-divide-tp: 32 heads % tp 3 = 2"));
  CHECK_FALSE(std::filesystem::exists(scratch.file("run.sh")));
}

TEST_CASE("what only the script can do is told in the head") {
  const auto outcome = exported("accelerate", "7b", "8xH100", "zero=3", {"--peft", "lora:rank=8"});
  CHECK(outcome.code == 0);
  CHECK(has(outcome.out, "# not expressible here: --peft lora"));
  const auto megatron = exported("megatron", "7b", "8xH100", "tp=2", {"--overlap", "dp-grad=off,tp=on"});
  CHECK_FALSE(has(megatron.out, "not expressible here"));
  CHECK_FALSE(has(megatron.out, "--overlap-grad-reduce"));
  CHECK(missing_line(megatron.out, {"--tp-comm-overlap"}) == "");
  const auto deepspeed = exported("deepspeed", "7b", "8xH100", "zero=2", {"--overlap", "dp-grad=off"});
  CHECK(nlohmann::json::parse(deepspeed.out)["zero_optimization"]["overlap_comm"] == false);
  const auto fp8 = exported("torchtitan", "7b", "8xH100", "zero=3", {"--precision", "fp8"});
  CHECK(has(fp8.out, "# not expressible here: precision fp8"));
  CHECK(has(fp8.out, "mixed_precision_param = \"bfloat16\""));
}

TEST_CASE("a layout that does not fit is written with a warning and ends with 1") {
  const auto outcome = exported("megatron", "70b", "8xA100", "tp=8 micro-batch=1");
  CHECK(outcome.code == 1);
  CHECK(has(outcome.out, "# warning: this layout does not fit"));
  CHECK(has(outcome.err, "does not fit"));
}

TEST_CASE("a wrong target is met with the right one") {
  const auto problem = [](const std::vector<std::string>& words) -> std::string {
    try {
      parse_options(words);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const std::string unknown =
      problem({"export", "--to", "help", "--model", "7b", "--cluster", "8xA100", "--layout", "tp=2"});
  CHECK(has(unknown, "expected megatron, megatron-bridge, deepspeed, torchtitan,"));
  CHECK_FALSE(has(unknown, "--to is missing"));
  CHECK(has(problem({"export", "--to", "megatorn", "--model", "7b", "--cluster", "8xA100", "--layout", "tp=2"}),
            "did you mean \"megatron\"?"));
  CHECK(has(problem({"export", "--model", "7b", "--cluster", "8xA100", "--layout", "tp=2"}), "--to is missing"));
}

TEST_CASE("the table of keys agrees with itself") {
  for (const FrameworkKey& key : framework_keys()) {
    CAPTURE(key.key);
    CHECK(key_named(key.target, key.key) == &key);
    if (key.unit == KeyUnit::word) {
      bool known = false;
      for (const FrameworkWord& word : framework_words()) {
        known = known || (word.target == key.target && word.fact == key.fact);
      }
      CHECK(known);
    }
  }
  for (std::size_t i = 0; i < kTargetNames.size(); ++i) {
    CHECK(export_targets()[i].target == kTargetNames[i].value);
  }
  CHECK(our_word(Target::nanotron, JobFact::schedule, "afab") == "gpipe");
  CHECK_FALSE(their_word(Target::nanotron, JobFact::schedule, "interleaved").has_value());
}
