// What each strategy stores and moves, against numbers derived by hand.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cost-model/layer_sizes.h"
#include "cost-model/stage_balance.h"
#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::priced_job;

namespace {

/// Eight layers of width 1,024: attention 4 x 1,024^2 = 4,194,304, FFN 3 x 1,024 x 4,096 = 12,582,912, two norms 2,048:
/// 16,779,264 a layer. Embedding and head 32,000 x 1,024 = 32,768,000 each (32,000 = 250 x 128: no padding), the last
/// norm 1,024.
ModelSpec small_dense() {
  ModelSpec model = tests::llama_7b();
  model.name = "small";
  model.layers = 8;
  model.hidden = 1024;
  model.heads = 8;
  model.kv_heads = 8;
  model.ffn_hidden = 4096;
  return model;
}

/// The same width with four layers, the first dense. A MoE layer: attention 4,194,304, shared experts 3 x 1,024 x 1,024
/// = 3,145,728, router 8 x 1,024 = 8,192, norms 2,048: 7,350,272; its experts 8 x 3 x 1,024 x 2,048 = 50,331,648.
ModelSpec small_mixed() {
  ModelSpec model = small_dense();
  model.layers = 4;
  MoeSpec moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.expert_ffn = 2048;
  moe.shared_ffn = 1024;
  model.moe = moe;
  model.moe_layers = {0, 1, 1, 1};
  return model;
}

struct Stage {
  double dense = 0, expert = 0;
};

std::vector<Stage> stages_of(const Job& job, const Layout& layout) {
  const auto costs = layer_costs(job, layer_key(layout));
  std::vector<Stage> stages(static_cast<std::size_t>(layout.pp));
  for (const auto& group : pipeline_shape(job, layout).groups) {
    const auto stage = stage_costs(costs, group.content);
    const bool own_head = group.content.head && (!job.model.tied_embeddings || !group.content.embedding);
    stages[static_cast<std::size_t>(group.first_rank)] = {stage.params + (own_head ? costs.head_params : 0),
                                                          stage.expert_params};
  }
  return stages;
}

StageTensors tensors_of_last_stage(const Job& job, const Layout& layout) {
  const auto costs = layer_costs(job, layer_key(layout));
  const auto shape = pipeline_shape(job, layout);
  const StageGroup& group = shape.groups.back();
  return stage_tensors(job, layout, costs, group, stage_costs(costs, group.content), data_groups(job, layout), 1);
}

MemoryEstimate memory_of(const Job& job, const Layout& layout) { return estimate(job, layout).memory; }

}  // namespace

TEST_CASE("eight layers given as 1 2 2 3 make stages of exactly their parameters") {
  auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 4, 2048, 64);
  job.training.layers_per_stage = {1, 2, 2, 3};
  Layout layout;
  layout.pp = 4;
  const auto shape = pipeline_shape(job, layout);
  CHECK(shape.layers_per_stage == std::vector<int>{1, 2, 2, 3});
  // 32,768,000 + 16,779,264; 2 x 16,779,264; 3 x 16,779,264 + 32,768,000 + 1,024.
  const auto stages = stages_of(job, layout);
  CHECK(stages[0].dense == 49547264);
  CHECK(stages[1].dense == 33558528);
  CHECK(stages[3].dense == 83106816);
  CHECK(shape.groups[1].count == 2);
}

TEST_CASE("stages of a dense and three MoE layers hold exactly their parameters") {
  auto job = priced_job(small_mixed(), "a100-80gb-sxm", 1, 4, 2048, 64);
  job.training.layers_per_stage = {1, 3};
  Layout layout;
  layout.pp = 2;
  layout.dp = 2;
  layout.ep = 2;
  // Stage 0: 32,768,000 + 16,779,264. Stage 1: 3 x 7,350,272 + 32,769,024, and half of 3 x 50,331,648 in experts.
  const auto stages = stages_of(job, layout);
  CHECK(stages[0].dense == 49547264);
  CHECK(stages[0].expert == 0);
  CHECK(stages[1].dense == 54819840);
  CHECK(stages[1].expert == 75497472);
}

TEST_CASE("a prediction module holds a layer and a projection and the embedding it shares with the first stage") {
  // DeepSeek-V3: one MoE layer + 2 h^2 projection + three norms = 11,610,068,224 (as counted from the checkpoint).
  const auto model = load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json");
  auto job = priced_job(model, "h800-80gb-sxm", 2, 8, 4096, 64);
  Layout layout;
  layout.pp = 16;
  // 61 layers, 2 for the module and 1 for the head: 64 / 16 = 4 each, 1 beside module and head.
  std::vector<int> recipe(15, 4);
  recipe.push_back(1);
  CHECK(pipeline_shape(job, layout).layers_per_stage == recipe);
  job.training.layers_per_stage = recipe;
  const auto costs = layer_costs(job, layer_key(layout));
  CHECK(costs.mtp_params + costs.expert_params == 11610068224.0);
  auto without = job;
  without.model.mtp_layers = 0;
  const auto with = stages_of(job, layout);
  const auto plain = stages_of(without, layout);
  // Embedding 129,280 x 7,168 (129,280 = 1,010 x 128).
  CHECK(with[15].dense + with[15].expert - plain[15].dense - plain[15].expert == 11610068224.0 + 129280.0 * 7168);
  CHECK(with[0].dense == plain[0].dense);
  // Its time: a layer, a head and loss, a projection.
  const auto extra = costs.mtp.total() - costs.moe.total() - costs.head.total();
  CHECK(extra > Seconds(0));
  CHECK(extra < costs.moe.total());
  CHECK(estimate(job, layout).step.total() > estimate(without, layout).step.total());
}

TEST_CASE("every prediction module has logits of its own") {
  const auto model = load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json");
  auto job = priced_job(model, "h800-80gb-sxm", 2, 8, 4096, 64);
  Layout layout;
  layout.pp = 16;
  const Bytes with = tensors_of_last_stage(job, layout).at_loss;
  job.model.mtp_layers = 0;
  const Bytes without = tensors_of_last_stage(job, layout).at_loss;
  CHECK(without > Bytes(0));
  CHECK(with.raw() == doctest::Approx(2 * without.raw()));
}

TEST_CASE("offloaded activations leave two layers on the GPU") {
  // The one at work and the one on its way.
  const auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 4, 2048, 64);
  Layout layout;
  layout.dp = 4;
  layout.offload = Offload::activations;
  const auto tensors = tensors_of_last_stage(job, layout);
  CHECK(tensors.one.raw() > 0);
  CHECK(tensors.resident.activations.raw() == doctest::Approx(tensors.one.raw() * 2 / 8));
}

TEST_CASE("Muon leaves Adam's states to embedding and head under FSDP too") {
  // 8 of Adam's 12 bytes for the matrices, all 12 for the two ends: 2 x 32,768,000 + 1,024 of 199,771,136 parameters.
  const auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 4, 2048, 64, Framework::fsdp);
  Layout layout;
  layout.dp = 4;
  layout.zero = 3;
  const double adam = memory_of(job, layout).optimizer.raw();
  layout.optimizer = Optimizer::muon;
  const double ends = 2 * 32768000.0 + 1024;
  const double all = 8 * 16779264.0 + ends;
  CHECK(memory_of(job, layout).optimizer.raw() == doctest::Approx(adam * (8 + 4 * ends / all) / 12));
}

TEST_CASE("two models from both ends of a pipeline put mirrored stages on a rank") {
  auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 4, 2048, 64);
  job.training.layers_per_stage = {1, 2, 2, 3};
  Layout layout;
  layout.pp = 4;
  layout.schedule = Schedule::dualpipe;
  const auto shape = pipeline_shape(job, layout);
  REQUIRE(shape.groups.size() == 2);  // ranks 0 and 3 hold stages 0 and 3, ranks 1 and 2 stages 1 and 2
  const auto stages = stages_of(job, layout);
  CHECK(stages[0].dense == 49547264 + 83106816);
  CHECK(stages[1].dense == 2 * 33558528);
  // A micro-batch enters at one end only: a rank computes one of its two stages for it.
  CHECK(shape.copies == 2);
}

TEST_CASE("zb-v returns to the first rank with the head") {
  auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 2, 2048, 64);
  const auto shape = pipeline_shape(job, 2, 2, Schedule::zb_v);
  REQUIRE(shape.groups.size() == 2);
  CHECK(shape.groups[0].content.embedding);
  CHECK(shape.groups[0].content.head);
  CHECK_FALSE(shape.groups[1].content.head);
}

TEST_CASE("states are divided by the group that shares them") {
  // Mixtral on 16 GPUs as tp 2 x dp 8, ep 4, etp 1: experts lie on ep 4 x 4 replicas where they may span tp (Megatron),
  // and each tp rank keeps dp 8 / ep 4 = 2 replicas of its own where they may not (DeepSpeed).
  Layout layout;
  layout.tp = 2;
  layout.dp = 8;
  layout.ep = 4;
  layout.zero = 1;
  layout.sequence_parallel = true;
  const auto megatron = priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 2, 8, 4096, 64);
  CHECK(data_groups(megatron, layout).expert_shards == 4);
  CHECK(data_groups(megatron, layout).dense_shards == 8);
  const auto deepspeed = priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 2, 8, 4096, 64, Framework::deepspeed);
  CHECK(data_groups(deepspeed, layout).expert_shards == 2);
  // 12 bytes a parameter: dense over 8, experts over 4.
  const auto costs = layer_costs(megatron, layer_key(layout));
  const double dense = 32 * costs.moe_params + costs.embedding_params + costs.head_params;
  const double experts = 32 * costs.expert_params;
  CHECK(memory_of(megatron, layout).optimizer.raw() == doctest::Approx(12 * (dense / 8 + experts / 4)).epsilon(1e-12));
  // Gradients are summed over cp too.
  layout.cp = 2;
  layout.dp = 4;
  CHECK(data_groups(megatron, layout).dense_shards == 8);
  // With groups of 4 of the 8 ranks the experts' 4 holders are two groups of 2.
  layout.shard_group = 4;
  CHECK(data_groups(megatron, layout).dense_shards == 4);
  CHECK(data_groups(megatron, layout).expert_shards == 2);
  CHECK(data_groups(megatron, layout).expert_replicas.ranks == 2);
}

TEST_CASE("optimizers keep their bytes per parameter") {
  // fp32 master copy 4, plus: Adam m and v 4 + 4; 8-bit Adam 1 + 1 and two fp32 scales per 256 parameters = 2/64 x 1;
  // bf16 Adam 2 + 2; SGD, Muon and Lion one moment of 4; Adafactor sums of rows and columns only.
  struct Row {
    Optimizer optimizer;
    double bytes;
  };
  constexpr std::array<Row, 8> kRows{{{Optimizer::adam, 12},
                                      {Optimizer::adamw, 12},
                                      {Optimizer::adam_8bit, 4 + 1 + 1 + 2 * 4 / 256.0},
                                      {Optimizer::adam_bf16, 8},
                                      {Optimizer::sgd, 8},
                                      {Optimizer::muon, 8},
                                      {Optimizer::adafactor, 4},
                                      {Optimizer::lion, 8}}};
  auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 1, 2048, 64);
  const double total = 8 * 16779264.0 + 2 * 32768000.0 + 1024;
  const double ends = 2 * 32768000.0 + 1024;
  for (const auto& row : kRows) {
    Layout layout;
    layout.optimizer = row.optimizer;
    // Muon leaves embedding and head to Adam.
    const double expected = row.bytes * total + (row.optimizer == Optimizer::muon ? 4 * ends : 0);
    INFO(name_in(kOptimizerNames, row.optimizer));
    CHECK(memory_of(job, layout).optimizer.raw() == doctest::Approx(expected).epsilon(1e-12));
  }
  // 16-bit training keeps 2 + 4 beside them; fp32 training 4 + 4 and no second copy of the weights: 16 in all.
  Layout layout;
  const auto bf16 = memory_of(job, layout);
  CHECK((bf16.weights + bf16.gradients + bf16.optimizer).raw() == doctest::Approx(18 * total).epsilon(1e-12));
  job.training.precision = Precision::fp32;
  const auto fp32 = memory_of(job, layout);
  CHECK((fp32.weights + fp32.gradients + fp32.optimizer).raw() == doctest::Approx(16 * total).epsilon(1e-12));
  CHECK(fp32.activations.raw() == doctest::Approx(2 * bf16.activations.raw()).epsilon(1e-9));
  job.training.precision = Precision::bf16;
  job.training.gradient_bytes = 2;
  CHECK(memory_of(job, layout).gradients.raw() == doctest::Approx(2 * total).epsilon(1e-12));
}

TEST_CASE("an offloaded optimizer keeps 12 bytes a parameter in host memory and pays for the link both ways") {
  auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 4, 2048, 64);
  Layout layout;
  layout.dp = 4;
  layout.zero = 1;
  layout.offload = Offload::optimizer;
  const double local = (8 * 16779264.0 + 2 * 32768000.0 + 1024) / 4;
  const auto result = estimate(job, layout);
  CHECK(result.memory.optimizer.raw() == 0);
  CHECK(result.memory.host_bytes.raw() == doctest::Approx(12 * local).epsilon(1e-12));
  CHECK(result.step.offload >= Bytes(6 * local) / job.cluster.host_link);
  CHECK(result.step.optimizer.raw() == 0);
  // A faster link to the host (NVLink-C2C) never makes it slower.
  auto faster = job;
  faster.cluster.host_link *= 7;
  CHECK(estimate(faster, layout).step.offload <= result.step.offload);
  // Too little host memory: nothing fits, unless there is storage to take the rest, which is read and written.
  auto poor = job;
  poor.cluster.host_memory = Bytes(12 * local);  // of four GPUs
  CHECK(verdict(estimate(poor, layout).memory, 0.03) == Fits::no);
  poor.cluster.storage_read = BytesPerSecond(10e9);
  poor.cluster.storage_write = BytesPerSecond(5e9);
  const auto stored = estimate(poor, layout);
  CHECK(verdict(stored.memory, 0.03) == Fits::fits);
  CHECK(stored.memory.host_bytes.raw() == doctest::Approx(12 * local / 4));
  CHECK(stored.step.offload.raw() >= 0.999 * 4 * 9 * local * (1 / 10e9 + 1 / 5e9));
}

TEST_CASE("a second copy of the weights inside a node replaces the gathers of the backward pass") {
  // ZeRO++ hpZ: states over all 16 ranks, bf16 weights once more over the 8 of a node.
  const auto job = priced_job(tests::llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 64, Framework::deepspeed);
  Layout layout;
  layout.dp = 16;
  layout.zero = 3;
  const auto plain = estimate(job, layout);
  layout.shard_group = 8;
  const auto second = estimate(job, layout);
  const auto groups = data_groups(job, layout);
  CHECK(groups.dense_shards == 16);
  CHECK(groups.secondary.ranks == 8);
  CHECK(second.memory.optimizer == plain.memory.optimizer);
  const double total = static_cast<double>(parameter_counts(job.model).total);
  CHECK((second.memory.gathered - plain.memory.gathered).raw() == doctest::Approx(2 * total / 8).epsilon(0.001));
  CHECK(second.step.dp_comm <= plain.step.dp_comm);
  // Elsewhere a shard group holds all states once (HSDP): 12 bytes over 8 instead of 16 ranks.
  const auto fsdp = priced_job(tests::llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 64, Framework::torchtitan);
  CHECK(data_groups(fsdp, layout).dense_shards == 8);
  CHECK(data_groups(fsdp, layout).dense_replicas.ranks == 2);
}

TEST_CASE("an owner that broadcasts its shard makes large groups slow to gather") {
  const auto job = priced_job(tests::llama_7b(), "a100-80gb-sxm", 2, 8, 2048, 128, Framework::internevo);
  Layout layout;
  layout.dp = 16;
  layout.zero = 1;
  const auto groups = data_groups(job, layout);
  const auto laws = data_parallel_laws(job, layout, groups);
  CHECK(laws.gather_rounds == 16);
  const Bytes weights(2e9);
  const auto broadcast = collective_time(job, Collective::broadcast, weights / 16, groups.dense_shard);
  CHECK(data_parallel_times(job, laws, 1e9, 0).gather.raw() == doctest::Approx(16 * broadcast.raw()).epsilon(1e-12));
}

TEST_CASE("tokens limited to some nodes cross the network once per node") {
  // 64 ranks on 8 nodes, routing limited to 4 of them: 4 x 7/8 = 3.5 copies of 7,168 bytes in 8 bits down and of 14,336
  // bytes back; free top-8 routing hits 7 (1 - (7/8)^8) = 4.595 nodes.
  auto job = priced_job(load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json"), "h800-80gb-sxm", 8, 8,
                        4096, 64);
  job.training.precision = Precision::fp8;
  job.training.dispatcher = Dispatcher::deepep_fp8;
  Layout layout;
  layout.dp = 64;
  layout.ep = 64;
  const auto exchange = [](const Job& of, const LayerKey& key) {
    const auto list = layer_operations(of, key, true);
    for (const auto& op : list) {
      if (op.kind == OperationKind::ep_comm) {
        return op.forward;
      }
    }
    return Seconds(0);
  };
  const auto group = place_group(job.cluster, 64, 1);
  REQUIRE(group.inside == 8);
  const double rate = 0.88 * 50e9 * job.profile.all_to_all_factor;  // of 400 Gbit/s, DeepEP docs/legacy.md
  const double base = job.links[group.tier].base.raw();
  const auto key = layer_key(layout);
  CHECK(exchange(job, key).raw() == doctest::Approx(4096 * 3.5 * (7168 + 14336) / rate + 2 * base).epsilon(1e-9));
  auto free = job;
  free.model.moe->routing_group_limit = 0;
  const double nodes = 7 * (1 - std::pow(7.0 / 8, 8));
  CHECK(exchange(free, key).raw() == doctest::Approx(4096 * nodes * (7168 + 14336) / rate + 2 * base).epsilon(1e-9));
  // All-to-all sends every one of the 8 copies in 16 bits: 7/8 of them to other nodes.
  auto plain = job;
  plain.training.dispatcher = Dispatcher::all_to_all;
  CHECK(exchange(plain, key) > exchange(free, key));
}

TEST_CASE("an uneven load of the experts costs until a capacity drops it") {
  auto job = priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 1, 8, 4096, 64);
  Layout layout;
  layout.dp = 8;
  layout.ep = 8;
  const auto even = layer_costs(job, layer_key(layout));
  job.training.expert_imbalance = 1.5;
  const auto uneven = layer_costs(job, layer_key(layout));
  CHECK(uneven.moe.total() > even.moe.total());
  CHECK(uneven.moe_activations > even.moe_activations);
  CHECK(uneven.dense.total() == even.dense.total());
  job.training.expert_capacity = 1;
  const auto capped = layer_costs(job, layer_key(layout));
  CHECK(capped.moe.total() == even.moe.total());
  CHECK(capped.moe_activations == even.moe_activations);
}

TEST_CASE("nvfp4 products run at twice the peak of fp8") {
  // B200: 9,000 TFLOP/s dense. A product of 16,384^3 takes 2 x 16,384^3 x (1 + k0/16,384) / (9e15 x fraction) + 2 us.
  const auto job = priced_job(tests::llama_7b(), "b200-180gb-sxm", 1, 8, 4096, 64);
  CHECK(job.cluster.gpu.peak_of(Precision::nvfp4).raw() == 2 * job.cluster.gpu.peak_of(Precision::fp8).raw());
  CHECK(job.cluster.gpu.peak_of(Precision::nvfp4).raw() == 9e15);
  const double n = 16384;
  const double expected = 2 * n * n * n * (1 + job.constants.gemm_k0_narrow / n) /
                              (9e15 * job.constants.power_factor * job.constants.gemm_fp4) +
                          2e-6;
  CHECK(gemm_time(job, n, n, n, Precision::nvfp4).raw() == doctest::Approx(expected).epsilon(1e-9));
}

TEST_CASE("8-bit products round their inputs forward and the gradients of their outputs backward") {
  // Llama 2 7B, per token: inputs of qkv, projection, up+gate 4,096 each and of down 11,008; outputs 12,288 + 4,096 +
  // 22,016 + 4,096. Read in 16 bits, written twice in 8: 4 bytes an element.
  auto job = priced_job(tests::llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 64);
  const auto casts = [&] {
    const auto list = layer_operations(job, layer_key(Layout{}), false);
    for (const auto& op : list) {
      if (std::string(op.name) == "quantisation of product inputs") {
        return std::array<double, 2>{op.bytes_forward.raw(), op.bytes_backward.raw()};
      }
    }
    return std::array<double, 2>{0, 0};
  };
  CHECK(casts()[0] == 0);
  job.training.precision = Precision::fp8;
  CHECK(casts()[0] == doctest::Approx(4.0 * 4096 * 23296).epsilon(1e-12));
  CHECK(casts()[1] == doctest::Approx(4.0 * 4096 * 42496).epsilon(1e-12));
}

TEST_CASE("full recomputation of some layers costs and frees their share") {
  const auto job = priced_job(small_dense(), "a100-80gb-sxm", 1, 1, 2048, 64);
  Layout layout;
  const auto none = estimate(job, layout);
  REQUIRE(set_recompute(layout, "full"));
  const auto all = estimate(job, layout);
  REQUIRE(set_recompute(layout, "full:8"));
  CHECK(estimate(job, layout).step.total() == all.step.total());
  REQUIRE(set_recompute(layout, "full:2"));
  const auto two = estimate(job, layout);
  CHECK(two.step.recompute.raw() == doctest::Approx(all.step.recompute.raw() / 4).epsilon(1e-9));
  CHECK(two.step.total() < all.step.total());
  CHECK(two.step.total() > none.step.total());
  CHECK(two.memory.activations > all.memory.activations);
}

TEST_CASE("layers dealt out by cost are the best that whole layers allow") {
  // Against every way to cut ten layers of unequal cost into four stages, the ends carrying more.
  const std::vector<double> layer{3, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  const std::vector<double> end{0.5, 0, 0, 2.5};
  const auto cost = [&](int stage, int begin, int stop) {
    double sum = end[static_cast<std::size_t>(stage)];
    for (int i = begin; i < stop; ++i) {
      sum += layer[static_cast<std::size_t>(i)];
    }
    return sum;
  };
  double best = 1e9;
  for (int a = 0; a <= 10; ++a) {
    for (int b = a; b <= 10; ++b) {
      for (int c = b; c <= 10; ++c) {
        best = std::min(best, std::max({cost(0, 0, a), cost(1, a, b), cost(2, b, c), cost(3, c, 10)}));
      }
    }
  }
  const auto dealt = deal_layers(10, 4, cost);
  double worst = 0;
  int begin = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const int stop = begin + dealt[static_cast<std::size_t>(stage)];
    worst = std::max(worst, cost(stage, begin, stop));
    begin = stop;
  }
  CHECK(begin == 10);
  CHECK(worst == doctest::Approx(best).epsilon(1e-9));
  // Equal layers stay equally dealt.
  const auto equal = deal_layers(32, 4, [](int, int from, int to) { return 1.0 * (to - from); });
  CHECK(equal == std::vector<int>{8, 8, 8, 8});
}

TEST_CASE("balanced stages are no slower and no fuller than the framework's") {
  auto job = priced_job(load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json"), "h800-80gb-sxm", 128,
                        8, 4096, 1024);
  Layout layout;
  layout.pp = 16;
  layout.dp = 64;
  layout.ep = 64;
  layout.zero = 1;
  const auto by_framework = estimate(job, layout);
  job.training.balance = StageBalance::time;
  CHECK(estimate(job, layout).step.lower_bound <= by_framework.step.lower_bound);
  job.training.balance = StageBalance::memory;
  const auto by_memory = estimate(job, layout);
  CHECK(by_memory.memory.total() <= by_framework.memory.total());
  int layers = 0;
  for (const int count : pipeline_shape(job, layout).layers_per_stage) {
    layers += count;
  }
  CHECK(layers == 61);
}

TEST_CASE("latent attention and experts keep what their recomputed modules leave") {
  // DeepSeek-V3 per token, 16 bits, tp 1 (lists of tensors: bf16 = 2 bytes). Inputs and outputs of two norms 8 h =
  // 57,344. Latents 2 (2 x 1,536 + 2 x 512 + 64) = 8,320; heads 2 x 128 [2 x 192 + (128 + 128)] = 163,840 (queries
  // twice, keys and values once), attention output 2 x 128 x 128 = 32,768, statistics 4 x 128 = 512. Experts: router 12
  // x 256 = 3,072, 8 copies of 2 x 7,168 + 8 = 114,752, 6 bytes of 8 x 2,048 and of the shared 2,048 = 110,592.
  const auto job = priced_job(load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json"), "h800-80gb-sxm",
                              8, 8, 4096, 64);
  REQUIRE(job.profile.activation_factor == 1);
  Layout layout;
  layout.dp = 64;
  layout.ep = 64;
  const auto per_token = [&](const char* recompute) {
    REQUIRE(set_recompute(layout, recompute));
    return layer_costs(job, layer_key(layout)).moe_activations.raw() / 4096;
  };
  const double all = 57344 + 8320 + 163840 + 32768 + 512 + 3072 + 114752 + 110592;
  CHECK(per_token("none") == doctest::Approx(all).epsilon(1e-9));
  CHECK(per_token("selective:mla_up_proj") == doctest::Approx(all - 163840).epsilon(1e-9));
  // The activation's output is a third of the experts' 6 bytes: 2 x 8 x 2,048.
  CHECK(per_token("selective:moe_act") == doctest::Approx(all - 32768).epsilon(1e-9));
  CHECK(per_token("selective:shared_experts") == doctest::Approx(all - 6 * 2048).epsilon(1e-9));
  CHECK(per_token("selective:moe") == doctest::Approx(all - 114752 - 110592).epsilon(1e-9));
  CHECK(per_token("selective:norm") == doctest::Approx(all - 28672).epsilon(1e-9));
  CHECK(per_token("selective:mlp") == doctest::Approx(all).epsilon(1e-9));
}

TEST_CASE("tensor-parallel exchanges that run beside products show the rest of the share that is hidden") {
  auto job = priced_job(small_dense(), "h100-80gb-sxm", 1, 4, 2048, 64);
  REQUIRE(job.profile.tp_hidden > 0);
  REQUIRE(job.profile.tp_overlap_default == 0);
  Layout layout;
  layout.tp = 4;
  layout.sequence_parallel = true;
  // A layer has two pairs of all-gather and reduce-scatter of 2,048 x 1,024 x 2 B each way; the ends are not
  // overlapped.
  const auto group = place_group(job.cluster, 4, 1);
  const Bytes bytes(2048.0 * 1024 * 2);
  const double pair = (collective_time(job, Collective::all_gather, bytes, group) +
                       collective_time(job, Collective::reduce_scatter, bytes, group))
                          .raw();
  const auto plain = layer_costs(job, layer_key(layout));
  CHECK(plain.dense.tp_forward.raw() == doctest::Approx(2 * pair).epsilon(1e-9));
  CHECK(plain.dense.tp_backward.raw() == doctest::Approx(2 * pair).epsilon(1e-9));
  job.training.overlap_tp = Switch::on;
  const auto beside = layer_costs(job, layer_key(layout));
  CHECK(beside.dense.tp_forward.raw() == doctest::Approx(2 * pair * (1 - job.profile.tp_hidden)).epsilon(1e-9));
  CHECK(beside.head.tp_forward == plain.head.tp_forward);
}
