#include "planner/rules.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/planner/jobs.h"

namespace tpplan {
namespace {

using tests::bare_job;
using tests::gpt3_175b;
using tests::llama_7b;
using tests::mixtral_8x7b;

ModelSpec shape(int layers, int heads, int kv_heads, int ffn) {
  ModelSpec model = llama_7b();
  model.name = "shape";
  model.layers = layers;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.ffn_hidden = ffn;
  return model;
}

Layout layout_of(const Job& job, std::string_view text) {
  return parse_layout(text, job.cluster.gpus(), usual_layout(job));
}

std::string first_rule(const Job& job, std::string_view text) {
  const int broken = first_broken_rule(job, layout_of(job, text));
  return broken < 0 ? "" : std::string(rules()[static_cast<std::size_t>(broken)].name);
}

std::string first_arithmetic(const Job& job, std::string_view text) {
  const Layout layout = layout_of(job, text);
  const int broken = first_broken_rule(job, layout);
  return broken < 0 ? "" : rules()[static_cast<std::size_t>(broken)].arithmetic(job, layout);
}

Job job_with(Job job, void (*change)(Job&)) {
  change(job);
  return job;
}

struct BrokenRow {
  const char* rule;
  Job job;
  const char* layout;
  const char* arithmetic;
};

void qlora(Job& job) { job.training.peft = PeftMethod::qlora; }

/// One layout per rule that breaks this rule first, with the numbers worked out by hand.
std::vector<BrokenRow> broken_rows() {
  const Job gpt_96 = bare_job(gpt3_175b(), 96);
  const Job gpt_512 = bare_job(gpt3_175b(), 512);
  const Job moe_64 = bare_job(mixtral_8x7b(), 64);
  return {
      {"heads-divide-tp", bare_job(shape(32, 20, 20, 13824), 64), "tp=8", "20 heads % tp 8 = 4; nearest: tp 4"},
      {"kv-heads-divide-tp", bare_job(shape(32, 40, 10, 13824), 64), "tp=4",
       "10 key/value heads % tp 4 = 2 and tp 4 % 10 = 4; nearest: tp 2"},
      {"kv-heads-divide-tp", bare_job(shape(32, 64, 8, 28672), 64, Framework::nanotron), "tp=16",
       "8 key/value heads % tp 16 = 8, and nanotron does not replicate them; nearest: tp 8"},
      {"ffn-divides-tp", bare_job(shape(32, 32, 32, 13652), 64), "tp=8", "FFN width 13,652 % tp 8 = 4; nearest: tp 4"},
      {"experts-need-moe", gpt_512, "tp=8 ep=4", "gpt3-175b is dense: ep 4, etp 1; nearest: ep 1, etp 1"},
      {"experts-divide-ep", moe_64, "ep=16 etp=1", "8 experts % ep 16 = 8; nearest: ep 8"},
      {"expert-ffn-divides-etp", moe_64, "etp=3", "expert width 14,336 % etp 3 = 2; nearest: etp 2 or 4"},
      {"etp-one-or-tp", bare_job(mixtral_8x7b(), 64, Framework::torchtitan), "tp=4 etp=2",
       "etp 2 is neither 1 nor tp 4; nearest: etp 1 or 4"},
      {"sequence-divides-cp", job_with(gpt_512, [](Job& job) { job.training.seq = 2052; }), "cp=4 tp=1",
       "2,052 tokens % (2 x cp 4) = 4; nearest: cp 2"},
      {"cp-type-offered", bare_job(gpt3_175b(), 64, Framework::deepspeed), "cp=2 cp-type=ring",
       "deepspeed has no ring; nearest: cp-type ulysses, or cp 1"},
      {"ulysses-heads-divide-cp", gpt_512, "tp=8 cp=8 cp-type=ulysses", "96 heads % (tp 8 x cp 8) = 32; nearest: cp 4"},
      {"sequence-parallel-needs-tp", gpt_512, "sequence-parallel=on",
       "sequence-parallel on with tp 1; nearest: tp 2, or sequence-parallel off"},
      {"tp-overlap-needs-sequence-parallel", job_with(gpt_512, [](Job& job) { job.training.overlap_tp = Switch::on; }),
       "tp=4 sequence-parallel=off",
       "overlap tp with tp 4 and sequence-parallel off; nearest: sequence-parallel on, or overlap tp=off"},
      {"moe-needs-sequence-parallel", moe_64, "tp=2 sequence-parallel=off",
       "mixtral-8x7b has experts, tp 2 and sequence-parallel off; nearest: sequence-parallel on, or tp 1"},
      {"sequence-divides-tp", job_with(gpt_512, [](Job& job) { job.training.seq = 2052; }), "tp=8",
       "2,052 tokens / cp 1 = 2,052, % tp 8 = 4; nearest: tp 4, or sequence-parallel off"},
      {"recompute-modules", gpt_512, "recompute=selective:core_attn+moe_act",
       "gpt3-175b has no moe_act; nearest: selective:core_attn+mlp+norm"},
      {"recompute-modules", gpt_512, "recompute=selective:op",
       "selective:op is not in megatron; nearest: selective, or selective:core_attn+mlp+norm"},
      {"world-divides", gpt_96, "tp=8 pp=5",
       "96 % (8 x 5) = 16: 5 pipeline stages do not divide 96 GPUs / tp 8; nearest: pp 4 or 6"},
      {"expert-grid-divides-world", bare_job(mixtral_8x7b(), 12), "tp=1 pp=3 ep=8",
       "12 GPUs % (etp 1 x ep 8 x pp 3) = 12; nearest: ep 4"},
      {"expert-grid-divides-world", bare_job(mixtral_8x7b(), 12), "etp=7",
       "12 GPUs % (etp 7 x ep 1 x pp 1) = 5; nearest: etp 4"},
      {"expert-grid-divides-world", bare_job(mixtral_8x7b(), 8, Framework::nanotron), "tp=2 ep=8 etp=1",
       "(dp 4 x cp 1) % ep 8 = 4; nearest: ep 4"},
      {"batch-divides", job_with(gpt_512, [](Job& job) { job.training.global_batch = 1000; }),
       "tp=8 pp=8 micro-batch=6",
       "global batch 1,000 % (micro-batch 6 x dp 8) = 40; nearest: global batch 960 or 1,008, micro-batch 5"},
      {"chunks-need-pipeline", gpt_512, "tp=8 vpp=2", "vpp 2 with pp 1 < 2; nearest: pp 2, or vpp 1"},
      {"chunks-need-pipeline", job_with(gpt_512, [](Job& job) { job.training.overlap_pp = Switch::off; }),
       "tp=8 pp=2 vpp=2", "vpp 2 with pp 2 < 3; nearest: pp 4, or vpp 1"},
      {"layers-fill-stages", bare_job(shape(6, 32, 32, 11008), 64), "pp=16",
       "6 layers + 2 < pp 16 x vpp 1 = 16; nearest: pp 8"},
      {"layers-per-stage-match",
       job_with(gpt_512,
                [](Job& job) {
                  job.training.layers_per_stage = {40, 40, 16};
                }),
       "tp=8 pp=4", "3 stages with 96 layers are given, the layout has pp 4 and the model 96 layers; nearest: pp 3"},
      {"recompute-fits-stage", gpt_512, "tp=8 pp=8 recompute=full:13",
       "full:13 with 96 layers / (pp 8 x vpp 1), at most 12 in a stage; nearest: full:12 or full"},
      {"schedule-offered", bare_job(gpt3_175b(), 512, Framework::nanotron), "tp=8 pp=8 schedule=zb-h1",
       "nanotron has no zb-h1; nearest: schedule 1f1b or gpipe"},
      {"schedule-needs-pipeline", gpt_512, "tp=8 schedule=gpipe", "gpipe with pp 1; nearest: pp 2, or schedule 1f1b"},
      {"schedule-suits-chunks", gpt_512, "tp=8 pp=8 schedule=interleaved",
       "interleaved with vpp 1; nearest: vpp 2, or schedule 1f1b"},
      {"schedule-suits-chunks", gpt_512, "tp=8 pp=8 vpp=3 schedule=zb-v", "zb-v with vpp 3; nearest: vpp 2"},
      {"vpp-group-offered", gpt_512, "tp=8 pp=8 vpp-group=8",
       "vpp-group 8 with schedule 1f1b in megatron; nearest: no vpp-group, or schedule interleaved with vpp 2"},
      {"vpp-group-offered", bare_job(gpt3_175b(), 64, Framework::torchtitan), "tp=8 pp=8 vpp=2 vpp-group=16",
       "vpp-group 16 with schedule interleaved in torchtitan; nearest: no vpp-group"},
      // 1,536 / (dp 1 x 64) = 24 micro-batches: groups of 8 to 24, of which 9 to 11, 13 to 15 and 17 to 23 leave less
      // than 8 but 12 nothing and 16 eight.
      {"vpp-group-range", bare_job(gpt3_175b(), 64), "tp=8 pp=8 vpp=2 micro-batch=64 vpp-group=4",
       "vpp-group 4 with pp 8 and 1,536 / (dp 1 x micro-batch 64) = 24 micro-batches; nearest: vpp-group 8"},
      {"vpp-group-range", bare_job(gpt3_175b(), 64), "tp=8 pp=8 vpp=2 micro-batch=64 vpp-group=32",
       "vpp-group 32 with pp 8 and 1,536 / (dp 1 x micro-batch 64) = 24 micro-batches; nearest: vpp-group 24"},
      {"vpp-group-range", bare_job(gpt3_175b(), 64), "tp=8 pp=8 vpp=2 micro-batch=256 vpp-group=8",
       "vpp-group 8 with pp 8 and 1,536 / (dp 1 x micro-batch 256) = 6 micro-batches; nearest: vpp 1"},
      {"vpp-group-remainder", bare_job(gpt3_175b(), 64), "tp=8 pp=8 vpp=2 micro-batch=64 vpp-group=20",
       "1,536 / (dp 1 x micro-batch 64) = 24 micro-batches, % vpp-group 20 = 4 < pp 8; nearest: vpp-group 16 or 24"},
      // 1,536 / (dp 1 x 128) = 12 micro-batches on 8 stages.
      {"interleaved-micro-batches", bare_job(gpt3_175b(), 64), "tp=8 pp=8 vpp=2 micro-batch=128",
       "1,536 / (dp 1 x micro-batch 128) = 12 micro-batches, % pp 8 = 4; nearest: micro-batch 96 or 192, "
       "global batch 1,024 or 2,048, or vpp 1"},
      {"micro-batches-fill-pipeline", bare_job(gpt3_175b(), 64, Framework::torchtitan), "tp=8 pp=8 micro-batch=256",
       "1,536 / (dp 1 x micro-batch 256) = 6 micro-batches < pp 8; nearest: micro-batch 192, global batch 2,048"},
      {"dualpipe-even", bare_job(gpt3_175b(), 64), "tp=8 pp=8 schedule=dualpipe micro-batch=128",
       "1,536 / (dp 1 x micro-batch 128) = 12 micro-batches, pp 8, 2 pp = 16; nearest: micro-batch 96, global batch "
       "2,048"},
      {"packed-weights-offered", job_with(bare_job(tests::llama_7b(), 8), qlora), "tp=1",
       "megatron has no 4-bit weights; nearest: --framework fsdp, or --peft lora"},
      {"packed-weights-whole", job_with(bare_job(tests::llama_7b(), 8, Framework::fsdp), qlora), "tp=2",
       "qlora with tp 2; nearest: tp 1, or zero 3"},
      {"zero-offered", bare_job(gpt3_175b(), 512, Framework::nanotron), "tp=8 zero=3",
       "nanotron has no ZeRO-3; nearest: zero 0 or 1"},
      {"sharding-without-pipeline", gpt_512, "tp=8 pp=2 zero=3", "zero 3 with pp 2; nearest: pp 1, or zero 1"},
      {"shard-group-divides", gpt_512, "tp=8 pp=8 shard-group=3",
       "(dp 8 x cp 1) % shard-group 3 = 2; nearest: shard-group 2 or 4"},
      // dp 64, 32 groups of 2; each expert has 64 / 8 = 8 replicas, which 32 groups cannot share.
      {"shard-group-divides", moe_64, "ep=8 etp=1 shard-group=2",
       "8 replicas of each expert % 32 shard groups = 8; nearest: shard-group 8"},
      {"shard-group-needs-zero", gpt_512, "tp=8 zero=0 shard-group=8",
       "shard-group 8 with zero 0; nearest: zero 1, or no shard-group"},
      {"reduction-offered", gpt_512, "tp=8 zero=1 grad-reduce=each",
       "grad-reduce each with zero 1 in megatron; nearest: grad-reduce last"},
      {"reduction-offered", bare_job(gpt3_175b(), 512, Framework::deepspeed), "tp=8 zero=2 grad-reduce=last",
       "grad-reduce last with zero 2 in deepspeed; nearest: grad-reduce each, or zero 1"},
      {"offload-needs-zero", gpt_512, "tp=8 zero=0 offload=optimizer",
       "offload optimizer with zero 0; nearest: zero 1"},
      {"activation-offload-alone", gpt_512, "tp=8 pp=2 offload=activations recompute=full",
       "offload activations with pp 2 and recompute full; nearest: pp 1 with recompute none"},
      {"muon-needs-whole-matrices", gpt_512, "tp=8 zero=1 optimizer=muon",
       "optimizer muon with zero 1; nearest: zero 0"},
  };
}

TEST_CASE("every rule names the numbers it fails on and the nearest legal values") {
  for (const BrokenRow& row : broken_rows()) {
    CAPTURE(std::string(row.rule));
    CAPTURE(std::string(row.layout));
    CHECK(first_rule(row.job, row.layout) == row.rule);
    CHECK(first_arithmetic(row.job, row.layout) == row.arithmetic);
  }
}

TEST_CASE("every rule has an example") {
  std::set<std::string_view> shown;
  for (const BrokenRow& row : broken_rows()) {
    shown.insert(row.rule);
  }
  for (const Rule& rule : rules()) {
    if (rule.name != "axes-positive") {
      CAPTURE(std::string(rule.name));
      CHECK(shown.count(rule.name) == 1);
    }
  }
}

TEST_CASE("rules come in ascending depth and under names of their own") {
  std::set<std::string_view> names;
  RuleDepth depth = RuleDepth::layer;
  for (const Rule& rule : rules()) {
    CHECK(names.insert(rule.name).second);
    CHECK(rule.depth >= depth);
    depth = rule.depth;
    CHECK_FALSE(rule.statement.empty());
  }
}

TEST_CASE("a size below one is refused before anything is divided by it") {
  const Job job = bare_job(gpt3_175b(), 512);
  Layout layout;
  layout.tp = 0;
  CHECK(rules()[static_cast<std::size_t>(first_broken_rule(job, layout))].name == "axes-positive");
  CHECK(broken_rules(job, layout).size() == 1);
}

TEST_CASE("a dp that does not fill the world breaks the rule on the world") {
  const Job job = bare_job(gpt3_175b(), 64);
  Layout layout = layout_of(job, "tp=8");
  layout.dp = 4;
  const int broken = first_broken_rule(job, layout);
  REQUIRE(broken >= 0);
  CHECK(rules()[static_cast<std::size_t>(broken)].name == "world-divides");
  CHECK(rules()[static_cast<std::size_t>(broken)].arithmetic(job, layout) ==
        "32 ranks (tp 8 x pp 1 x cp 1 x dp 4) on 64 GPUs; nearest: dp 8");
}

struct LegalRow {
  const char* source;
  Job job;
  const char* layout;
};

/// Shapes of published runs that a strict reading of the rules would refuse.
std::vector<LegalRow> legal_rows() {
  const auto job = [](ModelSpec model, int gpus, int batch, Framework framework = Framework::megatron) {
    Job result = bare_job(std::move(model), gpus, framework);
    result.training.global_batch = batch;
    result.training.seq = 4096;
    return result;
  };
  ModelSpec deepseek = mixtral_8x7b();
  deepseek.layers = 61;
  deepseek.heads = 128;
  deepseek.kv_heads = 128;
  deepseek.ffn_hidden = 18432;
  deepseek.latent = LatentAttention{1536, 512, 128, 64, 128};
  deepseek.moe->experts = 256;
  deepseek.moe->expert_ffn = 2048;
  deepseek.moe->shared_ffn = 2048;
  ModelSpec qwen = mixtral_8x7b();
  qwen.layers = 94;
  qwen.heads = 64;
  qwen.kv_heads = 4;
  qwen.moe->experts = 128;
  qwen.moe->expert_ffn = 1536;
  return {
      {"Llama 3 405B: 126 layers, embedding and loss as a layer each (arXiv 2407.21783)",
       job(shape(126, 128, 8, 53248), 1024, 1536), "tp=8 pp=8 cp=2 vpp=8"},
      {"Megatron-Core MoE: 61 layers on 16 x 2 stages", job(deepseek, 1024, 8192), "pp=16 vpp=2 ep=64 etp=1"},
      {"Megatron-Core MoE: 94 layers on 32 x 3 = 96 stages, ends without a layer", job(qwen, 256, 2048),
       "tp=2 pp=32 vpp=3 ep=8 etp=1"},
      {"Megatron-Core MoE: experts beyond dp x cp, 4 key/value heads on tp 8", job(qwen, 64, 64),
       "tp=8 pp=2 ep=32 etp=1"},
      {"Megatron-FSDP with experts", job(qwen, 256, 2048), "tp=2 ep=8 etp=1 zero=3"},
      {"NeMo AutoModel: FSDP2 under an interleaved pipeline", job(deepseek, 1024, 8192, Framework::fsdp),
       "pp=4 vpp=8 ep=64 zero=3"},
      {"TorchTitan: FSDP under a pipeline", job(shape(126, 128, 8, 53248), 512, 512, Framework::torchtitan),
       "tp=8 pp=8 zero=3 recompute=selective:op"},
      {"nanotron: 28 layers on 32 stages", job(shape(28, 32, 32, 8192), 128, 256, Framework::nanotron),
       "tp=4 pp=32 zero=0"},
      {"Zero Bubble: more stages than micro-batches", job(shape(30, 32, 32, 8192), 16, 12),
       "pp=16 schedule=zb-2p zero=0"},
  };
}

TEST_CASE("layouts of published runs are legal in their framework") {
  for (const LegalRow& row : legal_rows()) {
    CAPTURE(std::string(row.source));
    CHECK(first_rule(row.job, row.layout) == "");
  }
}

TEST_CASE("what one framework forbids another may offer") {
  const char* sharded_pipeline = "tp=8 pp=8 zero=3";
  for (const Framework framework : {Framework::megatron, Framework::megatron_deepspeed, Framework::deepspeed}) {
    CHECK(first_rule(bare_job(gpt3_175b(), 512, framework), sharded_pipeline) == "sharding-without-pipeline");
  }
  CHECK(first_rule(bare_job(gpt3_175b(), 512, Framework::torchtitan), sharded_pipeline) == "");
  const Job torch = bare_job(gpt3_175b(), 64, Framework::torchtitan);
  // 12 micro-batches on 8 stages: torch makes one round of 12, Megatron wants a multiple of 8.
  CHECK(first_rule(torch, "tp=8 pp=8 vpp=2 micro-batch=128") == "");
}

TEST_CASE("a layout that breaks several rules shows them all") {
  const Job job = bare_job(gpt3_175b(), 96);
  std::set<std::string_view> names;
  for (const int broken : broken_rules(job, layout_of(job, "tp=7 pp=5 schedule=zb-v zero=1"))) {
    names.insert(rules()[static_cast<std::size_t>(broken)].name);
  }
  CHECK(names.count("heads-divide-tp") == 1);
  CHECK(names.count("world-divides") == 1);
  CHECK(names.count("schedule-suits-chunks") == 1);
}

TEST_CASE("the usual layout follows the framework") {
  CHECK(usual_layout(bare_job(gpt3_175b(), 8)).zero == 1);
  CHECK(usual_layout(bare_job(gpt3_175b(), 8, Framework::fsdp)).zero == 3);
  CHECK(usual_layout(bare_job(gpt3_175b(), 8, Framework::deepspeed)).cp_type == CpType::ulysses);
  CHECK(usual_layout(bare_job(gpt3_175b(), 8)).etp == 1);
  CHECK(layout_of(bare_job(mixtral_8x7b(), 8), "tp=4").etp == 4);
  for (const auto& row : kFrameworkTable) {
    CHECK(habits_of(row.framework).framework == row.framework);
  }
}

}  // namespace
}  // namespace tpplan
