#include "cost-model/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cost-model/pipeline.h"
#include "cost-model/spec_reader.h"
#include "cost-model/stage_cost.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::gpt3_175b;
using tests::llama_7b;
using tests::priced_job;

namespace {

constexpr auto kNone = OperationGraph::kNone;

Layout layout_of(int tp, int pp, int dp, Schedule schedule, int vpp = 1) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = dp;
  layout.vpp = vpp;
  layout.etp = tp;
  layout.schedule = schedule;
  layout.sequence_parallel = tp > 1;
  return layout;
}

/// A job without transfers, data parallelism and optimizer: only passes take time.
Job only_passes(Job job) {
  for (auto& link : job.links) {
    link.base = Seconds(0);
    link.step = Seconds(0);
  }
  job.profile.collective_latency_s = 0;
  job.profile.step_fixed_s = 0;
  return job;
}

std::string what_if_error(std::string_view text) {
  try {
    parse_what_if(text, 16);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("operations of a stream run in order and wait for what they need") {
  OperationGraph graph;
  const auto a = graph.add_stream();
  const auto b = graph.add_stream();
  const auto a1 = graph.add(a, Seconds(2));
  const auto a2 = graph.add(a, Seconds(1));
  const auto b1 = graph.add(b, Seconds(1));
  const auto b2 = graph.add(b, Seconds(3));
  graph.add_dependency(a1, b1);
  graph.add_dependency(b1, a2);
  Simulation simulation(graph);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Timeline& t = simulation.run();
    CHECK(t.start[b1] == 2);
    CHECK(t.start[a2] == 3);
    CHECK(t.end[b2] == 6);
    CHECK(t.makespan == 6);
    CHECK(t.events == 8);
  }
}

TEST_CASE("operations that wait for each other are refused") {
  OperationGraph graph;
  const auto first = graph.add(graph.add_stream(), Seconds(1));
  const auto second = graph.add(graph.add_stream(), Seconds(1));
  graph.add_dependency(first, second);
  graph.add_dependency(second, first);
  Simulation simulation(graph);
  CHECK_THROWS_AS(simulation.run(), std::invalid_argument);
}

TEST_CASE("two flows on one port each get half of it") {
  // 100 B at 10 B/s alone take 10 s; two of them share the port and take 20 s. The latency of 1 s is not shared.
  OperationGraph graph;
  const auto port = graph.add_link(BytesPerSecond(10));
  const auto one = graph.add_flow(graph.add_stream(), Seconds(1), Bytes(100), port, kNone);
  const auto two = graph.add_flow(graph.add_stream(), Seconds(1), Bytes(100), port, kNone);
  Simulation simulation(graph);
  const Timeline& t = simulation.run();
  CHECK(t.end[one] == doctest::Approx(21));
  CHECK(t.end[two] == doctest::Approx(21));
}

TEST_CASE("a third flow that joins late slows the others from then on") {
  // Port of 12 B/s, two flows of 120 B: 6 B/s each. At 10 s each has 60 B left when a third of 40 B joins: 4 B/s each.
  // The third ends at 20 s; the others have 20 B left and 6 B/s again: 20 + 20/6 s.
  OperationGraph graph;
  const auto port = graph.add_link(BytesPerSecond(12));
  const auto one = graph.add_flow(graph.add_stream(), Seconds(0), Bytes(120), port, kNone);
  const auto two = graph.add_flow(graph.add_stream(), Seconds(0), Bytes(120), port, kNone);
  const auto late = graph.add_stream();
  graph.add(late, Seconds(10));
  const auto three = graph.add_flow(late, Seconds(0), Bytes(40), port, kNone);
  Simulation simulation(graph);
  const Timeline& t = simulation.run();
  CHECK(t.end[three] == doctest::Approx(20));
  CHECK(t.end[one] == doctest::Approx(20 + 20.0 / 6));
  CHECK(t.end[two] == doctest::Approx(20 + 20.0 / 6));
}

TEST_CASE("flows over two ports are held by the tighter one and leave the rest to others") {
  // Ports A (10 B/s) and B (4 B/s). A and B together: flow 1 over A alone, flow 2 over A and B, flow 3 over B alone.
  // B is tightest: 2 B/s for flows 2 and 3; flow 1 gets what is left of A, 8 B/s.
  // 80 B over A: ends at 10 s. 20 B each over B: end at 10 s. Then a flow 4 of 40 B over A alone: 10 B/s, 4 s.
  OperationGraph graph;
  const auto a = graph.add_link(BytesPerSecond(10));
  const auto b = graph.add_link(BytesPerSecond(4));
  const auto first = graph.add_stream();
  const auto one = graph.add_flow(first, Seconds(0), Bytes(80), a, kNone);
  const auto four = graph.add_flow(first, Seconds(0), Bytes(40), a, kNone);
  const auto two = graph.add_flow(graph.add_stream(), Seconds(0), Bytes(20), a, b);
  const auto three = graph.add_flow(graph.add_stream(), Seconds(0), Bytes(20), b, kNone);
  // A flow elsewhere is not touched by any of it.
  const auto elsewhere =
      graph.add_flow(graph.add_stream(), Seconds(0), Bytes(30), graph.add_link(BytesPerSecond(3)), kNone);
  Simulation simulation(graph);
  const Timeline& t = simulation.run();
  CHECK(t.end[one] == doctest::Approx(10));
  CHECK(t.end[two] == doctest::Approx(10));
  CHECK(t.end[three] == doctest::Approx(10));
  CHECK(t.end[four] == doctest::Approx(14));
  CHECK(t.end[elsewhere] == doctest::Approx(10));
}

TEST_CASE("one stage takes as long as the estimate says") {
  for (const int zero : {0, 1, 2, 3}) {
    const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 64);
    Layout layout = layout_of(1, 1, 8, Schedule::f1b1);
    layout.zero = static_cast<std::uint8_t>(zero);
    CAPTURE(zero);
    const double expected = estimate(job, layout).step.total().raw();
    CHECK(simulate(job, layout).makespan == doctest::Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("equal stages without transfers take as long as the closed form says") {
  // Layers only: no embedding, head or loss to make ends unequal.
  for (const Schedule schedule : {Schedule::gpipe, Schedule::f1b1, Schedule::interleaved}) {
    Job job = only_passes(priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 64));
    const Layout layout = layout_of(1, 8, 1, schedule, schedule == Schedule::interleaved ? 2 : 1);
    job.cluster.tiers[0].bandwidth = BytesPerSecond(1e30);
    const auto step = simulate(job, layout);
    const LayerCosts costs = layer_costs(job, layer_key(layout));
    const auto shape = pipeline_shape(job, layout.pp, layout.vpp);
    double busiest = 0;
    double fastest = 1e30;
    for (const auto& rank : step.ranks) {
      busiest = std::max(busiest, rank.passes);
      fastest = std::min(fastest, rank.passes);
    }
    const auto middle = stage_costs(costs, {4, 0, false, false});
    CHECK(fastest == doctest::Approx(64 * (middle.forward + middle.backward).raw()).epsilon(1e-9));
    // Between M rounds of the slowest stage and M + (p - 1) / v of them.
    CHECK(step.passes_end >= busiest);
    CHECK(step.passes_end <= busiest * (64 + 7.0 / layout.vpp) / 64 * (1 + 1e-9));
  }
}

TEST_CASE("activations peak where the schedule holds most and match the estimate") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 64);
  const Layout layout = layout_of(1, 8, 1, Schedule::f1b1);
  const auto step = simulate(job, layout);
  const LayerCosts costs = layer_costs(job, layer_key(layout));
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    CHECK(step.ranks[r].most_held == in_flight(Schedule::f1b1, 8, 1, static_cast<int>(r), 64));
    CHECK(step.ranks[r].most_activations.raw() ==
          doctest::Approx(4 * costs.dense_activations.raw() * step.ranks[r].most_held));
  }
}

TEST_CASE("a slow GPU holds up the step by no more than its own slowness") {
  const Job job = priced_job(gpt3_175b(), "a100-80gb-sxm", 8, 8, 2048, 64);
  const Layout layout = layout_of(8, 8, 1, Schedule::f1b1);
  const double plain = simulate(job, layout).makespan;
  const double slow = simulate(job, layout, parse_what_if("gpu=35 slow=20%", 64)).makespan;
  CHECK(slow > plain * 1.1);
  CHECK(slow < plain * 1.25);
  CHECK(simulate(job, layout, parse_what_if("gpu=35 slow=0%", 64)).makespan == plain);
}

TEST_CASE("a slow link and jitter lengthen the step and are repeatable") {
  const Job job = priced_job(gpt3_175b(), "a100-80gb-sxm", 8, 8, 2048, 64);
  const Layout layout = layout_of(8, 8, 1, Schedule::f1b1);
  const double plain = simulate(job, layout).makespan;
  CHECK(simulate(job, layout, parse_what_if("link=35 slow=90%", 64)).makespan > plain);
  const double noisy = simulate(job, layout, parse_what_if("jitter=5% seed=7", 64)).makespan;
  CHECK(noisy > plain);
  CHECK(simulate(job, layout, parse_what_if("jitter=5% seed=7", 64)).makespan == noisy);
  CHECK(simulate(job, layout, parse_what_if("jitter=5% seed=8", 64)).makespan != noisy);
}

TEST_CASE("a schedule from a file replaces the generated one") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 8);
  const Layout layout = layout_of(4, 2, 1, Schedule::f1b1);
  ScheduleRequest request;
  request.ranks = 2;
  request.micro_batches = 8;
  const auto gpipe = make_schedule(Schedule::gpipe, request);
  const auto given = simulate(job, layout, {}, &gpipe);
  CHECK(given.makespan == simulate(job, layout_of(4, 2, 1, Schedule::gpipe)).makespan);
  request.micro_batches = 4;
  const auto other = make_schedule(Schedule::gpipe, request);
  CHECK_THROWS_AS(simulate(job, layout, {}, &other), std::invalid_argument);
}

TEST_CASE("what-if texts are read and every problem of one is reported") {
  const auto what = parse_what_if("gpu=3 slow=20%, link=15 slow=0.5 jitter=3% seed=9", 16);
  REQUIRE(what.slow.size() == 2);
  CHECK(what.slow[0] == SlowPart{false, 3, 0.2});
  CHECK(what.slow[1] == SlowPart{true, 15, 0.5});
  CHECK(what.jitter == doctest::Approx(0.03));
  CHECK(what.seed == 9);
  CHECK(what_if_error("gpu=16 slow=20%").find("a number from 0 to 15") != std::string::npos);
  CHECK(what_if_error("gpu=3 slow=100%").find("not a share of the speed") != std::string::npos);
  CHECK(what_if_error("gpu=3").find("how slow is not said") != std::string::npos);
  CHECK(what_if_error("slow=3%").find("what is slow is not said") != std::string::npos);
  const auto both = what_if_error("gpus=3 jitter=x");
  CHECK(both.find("did you mean \"gpu\"?") != std::string::npos);
  CHECK(both.find("jitter") != std::string::npos);
}

TEST_CASE("the lower bound is below the simulation of ten thousand random layouts and the estimate is near") {
  const std::vector<Job> jobs{priced_job(llama_7b(), "a100-80gb-sxm", 8, 8, 4096, 512),
                              priced_job(gpt3_175b(), "h100-80gb-sxm", 64, 8, 2048, 512),
                              priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 8, 8, 4096, 512)};
  std::mt19937 random(3);
  const auto power = [&random](int most) {
    int value = 1;
    while (value < most && random() % 2 == 0) {
      value *= 2;
    }
    return value;
  };
  constexpr std::array<Schedule, 6> kSchedules{Schedule::gpipe, Schedule::f1b1,  Schedule::interleaved,
                                               Schedule::zb_h1, Schedule::zb_1p, Schedule::zb_2p};
  std::vector<double> differences;
  int layouts = 0;
  while (layouts < 10000) {
    const Job& job = jobs[random() % jobs.size()];
    const int tp = power(8);
    const int pp = power(8);
    Layout layout = layout_of(tp, pp, job.cluster.gpus() / (tp * pp), Schedule::f1b1);
    if (pp > 1) {
      layout.schedule = kSchedules[random() % kSchedules.size()];
    }
    layout.vpp = layout.schedule == Schedule::interleaved ? 2 : 1;
    layout.micro_batch = power(4);
    layout.zero = static_cast<std::uint8_t>(random() % 2);
    const auto batch = static_cast<std::int64_t>(layout.dp) * layout.micro_batch;
    if (job.training.global_batch % batch != 0 || (layout.vpp > 1 && job.training.global_batch / batch % pp != 0)) {
      continue;
    }
    layout.etp = job.moe() ? 1 : tp;
    const auto expected = estimate(job, layout).step;
    const auto step = simulate(job, layout);
    REQUIRE(expected.lower_bound.raw() <= step.makespan * (1 + 1e-9));
    ++layouts;
    if (pp > 1) {
      differences.push_back(std::abs(expected.total().raw() / step.makespan - 1));
    } else {
      REQUIRE(step.makespan == doctest::Approx(expected.total().raw()).epsilon(1e-9));
    }
  }
  std::sort(differences.begin(), differences.end());
  const auto quantile = [&differences](double share) {
    return differences[static_cast<std::size_t>(share * static_cast<double>(differences.size() - 1))];
  };
  MESSAGE("estimate against simulation, " << differences.size() << " layouts with a pipeline: median difference "
                                          << quantile(0.5) << ", 90 % " << quantile(0.9) << ", largest "
                                          << differences.back());
  CHECK(quantile(0.5) <= 0.02);
}
