// When gradients are reduced and weights gathered: bytes and seconds derived by hand.
#include <doctest/doctest.h>

#include "cost-model/simulate.h"
#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;

namespace {

constexpr double kLayer = 16779264;                 // 4 x 1,024^2 + 3 x 1,024 x 4,096 + 2 x 1,024
constexpr double kEnds = 2 * 32768000.0 + 1024;     // embedding, head and the last norm: 32,000 x 1,024 each
constexpr double kParameters = 8 * kLayer + kEnds;  // 199,771,136
constexpr double kMicroBatches = 8;                 // 64 sequences / (4 ranks x 2)

/// Eight layers of width 1,024 on the four GPUs of a node, 8 micro-batches of 2 sequences.
Job small_job(Framework framework) {
  ModelSpec model = tests::llama_7b();
  model.name = "small";
  model.layers = 8;
  model.hidden = 1024;
  model.heads = model.kv_heads = 8;
  model.ffn_hidden = 4096;
  return tests::priced_job(model, "a100-80gb-sxm", 1, 4, 2048, 64, framework);
}

Layout layout_of(int zero, GradReduce reduce = GradReduce::by_framework, int micro_batch = 2) {
  Layout layout;
  layout.dp = 4;
  layout.zero = static_cast<std::uint8_t>(zero);
  layout.micro_batch = micro_batch;
  layout.grad_reduce = reduce;
  return layout;
}

struct Rank {
  StageCosts stage;
  FsdpTimes times;
};

Rank rank_of(const Job& job, const Layout& layout) {
  const auto costs = layer_costs(job, layer_key(layout));
  const auto shape = pipeline_shape(job, layout);
  Rank rank;
  rank.stage = stage_costs(costs, shape.groups.front().content);
  rank.times = fsdp_times(job, costs, shape.groups.front().content, rank.stage, data_groups(job, layout));
  return rank;
}

double gradients(const Job& job, const Layout& layout) { return estimate(job, layout).memory.gradients.raw(); }

double exposed(const Job& job, const Layout& layout) { return estimate(job, layout).step.dp_comm.raw(); }

/// Isolated seconds of all operations of a kind in a simulated step, and their number.
struct Traffic {
  double makespan = 0;
  int operations = 0;
};
Traffic simulated(const Job& job, const Layout& layout, SimulatedKind kind) {
  const auto step = simulate(job, layout);
  Traffic traffic;
  traffic.makespan = step.makespan;
  for (const auto& operation : step.operations) {
    traffic.operations += operation.kind == kind ? 1 : 0;
  }
  return traffic;
}

void without_overlap(Job& job) {
  job.training.overlap_dp_grad = Switch::off;
  job.training.overlap_dp_param = Switch::off;
}

/// All-reduce of every gradient at the width of the wire, seconds.
double all_reduce_s(const Job& job) {
  const Bytes gradients(state_bytes(job, Optimizer::adam).wire * kParameters);
  return collective_time(job, Collective::all_reduce, gradients, place_group(job.cluster, 4, 1)).raw();
}

}  // namespace

TEST_CASE("gradients reduced with the last micro-batch are kept whole until then") {
  // fp32 gradients: 4 B x 199,771,136 / 4 ranks, or all of them.
  const Job job = small_job(Framework::torchtitan);
  for (const int zero : {2, 3}) {
    CAPTURE(zero);
    CHECK(gradients(job, layout_of(zero, GradReduce::each)) == doctest::Approx(kParameters).epsilon(1e-12));
    CHECK(gradients(job, layout_of(zero, GradReduce::last)) == doctest::Approx(4 * kParameters).epsilon(1e-12));
    // 64 sequences of 16 a rank: one micro-batch is the last one.
    const auto one = estimate(job, layout_of(zero, GradReduce::each, 16));
    const auto also_one = estimate(job, layout_of(zero, GradReduce::last, 16));
    CHECK(one.memory.total() == also_one.memory.total());
    CHECK(one.step.total() == also_one.step.total());
  }
  // Whole gradients are kept either way where nothing is sharded.
  for (const int zero : {0, 1}) {
    CHECK(gradients(job, layout_of(zero, GradReduce::each)) == gradients(job, layout_of(zero, GradReduce::last)));
  }
}

TEST_CASE("a framework that is not told when to reduce does as its profile says") {
  const Job titan = small_job(Framework::torchtitan);  // reduces each micro-batch
  const Job fsdp = small_job(Framework::fsdp);         // transformers and accelerate: no_sync
  REQUIRE(titan.profile.unsynced_gradients == 0);
  REQUIRE(fsdp.profile.unsynced_gradients == 1);
  for (const int zero : {2, 3}) {
    CHECK(reduces_each(titan, layout_of(zero)));
    CHECK_FALSE(reduces_each(fsdp, layout_of(zero)));
    CHECK(estimate(fsdp, layout_of(zero)).step.total() ==
          estimate(fsdp, layout_of(zero, GradReduce::last)).step.total());
  }
  // ZeRO-2 keeps a shard of the gradients in DeepSpeed and Megatron, ZeRO-1 and plain data parallelism all of them.
  for (const Framework framework : {Framework::deepspeed, Framework::megatron}) {
    CHECK(reduces_each(small_job(framework), layout_of(2)));
    CHECK_FALSE(reduces_each(small_job(framework), layout_of(1)));
    CHECK_FALSE(reduces_each(small_job(framework), layout_of(0)));
  }
}

TEST_CASE("eight reductions take eight times as long as one") {
  // Without overlap each all-reduce of 4 B x 199,771,136 shows in full.
  Job job = small_job(Framework::torchtitan);
  without_overlap(job);
  const double once = all_reduce_s(job);
  CHECK(exposed(job, layout_of(0, GradReduce::last)) == doctest::Approx(once).epsilon(1e-12));
  CHECK(exposed(job, layout_of(0, GradReduce::each)) == doctest::Approx(kMicroBatches * once).epsilon(1e-12));
  // Beside a backward pass that is longer, each costs its share of itself.
  job = small_job(Framework::torchtitan);
  const auto stage = rank_of(job, layout_of(0)).stage;
  REQUIRE(stage.backward.raw() > once);
  CHECK(exposed(job, layout_of(0, GradReduce::each)) ==
        doctest::Approx(kMicroBatches * once * job.profile.dp_overlap_cost).epsilon(1e-12));
}

TEST_CASE("FSDP that reduces once saves the other reductions and gathers as often") {
  const Job job = small_job(Framework::torchtitan);
  const auto [stage, t] = rank_of(job, layout_of(3));
  // A layer's weights 2 B x 16,779,264 and its gradients at the width of the wire; the root holds both ends.
  const auto group = place_group(job.cluster, 4, 1);
  const double wire = state_bytes(job, Optimizer::adam).wire;
  CHECK(t.layer_gather == collective_time(job, Collective::all_gather, Bytes(2 * kLayer), group));
  CHECK(t.layer_scatter == collective_time(job, Collective::reduce_scatter, Bytes(wire * kLayer), group));
  CHECK(t.root_scatter == collective_time(job, Collective::reduce_scatter, Bytes(wire * kEnds), group));
  const double gathers = 8 * t.layer_gather.raw();
  const double scatters = 8 * t.layer_scatter.raw();
  const double share = job.profile.fsdp_overlap_cost;
  const auto hidden = [share](double compute, double traffic) {
    return compute < traffic ? compute * share + traffic - compute : traffic * share;
  };
  const double forward = hidden(stage.forward.raw(), gathers) + t.root_gather.raw() + t.layer_gather.raw();
  const double plain = hidden(stage.backward.raw(), gathers);
  const double reduced =
      hidden(stage.backward.raw(), gathers + scatters) + t.layer_scatter.raw() + t.root_scatter.raw();
  CHECK(exposed(job, layout_of(3, GradReduce::each)) ==
        doctest::Approx(kMicroBatches * (forward + reduced)).epsilon(1e-9));
  CHECK(exposed(job, layout_of(3, GradReduce::last)) ==
        doctest::Approx(kMicroBatches * forward + (kMicroBatches - 1) * plain + reduced).epsilon(1e-9));
}

TEST_CASE("a simulated step reduces after every micro-batch when told to") {
  Job job = small_job(Framework::torchtitan);
  without_overlap(job);
  const double once = all_reduce_s(job);
  const auto last = simulated(job, layout_of(0, GradReduce::last), SimulatedKind::reduce);
  const auto each = simulated(job, layout_of(0, GradReduce::each), SimulatedKind::reduce);
  CHECK(last.operations == 1);
  CHECK(each.operations == 8);
  CHECK(each.makespan - last.makespan == doctest::Approx(7 * once).epsilon(1e-9));
  // Beside backward passes: eight layers and the two ends of each.
  job = small_job(Framework::torchtitan);
  const int pieces = simulated(job, layout_of(0, GradReduce::last), SimulatedKind::reduce).operations;
  CHECK(simulated(job, layout_of(0, GradReduce::each), SimulatedKind::reduce).operations == 8 * pieces);
  // FSDP: nine units, in each micro-batch or in the last one.
  CHECK(simulated(job, layout_of(3, GradReduce::each), SimulatedKind::reduce).operations == 8 * 9);
  CHECK(simulated(job, layout_of(3, GradReduce::last), SimulatedKind::reduce).operations == 9);
  for (const int zero : {0, 2, 3}) {
    CAPTURE(zero);
    for (const GradReduce reduce : {GradReduce::each, GradReduce::last}) {
      const auto layout = layout_of(zero, reduce);
      CHECK(simulated(job, layout, SimulatedKind::reduce).makespan ==
            doctest::Approx(estimate(job, layout).step.total().raw()).epsilon(0.03));
    }
  }
}

TEST_CASE("stages of a pipeline that stand still for every reduction agree with the estimate") {
  Job job = small_job(Framework::torchtitan);
  without_overlap(job);
  Layout layout = layout_of(0, GradReduce::each);
  layout.pp = 2;
  layout.dp = 2;
  const double each = simulated(job, layout, SimulatedKind::reduce).makespan;
  layout.grad_reduce = GradReduce::last;
  const double last = simulated(job, layout, SimulatedKind::reduce).makespan;
  // 16 micro-batches; 99.9 million parameters a stage, the last one's beside its norm.
  const double once = collective_time(job, Collective::all_reduce,
                                      Bytes(state_bytes(job, Optimizer::adam).wire * (kParameters + 1024) / 2),
                                      place_group(job.cluster, 2, 1))
                          .raw();
  CHECK(each - last >= 15 * once * 0.99);
  CHECK(each - last <= 17 * once * 1.01);
}

TEST_CASE("weights that stay gathered after the forward pass are gathered once a micro-batch and not twice") {
  // ZeRO-2 of PyTorch is FSDP with reshard_after_forward off: 2 B x 199,771,136 stay whole beside the shards of 12 B.
  Job job = small_job(Framework::torchtitan);
  const auto kept = estimate(job, layout_of(2)).memory;
  const auto freed = estimate(job, layout_of(3)).memory;
  CHECK(kept.weights.raw() == doctest::Approx(2 * kParameters).epsilon(1e-12));
  CHECK(freed.weights.raw() == 0);
  CHECK(freed.gathered.raw() >= 2 * (kEnds + 2 * kLayer));
  CHECK(kept.optimizer == freed.optimizer);
  // Layer by layer as FSDP, its gathers beside the forward pass and its reductions beside the backward pass.
  const auto [stage, t] = rank_of(job, layout_of(2));
  const double gathers = 8 * t.layer_gather.raw();
  const double scatters = 8 * t.layer_scatter.raw();
  const double share = job.profile.fsdp_overlap_cost;
  REQUIRE(stage.forward.raw() > gathers);
  REQUIRE(stage.backward.raw() > scatters);
  const double forward = share * gathers + t.root_gather.raw() + t.layer_gather.raw();
  const double backward = share * scatters + t.layer_scatter.raw() + t.root_scatter.raw();
  CHECK(exposed(job, layout_of(2)) == doctest::Approx(kMicroBatches * (forward + backward)).epsilon(1e-9));
  CHECK(exposed(job, layout_of(2, GradReduce::last)) ==
        doctest::Approx(kMicroBatches * forward + backward).epsilon(1e-9));
  CHECK(exposed(job, layout_of(2)) < exposed(job, layout_of(3)));
  // DeepSpeed's second stage holds whole weights all the time and gathers after the update.
  Job deepspeed = small_job(Framework::deepspeed);
  without_overlap(deepspeed);
  const auto laws = data_parallel_laws(deepspeed, layout_of(2), data_groups(deepspeed, layout_of(2)));
  const auto times = data_parallel_times(deepspeed, laws, kParameters, 0);
  CHECK(exposed(deepspeed, layout_of(2)) ==
        doctest::Approx((times.reduce * kMicroBatches + times.gather).raw()).epsilon(1e-9));
  // The simulator gathers as often: the root and eight layers of eight forward passes, and the layers of the backward
  // passes where they were freed.
  CHECK(simulated(job, layout_of(2), SimulatedKind::gather).operations == 8 * 9);
  CHECK(simulated(job, layout_of(3), SimulatedKind::gather).operations == 8 * (9 + 8));
  deepspeed.training.overlap_dp_param = Switch::on;
  CHECK(simulated(deepspeed, layout_of(2), SimulatedKind::gather).operations == 10);
}

TEST_CASE("layers gathered ahead are held and hide their gathers") {
  Job job = small_job(Framework::torchtitan);
  const auto gathered = [&](int prefetch) {
    job.training.prefetch = prefetch;
    const auto memory = estimate(job, layout_of(3)).memory;
    REQUIRE(memory.moment != 2);  // else the gradient of the embedding is among them
    return memory.gathered.raw();
  };
  // 2 B of both ends, of the layer in work and of those ahead.
  CHECK(gathered(0) == doctest::Approx(2 * (kEnds + kLayer)).epsilon(1e-12));
  CHECK(gathered(1) == doctest::Approx(2 * (kEnds + 2 * kLayer)).epsilon(1e-12));
  CHECK(gathered(3) == doctest::Approx(2 * (kEnds + 4 * kLayer)).epsilon(1e-12));
  CHECK(gathered(-1) == doctest::Approx(2 * (kEnds + job.profile.fsdp_prefetch_layers * kLayer)).epsilon(1e-12));
  // Nothing ahead: all gathers of all layers show, forward and backward, and the reductions stay beside the backward
  // pass.
  job.training.prefetch = 0;
  const auto [stage, t] = rank_of(job, layout_of(3));
  const double scatters = 8 * t.layer_scatter.raw();
  REQUIRE(stage.backward.raw() > scatters);
  const double expected =
      kMicroBatches * (16 * t.layer_gather.raw() + t.root_gather.raw() + job.profile.fsdp_overlap_cost * scatters +
                       t.layer_scatter.raw() + t.root_scatter.raw());
  CHECK(exposed(job, layout_of(3)) == doctest::Approx(expected).epsilon(1e-9));
  const auto waiting = simulated(job, layout_of(3), SimulatedKind::gather);
  CHECK(waiting.makespan == doctest::Approx(estimate(job, layout_of(3)).step.total().raw()).epsilon(0.03));
}

TEST_CASE("gradients of 16 bits halve what is kept and what is reduced") {
  Job job = small_job(Framework::megatron);
  const auto law = collective_law(job, Collective::reduce_scatter, place_group(job.cluster, 4, 1));
  for (const double bytes : {4.0, 2.0}) {
    job.training.gradient_bytes = bytes;
    CHECK(gradients(job, layout_of(1)) == doctest::Approx(bytes * kParameters).epsilon(1e-12));
    const auto laws = data_parallel_laws(job, layout_of(1), data_groups(job, layout_of(1)));
    CHECK(data_parallel_times(job, laws, kParameters, 0).reduce == law.time(Bytes(bytes * kParameters)));
  }
}
