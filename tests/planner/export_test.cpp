// What `tpplan export` writes for each target, checked line by line against values derived by hand from the layout.
#include "planner/commands/export.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "planner/export/torchtitan_stages.h"
#include "tests/planner/exported.h"

using namespace tpplan;

namespace {

/// The keys of a YAML text of nested maps with their values ("fsdp_config.fsdp_version" -> "2"), comments taken off;
/// items of lists are left out. A line of another form, odd indentation or a key given twice is an error.
std::map<std::string, std::string> yaml_of(const std::string& text) {
  std::map<std::string, std::string> values;
  std::vector<std::string> path;
  std::istringstream in(text);
  bool in_list = false;
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find("  # "));
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::size_t indent = line.find_first_not_of(' ');
    in_list = line[indent] == '-' || (in_list && indent > 0);
    if (in_list) {
      continue;
    }
    const std::size_t colon = line.find(':');
    CAPTURE(line);
    REQUIRE(colon != std::string::npos);
    REQUIRE(indent % 2 == 0);
    REQUIRE(indent / 2 <= path.size());
    path.resize(indent / 2);
    path.push_back(line.substr(indent, colon - indent));
    std::string key;
    for (const std::string& name : path) {
      key += (key.empty() ? "" : ".") + name;
    }
    CHECK(values.emplace(key, colon + 2 < line.size() ? line.substr(colon + 2) : "").second);
  }
  return values;
}

constexpr const char* k64H100 = "8x8xh100-80gb-sxm";

}  // namespace

TEST_CASE("a dense layout becomes a complete script of Megatron-LM") {
  // 64 GPUs / (tp 8 x pp 4) = dp 2; 80 layers / (4 x 2) = 10 in every virtual stage; heads of 8,192 / 64 = 128.
  const auto outcome = exported("megatron", "70b", k64H100, "tp=8 pp=4 vpp=2 micro-batch=1 recompute=selective",
                                {"--seq", "4096", "--global-batch", "1024"});
  CHECK(outcome.code == 0);
  CHECK(is_shell(outcome.out));
  CHECK(missing_line(outcome.out, {"--num-layers 80",
                                   "--hidden-size 8192",
                                   "--ffn-hidden-size 28672",
                                   "--num-attention-heads 64",
                                   "--num-query-groups 8",
                                   "--group-query-attention",
                                   "--kv-channels 128",
                                   "--vocab-size 32000",
                                   "--untie-embeddings-and-output-weights",
                                   "--max-position-embeddings 4096",
                                   "--position-embedding-type rope",
                                   "--normalization RMSNorm",
                                   "--swiglu",
                                   "--disable-bias-linear",
                                   "--tensor-model-parallel-size 8",
                                   "--pipeline-model-parallel-size 4",
                                   "--num-virtual-stages-per-pipeline-rank 2",
                                   "--context-parallel-size 1",
                                   "--sequence-parallel",
                                   "--use-distributed-optimizer",
                                   "--overlap-grad-reduce",
                                   "--overlap-param-gather",
                                   "--recompute-granularity selective",
                                   "--recompute-modules core_attn",
                                   "--seq-length 4096",
                                   "--micro-batch-size 1",
                                   "--global-batch-size 1024",
                                   "--bf16",
                                   "NODES=8",
                                   "GPUS_PER_NODE=8",
                                   "export CUDA_DEVICE_MAX_CONNECTIONS=1"}) == "");
  CHECK(has(outcome.out, "# tpplan " TPPLAN_VERSION " wrote this for Megatron-LM core 0.20.0"));
  CHECK(has(outcome.out, "# world size 64 (8 nodes of 8 GPUs), 512 micro-batches per step"));
  CHECK(has(outcome.out, "# predicted: "));
  CHECK(has(outcome.out, ": \"${DATA_PATH:?"));
  CHECK_FALSE(has(outcome.out, "--num-experts"));
  CHECK_FALSE(has(outcome.out, "--pipeline-model-parallel-layout"));
}

TEST_CASE("stages of unequal depth are spelled out for Megatron") {
  // 126 layers on 8 stages: 15 at both ends, 16 between.
  const auto outcome =
      exported("megatron", "llama3-405b", "64x8xh100-80gb-sxm", "tp=8 pp=8 micro-batch=1 recompute=full:12",
               {"--seq", "8192", "--global-batch", "512"});
  CHECK(outcome.code == 0);
  CHECK(missing_line(outcome.out,
                     {"--pipeline-model-parallel-layout 'Et*15|t*16|t*16|t*16|t*16|t*16|t*16|t*15L'",
                      "--recompute-granularity full", "--recompute-method block", "--recompute-num-layers 12"}) == "");
  CHECK_FALSE(has(outcome.out, "--num-virtual-stages-per-pipeline-rank"));
}

TEST_CASE("experts and latent attention have flags of their own in Megatron") {
  const auto outcome = exported("megatron", "deepseek-v3", "256x8xh100-80gb-sxm",
                                "pp=16 ep=64 micro-batch=1 recompute=full", {"--dispatcher", "deepep"});
  // 3 dense layers, 58 with experts; the prediction module lies on the last stage with the head.
  CHECK(missing_line(outcome.out, {"--num-experts 256",
                                   "--moe-router-topk 8",
                                   "--moe-ffn-hidden-size 2048",
                                   "--moe-shared-expert-intermediate-size 2048",
                                   "--moe-router-num-groups 8",
                                   "--moe-router-group-topk 4",
                                   "--moe-layer-freq '([0]*3+[1]*58)'",
                                   "--moe-router-score-function sigmoid",
                                   "--moe-router-enable-expert-bias",
                                   "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep",
                                   "--multi-latent-attention",
                                   "--q-lora-rank 1536",
                                   "--kv-lora-rank 512",
                                   "--qk-head-dim 128",
                                   "--qk-pos-emb-head-dim 64",
                                   "--v-head-dim 128",
                                   "--mtp-num-layers 1",
                                   "--expert-model-parallel-size 64",
                                   "--expert-tensor-parallel-size 1",
                                   "--recompute-granularity full",
                                   "--recompute-method uniform",
                                   "--recompute-num-layers 1"}) == "");
  CHECK(has(outcome.out, "mL'"));
  CHECK_FALSE(has(outcome.out, "--num-query-groups"));
  CHECK_FALSE(has(outcome.out, "CUDA_DEVICE_MAX_CONNECTIONS=1"));  // tp 1, cp 1
}

TEST_CASE("ZeRO-3 in Megatron is its FSDP and forbids one connection") {
  const auto outcome = exported("megatron", "7b", "2x8xh100-80gb-sxm", "tp=2 zero=3 shard-group=4 micro-batch=1");
  CHECK(outcome.code == 0);
  // 16 GPUs / tp 2 = 8 data ranks, in groups of 4: two instances.
  CHECK(missing_line(outcome.out, {"--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads_params",
                                   "--ckpt-format fsdp_dtensor", "--num-distributed-optimizer-instances 2",
                                   "--outer-dp-sharding-strategy no_shard"}) == "");
  CHECK(has(outcome.out, "CUDA_DEVICE_MAX_CONNECTIONS must not be 1"));
  CHECK_FALSE(has(outcome.out, "export CUDA_DEVICE_MAX_CONNECTIONS"));
}

TEST_CASE("8-bit formats of Megatron follow precision and recipe") {
  const auto lines = [](const std::vector<std::string>& more) {
    return exported("megatron", "7b", "8xH100", "tp=2 micro-batch=1", more).out;
  };
  CHECK(missing_line(lines({"--precision", "fp8", "--fp8-recipe", "tensorwise"}),
                     {"--bf16 --fp8-format hybrid --fp8-recipe tensorwise"}) == "");
  CHECK(missing_line(lines({"--precision", "fp8"}), {"--bf16 --fp8-format hybrid"}) == "");
  const auto refused = exported("megatron", "7b", "8xH100", "tp=2", {"--precision", "fp8", "--fp8-recipe", "rowwise"});
  CHECK(refused.code == 1);
  CHECK(refused.out.empty());
  CHECK(has(refused.err, "value-known: megatron has no precision fp8:rowwise"));
}

TEST_CASE("overrides of Megatron-Bridge also take away what a recipe may have set") {
  const auto outcome = exported("megatron-bridge", "70b", k64H100, "tp=4 pp=4 cp=2 vpp=5 micro-batch=1 recompute=full",
                                {"--seq", "8192", "--global-batch", "512"});
  CHECK(outcome.code == 0);
  CHECK(is_shell(outcome.out));
  CHECK(missing_line(outcome.out,
                     {"model.tensor_model_parallel_size=4", "model.pipeline_model_parallel_size=4",
                      "model.virtual_pipeline_model_parallel_size=5", "model.pipeline_dtype=torch.bfloat16",
                      "model.context_parallel_size=2", "model.cp_comm_type=p2p", "model.sequence_parallel=true",
                      "model.seq_length=8192", "dataset.seq_length=8192", "model.recompute_granularity=full",
                      "model.recompute_method=uniform", "model.recompute_num_layers=1", "model.recompute_modules=null",
                      "ddp.use_distributed_optimizer=true", "optimizer.use_distributed_optimizer=true",
                      "train.micro_batch_size=1", "train.global_batch_size=512", "mixed_precision=bf16_mixed"}) == "");
  const auto plain = exported("megatron-bridge", "7b", "8xA100", "tp=2 zero=0");
  CHECK(missing_line(plain.out, {"model.virtual_pipeline_model_parallel_size=null", "model.recompute_granularity=null",
                                 "ddp.use_distributed_optimizer=false", "ddp.overlap_param_gather=false"}) == "");
}

TEST_CASE("the batches of DeepSpeed are those of a data-parallel rank") {
  // 16 GPUs / cp 2 = dp 8; 256 / (8 x 2) = 16 accumulated micro-batches; 256 = 2 x 16 x 8.
  const auto outcome = exported("deepspeed", "7b", "2x8xa100-80gb-sxm", "cp=2 zero=3 micro-batch=2 recompute=full",
                                {"--global-batch", "256"});
  CHECK(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["train_batch_size"] == 256);
  CHECK(json["train_micro_batch_size_per_gpu"] == 2);
  CHECK(json["gradient_accumulation_steps"] == 16);
  CHECK(json["sequence_parallel_size"] == 2);
  CHECK(json["zero_optimization"]["stage"] == 3);
  CHECK(json["bf16"]["enabled"] == true);
  CHECK(json["fp16"]["enabled"] == false);
  CHECK_FALSE(json.contains("tensor_parallel"));
}

TEST_CASE("offload and copies of weights have keys in DeepSpeed") {
  const auto offloaded =
      nlohmann::json::parse(exported("deepspeed", "7b", "2x8xa100-80gb-sxm",
                                     "tp=2 zero=2 micro-batch=1 offload=optimizer sequence-parallel=off")
                                .out);
  CHECK(offloaded["zero_optimization"]["offload_optimizer"]["device"] == "cpu");
  CHECK(offloaded["tensor_parallel"]["autotp_size"] == 2);
  const auto copied =
      nlohmann::json::parse(exported("deepspeed", "7b", "2x8xa100-80gb-sxm", "zero=3 shard-group=8 micro-batch=1").out);
  CHECK(copied["zero_optimization"]["zero_hpz_partition_size"] == 8);
}

TEST_CASE("TorchTitan counts batches in tokens and names every micro-batch of a pipeline") {
  // 32 GPUs / (tp 4 x pp 2) = dp 4, groups of 2: 2 replicas of 2 shards. 2 x 4,096 = 8,192 tokens of a micro-batch,
  // 256 x 4,096 = 1,048,576 of a step, 256 / (4 x 2) = 32 micro-batches. 80 layers / (2 x 2) = 20 a stage.
  const auto outcome =
      exported("torchtitan", "70b", "4x8xh100-80gb-sxm",
               "tp=4 pp=2 vpp=2 micro-batch=2 zero=2 shard-group=2 recompute=full", {"--global-batch", "256"});
  CHECK(missing_line(
            outcome.out,
            {"config.parallelism.data_parallel_replicate_degree = 2",
             "config.parallelism.data_parallel_shard_degree = 2", "config.parallelism.tensor_parallel_degree = 4",
             "config.parallelism.enable_sequence_parallel = True", "config.parallelism.pipeline_parallel_degree = 2",
             "config.parallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"",
             "config.parallelism.num_pp_microbatches = 32",
             "config.parallelism.pipeline_parallel_first_stage_less_layers = 0",
             "config.parallelism.pipeline_parallel_last_stage_less_layers = 0",
             "config.parallelism.pipeline_parallel_layers_per_stage = 20",
             "config.parallelism.fsdp_reshard_after_forward = \"never\"", "config.training.max_context_length = 4096",
             "config.training.num_tokens_per_microbatch_per_dp_rank = 8192",
             "config.training.num_tokens_per_train_step = 1048576",
             "config.training.mixed_precision_param = \"bfloat16\"",
             "config.activation_checkpoint = FullAC.Config()"}) == "");
  const auto plain = exported("torchtitan", "7b", "8xH100", "micro-batch=1 recompute=selective:op");
  CHECK(missing_line(plain.out, {"config.parallelism.data_parallel_replicate_degree = 1",
                                 "config.parallelism.data_parallel_shard_degree = 8",
                                 "config.parallelism.fsdp_reshard_after_forward = \"always\"",
                                 "config.activation_checkpoint = SelectiveAC.Config()"}) == "");
  CHECK_FALSE(has(plain.out, "num_pp_microbatches"));
}

TEST_CASE("stages that TorchTitan deals out by another rule are made to agree or told") {
  // 126 layers and two more for the ends on 8 stages: 16 each, the ends one fewer, as planned.
  const auto even = exported("torchtitan", "llama3-405b", "64x8xh100-80gb-sxm",
                             "tp=8 pp=8 micro-batch=1 zero=2 recompute=full", {"--global-batch", "512"});
  CHECK(missing_line(even.out, {"config.parallelism.pipeline_parallel_first_stage_less_layers = 1",
                                "config.parallelism.pipeline_parallel_last_stage_less_layers = 1",
                                "config.parallelism.pipeline_parallel_layers_per_stage = 16"}) == "");
  CHECK_FALSE(has(even.out, "not expressible"));
}

TEST_CASE("TorchTitan cuts pipelines by layers per stage") {
  // 126 layers in 8 stages of 16, the ends one fewer. 32 in 20: 2 layers make 16 or 17 stages, 1 makes 32 to 34.
  const auto ends = torchtitan_cut(126, {15, 16, 16, 16, 16, 16, 16, 15});
  CHECK(ends.exact);
  CHECK((ends.first == 1 && ends.last == 1 && ends.layers_per_stage == 16));
  CHECK(torchtitan_cut(32, std::vector<int>(20, 1)).layers_per_stage == 0);
  CHECK_FALSE(torchtitan_reaches(32, 4, 20));
  CHECK(torchtitan_reaches(32, 4, 16));
  CHECK(torchtitan_reaches(10, 4, 8));  // two stages per rank come by themselves
  // 30 layers in 4: 8, 8, 7, 7 without counting the ends; 7, 8, 8, 7 when each counts.
  CHECK(torchtitan_cut(30, {8, 8, 7, 7}).exact);
  CHECK(torchtitan_cut(30, {7, 8, 8, 7}).exact);
  CHECK_FALSE(torchtitan_cut(30, {7, 7, 8, 8}).exact);
}

TEST_CASE("the TOML file of earlier TorchTitan counts sequences and whole pipeline runs") {
  const auto outcome = exported("torchtitan-toml", "70b", "4x8xh100-80gb-sxm",
                                "tp=4 pp=2 vpp=2 micro-batch=2 recompute=selective:op", {"--global-batch", "256"});
  CHECK(missing_line(outcome.out,
                     {"[parallelism]", "data_parallel_shard_degree = 4", "tensor_parallel_degree = 4",
                      "pipeline_parallel_schedule = \"Interleaved1F1B\"", "pipeline_parallel_microbatch_size = 2",
                      "[training]", "seq_len = 4096", "global_batch_size = 256", "local_batch_size = 64",
                      "[activation_checkpoint]", "mode = \"selective\"", "selective_ac_option = \"op\""}) == "");
  const auto plain = exported("torchtitan-toml", "7b", "8xH100", "micro-batch=4 recompute=full zero=2");
  CHECK(missing_line(plain.out,
                     {"local_batch_size = 4", "fsdp_reshard_after_forward = \"never\"", "mode = \"full\""}) == "");
}

TEST_CASE("accelerate gets FSDP2 with its grid and what the script must do") {
  const auto outcome = exported("accelerate", "7b", "2x8xa100-80gb-sxm", "cp=2 zero=3 shard-group=8 recompute=full",
                                {"--global-batch", "256"});
  // dp 8 x cp 2 = 16 ranks in groups of 8: 2 replicas of 4 shards; 256 / (8 x 1) = 32 accumulated.
  CHECK(missing_line(outcome.out,
                     {"distributed_type: FSDP", "mixed_precision: bf16", "num_machines: 2", "num_processes: 16",
                      "fsdp_version: 2", "fsdp_reshard_after_forward: true", "fsdp_activation_checkpointing: true",
                      "parallelism_config_dp_replicate_size: 2", "parallelism_config_dp_shard_size: 4",
                      "parallelism_config_tp_size: 1", "parallelism_config_cp_size: 2"}) == "");
  CHECK(has(outcome.out, "gradient_accumulation_steps=32"));
  const auto replicas = exported("accelerate", "llama3.2-1b", "8xA100", "zero=0", {"--global-batch", "64"});
  CHECK(missing_line(replicas.out, {"distributed_type: MULTI_GPU", "num_processes: 8"}) == "");
  CHECK_FALSE(has(replicas.out, "fsdp_config"));
}

TEST_CASE("settings stand at their place in YAML files") {
  const auto accelerate = yaml_of(exported("accelerate", "7b", "2x8xa100-80gb-sxm", "zero=2").out);
  CHECK(accelerate.at("distributed_type") == "FSDP");
  CHECK(accelerate.at("fsdp_config.fsdp_reshard_after_forward") == "false");
  CHECK(accelerate.at("parallelism_config.parallelism_config_dp_shard_size") == "16");
  const auto fp32 = yaml_of(exported("accelerate", "llama3.2-1b", "8xA100", "zero=3", {"--precision", "fp32"}).out);
  CHECK(fp32.at("mixed_precision") == "\"no\"");  // a bare no would be false
  const auto nanotron = yaml_of(exported("nanotron", "7b", "2x8xh100-80gb-sxm", "tp=2").out);
  CHECK(nanotron.at("model.model_config.hidden_size") == "4096");
  CHECK(nanotron.at("optimizer.optimizer_factory.name") == "adamW");
  CHECK(nanotron.at("parallelism.dp") == "8");
  CHECK(nanotron.at("tokens.micro_batch_size") == "1");
  const auto foundry = yaml_of(exported("llm-foundry", "mpt-7b", "2x8xa100-80gb-sxm", "zero=3").out);
  CHECK(foundry.at("model.attn_config.attn_type") == "multihead_attention");
  CHECK(foundry.at("fsdp_config.sharding_strategy") == "FULL_SHARD");
  CHECK(foundry.at("train_loader.dataset.local") == "${oc.env:DATA_LOCAL}");
}

TEST_CASE("nanotron gets its model and an explicit dp") {
  const auto outcome = exported("nanotron", "7b", "2x8xh100-80gb-sxm", "tp=2 pp=2 micro-batch=1 schedule=gpipe",
                                {"--global-batch", "256"});
  // 16 / 4 = dp 4; 256 / 4 = 64 accumulated.
  CHECK(missing_line(outcome.out,
                     {"num_hidden_layers: 32", "hidden_size: 4096", "intermediate_size: 11008",
                      "num_attention_heads: 32", "num_key_value_heads: 32", "vocab_size: 32000",
                      "tie_word_embeddings: false", "dtype: bfloat16", "zero_stage: 1", "dp: 4", "tp: 2", "pp: 2",
                      "pp_engine: afab", "recompute_layer: false", "tp_mode: REDUCE_SCATTER", "sequence_length: 4096",
                      "micro_batch_size: 1", "batch_accumulation_per_replica: 64", "learning_rate: ${LR}"}) == "");
  const auto plain = exported("nanotron", "7b", "8xH100", "tp=4 sequence-parallel=off zero=0 recompute=full");
  CHECK(missing_line(plain.out, {"pp_engine: 1f1b", "zero_stage: 0", "recompute_layer: true", "tp_mode: ALL_REDUCE",
                                 "tp_linear_async_communication: false"}) == "");
}

TEST_CASE("llm-foundry gets an MPT model and the strategy of its ZeRO stage") {
  const auto outcome = exported("llm-foundry", "mpt-7b", "2x8xa100-80gb-sxm", "zero=3 micro-batch=2 recompute=full",
                                {"--global-batch", "256"});
  CHECK(
      missing_line(outcome.out, {"max_seq_len: 2048", "global_train_batch_size: 256", "device_train_microbatch_size: 2",
                                 "precision: amp_bf16", "n_layers: 32", "d_model: 4096", "n_heads: 32",
                                 "vocab_size: 50432", "tie_word_embeddings: true", "ffn_hidden_size: 16384",
                                 "ffn_type: mptmlp", "attn_type: multihead_attention", "sharding_strategy: FULL_SHARD",
                                 "activation_checkpointing: true", "max_duration: ${oc.env:MAX_DURATION}"}) == "");
  // 16 ranks in groups of 8.
  const auto grouped = exported("llm-foundry", "llama3-8b", "2x8xa100-80gb-sxm", "zero=3 micro-batch=1 shard-group=8");
  CHECK(missing_line(grouped.out,
                     {"attn_type: grouped_query_attention", "kv_n_heads: 8", "ffn_type: mptglu", "norm_type: rmsnorm",
                      "sharding_strategy: HYBRID_SHARD", "data_parallel_shard_degree: 8",
                      "data_parallel_replicate_degree: 2", "activation_checkpointing: false"}) == "");
}

TEST_CASE("Colossal-AI gets a plugin in Python") {
  const auto outcome = exported("colossalai", "7b", "2x8xa100-80gb-sxm", "tp=2 pp=2 vpp=2 micro-batch=1 zero=1",
                                {"--global-batch", "256"});
  CHECK(missing_line(outcome.out,
                     {"tp_size=2,", "pp_size=2,", "pp_style=\"interleaved\",", "num_model_chunks=2,",
                      "microbatch_size=1,", "zero_stage=1,", "precision=\"bf16\",", "enable_sequence_parallelism=True,",
                      "sequence_parallelism_mode=\"split_gather\",", "BATCH_PER_CALL = 64", "ACCUMULATION = 1"}) == "");
  const auto ring = exported("colossalai", "7b", "2x8xa100-80gb-sxm", "cp=2 cp-type=ring zero=2 micro-batch=1",
                             {"--global-batch", "256"});
  CHECK(missing_line(ring.out, {"sp_size=2,", "sequence_parallelism_mode=\"ring_attn\",", "zero_stage=2,",
                                "BATCH_PER_CALL = 1", "ACCUMULATION = 32"}) == "");
}
