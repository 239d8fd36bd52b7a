#include "planner/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>
#include <thread>

#include "cost-model/simulate.h"
#include "planner/layout_scan.h"
#include "planner/pareto.h"
#include "tests/planner/jobs.h"

namespace tpplan {
namespace {

using tests::gpt3_175b;
using tests::llama_7b;
using tests::measured_space;
using tests::mixtral_8x7b;
using tests::priced_job;

AxisChoice& axis(SearchSpace& space, std::int32_t Layout::*field) {
  std::size_t i = 0;
  while (kAxes[i].field != field) {
    ++i;
  }
  return space.axes[i];
}

/// One value on every axis but tp, pp, cp and dp.
SearchSpace grid_only() {
  SearchSpace space;
  axis(space, &Layout::micro_batch).values = {1};
  axis(space, &Layout::vpp).values = {1};
  space.recompute = {"none"};
  space.sequence_parallel = {false};
  space.zero = {0};
  return space;
}

std::int64_t rejected_by(const SearchStats& stats, std::string_view name) {
  for (std::size_t i = 0; i < rules().size(); ++i) {
    if (rules()[i].name == name) {
      return stats.rejected[i];
    }
  }
  FAIL("no such rule");
  return 0;
}

bool same(const Estimate& a, const Estimate& b) {
  bool equal = a.step.lower_bound == b.step.lower_bound && a.step.model_flops == b.step.model_flops &&
               a.memory.host_bytes == b.memory.host_bytes && a.memory.stage == b.memory.stage &&
               a.memory.moment == b.memory.moment;
  for (const StepTermRow& term : kStepTerms) {
    equal = equal && a.step.*term.field == b.step.*term.field;
  }
  for (const MemoryTermRow& term : kMemoryTerms) {
    equal = equal && a.memory.*term.field == b.memory.*term.field;
  }
  return equal;
}

bool same(const SearchResult& a, const SearchResult& b) {
  bool equal = a.stats.enumerated == b.stats.enumerated && a.stats.rejected == b.stats.rejected &&
               a.stats.out_of_memory == b.stats.out_of_memory && a.stats.ranked == b.stats.ranked &&
               a.plans.size() == b.plans.size() && a.closest.has_value() == b.closest.has_value();
  for (std::size_t i = 0; equal && i < a.plans.size(); ++i) {
    equal = a.plans[i].layout == b.plans[i].layout && same(a.plans[i].estimate, b.plans[i].estimate) &&
            a.plans[i].tied_with_previous == b.plans[i].tied_with_previous;
  }
  return equal && (!a.closest || a.closest->layout == b.closest->layout);
}

/// Every combination of the space's values, one by one, with none of the search's code.
struct BruteForce {
  std::int64_t enumerated = 0, out_of_memory = 0;
  std::vector<std::int64_t> rejected = std::vector<std::int64_t>(rules().size(), 0);
  std::vector<std::pair<double, Layout>> ranked;
  double least_bytes = 1e300;

  explicit BruteForce(const Job& job) {
    const int world = job.cluster.gpus();
    for (int tp = 1; tp <= world; ++tp) {
      for (int pp = 1; pp <= world; ++pp) {
        for (int cp = 1; cp <= world; ++cp) {
          if (world % (tp * pp * cp) == 0) {
            grid(job, tp, pp, cp);
          }
        }
      }
    }
    std::sort(ranked.begin(), ranked.end());
  }

  void grid(const Job& job, int tp, int pp, int cp) {
    for (const int vpp : {1, 2, 3}) {
      for (const int micro_batch : {1, 3, 4}) {
        for (const bool sequence_parallel : {false, true}) {
          for (const char* recompute : {"none", "selective:mlp", "full", "full:2"}) {
            for (const int zero : {0, 1, 3}) {
              Layout layout;
              layout.tp = tp;
              layout.pp = pp;
              layout.cp = cp;
              layout.dp = job.cluster.gpus() / (tp * pp * cp);
              layout.vpp = vpp;
              layout.schedule = vpp > 1 ? Schedule::interleaved : Schedule::f1b1;
              layout.micro_batch = micro_batch;
              layout.sequence_parallel = sequence_parallel;
              set_recompute(layout, recompute);
              layout.zero = static_cast<std::uint8_t>(zero);
              one(job, layout);
            }
          }
        }
      }
    }
  }

  void one(const Job& job, const Layout& layout) {
    ++enumerated;
    const int broken = first_broken_rule(job, layout);
    if (broken >= 0) {
      ++rejected[static_cast<std::size_t>(broken)];
      return;
    }
    const Estimate result = estimate(job, layout);
    if (verdict(result.memory, job.training.memory_headroom) == Fits::no) {
      ++out_of_memory;
      least_bytes = std::min(least_bytes, result.memory.total().raw());
    } else {
      ranked.emplace_back(result.step.total().raw(), layout);
    }
  }
};

SearchSpace brute_force_space() {
  SearchSpace space;
  axis(space, &Layout::vpp).values = {1, 2, 3};
  axis(space, &Layout::micro_batch).values = {1, 3, 4};
  space.sequence_parallel = {false, true};
  space.recompute = {"none", "selective:mlp", "full", "full:2"};
  space.zero = {0, 1, 3};
  return space;
}

TEST_CASE("search finds what trying every combination one by one finds") {
  ModelSpec model = llama_7b();
  model.layers = 6;
  for (const int gpus : {1, 2, 6, 8}) {
    for (const Framework framework : {Framework::megatron, Framework::torchtitan, Framework::nanotron}) {
      CAPTURE(gpus);
      CAPTURE(std::string(name_of(framework)));
      const Job job = priced_job(model, "a100-40gb-sxm", 1, gpus, 4096, 48, framework);
      const BruteForce expected(job);
      const SearchResult found = search(job, brute_force_space(), Objective::step_time, 1000000);
      CHECK(found.stats.enumerated == expected.enumerated);
      CHECK(found.stats.rejected == expected.rejected);
      CHECK(found.stats.out_of_memory == expected.out_of_memory);
      CHECK(found.stats.ranked == static_cast<std::int64_t>(expected.ranked.size()));
      REQUIRE(found.plans.size() == expected.ranked.size());
      std::vector<std::pair<double, Layout>> plans;
      for (const Plan& plan : found.plans) {
        plans.emplace_back(plan.estimate.step.total().raw(), plan.layout);
      }
      CHECK(std::is_sorted(plans.begin(), plans.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
      std::sort(plans.begin(), plans.end());
      CHECK(plans == expected.ranked);
    }
  }
}

TEST_CASE("a search that keeps few layouts finds the same best ones and the same closest one") {
  constexpr std::size_t kTop = 3;
  constexpr std::size_t kKept = kTop + 16;  // with what replaces plans that a replay of the allocator finds too large
  ModelSpec model = llama_7b();
  model.layers = 6;
  std::int64_t out_of_memory = 0;
  for (const char* gpu : {"a100-40gb-sxm", "rtx-4090"}) {
    const Job job = priced_job(model, gpu, 1, 8, 4096, 48);
    const BruteForce expected(job);
    REQUIRE(expected.ranked.size() > 2 * kKept);
    out_of_memory += expected.out_of_memory;
    const SearchResult found = search(job, brute_force_space(), Objective::step_time, kTop);
    CHECK(found.stats.rejected == expected.rejected);
    CHECK(found.stats.out_of_memory == expected.out_of_memory);
    CHECK(found.stats.ranked == static_cast<std::int64_t>(expected.ranked.size()));
    REQUIRE(found.plans.size() == kTop);
    for (std::size_t i = 0; i < kTop; ++i) {
      CHECK(found.plans[i].estimate.step.total().raw() == expected.ranked[i].first);
    }
    double bound = 1e300;
    for (std::size_t i = kKept; i < expected.ranked.size(); ++i) {
      bound = std::min(bound, estimate(job, expected.ranked[i].second).step.lower_bound.raw());
    }
    CHECK(found.left_out_bound == bound);
  }
  CHECK(out_of_memory > 10);
  model.layers = 48;
  const Job large = priced_job(model, "rtx-4090", 1, 2, 4096, 48);
  const BruteForce expected(large);
  REQUIRE(expected.ranked.empty());
  const SearchResult found = search(large, brute_force_space(), Objective::step_time, kTop);
  REQUIRE(found.closest);
  CHECK(found.stats.out_of_memory == expected.out_of_memory);
  CHECK(found.closest->estimate.memory.total().raw() == expected.least_bytes);
}

TEST_CASE("layer keys that differ in recomputation share their operation lists") {
  const Job job = priced_job(mixtral_8x7b(), "h100-80gb-sxm", 1, 8, 4096, 64);
  Layout layout;
  layout.tp = 2;
  layout.ep = 4;
  layout.sequence_parallel = true;
  const LayerLists lists = layer_lists(job, layer_key(layout));
  for (const char* recompute : {"none", "selective", "full", "full:2"}) {
    REQUIRE(set_recompute(layout, recompute));
    for (const Schedule schedule : {Schedule::f1b1, Schedule::dualpipe}) {
      layout.schedule = schedule;
      const LayerKey key = layer_key(layout);
      CHECK(lists.serve(key));
      CHECK(layer_costs(job, key, lists).moe.total() == layer_costs(job, key).moe.total());
      CHECK(layer_costs(job, key, lists).head.total() == layer_costs(job, key).head.total());
    }
  }
  layout.micro_batch = 2;
  CHECK_FALSE(lists.serve(layer_key(layout)));
}

TEST_CASE("the Pareto front on 16 GPUs is that of trying every combination on every share of them") {
  ModelSpec model = llama_7b();
  model.layers = 6;
  const Job job = priced_job(model, "a100-40gb-sxm", 2, 8, 4096, 48);
  struct Point {
    int gpus = 0;
    double seconds = 0, bytes = 0;
    auto operator<=>(const Point&) const = default;
  };
  std::vector<Point> all;
  for (const int gpus : {1, 2, 4, 8, 16}) {  // divisors of a node of 8, then of 2 nodes
    const Job sized = gpus < 8 ? priced_job(model, "a100-40gb-sxm", 1, gpus, 4096, 48)
                               : priced_job(model, "a100-40gb-sxm", gpus / 8, 8, 4096, 48);
    for (const auto& [seconds, layout] : BruteForce(sized).ranked) {
      all.push_back({gpus, seconds, estimate(sized, layout).memory.total().raw()});
    }
  }
  std::vector<Point> expected;
  for (const Point& point : all) {
    const bool beaten = std::any_of(all.begin(), all.end(), [&](const Point& other) {
      return other != point && other.gpus <= point.gpus && other.seconds <= point.seconds && other.bytes <= point.bytes;
    });
    if (!beaten) {
      expected.push_back(point);
    }
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  for (const int threads : {1, 3}) {
    std::vector<Point> found;
    for (const ParetoPlan& plan : pareto_front(job, brute_force_space(), threads).plans) {
      CHECK(plan.plan.layout.world() == plan.gpus);
      found.push_back({plan.gpus, plan.plan.estimate.step.total().raw(), plan.plan.estimate.memory.total().raw()});
    }
    CHECK(found.size() > 5);
    CHECK(found == expected);
  }
}

TEST_CASE("the number of grids on 8 GPUs is that of the ordered factorisations") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  // 8 = 2^3: exponents of tp, pp, cp and dp add up to 3, C(3 + 3, 3) = 20 ways, all legal: 32 heads and layers,
  // 4,096 tokens, 1,024 sequences.
  SearchSpace space = grid_only();
  SearchStats stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 20);
  CHECK(stats.rejected_total() == 0);
  CHECK(stats.costed() == 20);
  // With sequence parallelism on as well, the C(3 + 2, 2) = 10 grids with tp = 1 cannot have it.
  space.sequence_parallel = {false, true};
  stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 40);
  CHECK(rejected_by(stats, "sequence-parallel-needs-tp") == 10);
  CHECK(stats.rejected_total() == 10);
  // 3 micro-batch sizes, of which 3 divides no share of 1,024.
  axis(space, &Layout::micro_batch).values = {1, 2, 3};
  stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 120);
  CHECK(rejected_by(stats, "sequence-parallel-needs-tp") == 30);
  CHECK(rejected_by(stats, "batch-divides") == 30);  // the 40 of micro-batch 3 less 10 already counted
}

TEST_CASE("restrictions cut the space before it is counted") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  SearchSpace space = grid_only();
  axis(space, &Layout::tp).values = {2};
  CHECK(search(job, space, Objective::step_time, 1).stats.enumerated == 6);  // exponents of pp, cp, dp add up to 2
  axis(space, &Layout::dp).values = {4};
  const SearchResult one = search(job, space, Objective::step_time, 5);
  CHECK(one.stats.enumerated == 1);
  REQUIRE(one.plans.size() == 1);
  CHECK(one.plans.front().layout.dp == 4);
  CHECK(one.plans.front().layers_per_stage == std::vector<int>{32});
}

TEST_CASE("values that cannot divide the world are counted as rejected when they are asked for") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  SearchSpace space = grid_only();
  axis(space, &Layout::pp).values = {3};
  axis(space, &Layout::cp).values = {1};
  SearchStats stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 4);  // tp 1, 2, 4, 8
  CHECK(rejected_by(stats, "world-divides") == 4);
  space = grid_only();
  axis(space, &Layout::tp).values = {3};
  stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 1);
  CHECK(rejected_by(stats, "heads-divide-tp") == 1);
}

TEST_CASE("virtual stages are left open where the layers fill them evenly or spare the ends") {
  ModelSpec model = llama_7b();
  model.layers = 126;
  SearchSpace space = grid_only();
  axis(space, &Layout::vpp).values.clear();
  axis(space, &Layout::tp).values = {1};
  axis(space, &Layout::cp).values = {1};
  axis(space, &Layout::pp).values = {8};
  // 126 + 2 = 128 = 8 x 16: 1, 2, 4, 8 and 16 chunks.
  CHECK(search(priced_job(model, "h100-80gb-sxm", 1, 8, 4096, 1024), space, Objective::step_time, 1).stats.enumerated ==
        5);
  model.layers = 32;  // 1, 2 and 4 chunks
  CHECK(search(priced_job(model, "h100-80gb-sxm", 1, 8, 4096, 1024), space, Objective::step_time, 1).stats.enumerated ==
        3);
  // nanotron does not interleave.
  CHECK(
      search(priced_job(model, "h100-80gb-sxm", 1, 8, 4096, 1024, Framework::nanotron), space, Objective::step_time, 1)
          .stats.enumerated == 1);
}

TEST_CASE("a schedule that is asked for brings the chunks it needs") {
  const Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 1024);
  SearchSpace space = grid_only();
  axis(space, &Layout::vpp).values.clear();
  axis(space, &Layout::pp).values = {4};
  space.schedules = {Schedule::zb_v};
  for (const Plan& plan : search(job, space, Objective::step_time, 100).plans) {
    CHECK(plan.layout.vpp == 2);
    CHECK(plan.layout.schedule == Schedule::zb_v);
  }
  space.schedules = {Schedule::gpipe, Schedule::interleaved};
  for (const Plan& plan : search(job, space, Objective::step_time, 100).plans) {
    CHECK((plan.layout.schedule == Schedule::interleaved) == (plan.layout.vpp > 1));
  }
}

TEST_CASE("other groups of interleaved micro-batches are tried when asked for") {
  // One pipeline of 4 with 1 or 2 chunks and 64 micro-batches. 64 % 8 = 0 and 64 % 12 = 4 are legal, 64 % 7 = 1 < 4 and
  // 3 < 4 are not; the plain pipeline has no groups and stays one candidate.
  const Job job = priced_job(llama_7b(), "h100-80gb-sxm", 1, 8, 4096, 64);
  SearchSpace space = measured_space();
  axis(space, &Layout::tp).values = {2};
  axis(space, &Layout::pp).values = {4};
  axis(space, &Layout::cp).values = {1};
  axis(space, &Layout::vpp).values = {1, 2};
  axis(space, &Layout::micro_batch).values = {1};
  space.recompute = {"full"};
  space.sequence_parallel = {true};
  space.zero = {0};
  CHECK(search(job, space, Objective::step_time, 10).stats.enumerated == 2);
  space.vpp_group = {0, 3, 7, 8, 12};
  const SearchResult result = search(job, space, Objective::step_time, 10);
  CHECK(result.stats.enumerated == 6);
  CHECK(rejected_by(result.stats, "vpp-group-range") == 1);
  CHECK(rejected_by(result.stats, "vpp-group-remainder") == 1);
  CHECK(result.stats.ranked == 4);
  std::vector<std::pair<int, double>> held;
  for (const Plan& plan : result.plans) {
    if (plan.layout.vpp == 2) {
      held.emplace_back(plan.layout.vpp_group, plan.estimate.memory.in_flight);
    }
  }
  std::sort(held.begin(), held.end());
  // (2 (p - 1) + (v - 1) g + 1) / v = (7 + g) / 2 on the first rank.
  CHECK(held == std::vector<std::pair<int, double>>{{0, 5.5}, {8, 7.5}, {12, 9.5}});
}

TEST_CASE("experts are spread over every divisor of their number") {
  const Job job = priced_job(mixtral_8x7b(), "h100-80gb-sxm", 1, 8, 4096, 1024);
  SearchSpace space = grid_only();
  space.sequence_parallel.clear();
  axis(space, &Layout::pp).values = {1};
  axis(space, &Layout::cp).values = {1};
  axis(space, &Layout::tp).values = {2};
  // ep 1, 2, 4, 8 with etp 1 and 2; the grid etp x ep = 2 x 8 does not divide 8 GPUs.
  const SearchStats stats = search(job, space, Objective::step_time, 1).stats;
  CHECK(stats.enumerated == 8);
  CHECK(rejected_by(stats, "expert-grid-divides-world") == 1);
}

TEST_CASE("the result does not depend on the number of threads") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 1024);
  const SearchResult one = search(job, measured_space(), Objective::step_time, 20, 1);
  for (const int threads : {2, 3, 7}) {
    CHECK(same(one, search(job, measured_space(), Objective::step_time, 20, threads)));
  }
  const Job small = priced_job(gpt3_175b(), "a100-40gb-sxm", 1, 8, 2048, 1536);
  CHECK(same(search(small, measured_space(), Objective::memory, 20, 1),
             search(small, measured_space(), Objective::memory, 20, 3)));
}

TEST_CASE("fewer plans are the first of more plans") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  const SearchResult many = search(job, {}, Objective::step_time, 40);
  const SearchResult few = search(job, {}, Objective::step_time, 4);
  REQUIRE(many.plans.size() == 40);
  REQUIRE(few.plans.size() == 4);
  for (std::size_t i = 0; i < few.plans.size(); ++i) {
    CHECK(few.plans[i].layout == many.plans[i].layout);
  }
  CHECK(search(job, {}, Objective::step_time, 0).plans.empty());
}

TEST_CASE("plans come in the order of the objective and ties are within a quarter of the interval") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  const SearchResult by_time = search(job, {}, Objective::step_time, 200);
  double group_high = 0;
  for (std::size_t i = 0; i < by_time.plans.size(); ++i) {
    const StepEstimate& step = by_time.plans[i].estimate.step;
    const double seconds = step.total().raw();
    const double quarter = step.step_error / 4;
    CHECK((i == 0 || seconds >= by_time.plans[i - 1].estimate.step.total().raw()));
    CHECK(by_time.plans[i].tied_with_previous == (seconds / (1 + quarter) <= group_high));
    if (!by_time.plans[i].tied_with_previous) {
      group_high = seconds * (1 + quarter);
    }
  }
  const SearchResult by_memory = search(job, {}, Objective::memory, 200);
  for (std::size_t i = 1; i < by_memory.plans.size(); ++i) {
    CHECK(by_memory.plans[i].estimate.memory.total() >= by_memory.plans[i - 1].estimate.memory.total());
  }
}

TEST_CASE("when nothing fits the legal layout with the least memory is closest") {
  ModelSpec model = llama_7b();
  model.layers = 6;
  model.hidden = 16384;
  model.heads = 128;
  model.kv_heads = 128;
  model.ffn_hidden = 65536;
  const Job job = priced_job(model, "a100-40gb-sxm", 1, 2, 4096, 48);
  const SearchResult result = search(job, brute_force_space(), Objective::step_time, 10);
  const BruteForce expected(job);
  REQUIRE(result.plans.empty());
  REQUIRE(result.closest.has_value());
  CHECK(result.closest->fits == Fits::no);
  CHECK(result.closest->estimate.memory.total().raw() == expected.least_bytes);
}

TEST_CASE("a hoisted estimate equals the direct one bit for bit") {
  std::mt19937 random(11);
  const auto draw = [&random](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  for (const bool moe : {false, true}) {
    const Job job = priced_job(moe ? mixtral_8x7b() : gpt3_175b(), "a100-80gb-sxm", 16, 8, 2048, 1536);
    for (int i = 0; i < 3000; ++i) {
      Layout layout;
      layout.tp = 1 << draw(4);
      layout.pp = 1 << draw(4);
      layout.cp = 1 << draw(2);
      layout.dp = 128 / (layout.tp * layout.pp * layout.cp);
      if (layout.dp < 1) {
        continue;
      }
      layout.vpp = layout.pp > 1 ? 1 + draw(2) : 1;
      layout.schedule =
          layout.vpp > 1 ? Schedule::interleaved : kScheduleNames[static_cast<std::size_t>(draw(6))].value;
      layout.vpp_group = layout.vpp > 1 ? layout.pp * draw(3) : 0;
      layout.micro_batch = 1 << draw(3);
      layout.ep = moe ? 1 << draw(3) : 1;
      layout.etp = moe && draw(2) == 1 ? layout.tp : 1;
      layout.sequence_parallel = layout.tp > 1;
      layout.recompute = kRecomputeNames[static_cast<std::size_t>(draw(4))].value;
      layout.zero = static_cast<std::uint8_t>(draw(4));
      layout.cp_type = kCpTypeNames[static_cast<std::size_t>(draw(3))].value;
      layout.offload = kOffloadNames[static_cast<std::size_t>(draw(3))].value;
      layout.optimizer = kOptimizerNames[static_cast<std::size_t>(draw(8))].value;
      layout.ranks_order = kRanksOrderNames[static_cast<std::size_t>(draw(2))].value;
      layout.grad_reduce = kGradReduceNames[static_cast<std::size_t>(draw(3))].value;
      const LayerCosts costs = layer_costs(job, layer_key(layout));
      const PipelineShape shape = pipeline_shape(job, layout.pp, layout.vpp);
      CHECK(same(combine(job, layout, costs, shape), estimate(job, layout)));
    }
  }
}

TEST_CASE("simulated plans are the fastest by simulation or told to be otherwise") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 128);
  SearchSpace space = measured_space();
  SearchResult result = search(job, space, Objective::step_time, 5);
  const SearchResult plain = result;
  simulate_plans(job, result);
  REQUIRE(result.plans.size() == 5);
  double slowest = 0;
  double fastest = 1e30;
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const Plan& plan = result.plans[i];
    CHECK(plan.layout == plain.plans[i].layout);
    CHECK(plan.simulated_s == simulate(job, plan.layout).makespan);
    CHECK(plan.simulated_s >= plan.estimate.step.lower_bound.raw() * (1 - 1e-9));
    slowest = std::max(slowest, plan.simulated_s);
    fastest = std::min(fastest, plan.simulated_s);
  }
  // Every layout that was passed over is slower than its bound, and those with a bound below the fifth were simulated.
  double other = 1e30;
  for (const PassedOver& passed : result.next) {
    const double seconds = simulate(job, passed.layout).makespan;
    CHECK(passed.lower_bound <= seconds * (1 + 1e-9));
    CHECK(passed.lower_bound == doctest::Approx(estimate(job, passed.layout).step.lower_bound.raw()));
    if (plan_of(job, passed.layout).fits != Fits::no) {
      other = std::min(other, seconds);
    }
  }
  CHECK(result.fastest_simulated.has_value() == (other < fastest));
  if (result.fastest_simulated) {
    CHECK(result.fastest_simulated->simulated_s == doctest::Approx(other));
  }
  CHECK(result.stats.simulated >= 5);
  CHECK(result.stats.simulate_seconds > 0);
}

TEST_CASE("what is left out of the candidates does not depend on the number of threads") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 128);
  const SearchResult one = search(job, measured_space(), Objective::step_time, 5, 1);
  const SearchResult four = search(job, measured_space(), Objective::step_time, 5, 4);
  CHECK(one.left_out_bound == four.left_out_bound);
  CHECK(one.next == four.next);
  CHECK(one.next.size() > 5);
  CHECK(one.left_out_bound > 0);
}

TEST_CASE("progress grows towards one") {
  double last = -1;
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 1024);
  (void)search(job, measured_space(), Objective::step_time, 1, 1, [&last](double share) {
    CHECK(share > last);
    CHECK(share <= 1);
    last = share;
  });
  CHECK(last > 0.5);
}

TEST_CASE("the counts of the measured jobs are those on record") {
  std::ifstream file(TPPLAN_SOURCE_DIR "/tests/data/signature.txt");
  std::vector<std::string> recorded;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') {
      recorded.push_back(line);
    }
  }
  const auto jobs = tests::signature_jobs();
  REQUIRE(recorded.size() == jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(tests::signature_line(jobs[i]) == recorded[i]);
  }
}

TEST_CASE("GPipe with more micro-batches than a replay can hold keeps the closed form's slack") {
  const auto refined = [](int micro_batches) {
    const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 2, 4096, micro_batches, Framework::plain);
    const Layout layout = parse_layout("tp=1 pp=2 zero=0 schedule=gpipe", 2);
    return plan_of(job, layout).estimate.memory.allocator_slack != estimate(job, layout).memory.allocator_slack;
  };
  CHECK(refined(16));
  CHECK(refined(64));
  CHECK_FALSE(refined(65));
}

}  // namespace
}  // namespace tpplan
