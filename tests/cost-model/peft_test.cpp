#include "cost-model/peft.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "cost-model/layer_sizes.h"
#include "cost-model/simulate.h"
#include "cost-model/stage_cost.h"
#include "planner/spec_files.h"
#include "tests/planner/jobs.h"

using namespace tpplan;

namespace {

const ProfileSet& profiles() {
  static const ProfileSet set = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  return set;
}

struct Method {
  PeftMethod peft = PeftMethod::lora;
  int rank = 16;
  std::vector<std::string> targets;
  int seq = 1024;
  int batch = 1;
  std::string program = "huggingface";
  bool doubly = true;
};

Job job_of(ModelSpec model, const Method& method, const std::string& gpu = "rtx-4090", int gpus = 1) {
  TrainingSpec training;
  training.seq = method.seq;
  training.global_batch = method.batch;
  training.framework = Framework::fsdp;
  training.program = method.program;
  training.peft = method.peft;
  training.peft_rank = method.rank;
  training.peft_targets = method.targets;
  training.double_quantisation = method.doubly;
  static const GpuCatalogue kGpus = shipped_gpus();
  return make_job(std::move(model), usual_cluster(kGpus.find(gpu), 1, gpus), training, profiles());
}

double adapters_of(const std::string& model, int rank, const std::vector<std::string>& targets) {
  Method method;
  method.rank = rank;
  method.targets = targets;
  const Job job = job_of(resolve_model(model), method, "h100-80gb-sxm");
  const LayerKey key;
  return layer_adapters(job, key, false) * job.model.layers + head_adapters(job, sizes_of(job, key));
}

Layout one_gpu(int micro_batch = 1, const std::string& recompute = "full") {
  Layout layout;
  layout.micro_batch = micro_batch;
  set_recompute(layout, recompute);
  return layout;
}

}  // namespace

TEST_CASE("adapter parameters are rank times inputs and outputs of each adapted matrix") {
  // Llama 2 7B, rank 16, every matrix: q, k, v, o 4 x 16 x (4096 + 4096) = 524,288; gate, up, down
  // 3 x 16 x (4096 + 11008) = 724,992; 1,249,280 a layer, x 32.
  CHECK(adapters_of("7b", 16, {}) == 39976960);
  // Rank 8 on queries and values: 2 x 8 x 8192 x 32.
  CHECK(adapters_of("7b", 8, {"q", "v"}) == 4194304);
  // 13B: 2 x 8 x (5120 + 5120) x 40; the program printed 6,553,600.
  CHECK(adapters_of("13b", 8, {"q_proj", "v_proj"}) == 6553600);
  // StableLM 3B: 2 x 8 x 8192 x 16; printed 2,097,152.
  CHECK(adapters_of("stablelm-base-alpha-3b", 8, {"q", "v"}) == 2097152);
  // Falcon 40B, values of 8 heads x 64: 8 x (8192 + 8192) + 8 x (8192 + 512) = 200,704, x 60; printed 12,042,240.
  CHECK(adapters_of("falcon-40b", 8, {"q", "v"}) == 12042240);
  // The head: 16 x (4096 + 32000).
  CHECK(adapters_of("7b", 16, {"all", "head"}) == 39976960 + 577536);
}

TEST_CASE("tensor parallelism divides one side of each adapter") {
  // q, k, v, gate, up: whole inputs, outputs / 2; o, down: inputs / 2, whole outputs.
  // 3 x 16 x (4096 + 2048) + 16 x (2048 + 4096) + 2 x 16 x (4096 + 5504) + 16 x (5504 + 4096)
  const Job job = job_of(tests::llama_7b(), Method{});
  LayerKey key;
  key.tp = 2;
  CHECK(layer_adapters(job, key, false) == 4 * 16 * 6144 + 3 * 16 * 9600);
}

TEST_CASE("every expert of a mixture has adapters of its own") {
  // Mixtral: q, o 2 x 16 x 8192; k, v 2 x 16 x (4096 + 1024); 8 experts x 3 x 16 x (4096 + 14336).
  const Job job = job_of(tests::mixtral_8x7b(), Method{}, "h100-80gb-sxm");
  CHECK(layer_adapters(job, LayerKey{}, true) == 2 * 16 * 8192 + 2 * 16 * 5120 + 8 * 3 * 16 * 18432);
}

TEST_CASE("prompts and gates of LLaMA-Adapter sit in all but the first two layers") {
  Method method;
  method.peft = PeftMethod::adapter;
  method.program = "litgpt";
  const auto counted = [&](const std::string& model) {
    const Job job = job_of(resolve_model(model), method, "a100-80gb-sxm");
    return layer_adapters(job, LayerKey{}, false) * job.model.layers + head_adapters(job, sizes_of(job, LayerKey{}));
  };
  // StableLM 3B: 14 layers x (10 x 4096 + 32 gates); the program printed 573,888. Llama 2 7B: 30 x 40,992.
  CHECK(counted("stablelm-base-alpha-3b") == doctest::Approx(573888));
  CHECK(counted("7b") == doctest::Approx(1229760));
  // Version 2 adds a bias and a scale per output of each product, 2 x (3 x 4096 + 4096 + 16384 + 4096) a layer, and of
  // the head, 2 x 50,688, and the norms, 2 x 8,192 a layer and 8,192 at the end; the program printed 2,125,248.
  method.peft = PeftMethod::adapter_v2;
  CHECK(counted("stablelm-base-alpha-3b") == doctest::Approx(573888 + 16 * 73728 + 101376 + 16 * 16384 + 8192));
  CHECK(counted("stablelm-base-alpha-3b") == doctest::Approx(2125248));
}

TEST_CASE("layers below every prompt keep nothing and have no backward pass") {
  Method method;
  method.peft = PeftMethod::adapter;
  method.program = "litgpt";
  const Job job = job_of(resolve_model("stablelm-base-alpha-3b"), method, "a100-80gb-sxm");
  const Layout layout = one_gpu(1, "none");
  const auto costs = layer_costs(job, layer_key(layout));
  CHECK(costs.untouched_layers == 2);
  // Per token the shared norm input 2h, rotated q and k 4q, the qkv output that the values keep 2q + 4kv, the attention
  // output 2q, 4 bytes a head of softmax statistics and GELU's input 2f; of the prompts their attention's output 2q and
  // 4 bytes a head. Outputs of norms and GELU are read by frozen products only.
  const double token = (2 + 4 + 6 + 2 + 2) * 4096 + 2 * 16384 + 8 * 32;
  CHECK(costs.dense_activations.raw() == doctest::Approx(token * 1024));
  CHECK(estimate(job, layout).memory.activations.raw() == doctest::Approx(14 * token * 1024));
  const StageContent first{16, 0, true, true};
  const StageContent later{16, 0, false, true};
  CHECK(trained_share(costs, first) == 14.0 / 16);
  CHECK(trained_share(costs, later) == 1);
  CHECK(simulate(job, layout).ranks.front().most_activations.raw() == doctest::Approx(14 * token * 1024));
  const Seconds forward = stage_costs(costs, first).forward - costs.embedding.forward_total();
  CHECK(forward.raw() == doctest::Approx(stage_costs(costs, later).forward.raw()));
  const Seconds backward = stage_costs(costs, first).backward - costs.embedding.backward_total();
  CHECK(backward.raw() ==
        doctest::Approx((stage_costs(costs, later).backward - costs.dense.backward_total() * 2.0).raw()));
}

TEST_CASE("biases and scales of outputs keep every output before it is scaled") {
  Method method;
  method.peft = PeftMethod::adapter_v2;
  method.program = "litgpt";
  const Job job = job_of(resolve_model("stablelm-base-alpha-3b"), method, "a100-80gb-sxm");
  const auto costs = layer_costs(job, layer_key(one_gpu(1, "none")));
  CHECK(costs.untouched_layers == 0);
  // As with prompts, of which 14 of 16 layers have some, and 2 bytes of each of 36,864 outputs.
  const double token = (2 + 4 + 6 + 2) * 4096 + 2 * 16384 + 4 * 32 + 14.0 / 16 * (2 * 4096 + 4 * 32) + 2 * 36864;
  CHECK(costs.dense_activations.raw() == doctest::Approx(token * 1024));
}

TEST_CASE("frozen weights are as wide as the precision that trains beside them") {
  Method method;
  method.program = "peft";
  Job job = job_of(tests::llama_7b(), method, "a100-80gb-sxm");
  const double adapters = 39976960;
  CHECK(estimate(job, one_gpu()).memory.weights.raw() == doctest::Approx(2 * 6738415616.0 + 4 * adapters));
  job.training.precision = Precision::fp32;
  CHECK(estimate(job, one_gpu()).memory.weights.raw() == doctest::Approx(4 * 6738415616.0 + 4 * adapters));
}

TEST_CASE("hidden states beside 4-bit weights are as wide as embedding and norms") {
  Method method;
  method.peft = PeftMethod::qlora;
  const Job wide = job_of(tests::llama_7b(), method);
  method.program = "torchtune";
  const Job narrow = job_of(tests::llama_7b(), method);
  CHECK(hidden_bytes(wide) == 4);
  CHECK(hidden_bytes(narrow) == 2);
  // A checkpoint of 1,024 tokens x 4,096.
  CHECK(layer_costs(wide, layer_key(one_gpu())).dense_activations.raw() == 4 * 1024 * 4096);
  CHECK(layer_costs(narrow, layer_key(one_gpu())).dense_activations.raw() == 2 * 1024 * 4096);
  // Without recomputation gate, its activation and up take 2 bytes more for each of 11,008 elements than with 16-bit
  // weights.
  method.program = "huggingface";
  method.peft = PeftMethod::lora;
  const Job lora = job_of(tests::llama_7b(), method);
  const auto key = layer_key(one_gpu(1, "none"));
  CHECK((layer_costs(wide, key).dense_activations - layer_costs(lora, key).dense_activations).raw() ==
        doctest::Approx(3 * 2 * 11008.0 * 1024));
}

TEST_CASE("ZeRO-3 with offload holds frozen weights in host memory and takes them up before each pass") {
  Method method;
  const Job job = job_of(resolve_model("70b"), method, "a100-80gb-sxm");
  Layout layout = one_gpu();
  layout.zero = 3;
  const auto here = estimate(job, layout);
  CHECK(verdict(here.memory, 0) == Fits::no);
  layout.offload = Offload::optimizer;
  const auto there = estimate(job, layout);
  CHECK(there.memory.weights.raw() == 0);
  CHECK(verdict(there.memory, 0) == Fits::fits);
  // 68,976,648,192 weights x 2 bytes, and fp32 adapters with two moments of the 80 layers: 16 x (2 x 16384 +
  // 2 x (8192 + 1024) + 3 x (8192 + 28672)).
  const double adapters = 80 * 16.0 * (2 * 16384 + 2 * 9216 + 3 * 36864);
  CHECK(there.memory.host_bytes.raw() == doctest::Approx(2 * 68976648192.0 + 12 * adapters));
  // One micro-batch: forward and backward wait for what 138 GB over the link take longer than their products.
  const auto costs = layer_costs(job, layer_key(layout));
  const auto stage = stage_costs(costs, {80, 0, true, true});
  const Seconds up = Bytes(2 * 68976648192.0) / job.cluster.host_link;
  CHECK(up > stage.backward);
  const Seconds waits = (up - stage.forward) + (up - stage.backward);
  CHECK(there.step.offload.raw() == doctest::Approx((waits + offloaded_update(job, layout, adapters)).raw()));
}

TEST_CASE("paged optimizer states travel as far as the peak leaves them no room") {
  // Llama 2 7B in 16 bits on 24 GB with 8-bit Adam, whose states take 4 x 6.03125 / 12 bytes a parameter.
  Method method;
  method.peft = PeftMethod::none;
  method.program = "torchtune";
  const Job job = job_of(tests::llama_7b(), method);
  Layout layout = one_gpu();
  layout.optimizer = Optimizer::adam_8bit;
  const auto small = estimate(job, layout);
  const Bytes states(4 * 6.03125 / 12 * 6738415616.0);
  const Bytes room = job.cluster.gpu.usable - small.memory.total();
  CHECK(small.memory.host_bytes.raw() == doctest::Approx(states.raw()));
  CHECK(room > Bytes(0));
  CHECK(room < states);
  CHECK(small.step.offload.raw() == doctest::Approx(((states - room) * 2.0 / job.cluster.host_link).raw()));
  // With room for all of them nothing travels.
  const Job roomy = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  CHECK(estimate(roomy, layout).step.offload.raw() == 0);
}

TEST_CASE("layers below every prompt are computed once however many are recomputed") {
  // The two layers below the prompts are the first ones, as are those that full:N recomputes: N - 2 are left.
  Method method;
  method.peft = PeftMethod::adapter;
  const Job job = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  const auto again = [&](const std::string& recompute) {
    return estimate(job, one_gpu(1, recompute)).step.recompute.raw();
  };
  const double layer = again("full:3");
  CHECK(layer > 0);
  CHECK(again("full:1") == 0);
  CHECK(again("full:2") == doctest::Approx(0).scale(layer));
  CHECK(again("full:12") == doctest::Approx(10 * layer));
  CHECK(again("full") == doctest::Approx(30 * layer));
  CHECK(estimate(job, one_gpu(1, "full:2")).step.compute.raw() ==
        doctest::Approx(estimate(job, one_gpu(1, "none")).step.compute.raw()));
}

TEST_CASE("Muon orthogonalises the adapters and nothing that is frozen") {
  // Five iterations of 6 h FLOP a parameter on the 4,194,304 of rank 8 on queries and values, beside the traffic.
  Method method;
  method.rank = 8;
  method.targets = {"q", "v"};
  const Job job = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  Layout layout = one_gpu();
  layout.optimizer = Optimizer::muon;
  const auto& gpu = job.cluster.gpu;
  const double traffic = std::max(8.0, job.profile.optimizer_bytes + row_of(Optimizer::muon).traffic_bytes) * 4194304 /
                         (gpu.memory_bandwidth.raw() * job.constants.memory_adam);
  const double products = 5 * 6.0 * 4096 * 4194304 /
                          (gpu.peak_of(Precision::bf16).raw() * job.constants.power_factor * job.constants.gemm_16bit);
  CHECK(estimate(job, layout).step.optimizer.raw() == doctest::Approx(traffic + products));
}

TEST_CASE("attention over prompts reads and writes its queries and outputs") {
  // 10 bytes an element of the query forward and 14 backward (cost-model/peft.cpp), 4,096 of each of 1,024 tokens;
  // gradients of the prompts themselves are counted with the adapters.
  Method method;
  method.peft = PeftMethod::adapter;
  const Job job = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  const OperationList list = layer_operations(job, layer_key(one_gpu()), false);
  const auto prompts = std::find_if(list.begin(), list.end(), [](const Operation& op) {
    return std::string_view(op.name) == "prompts, biases and scales of adapters, their gradients";
  });
  REQUIRE(prompts != list.end());
  CHECK(prompts->bytes_forward.raw() == doctest::Approx(10.0 * 4096 * 1024));
  CHECK(prompts->bytes_backward.raw() == doctest::Approx(14.0 * 4096 * 1024));
}

TEST_CASE("a drop-out before an adapter reads its input and writes a copy and a mask") {
  // 2 + 2 + 1 bytes an element of the input, 4,096 of each of 1,024 tokens, for queries and values.
  Method method;
  method.targets = {"q", "v"};
  Job job = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  const auto traffic = [&] {
    const OperationList list = layer_operations(job, layer_key(one_gpu()), false);
    return std::find_if(list.begin(), list.end(),
                        [](const Operation& op) {
                          return std::string_view(op.name).find("drop-outs") != std::string_view::npos;
                        })
        ->bytes_forward.raw();
  };
  job.profile.adapter_dropout = 0;
  const double without = traffic();
  CHECK(without == doctest::Approx(2 * 6.0 * 4096 * 1024));
  job.profile.adapter_dropout = 1;
  CHECK(traffic() - without == doctest::Approx(2 * 5.0 * 4096 * 1024));
}

TEST_CASE("nothing of the layers below every prompt is kept however many are recomputed") {
  Method method;
  method.peft = PeftMethod::adapter;
  const Job job = job_of(tests::llama_7b(), method, "h100-80gb-sxm");
  const auto kept = [&](const std::string& recompute) {
    const Layout layout = one_gpu(1, recompute);
    const LayerCosts costs = layer_costs(job, layer_key(layout));
    const PipelineShape shape = pipeline_shape(job, layout);
    const StageGroup& group = shape.groups.front();
    return stage_tensors(job, layout, costs, group, stage_costs(costs, group.content), data_groups(job, layout), 1)
        .one.raw();
  };
  // The first two keep nothing anyway; each further layer keeps its input instead of everything.
  CHECK(kept("full:2") == doctest::Approx(kept("none")));
  // The simulation counts the same.
  const Layout partly = one_gpu(1, "full:7");
  CHECK(simulate(job, partly).ranks.front().peak.parts.allocated().raw() ==
        doctest::Approx(estimate(job, partly).memory.allocated().raw()));
  CHECK(kept("full:7") == doctest::Approx((25 * kept("none") + 5 * kept("full")) / 30));
}

TEST_CASE("a weight in NF4 takes half a byte and its share of the block constants") {
  // Blocks of 64 weights: an fp32 constant each, 4/64; doubly quantised 1/64 and fp32 per 256 blocks, 4/16384.
  CHECK(quantised_weight_bytes(false) == 0.5625);
  CHECK(quantised_weight_bytes(true) == 0.515869140625);
}

TEST_CASE("weights of a QLoRA run are 4-bit matrices, fp32 ends and adapters") {
  // Matrices 32 x (4 x 4096^2 + 3 x 4096 x 11008) = 6,476,005,376; all parameters 6,738,415,616, so 262,410,240 others
  // in fp32 (peft's preparation for k-bit training); adapters in fp32.
  Method method;
  method.peft = PeftMethod::qlora;
  const Job job = job_of(tests::llama_7b(), method);
  const auto memory = estimate(job, one_gpu()).memory;
  CHECK(memory.weights.raw() == doctest::Approx(0.515869140625 * 6476005376.0 + 4 * 262410240.0 + 4 * 39976960.0));
  CHECK(memory.gradients.raw() == doctest::Approx(4 * 39976960.0));
  CHECK(memory.optimizer.raw() == doctest::Approx(8 * 39976960.0));
  // Without double quantisation 4/64 - 1/64 - 4/16384 bytes more a matrix weight.
  method.doubly = false;
  const auto simple = estimate(job_of(tests::llama_7b(), method), one_gpu()).memory;
  CHECK((simple.weights - memory.weights).raw() == doctest::Approx((0.0625 - 0.015869140625) * 6476005376.0));
}

TEST_CASE("QLoRA needs less memory than LoRA and LoRA less than training every weight") {
  for (const auto* model : {"7b", "llama3-8b", "mistral-7b", "gemma-2b", "mixtral-8x7b"}) {
    for (const auto* recompute : {"none", "full"}) {
      std::vector<Bytes> totals;
      for (const auto peft : {PeftMethod::qlora, PeftMethod::lora, PeftMethod::none}) {
        Method method;
        method.peft = peft;
        totals.push_back(estimate(job_of(resolve_model(model), method), one_gpu(1, recompute)).memory.total());
      }
      CAPTURE(model);
      CHECK(totals[0] < totals[1]);
      CHECK(totals[1] < totals[2]);
    }
  }
}

TEST_CASE("a higher rank and more targets never need less memory or time") {
  std::mt19937 random(7);
  const std::vector<std::string> words{"q", "k", "v", "o", "gate", "up", "down", "head"};
  for (int i = 0; i < 60; ++i) {
    Method method;
    method.peft = random() % 2 == 0 ? PeftMethod::lora : PeftMethod::qlora;
    method.rank = 1 << (random() % 7);
    method.seq = 256 << (random() % 4);
    method.program = random() % 2 == 0 ? "huggingface" : "litgpt";
    method.targets = {words[random() % words.size()]};
    const auto layout = one_gpu(1 + static_cast<int>(random() % 3), random() % 2 == 0 ? "none" : "full");
    method.batch = layout.micro_batch;
    const auto base = estimate(job_of(tests::llama_7b(), method), layout);
    auto higher = method;
    higher.rank *= 2;
    const auto with_rank = estimate(job_of(tests::llama_7b(), higher), layout);
    CHECK(with_rank.memory.total() >= base.memory.total());
    CHECK(with_rank.step.total() >= base.step.total());
    auto wider = method;
    wider.targets.push_back(words[random() % words.size()]);
    CHECK(estimate(job_of(tests::llama_7b(), wider), layout).memory.total() >= base.memory.total());
  }
}

TEST_CASE("frozen products have no weight gradients") {
  const LayerKey key;
  const Job frozen = job_of(tests::llama_7b(), Method{});
  Method all;
  all.peft = PeftMethod::none;
  const Job trained = job_of(tests::llama_7b(), all);
  double weight_gradients = 0;
  double backward_flops = 0;
  for (const auto& op : layer_operations(frozen, key, false)) {
    if (op.kind == OperationKind::gemm) {
      CHECK(op.weight_gradient.raw() == 0);
      CHECK(op.flops_backward.raw() == doctest::Approx(op.flops_forward.raw()));
    }
    weight_gradients += op.weight_gradient.raw();
    backward_flops += op.kind == OperationKind::gemm ? op.flops_backward.raw() : 0;
  }
  // Adapters have theirs.
  CHECK(weight_gradients > 0);
  double trained_flops = 0;
  for (const auto& op : layer_operations(trained, key, false)) {
    trained_flops += op.kind == OperationKind::gemm ? op.flops_backward.raw() : 0;
  }
  CHECK(trained_flops == doctest::Approx(2 * backward_flops));
}

TEST_CASE("4-bit weights are unpacked before each product of both passes") {
  Method method;
  method.peft = PeftMethod::qlora;
  const Job job = job_of(tests::llama_7b(), method);
  bool found = false;
  for (const auto& op : layer_operations(job, LayerKey{}, false)) {
    if (std::string_view(op.name) == "dequantisation of 4-bit weights") {
      found = true;
      // One layer: 4 x 4096^2 + 3 x 4096 x 11008 = 202,375,168 weights, 0.516 bytes read and 2 written.
      CHECK(op.bytes_forward.raw() == doctest::Approx(2.515869140625 * 202375168.0));
      CHECK(op.bytes_backward.raw() == op.bytes_forward.raw());
      CHECK(op.forward.raw() > 0);
    }
  }
  CHECK(found);
}

TEST_CASE("FSDP divides frozen weights and DDP holds them on every GPU") {
  Method method;
  method.peft = PeftMethod::qlora;
  method.batch = 8;
  const Job job = job_of(resolve_model("70b"), method, "a100-80gb-sxm", 8);
  Layout layout = one_gpu();
  layout.dp = 8;
  const auto whole = estimate(job, layout).memory;
  layout.zero = 3;
  const auto divided = estimate(job, layout).memory;
  CHECK(divided.weights.raw() == doctest::Approx(whole.weights.raw() / 8));
  CHECK(divided.total() < whole.total());
  CHECK(divided.gathered.raw() > 0);
}

TEST_CASE("only adapters are reduced over data-parallel ranks") {
  Method method;
  method.batch = 8;
  const Job frozen = job_of(tests::llama_7b(), method, "a100-80gb-sxm", 8);
  method.peft = PeftMethod::none;
  const Job trained = job_of(tests::llama_7b(), method, "a100-80gb-sxm", 8);
  Layout layout = one_gpu();
  layout.dp = 8;
  CHECK(estimate(frozen, layout).step.dp_comm < estimate(trained, layout).step.dp_comm * 0.2);
  CHECK(estimate(frozen, layout).step.optimizer < estimate(trained, layout).step.optimizer * 0.02);
}

TEST_CASE("words of matrices to adapt that are not known are answered with the nearest one") {
  const auto targets = adapter_targets({"q_proj", "vproj"});
  REQUIRE(targets.problems.size() == 1);
  CHECK(targets.problems.front() == "no matrix \"vproj\" to adapt; did you mean \"v_proj\"? (--peft targets=)");
  CHECK(adapter_targets({}).mask == 127);
  CHECK(adapter_targets({"attention", "down"}).mask == (15 | kAdaptDown));
}

TEST_CASE("4-bit weights are refused where no program holds them") {
  Method method;
  method.peft = PeftMethod::qlora;
  Job job = job_of(tests::llama_7b(), method, "a100-80gb-sxm", 2);
  Layout layout = one_gpu();
  layout.tp = 2;
  layout.etp = 2;
  std::vector<std::string> broken;
  for (const int rule : broken_rules(job, layout)) {
    broken.emplace_back(rules()[static_cast<std::size_t>(rule)].name);
  }
  CHECK(std::count(broken.begin(), broken.end(), "packed-weights-whole") == 1);
  CHECK(std::count(broken.begin(), broken.end(), "packed-weights-offered") == 0);
  job.training.framework = Framework::nanotron;
  broken.clear();
  for (const int rule : broken_rules(job, layout)) {
    broken.emplace_back(rules()[static_cast<std::size_t>(rule)].name);
  }
  CHECK(std::count(broken.begin(), broken.end(), "packed-weights-offered") == 1);
}
