// Files of training jobs read back to layouts. The files are written for these tests in the syntax of each framework;
// the expected sizes are worked out beside them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "planner/commands/import.h"
#include "planner/import/imported_job.h"
#include "planner/import/job_readers.h"

using namespace tpplan;

namespace {

ImportedJob job_of(const std::string& name, const std::string& text, const ImportHelp& help = {}) {
  std::vector<ConfigFile> files{parse_config(name, text)};
  return import_job(files, std::nullopt, help);
}

std::string refusal(const std::string& name, const std::string& text, const ImportHelp& help = {}) {
  try {
    job_of(name, text, help);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

std::string option(const ImportedJob& job, const std::string& name) {
  const auto found =
      std::find_if(job.options.begin(), job.options.end(), [&name](const auto& entry) { return entry.first == name; });
  return found == job.options.end() ? "-" : found->second;
}

bool lists(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&part](const std::string& text) { return text.find(part) != std::string::npos; });
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kMegatron =
    "torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py --num-layers 48 --hidden-size 4096 "
    "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
    "--global-batch-size 256 --bf16 ";

}  // namespace

TEST_CASE("Megatron flags give a layout with virtual stages from layers per stage") {
  // 64 GPUs / (4 x 4 x 2) = dp 2; 48 layers / 4 ranks / 3 layers = 4 virtual stages; 256 / (2 x 1) = 128 micro-batches.
  const ImportedJob job =
      job_of("run.sh", std::string(kMegatron) +
                           "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --context-parallel-size 2 "
                           "--num-layers-per-virtual-pipeline-stage 3 --use-distributed-optimizer --sequence-parallel "
                           "--recompute-granularity full --recompute-method block --recompute-num-layers 2 "
                           "--cp-comm-type a2a --use-tp-pp-dp-mapping --overlap-grad-reduce\n");
  CHECK(job.layout_text ==
        "tp=4 pp=4 dp=2 cp=2 vpp=4 micro-batch=1 zero=1 recompute=full:2 cp-type=ulysses ranks-order=tp-cp-pp-dp");
  CHECK(job.world == 64);
  CHECK(job.framework == Framework::megatron);
  CHECK(option(job, "seq") == "4096");
  CHECK(option(job, "global-batch") == "256");
  CHECK(option(job, "precision") == "bf16");
  CHECK(option(job, "overlap") == "dp-grad=on,dp-param=off,tp=off");
}

TEST_CASE("sequence parallelism is off where nothing is cut and gradients follow their flag") {
  const ImportedJob job = job_of("run.sh", std::string(kMegatron) +
                                               "--tensor-model-parallel-size 1 --sequence-parallel "
                                               "--grad-reduce-in-bf16 --fp8-format hybrid --fp8-recipe blockwise\n");
  CHECK(!job.layout.sequence_parallel);
  CHECK(job.layout.dp == 64);
  CHECK(job.layout.zero == 0);
  CHECK(option(job, "gradient-dtype") == "bf16");
  CHECK(option(job, "precision") == "fp8");
  CHECK(option(job, "fp8-recipe") == "blockwise");
}

TEST_CASE("experts of Megatron are cut like the rest unless a flag says otherwise") {
  const std::string moe =
      std::string(kMegatron) + "--tensor-model-parallel-size 2 --num-experts 8 --expert-model-parallel-size 4 ";
  CHECK(job_of("run.sh", moe).layout.etp == 2);
  CHECK(job_of("run.sh", moe + "--expert-tensor-parallel-size 1").layout.etp == 1);
  // Two of three layers have experts: layer i has when i % 3 is not 0 in this list.
  const ImportedJob job = job_of("run.sh", moe + "--moe-layer-freq '([0,1,1]*16)' --moe-ffn-hidden-size 1024");
  const ModelSpec model = parse_model("model", job.model_text);
  REQUIRE(model.moe);
  CHECK(model.moe_layer_count() == 32);
  CHECK(!model.is_moe_layer(0));
  CHECK(model.is_moe_layer(1));
  CHECK(model.moe->expert_ffn == 1024);
}

TEST_CASE("a model of Megatron has the defaults of its argument parser") {
  // No group query attention, 4 x hidden, GELU, LayerNorm, biases, learned positions, tied tables:
  // per layer 4 h^2 + 4 h + 8 h^2 + 5 h + 4 h = 12 h^2 + 13 h.
  const ImportedJob job =
      job_of("run.sh", std::string(kMegatron) + "--vocab-size 50000 --tensor-model-parallel-size 1");
  const ModelSpec model = parse_model("model", job.model_text);
  const std::int64_t h = 4096;
  CHECK(parameter_counts(model).total == 48 * (12 * h * h + 13 * h) + 50000 * h + 4096 * h + 2 * h);
  // Gated: two thirds of 4 h in multiples of 64: 16384 x 2 / 3 = 10922, 170 x 64 = 10880.
  const ImportedJob gated = job_of("run.sh", std::string(kMegatron) + "--swiglu --tensor-model-parallel-size 1");
  CHECK(parse_model("model", gated.model_text).ffn_hidden == 10880);
}

TEST_CASE("stages that are listed become layers per stage") {
  const ImportedJob job =
      job_of("run.sh", std::string(kMegatron) +
                           "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*11|t*13|t*13|t*11L'");
  CHECK(job.layers_per_stage == std::vector<int>{11, 13, 13, 11});
  CHECK(contains(job.layout_text, "layers-per-stage=11+13+13+11"));
  const ImportedJob ends = job_of("run.sh", std::string(kMegatron) +
                                                "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers "
                                                "11 --decoder-last-pipeline-num-layers 11");
  CHECK(ends.layers_per_stage == std::vector<int>{11, 13, 13, 11});
  CHECK(megatron_stage_list("Et*2|t*3mL") == std::vector<int>{2, 3});
  CHECK(!megatron_stage_list("E(t|x)"));
  CHECK(!megatron_layer_pattern("[0,1]*3", 7));
}

TEST_CASE("a flag that may cost time and is not known is listed and one that costs nothing is counted") {
  const ImportedJob job = job_of(
      "run.sh", std::string(kMegatron) + "--moe-some-new-overlap --lr 1e-4 --weight-decay 0.1 --attention-dropout 0");
  CHECK(lists(job.unread, "--moe-some-new-overlap (run.sh:1)"));
  CHECK(job.unread.size() == 1);
  CHECK(job.passed_over == 3);
}

TEST_CASE("sizes that contradict each other are shown at their places") {
  // 64 GPUs are no multiple of 4 x 3; 256 sequences are no multiple of 3 x 64 = 192 (192 and 384 are).
  const std::string world =
      refusal("run.sh", std::string(kMegatron) + "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 3");
  CHECK(contains(world, "64 GPUs are no multiple of tp 4 x pp 3 x cp 1 = 12"));
  CHECK(contains(world, "run.sh:1:"));
  const std::string batch = refusal("run.sh", std::string(kMegatron) + "--micro-batch-size 3 --bf16");
  CHECK(contains(batch, "no multiple of micro-batch 3 x dp 64"));
  CHECK(contains(batch, "nearest: 192 or 384"));
  const std::string stages = refusal(
      "run.sh", std::string(kMegatron) + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5");
  CHECK(contains(stages, "48 layers are no multiple of 4 pipeline ranks x 5 layers"));
  const std::string word = refusal("run.sh", std::string(kMegatron) + "--tensor-model-parallel-size four");
  CHECK(contains(word, "expected a whole number, got \"four\""));
}

TEST_CASE("a cluster of another size than the launcher's is planned for and told") {
  const ImportHelp help{128, 8, {}, {}, {}};
  const ImportedJob job = job_of("run.sh", std::string(kMegatron) + "--tensor-model-parallel-size 8", help);
  CHECK(job.layout.dp == 16);
  CHECK(lists(job.remarks, "the files start 64 GPUs"));
}

TEST_CASE("NeMo and Megatron-Bridge say the same with other names") {
  const ImportedJob nemo = job_of(
      "gpt.yaml",
      "trainer:\n  devices: 8\n  num_nodes: 4\n  precision: bf16-mixed\nmodel:\n  tensor_model_parallel_size: 2\n"
      "  pipeline_model_parallel_size: 4\n  virtual_pipeline_model_parallel_size: 3\n  micro_batch_size: 1\n"
      "  global_batch_size: 128\n  encoder_seq_length: 2048\n  num_layers: 24\n  hidden_size: 1024\n"
      "  num_attention_heads: 16\n  sequence_parallel: true\n  activations_checkpoint_granularity: selective\n"
      "  data:\n    seq_length: ${model.encoder_seq_length}\n  optim:\n    name: distributed_fused_adam\n");
  // 32 GPUs / (2 x 4) = dp 4.
  CHECK(nemo.layout_text == "tp=2 pp=4 dp=4 vpp=3 micro-batch=1 zero=1 recompute=selective");
  CHECK(option(nemo, "seq") == "2048");
  CHECK(option(nemo, "precision") == "bf16");
  const ImportedJob bridge =
      job_of("overrides.txt",
             "model.tensor_model_parallel_size=2\nmodel.pipeline_model_parallel_size=1\ntrain.micro_batch_size=2\n"
             "train.global_batch_size=64\nmodel.seq_length=8192\nddp.use_distributed_optimizer=true "
             "mixed_precision=bf16_with_mxfp8_mixed\nmodel.recompute_granularity=selective\n"
             "model.recompute_modules=[core_attn,moe_act]\n");
  CHECK(bridge.layout_text ==
        "tp=2 pp=1 micro-batch=2 zero=1 sequence-parallel=off recompute=selective:core_attn+moe_act");
  CHECK(bridge.world == 0);  // said nowhere, so dp is left out
  CHECK(option(bridge, "precision") == "mxfp8");
}

TEST_CASE("batches of DeepSpeed count per data-parallel rank and auto stays open") {
  // 512 / (4 x 8) = 16 data-parallel ranks, times tp 2.
  const ImportedJob job = job_of("ds.json",
                                 R"({"train_batch_size": 512, "train_micro_batch_size_per_gpu": 4,
 "gradient_accumulation_steps": 8, "tensor_parallel": {"autotp_size": 2}, "bf16": {"enabled": true},
 "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})");
  CHECK(job.layout_text == "tp=2 pp=1 dp=16 micro-batch=4 zero=2 sequence-parallel=off offload=optimizer");
  CHECK(job.world == 32);
  const ImportedJob open = job_of("ds.json", R"({"train_batch_size": "auto", "zero_optimization": {"stage": 3}})");
  CHECK(open.world == 0);
  CHECK(lists(open.open, "ds.json:1 train_batch_size auto"));
  CHECK(open.layout.zero == 3);
}

TEST_CASE("a launch script and a file of DeepSpeed are one job") {
  std::vector<ConfigFile> files{
      parse_config("launch.sh",
                   "deepspeed --num_nodes 2 --num_gpus 4 train.py --per_device_train_batch_size 2 "
                   "--gradient_accumulation_steps 3 --bf16 --gradient_checkpointing --deepspeed ds.json\n"),
      parse_config("ds.json", R"({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}})")};
  const ImportedJob job = import_job(files, std::nullopt, {});
  // 2 x 3 x 8 ranks = 48 sequences.
  CHECK(job.layout_text == "tp=1 pp=1 dp=8 micro-batch=2 zero=3 recompute=full");
  CHECK(option(job, "global-batch") == "48");
  CHECK(option(job, "framework") == "deepspeed");
  files[1] = parse_config("ds.json", R"({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}})");
  CHECK_THROWS_WITH_AS(import_job(files, std::nullopt, {}),
                       doctest::Contains("is 4 here and 2 at launch.sh:1 --per-device-train-batch-size"), SpecError);
  files.pop_back();
  CHECK_THROWS_WITH_AS(import_job(files, std::nullopt, {}), doctest::Contains("it hands ds.json on"), SpecError);
}

TEST_CASE("TorchTitan shares states over the shard degree and cuts a local batch for the pipeline") {
  // dp = 2 x 4 = 8, 8 x 2 x 4 = 64 GPUs; the local batch of 16 is 8 micro-batches of 2; 16 x 8 = 128 sequences.
  const std::string text =
      "[training]\nlocal_batch_size = 16\nseq_len = 8192\n[parallelism]\ndata_parallel_replicate_degree = 2\n"
      "data_parallel_shard_degree = 4\ntensor_parallel_degree = 2\npipeline_parallel_degree = 4\n"
      "pipeline_parallel_schedule = \"Interleaved1F1B\"\npipeline_parallel_microbatch_size = 2\n"
      "pipeline_parallel_layers_per_stage = 4\nfsdp_reshard_after_forward = \"never\"\n"
      "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"2\"\n";
  // 30 layers and both ends in stages of 4: 8 stages, 2 per rank, of 3 layers; every second is 2 of 3.
  const ImportHelp help{{}, {}, 30, {}, {}};
  const ImportedJob job = job_of("t.toml", text, help);
  CHECK(job.layout_text == "tp=2 pp=4 dp=8 vpp=2 micro-batch=2 zero=2 shard-group=4 recompute=full:2");
  CHECK(job.world == 64);
  CHECK(option(job, "global-batch") == "128");
  CHECK(option(job, "framework") == "torchtitan");
  // Without the number of layers the habit of two stages per rank is taken, and said.
  const ImportedJob unknown = job_of("t.toml", text);
  CHECK(std::any_of(unknown.assumed.begin(), unknown.assumed.end(),
                    [](const auto& row) { return row.first == "virtual stages per rank"; }));
}

TEST_CASE("TorchTitan flags that count tokens become sequences") {
  const std::string flags =
      "torchrun --nproc_per_node 8 -m torchtitan.train --training.max_context_length 4096 "
      "--training.num_tokens_per_microbatch_per_dp_rank 8192 --training.num_tokens_per_train_step 1048576 "
      "--parallelism.tensor_parallel_degree 2 --parallelism.data_parallel_shard_degree -1\n";
  // 8192 / 4096 = 2 sequences, 2^20 / 4096 = 256; one node of 8 GPUs / tp 2 = dp 4.
  const ImportedJob job = job_of("run.sh", flags);
  CHECK(job.layout_text == "tp=2 pp=1 dp=4 micro-batch=2 zero=3");
  CHECK(option(job, "global-batch") == "256");
  std::string uneven = flags;
  uneven.replace(uneven.find("1048576"), 7, "1000000");
  CHECK(contains(refusal("run.sh", uneven), "1000000 tokens are no whole number of sequences of 4096"));
}

TEST_CASE("accelerate names sharding in three ways") {
  const auto with = [](const std::string& text) {
    return job_of("a.yaml",
                  "compute_environment: LOCAL_MACHINE\nnum_machines: 2\nnum_processes: 16\n"
                  "mixed_precision: bf16\n" +
                      text);
  };
  CHECK(with("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n").layout.zero == 2);
  CHECK(with("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: 1\n").layout.zero == 3);
  CHECK(with("distributed_type: MULTI_GPU\n").layout.zero == 0);
  // HYBRID_SHARD shares inside a node: 16 / 2 = 8.
  const ImportedJob hybrid = with("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n");
  CHECK(hybrid.layout.zero == 3);
  CHECK(hybrid.layout.shard_group == 8);
  const ImportedJob second = with(
      "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"
      "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
      "  parallelism_config_tp_size: 2\n");
  CHECK(second.layout_text == "tp=2 pp=1 dp=8 micro-batch=1 zero=2 shard-group=4 sequence-parallel=off");
  const ImportedJob deepspeed =
      with("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n");
  CHECK(deepspeed.framework == Framework::deepspeed);
  CHECK(deepspeed.layout.offload == Offload::optimizer);
  CHECK_THROWS_WITH_AS(with("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HALF\n"),
                       doctest::Contains("a.yaml:7:27: error: unknown sharding \"HALF\""), SpecError);
}

TEST_CASE("nanotron tells every size and its model") {
  const ImportedJob job = job_of(
      "n.yaml",
      "general: {project: p}\nmodel:\n  dtype: bfloat16\n  model_config: {hidden_size: 2048, intermediate_size: 8192,\n"
      "    num_attention_heads: 32, num_key_value_heads: 8, num_hidden_layers: 16, vocab_size: 128256,\n"
      "    tie_word_embeddings: true}\noptimizer: {zero_stage: 1, accumulate_grad_in_fp32: true}\n"
      "parallelism: {dp: 4, tp: 2, pp: 2, tp_mode: ALL_REDUCE}\n"
      "tokens: {batch_accumulation_per_replica: 8, micro_batch_size: 2, sequence_length: 4096}\n");
  // pp_engine is not there: nanotron's habit is afab, all forward passes before all backward ones.
  CHECK(job.layout_text == "tp=2 pp=2 dp=4 micro-batch=2 zero=1 sequence-parallel=off schedule=gpipe");
  CHECK(option(job, "global-batch") == "64");  // 2 x 8 x 4
  // Llama 3.2 1B: 1,235,814,400 parameters as published.
  CHECK(parameter_counts(parse_model("model", job.model_text)).total == 1'235'814'400);
}

TEST_CASE("llm-foundry follows references and describes an MPT model") {
  const ImportedJob job =
      job_of("mpt.yaml",
             "max_seq_len: 2048\nmodel:\n  name: mpt_causal_lm\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n"
             "  expansion_ratio: 4\n  max_seq_len: ${max_seq_len}\n  vocab_size: 50432\n  no_bias: true\n"
             "  attn_config:\n    alibi: true\nglobal_train_batch_size: 1024\ndevice_train_microbatch_size: auto\n"
             "precision: amp_bf16\nfsdp_config:\n  sharding_strategy: HYBRID_SHARD\n  activation_checkpointing: true\n",
             ImportHelp{64, 8, {}, {}, {}});
  CHECK(job.layout_text == "tp=1 pp=1 dp=64 micro-batch=1 zero=3 shard-group=8 recompute=full");
  CHECK(lists(job.open, "device_train_microbatch_size auto"));
  // MPT-7B: 6,649,286,656 parameters as published.
  CHECK(parameter_counts(parse_model("model", job.model_text)).total == 6'649'286'656);
}

TEST_CASE("files with wrong syntax and files of no job are refused with their place") {
  CHECK(contains(refusal("a.yaml", "model:\n  x: [1, 2\n"), "a.yaml:"));
  CHECK(contains(refusal("a.yaml", "model:\n  x: [1, 2\n"), "no valid YAML"));
  CHECK(contains(refusal("a.toml", "[training]\nseq_len = = 1\n"), "a.toml:2:11: error: no valid TOML"));
  CHECK(contains(refusal("a.json", "{\"train_batch_size\": }\n"), "a.json:1:22: error"));
  CHECK(contains(refusal("a.yaml", "cat: 1\n"), "no configuration of a training job that is known"));
  CHECK(contains(refusal("a.sh", "echo hello\n"), "no flags of a training program"));
}

TEST_CASE("the kind of a file without a telling name is seen from its content") {
  CHECK(parse_config("conf", "#!/bin/bash\necho 1\n").format == ConfigFormat::shell);
  CHECK(parse_config("conf", "# remark\n[training]\nseq_len = 1\n").format == ConfigFormat::toml);
  CHECK(parse_config("conf", "{\"a\": 1}").format == ConfigFormat::json);
  CHECK(parse_config("conf", "a: 1\n").format == ConfigFormat::yaml);
  CHECK(parse_config("conf", "--num-layers 3\n").format == ConfigFormat::shell);
}

TEST_CASE("import sets a job beside the best plan and writes its model") {
  const std::string folder = std::string(TPPLAN_SOURCE_DIR) + "/examples/import-megatron/";
  const std::string saved = (std::filesystem::temp_directory_path() / "tpplan-import-model.json").string();
  std::ostringstream out, err;
  const int code = run_import(parse_options({"import", folder + "pretrain.sh", "--cluster", "8x8xh100-80gb-sxm",
                                             "--global-batch", "256", "--save-model", saved, "--format", "json"}),
                              out, err);
  CHECK(code == 0);
  const auto json = nlohmann::json::parse(out.str());
  CHECK(json["layout"] == "tp=8 pp=4 dp=2 vpp=4 micro-batch=1 zero=1 recompute=selective");
  CHECK(json["world"] == 64);
  CHECK(json["training"]["global-batch"] == "256");  // the user's goes before the file's 512
  CHECK(json["present"]["layout"]["vpp"] == 4);
  // The best plan of a search that holds the present layout is no slower.
  CHECK(json["best"]["step_time_s"].get<double>() <= json["present"]["step_time_s"].get<double>());
  CHECK(json["best_over_present"].get<double>() ==
        doctest::Approx(json["best"]["step_time_s"].get<double>() / json["present"]["step_time_s"].get<double>()));
  CHECK(json["settings"][2]["key"] == "tp");
  CHECK(json["settings"][2]["read_from"][0] == "pretrain.sh:8 --tensor-model-parallel-size");
  // Llama 2 70B: 68,976,648,192 parameters as published.
  CHECK(parameter_counts(load_model(saved)).total == 68'976'648'192);
  std::filesystem::remove(saved);
}

TEST_CASE("import tells a broken rule with exit code 1 and refuses kinds and files that it cannot read") {
  std::ostringstream out, err;
  const std::string folder = std::string(TPPLAN_SOURCE_DIR) + "/examples/import-megatron/";
  // 48 GPUs: 64 sequences times tp 8 are no multiple of dp 48 / 32.
  CHECK_THROWS_AS(
      run_import(parse_options({"import", folder + "pretrain.sh", "--cluster", "6x8xh100-80gb-sxm"}), out, err),
      SpecError);
  CHECK_THROWS_WITH_AS(parse_options({"import", "x", "--kind", "megatorn"}), doctest::Contains("did you mean"),
                       UsageError);
  CHECK_THROWS_AS(parse_options({"import", "x", "--kind", "colossalai"}), UsageError);
  CHECK_THROWS_AS(run_import(parse_options({"import"}), out, err), UsageError);
  CHECK_THROWS_AS(run_import(parse_options({"import", "/nowhere/run.sh"}), out, err), SpecError);
  // Two GPUs cannot hold what takes 16 bytes a parameter.
  const std::string yaml = std::string(TPPLAN_SOURCE_DIR) + "/examples/import-deepspeed/ds_config.json";
  CHECK(run_import(parse_options({"import", yaml, "--model", "70b", "--cluster", "1x2xh100-80gb-sxm"}), out, err) == 1);
  CHECK(out.str().find("does not fit") != std::string::npos);
  // A script of Megatron-LM has no key of nanotron.
  CHECK_THROWS_WITH_AS(run_import(parse_options({"import", folder + "pretrain.sh", "--kind", "nanotron"}), out, err),
                       doctest::Contains("is it of another --kind?"), SpecError);
}
