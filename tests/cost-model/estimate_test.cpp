#include "cost-model/estimate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::gpt3_175b;
using tests::llama_7b;
using tests::priced_job;

namespace {

std::vector<Job> jobs() {
  return {priced_job(llama_7b(), "a100-80gb-sxm", 8, 8, 4096, 1024),
          priced_job(gpt3_175b(), "h100-80gb-sxm", 64, 8, 2048, 1536),
          priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 8, 8, 4096, 512)};
}

int power_of_two(std::mt19937& random, int most) {
  int value = 1;
  while (value < most && random() % 2 == 0) {
    value *= 2;
  }
  return value;
}

/// A random layout of the job's world; not every one is legal, every one must be priced.
Layout random_layout(const Job& job, std::mt19937& random) {
  Layout layout;
  layout.tp = power_of_two(random, 8);
  layout.cp = power_of_two(random, 4);
  layout.pp = power_of_two(random, 16);
  while (job.cluster.gpus() % (layout.tp * layout.cp * layout.pp) != 0) {
    layout.pp /= 2;
  }
  layout.dp = job.cluster.gpus() / (layout.tp * layout.cp * layout.pp);
  if (layout.pp > 1 && random() % 2 == 0) {
    layout.vpp = 2;
    layout.schedule = Schedule::interleaved;
  }
  layout.micro_batch = power_of_two(random, 8);
  layout.zero = static_cast<std::uint8_t>(random() % 2);
  layout.sequence_parallel = layout.tp > 1 && random() % 2 == 0;
  const std::array<std::string_view, 3> recompute{"none", "selective", "full"};
  set_recompute(layout, recompute[random() % recompute.size()]);
  layout.etp = job.moe() ? 1 : layout.tp;
  return layout;
}

Bytes states(const MemoryEstimate& memory) { return memory.weights + memory.gradients + memory.optimizer; }

}  // namespace

TEST_CASE("terms add up for ten thousand random layouts") {
  std::mt19937 random(1);
  const auto all = jobs();
  for (int i = 0; i < 10000; ++i) {
    const auto& job = all[random() % all.size()];
    const auto layout = random_layout(job, random);
    const auto result = estimate(job, layout);
    double step = 0;
    for (const auto& row : kStepTerms) {
      const double term = (result.step.*row.field).raw();
      REQUIRE(std::isfinite(term));
      REQUIRE(term >= 0);
      step += term;
    }
    REQUIRE(step == doctest::Approx(result.step.total().raw()).epsilon(1e-12));
    double memory = 0;
    for (const auto& row : kMemoryTerms) {
      REQUIRE((result.memory.*row.field).raw() >= 0);
      memory += (result.memory.*row.field).raw();
    }
    REQUIRE(memory == doctest::Approx(result.memory.total().raw()).epsilon(1e-12));
    REQUIRE(result.step.lower_bound <= result.step.total());
  }
}

TEST_CASE("parameters over ranks add up to the model") {
  // Divided weights count once over tp ranks, replicated ones (norms) tp times; the vocabulary is padded to 128 tp
  // rows.
  std::mt19937 random(2);
  const auto job = priced_job(llama_7b(), "a100-80gb-sxm", 8, 8, 4096, 1024);
  const double total = static_cast<double>(parameter_counts(job.model).total);
  const double hidden = job.model.hidden;
  for (int i = 0; i < 2000; ++i) {
    const auto layout = random_layout(job, random);
    const auto costs = layer_costs(job, layer_key(layout));
    const auto shape = pipeline_shape(job, layout.pp, layout.vpp);
    double sum = 0;
    for (const auto& group : shape.groups) {
      const auto& content = group.content;
      sum += group.count * (content.dense * costs.dense_params + (content.embedding ? costs.embedding_params : 0) +
                            (content.head ? costs.head_params : 0));
    }
    const double replicated = (2.0 * job.model.layers + 1) * hidden;  // two norms a layer and the final one
    const double padding = 2.0 * (padded_vocab(job, layout.tp) - job.model.vocab) * hidden;
    REQUIRE(sum * layout.tp == doctest::Approx(total + padding + (layout.tp - 1) * replicated).epsilon(1e-9));
  }
}

TEST_CASE("more bandwidth is never slower") {
  std::mt19937 random(3);
  auto all = jobs();
  for (int i = 0; i < 2000; ++i) {
    auto& job = all[random() % all.size()];
    const auto layout = random_layout(job, random);
    const auto before = estimate(job, layout).step.total();
    const auto tier = random() % job.cluster.tiers.size();
    auto faster = job;
    faster.cluster.tiers[tier].bandwidth *= 2;
    REQUIRE(estimate(faster, layout).step.total().raw() <= before.raw() * (1 + 1e-12));
    auto memory = job;
    memory.cluster.gpu.memory_bandwidth *= 1.5;
    REQUIRE(estimate(memory, layout).step.total().raw() <= before.raw() * (1 + 1e-12));
  }
}

TEST_CASE("states never grow with more sharding and activations never with tp or cp") {
  std::mt19937 random(4);
  const auto job = priced_job(gpt3_175b(), "h100-80gb-sxm", 64, 8, 2048, 1536);
  for (int i = 0; i < 2000; ++i) {
    auto layout = random_layout(job, random);
    layout.zero = 0;
    const auto plain = estimate(job, layout);
    layout.zero = 1;
    const auto sharded = estimate(job, layout);
    REQUIRE(states(sharded.memory) <= states(plain.memory));
    layout.pp = 1;
    layout.vpp = 1;
    layout.schedule = Schedule::f1b1;
    layout.tp = 2;
    layout.cp = 1;
    layout.sequence_parallel = true;
    const auto narrow = layer_costs(job, layer_key(layout));
    layout.tp = 4;
    const auto wide = layer_costs(job, layer_key(layout));
    REQUIRE(wide.dense_activations <= narrow.dense_activations);
    layout.cp = 2;
    const auto shared = layer_costs(job, layer_key(layout));
    REQUIRE(shared.dense_activations <= wide.dense_activations);
  }
}

TEST_CASE("model FLOPs follow the usual formula") {
  // 6 N + 6 L h s per token and GPU share, N without the embedding, causal attention halved (head counted).
  const auto job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 64);
  Layout layout;
  layout.dp = 8;
  const auto result = estimate(job, layout);
  const double vocab = padded_vocab(job, 1);
  const double hidden = job.model.hidden;
  const double matrices = 32.0 * (4 * hidden * hidden + 3 * hidden * 11008) + vocab * hidden;
  const double per_token = 6 * matrices + 6.0 * 32 * hidden * 4096;
  CHECK(result.step.model_flops.raw() == doctest::Approx(per_token * 64 * 4096 / 8).epsilon(1e-9));
}

TEST_CASE("a step in fp16 reads and writes its gradients once more for the loss scale") {
  // Llama 2 7B over 8 A100 with ZeRO-1: 842,301,952 gradients of 4 bytes a GPU, read and written.
  Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 8);
  Layout layout;
  layout.dp = 8;
  layout.zero = 1;
  const auto wide = estimate(job, layout).step;
  job.training.precision = Precision::fp16;
  const auto scaled = estimate(job, layout).step;
  const double local = 6738415616.0 / 8;
  const double traffic = 2 * 4 * local / (2039e9 * job.constants.memory_plain);
  const double spread = collective_time(job, Collective::all_reduce, Bytes(4), place_group(job.cluster, 8, 1)).raw();
  CHECK(spread > 0);
  CHECK((scaled.optimizer - wide.optimizer).raw() ==
        doctest::Approx(traffic + spread + 2 * job.profile.launch_s).epsilon(1e-6));
  CHECK((scaled.total() - wide.total()).raw() == doctest::Approx((scaled.optimizer - wide.optimizer).raw()));
  // The host looks for infinities itself where it runs the update.
  layout.offload = Offload::optimizer;
  CHECK(loss_scaling(job, layout, local).raw() == 0);
}
