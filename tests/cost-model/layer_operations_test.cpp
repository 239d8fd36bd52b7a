// Times of single operations against what their constants say. 16,384 tokens make products that compute bounds.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "cost-model/layer_cost.h"
#include "cost-model/layer_sizes.h"
#include "tests/planner/jobs.h"

using namespace tpplan;

namespace {

Job h200_job(Precision precision = Precision::bf16) {
  Job job = tests::priced_job(tests::llama_7b(), "h200-141gb-sxm", 1, 8, 4096, 64);
  job.training.precision = precision;
  return job;
}

/// A program that launches 30 and 50 kernels per layer, each in 4 us, and runs 10 us of its own code.
Job launching_job() {
  Job job = h200_job();
  job.profile.launch_s = 4e-6;
  job.profile.kernels_forward = 30;
  job.profile.kernels_backward = 50;
  job.profile.layer_host_s = 10e-6;
  return job;
}

Operation operation(const Job& job, std::string_view name) {
  Layout layout;
  layout.micro_batch = 4;
  for (const Operation& op : layer_operations(job, layer_key(layout), false)) {
    if (std::string_view(op.name).find(name) != std::string_view::npos) {
      return op;
    }
  }
  FAIL("no operation ", name);
  return {};
}

}  // namespace

TEST_CASE("products whose rows and columns have scales of their own reach 0.94 of the rate of one scale") {
  // Measured on H200: 1,001 to 1,128 against 1,082 to 1,197 TFLOP/s. Each kernel takes 2 us to start and end.
  Job job = h200_job(Precision::fp8);
  job.training.fp8_recipe = "tensorwise";
  const Seconds one = operation(job, "FFN up+gate").forward - 2_us;
  job.training.fp8_recipe = "rowwise";
  CHECK((operation(job, "FFN up+gate").forward - 2_us).raw() == doctest::Approx(one.raw() / 0.94));
}

TEST_CASE("a scale that is looked for first costs a third reading of each input") {
  // Known beforehand: 2 bytes read, 2 x 1 written. Looked for: 2 more read.
  Job job = h200_job(Precision::fp8);
  job.training.fp8_recipe = "delayed";
  const Bytes known = operation(job, "quantisation").bytes_forward;
  CHECK(known > Bytes(0));
  job.training.fp8_recipe = "tensorwise";
  CHECK(operation(job, "quantisation").bytes_forward.raw() == doctest::Approx(1.5 * known.raw()));
}

TEST_CASE("the first FlashAttention reaches 0.46 of the rate of the second") {
  Job job = h200_job();
  const Operation second = operation(job, "core attention");
  job.training.kernel = AttentionKernel::flash1;
  const Operation first = operation(job, "core attention");
  // 5 us of each kernel do not depend on its rate.
  CHECK((first.forward - 5_us).raw() == doctest::Approx((second.forward - 5_us).raw() / 0.46));
  CHECK((first.input_gradient - 5_us).raw() == doctest::Approx((second.input_gradient - 5_us).raw() / 0.46));
}

TEST_CASE("CUDA graphs leave 15 percent of what launches take") {
  Job job = launching_job();
  const PassCosts launched = layer_costs(job, layer_key(Layout{})).dense;
  CHECK(launched.forward_launch.raw() == doctest::Approx(30 * 4e-6 + 10e-6));
  CHECK(launched.backward_launch.raw() == doctest::Approx(50 * 4e-6));
  job.training.cuda_graphs = true;
  const PassCosts graphed = layer_costs(job, layer_key(Layout{})).dense;
  CHECK(graphed.forward_launch.raw() == doctest::Approx(0.15 * (30 * 4e-6 + 10e-6)));
  CHECK(graphed.backward_launch.raw() == doctest::Approx(0.15 * 50 * 4e-6));
}

TEST_CASE("a selective recomputation launches three tenths of a forward pass again") {
  const Job job = launching_job();
  Layout layout;
  REQUIRE(set_recompute(layout, "selective:core_attn"));
  const PassCosts again = layer_costs(job, layer_key(layout)).dense;
  CHECK(again.recompute > Seconds(0));
  CHECK(again.backward_launch.raw() == doctest::Approx(50 * 4e-6 + 0.3 * (30 * 4e-6 + 10e-6)));
}
