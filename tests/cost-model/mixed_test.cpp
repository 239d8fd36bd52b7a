#include "cost-model/mixed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "cost-model/mixed_cluster.h"
#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::llama_7b;

namespace {

const GpuCatalogue& gpus() {
  static const GpuCatalogue kGpus = GpuCatalogue::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/gpus.json");
  return kGpus;
}

Job job_on(const std::string& cluster, std::vector<int> layers_per_stage = {}) {
  static const ProfileSet kProfiles = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  TrainingSpec training;
  training.seq = 4096;
  training.global_batch = 256;
  training.layers_per_stage = std::move(layers_per_stage);
  return make_job(llama_7b(), *cluster_from_name(cluster, gpus()), training, kProfiles);
}

Layout layout_on(const Job& job, const std::string& text) { return parse_layout(text, job.cluster.gpus()); }

/// Forward and backward of one micro-batch on the slowest stage, which sets the pace of a pipeline.
double slowest_stage(const Job& job, const Layout& layout) {
  double slowest = 0;
  for (const StageGroup& group : pipeline_shape(job, layout).groups) {
    const StageCosts stage = stage_costs(layer_costs(job.part(group.part), layer_key(layout)), group.content);
    slowest = std::max(slowest, (stage.forward + stage.backward).raw());
  }
  return slowest;
}

}  // namespace

TEST_CASE("a mixed cluster is the least of its parts as a whole") {
  const ClusterSpec whole = *cluster_from_name("2x8xa100-80gb-sxm+1x4xh100-80gb-sxm", gpus());
  CHECK(whole.gpus() == 20);
  CHECK(whole.gpus_per_node == 4);  // divides 8 and 4
  CHECK(whole.parts.size() == 2);
  CHECK(whole.gpu.id == "a100-80gb-sxm + h100-80gb-sxm");
  const GpuSpec& a100 = gpus().find("a100-80gb-sxm");
  CHECK(whole.gpu.peak_of(Precision::bf16) == a100.peak_of(Precision::bf16));
  CHECK(whole.gpu.peak_of(Precision::fp8).raw() == 0);  // the A100 has none
  CHECK(whole.tiers.front().span == 4);
  CHECK(whole.tiers.front().bandwidth == a100.link);
  CHECK(whole.tiers.back().span == 20);
}

TEST_CASE("layers of a mixed pipeline follow the speed of its stages within one layer") {
  const Job job = job_on("4xa100-80gb-sxm+4xh100-80gb-sxm");
  const Layout layout = layout_on(job, "pp=2 micro-batch=1 zero=1");
  REQUIRE(stages_keep_to_parts(job, layout));
  const auto layers = pipeline_shape(job, layout).layers_per_stage;
  REQUIRE(layers.size() == 2);
  CHECK(layers[0] + layers[1] == 32);
  CHECK(layers[1] > 2 * layers[0]);  // dense bf16 peaks are 312 and 989.4 TFLOP/s
  // No other split has a faster slowest stage.
  const double best = slowest_stage(job, layout);
  for (int first = 1; first < 32; ++first) {
    CHECK(best <= slowest_stage(job_on("4xa100-80gb-sxm+4xh100-80gb-sxm", {first, 32 - first}), layout));
  }
  // The stages differ by less than a layer of the slower GPU.
  const LayerCosts slow = layer_costs(job.parts[0], layer_key(layout));
  const LayerCosts fast = layer_costs(job.parts[1], layer_key(layout));
  const auto shape = pipeline_shape(job, layout);
  const StageCosts first = stage_costs(slow, shape.groups[0].content);
  const StageCosts second = stage_costs(fast, shape.groups[1].content);
  const double difference = std::abs((first.forward + first.backward - second.forward - second.backward).raw());
  CHECK(difference < slow.dense.total().raw());
}

TEST_CASE("layers that a fast but small GPU cannot hold go to the others") {
  // One RTX 5090 of 32 GB is faster than an A100 of 80 GB; 7B with Adam needs 18 B a parameter.
  const Job job = job_on("1xrtx-5090+3xa100-80gb-sxm");
  const Layout layout = layout_on(job, "pp=4 micro-batch=1");
  REQUIRE(stages_keep_to_parts(job, layout));
  const auto shape = pipeline_shape(job, layout);
  CHECK(std::accumulate(shape.layers_per_stage.begin(), shape.layers_per_stage.end(), 0) == 32);
  const Estimate result = estimate(job, layout);
  CHECK(verdict(result.memory, job.training.memory_headroom) == Fits::fits);
  CHECK(shape.layers_per_stage[0] < shape.layers_per_stage[1]);
}

TEST_CASE("parts of the same kind are priced as the cluster of equal nodes") {
  const Job mixed = job_on("4xa100-80gb-sxm+4xa100-80gb-sxm", {16, 16});
  const Job equal = job_on("2x4xa100-80gb-sxm", {16, 16});
  for (const char* text : {"pp=2 micro-batch=1 zero=1", "pp=2 tp=4 micro-batch=2", "pp=2 tp=2 cp=2 micro-batch=1"}) {
    CAPTURE(std::string(text));
    const Layout layout = layout_on(mixed, text);
    REQUIRE(stages_keep_to_parts(mixed, layout));
    CHECK(estimate(mixed, layout).step.total().raw() ==
          doctest::Approx(estimate(equal, layout).step.total().raw()).epsilon(1e-9));
    CHECK(estimate(mixed, layout).memory.total().raw() ==
          doctest::Approx(estimate(equal, layout).memory.total().raw()).epsilon(1e-9));
  }
}

TEST_CASE("equal work on unequal GPUs goes at the pace of the slower") {
  const Job mixed = job_on("4xa100-80gb-sxm+4xh100-80gb-sxm");
  const Job slow = job_on("2x4xa100-80gb-sxm");
  const Layout layout = layout_on(mixed, "tp=1 micro-batch=1 zero=3");
  REQUIRE_FALSE(stages_keep_to_parts(mixed, layout));
  const double ratio = estimate(mixed, layout).step.total() / estimate(slow, layout).step.total();
  CHECK(ratio == doctest::Approx(1).epsilon(0.03));  // but for the profile's era
}

TEST_CASE("the search of a mixed cluster prefers stages on equal GPUs to equal work") {
  const Job job = job_on("4xa100-80gb-sxm+4xh100-80gb-sxm");
  const auto result = search(job, {}, Objective::step_time, 3);
  REQUIRE_FALSE(result.plans.empty());
  const Plan& best = result.plans.front();
  CHECK(stages_keep_to_parts(job, best.layout));
  CHECK(best.estimate.step.total() == estimate(job, best.layout).step.total());
  const double pace = mean_peak(job) / job.cluster.gpu.peak_of(Precision::bf16);
  CHECK(pace == doctest::Approx((312 + 989.4) / 2 / 312).epsilon(0.01));
}
