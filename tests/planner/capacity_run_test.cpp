#include <doctest/doctest.h>

#include "planner/capacity/inverse.h"
#include "planner/capacity/model_shapes.h"
#include "planner/capacity/training_run.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

Circumstances plain_circumstances() {
  CapacityOptions options;
  options.goodput = 0.8;
  options.pue = 1.25;
  options.node_kw = 10;
  options.electricity = 0.1;
  options.grid = 0.4;
  PriceList prices = parse_prices(
      "p", R"({"currency": "USD", "prices": [{"for": "a100-80gb-sxm", "per_gpu_hour": [1, 3]}]})", shipped_gpus());
  std::vector<ReportAssumption> assumed;
  return circumstances_from(options, std::move(prices), assumed);
}

PlannerOptions plain_options() {
  PlannerOptions options;
  options.command = "report";
  return options;
}

}  // namespace

TEST_CASE("time and GPU-hours and money and energy and CO2 of a run follow from its speed") {
  const Planner planner(plain_options(), [] {});
  const auto plan = planner.best(resolve_model("7b"), resolve_cluster("2x8xa100-80gb-sxm"));
  REQUIRE(plan);
  const TrainingRun run = training_run(plain_circumstances(), *plan, 1e11);
  const double hours = 1e11 / plan->tokens_per_second() / 0.8 / 3600;
  CHECK(run.wall.value.raw() == doctest::Approx(hours));
  CHECK(run.wall.high.raw() / hours == doctest::Approx(interval80(1.0, plan->plan.estimate.step.step_error).high));
  CHECK(run.spares == 0);
  CHECK(run.gpu_hours.value.raw() == doctest::Approx(16 * hours));
  REQUIRE(run.rent);
  CHECK(run.rent->value.raw() == doctest::Approx(2 * 16 * hours));
  CHECK(run.rent->high.raw() == doctest::Approx(3 * 16 * run.wall.high.raw()));
  // Two nodes of 10 kW at a PUE of 1.25: 25 kW.
  CHECK(run.energy.value.raw() == doctest::Approx(25 * hours));
  CHECK(run.electricity->value.raw() == doctest::Approx(2.5 * hours));
  CHECK(run.carbon->value.raw() == doctest::Approx(10 * hours));
}

TEST_CASE("the power of a node is its GPUs and half as much again unless it was measured") {
  // 8 x 700 W x 1.5 = 8.4 kW, what was measured of a node of 8 H100 in training.
  const ClusterSpec cluster = resolve_cluster("2x8xh100-80gb-sxm");
  CHECK(node_power({}, cluster).value.raw() == doctest::Approx(8.4));
  // The rated maximum of that node is 10.2 kW.
  CHECK(node_power({}, cluster).high.raw() == doctest::Approx(10.2).epsilon(0.005));
  CHECK(site_power({}, cluster).value.raw() == doctest::Approx(2 * 8.4 * 1.2));
}

TEST_CASE("failures of a cluster add up over GPUs and nodes") {
  Circumstances around;
  around.gpu_mtbf = Seconds(16e6);
  around.node_mtbf = Seconds(4e6);
  around.restart = Seconds(600);
  around.write_per_node = BytesPerSecond(1e9);
  const ClusterSpec cluster = resolve_cluster("2x8xh100-80gb-sxm");
  const FailureModel model = failure_model(around, cluster, Bytes(1e11));
  // 16 / 16e6 + 2 / 4e6 = 1.5e-6 per second.
  CHECK(model.mtbf.raw() == doctest::Approx(1 / 1.5e-6));
  CHECK(model.checkpoint.raw() == doctest::Approx(50));
  CHECK(model.restart.raw() == doctest::Approx(650));
}

TEST_CASE("a checkpoint holds 14 bytes per parameter with Adam and a token 2 or 4 bytes") {
  CHECK(checkpoint_bytes(70e9, 12).raw() == doctest::Approx(980e9));
  CHECK(token_bytes(32000) == 2);
  CHECK(token_bytes(128256) == 4);
  // C = 2 M share^2: 1 TB in 2 x 10,000 s x 0.0001 = 2 s.
  CHECK(write_bandwidth_for(Bytes(1e12), Seconds(10000), 0.01).raw() == doctest::Approx(5e11));
}

TEST_CASE("the smallest size that meets a deadline meets it and one node fewer does not") {
  const Planner planner(plain_options(), [] {});
  const ModelSpec model = resolve_model("7b");
  const GpuCatalogue gpus = shipped_gpus();
  const Hardware hardware("1x8xa100-80gb-sxm", gpus, nullptr);
  const Circumstances around = plain_circumstances();
  const SizePricer price = [&](int nodes) -> std::optional<SizedRun> {
    auto plan = planner.best(model, *hardware.sized(nodes));
    if (!plan) {
      return std::nullopt;
    }
    TrainingRun run = training_run(around, *plan, 1e12);
    return SizedRun{nodes, *std::move(plan), std::move(run)};
  };
  const Hours deadline(60 * 24);
  const DeadlineAnswer answer = answer_deadline(price, deadline, 1024);
  REQUIRE(answer.smallest);
  const int nodes = answer.sizes[*answer.smallest].nodes;
  CHECK(nodes > 1);
  CHECK(price(nodes)->run.wall.value <= deadline);
  CHECK(price(nodes - 1)->run.wall.value > deadline);
  REQUIRE(answer.cheapest);
  for (const SizedRun& size : answer.sizes) {
    if (size.run.wall.value <= deadline) {
      CHECK(size.run.rent->value >= answer.sizes[*answer.cheapest].run.rent->value);
    }
  }
  // A second is met by no size; the search ends all the same.
  CHECK_FALSE(answer_deadline(price, Hours(1.0 / 3600), 1024).smallest);
}

TEST_CASE("searches for a threshold find it") {
  CHECK(*smallest_where(1, 1e6, 0.01, [](double x) { return x >= 300; }) == doctest::Approx(300).epsilon(0.01));
  CHECK_FALSE(smallest_where(1, 100, 0.01, [](double x) { return x >= 300; }));
  CHECK(*smallest_where(1, 100, 0.01, [](double) { return true; }) == 1);
  CHECK(largest_multiple(1024, 1 << 20, 0, [](int n) { return n <= 50000; }) == 48 * 1024);
  const int near = largest_multiple(1024, 1 << 20, 0.05, [](int n) { return n <= 500000; });
  CHECK(near <= 500000);
  CHECK(near > 500000 * 0.95);
  CHECK(largest_multiple(1024, 4096, 0, [](int) { return true; }) == 4096);
  CHECK(largest_multiple(1024, 4096, 0, [](int) { return false; }) == 0);
}

TEST_CASE("a scaled model keeps its proportions and comes near the wanted size") {
  for (const std::string_view name : {"70b", "llama3-8b", "mixtral-8x7b"}) {
    const ModelSpec model = resolve_model(std::string(name));
    for (const double params : {3e9, 30e9, 300e9}) {
      const ModelSpec scaled = scaled_model(model, params);
      CHECK(static_cast<double>(parameter_counts(scaled).total) == doctest::Approx(params).epsilon(0.15));
      CHECK(scaled.hidden % scaled.heads == 0);
      CHECK(scaled.heads % scaled.kv_heads == 0);
    }
  }
}

TEST_CASE("FLOPs of a token are 6 per parameter and those of attention") {
  const ModelSpec model = resolve_model("7b");
  // 6 x (6,738,415,616 - 32,000 x 4,096) + 6 x 32 x 32 x 128 x 4,096.
  CHECK(flops_per_token(model, 4096) == doctest::Approx(6.0 * (6738415616.0 - 131072000.0) + 3221225472.0));
}
