#include "cost-model/simulate_host.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cost-model/data_loading.h"
#include "cost-model/simulate.h"
#include "cost-model/simulate_parts.h"
#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::llama_7b;
using tests::priced_job;

namespace {

constexpr int kLayers = 32;

/// A job on whose GPUs forward layers take less than their launches and backward layers more.
Job launched_slowly(Framework framework, int gpus, int micro_batches) {
  Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, gpus, 4096, micro_batches, framework);
  job.profile.step_fixed_s = 0;
  job.profile.kernel_gap_s = 0;
  job.profile.layer_host_s = 0;
  job.profile.kernels_forward = 100;
  job.profile.kernels_backward = 100;
  job.profile.launch_s = 0;
  const LayerCosts costs = layer_costs(job, layer_key(Layout{}));
  const double forward = costs.dense.forward_total().raw();
  const double backward = costs.dense.backward_total().raw();
  REQUIRE(backward > 1.5 * forward);
  job.profile.launch_s = 1.4 * forward / 100;
  return job;
}

/// When a GPU and its host are done with layer after layer, followed by hand: work begins when what was launched before
/// is done, and ends no earlier than its last launch; a launch waits for the one before, and for the work `queued`
/// places earlier.
struct HandFollowed {
  double host = 0, gpu = 0;
  std::vector<double> ends = {};
  void run(double launch, double work, std::size_t queued) {
    const double room = ends.size() >= queued ? ends[ends.size() - queued] : 0;
    host = std::max(host, room) + launch;
    gpu = std::max(gpu + work, host);
    ends.push_back(gpu);
  }
  /// The host has waited for the GPU.
  void drain() {
    host = gpu;
    ends.clear();
  }
};

/// One pass over all layers, embedding and head.
void run_pass(const LayerCosts& costs, PassKind pass, std::size_t queued, HandFollowed& follow) {
  std::vector<PieceKind> pieces(kLayers, PieceKind::dense);
  pieces.insert(pieces.begin(), PieceKind::embedding);
  pieces.push_back(PieceKind::head);
  if (pass != PassKind::forward) {
    std::reverse(pieces.begin(), pieces.end());
  }
  for (const PieceKind piece : pieces) {
    const PassCosts& c = piece == PieceKind::dense  ? costs.dense
                         : piece == PieceKind::head ? costs.head
                                                    : costs.embedding;
    const bool forward = pass == PassKind::forward;
    const Seconds whole = forward ? c.forward_total() : c.backward_total();
    // Ends are launched as they run; of a layer the estimate has what its launches take longer than its own work.
    const bool end = piece != PieceKind::dense;
    const Seconds launch = end ? whole : forward ? c.forward_launch : c.backward_launch;
    const Seconds starved = end ? Seconds(0) : forward ? c.starved_forward : c.starved_backward;
    follow.run(launch.raw(), (whole - starved).raw(), queued);
  }
}

double passes_end(const Job& job, const Layout& layout) { return simulate(job, layout).passes_end; }

}  // namespace

TEST_CASE("a checkpointed layer costs the host a second forward pass and what checkpointing itself takes") {
  // Backward: the launches and modules of the forward pass again (100 launches, 0.5 ms), then 1.6 ms of checkpointing.
  Job job = launched_slowly(Framework::plain, 1, 4);
  job.profile.layer_host_s = 0.5e-3;
  job.profile.checkpoint_host_s = 1.6e-3;
  Layout layout;
  const LayerCosts kept = layer_costs(job, layer_key(layout));
  layout.recompute = RecomputeKind::full;
  const LayerCosts repeated = layer_costs(job, layer_key(layout));
  CHECK(repeated.dense.forward_launch.raw() == doctest::Approx(kept.dense.forward_launch.raw()).epsilon(1e-12));
  CHECK(repeated.dense.backward_launch.raw() - kept.dense.backward_launch.raw() ==
        doctest::Approx(100 * job.profile.launch_s + 0.5e-3 + 1.6e-3).epsilon(1e-9));
}

TEST_CASE("a host that launches ahead hides slow launches behind work that was launched before") {
  // Plain PyTorch waits at the end of a step alone: while a backward pass runs, the next forward pass is launched.
  const Job job = launched_slowly(Framework::plain, 1, 6);
  const LayerCosts costs = layer_costs(job, layer_key(Layout{}));
  const std::size_t queued = 1024 / 100;
  HandFollowed follow;
  double one_by_one = 0;
  for (int m = 0; m < 6; ++m) {
    run_pass(costs, PassKind::forward, queued, follow);
    run_pass(costs, PassKind::whole_backward, queued, follow);
    const auto stage = stage_costs(costs, {kLayers, 0, true, true});
    one_by_one += (stage.forward + stage.backward).raw();
  }
  CHECK(passes_end(job, Layout{}) == doctest::Approx(follow.gpu).epsilon(1e-9));
  // Layer by layer, as the estimate counts, each forward layer takes as long as its launches.
  CHECK(follow.gpu < one_by_one * 0.995);
}

TEST_CASE("a host that waits for the GPU at the end of every pass launches nothing ahead of it") {
  const Job job = launched_slowly(Framework::megatron_deepspeed, 1, 6);
  const LayerCosts costs = layer_costs(job, layer_key(Layout{}));
  const auto stage = stage_costs(costs, {kLayers, 0, true, true});
  HandFollowed follow;
  for (int m = 0; m < 6; ++m) {
    for (const PassKind pass : {PassKind::forward, PassKind::whole_backward}) {
      run_pass(costs, pass, 1024 / 100, follow);
      follow.drain();
    }
  }
  CHECK(passes_end(job, Layout{}) == doctest::Approx(follow.gpu).epsilon(1e-9));
  // Every layer takes the longer of its work and its launches: the rule that the estimate and its constants follow.
  CHECK(follow.gpu == doctest::Approx((stage.forward + stage.backward).raw() * 6).epsilon(1e-9));
  Job ahead = job;
  ahead.training.framework = Framework::plain;
  CHECK(passes_end(job, Layout{}) > passes_end(ahead, Layout{}));
}

TEST_CASE("a slow host shows where its launches take longer than the work") {
  const Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 32, Framework::plain);
  REQUIRE(job.profile.launch_s > 0);
  Layout layout;
  layout.pp = 4;
  layout.dp = 2;
  const double plain = simulate(job, layout).makespan;
  const auto slowed = [&](const char* text) { return simulate(job, layout, parse_what_if(text, 8)).makespan; };
  // Launching a layer on time is no wait, and a host that loses nothing is as planned.
  CHECK(slowed("host=2 slow=0%") == plain);
  CHECK(slowed("host=2 slow=10%") == doctest::Approx(plain).epsilon(1e-9));
  CHECK(slowed("host=2 slow=99%") > plain * 1.2);
}

TEST_CASE("launches are told on the host and lie within the step") {
  const Job job = launched_slowly(Framework::plain, 1, 2);
  const auto step = simulate(job, Layout{});
  int launches = 0;
  for (const auto& operation : step.operations) {
    if (operation.kind == SimulatedKind::launch) {
      ++launches;
      CHECK(operation.stream == StreamKind::host);
      CHECK(operation.end <= step.makespan);
    }
  }
  CHECK(launches >= 2 * 2 * kLayers);
  CHECK(launches <= 2 * 2 * (kLayers + 2));
}

TEST_CASE("tokens loaded ahead cost nothing until loading takes longer than the step") {
  const Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 32);
  Layout layout;
  layout.pp = 4;
  layout.dp = 2;
  constexpr double kMicroBatches = 16;
  REQUIRE(data_loading(job, layout).ahead == 4);
  const double plain = simulate(job, layout, parse_what_if("data=0s", 8)).makespan;
  // Half of the time that a micro-batch takes, then twice of it: the loader is busy all the time then.
  const double half = plain / kMicroBatches / 2;
  const auto with = [&](double load) {
    Perturbation what;
    what.load = Seconds(load);
    return simulate(job, layout, what).makespan;
  };
  CHECK(with(half) == doctest::Approx(plain).epsilon(1e-9));
  CHECK(with(4 * half) >= kMicroBatches * 4 * half);
  CHECK(with(4 * half) < plain + kMicroBatches * 4 * half);
}

TEST_CASE("a program that loads in its training process waits for every micro-batch") {
  const Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 32, Framework::torchtitan);
  Layout layout;
  layout.dp = 8;
  layout.zero = 3;
  REQUIRE(data_loading(job, layout).ahead == 0);
  const double plain = simulate(job, layout, parse_what_if("data=0s", 8)).makespan;
  const auto step = simulate(job, layout, parse_what_if("data=50ms", 8));
  CHECK(step.makespan == doctest::Approx(plain + 4 * 0.05).epsilon(0.001));
  const auto loads = std::count_if(step.operations.begin(), step.operations.end(), [](const auto& operation) {
    return operation.kind == SimulatedKind::load && operation.stream == StreamKind::data;
  });
  CHECK(loads == 4);
}

TEST_CASE("loading is priced by the bytes of the tokens") {
  // 2 x 4,096 tokens of 16 bits on each of 8 ranks from storage of 1 GB/s: 8 x 16 KiB / 1e9 = 131.072 us. To the GPU
  // 16 bytes a token over 25 GB/s: 5.24288 us.
  Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 64);
  job.cluster.storage_read = BytesPerSecond(1e9);
  job.cluster.host_link = BytesPerSecond(25e9);
  Layout layout;
  layout.dp = 8;
  layout.micro_batch = 2;
  CHECK(data_loading(job, layout).per_micro_batch.raw() == doctest::Approx(131.072e-6 + 5.24288e-6));
  // 128,256 words need four bytes.
  job.model.vocab = 128256;
  CHECK(data_loading(job, layout).per_micro_batch.raw() == doctest::Approx(262.144e-6 + 5.24288e-6));
  CHECK(DataLoading{Seconds(1), 0}.exposed(4, Seconds(10)) == Seconds(4));
  CHECK(DataLoading{Seconds(1), 4}.exposed(4, Seconds(10)) == Seconds(0));
  CHECK(DataLoading{Seconds(1), 4}.exposed(40, Seconds(10)) == Seconds(30));
}
