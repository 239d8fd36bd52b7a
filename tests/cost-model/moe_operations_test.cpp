// Routed experts: what the exchange moves, how fast grouped products run, what is left of the host.
#include "cost-model/moe_operations.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::priced_job;

namespace {

ModelSpec deepseek_v3() { return load_model(std::string(TPPLAN_SOURCE_DIR) + "/models/deepseek-v3.json"); }

Layout experts_over(int ranks) {
  Layout layout;
  layout.dp = ranks;
  layout.ep = ranks;
  return layout;
}

Operation operation_named(const Job& job, const Layout& layout, const std::string& name) {
  const auto list = layer_operations(job, layer_key(layout), true);
  for (const auto& op : list) {
    if (name == op.name) {
      return op;
    }
  }
  FAIL("no operation " << name);
  return {};
}

double exchange_s(const Job& job, const Layout& layout) {
  return operation_named(job, layout, "expert all-to-all").forward.raw();
}

}  // namespace

TEST_CASE("a token visits fewer ranks than it has experts") {
  // 8 (1 - (7/8)^8) = 5.251; of 64 ranks 64 (1 - (63/64)^8) = 7.576; all on one rank: one copy.
  CHECK(distinct_ranks(8, 8) == doctest::Approx(5.2512).epsilon(1e-4));
  CHECK(distinct_ranks(64, 8) == doctest::Approx(7.5759).epsilon(1e-4));
  CHECK(distinct_ranks(1, 8) == 1);
}

TEST_CASE("DeepEP sends one copy of a token to each rank inside a node") {
  // 8 x B200, NVLink 900 GB/s of which 0.77 is reached: 4,096 tokens x 5.251 copies x 14,336 bytes down and back.
  auto job = priced_job(deepseek_v3(), "b200-180gb-sxm", 1, 8, 4096, 64);
  job.model.moe->routing_group_limit = 0;
  job.training.dispatcher = Dispatcher::deepep;
  const double copies = 8 * (1 - std::pow(7.0 / 8, 8));
  const double once = 4096 * copies * 14336 / (900e9 * 0.77) + job.links[0].base.raw();
  CHECK(exchange_s(job, experts_over(8)) == doctest::Approx(2 * once).epsilon(1e-9));
  auto plain = job;
  plain.training.dispatcher = Dispatcher::all_to_all;
  CHECK(exchange_s(plain, experts_over(8)) > exchange_s(job, experts_over(8)));
}

TEST_CASE("a program that weighs the outputs of its experts keeps them and sums them at its own rate") {
  // 4,096 tokens x 8 experts x 7,168 wide x 2 bytes on one GPU per data-parallel rank; twice the time of the bytes.
  auto job = priced_job(deepseek_v3(), "h200-141gb-sxm", 1, 8, 4096, 64);
  const Layout layout = experts_over(8);
  const double plain = operation_named(job, layout, "permute and unpermute").forward.raw();
  const Bytes kept = layer_costs(job, layer_key(layout)).moe_activations;
  job.profile.permute_factor *= 2;
  job.profile.routed_outputs_kept = 1;
  CHECK(operation_named(job, layout, "permute and unpermute").forward.raw() == doctest::Approx(2 * plain));
  const double outputs = 4096.0 * 8 * 7168 * 2 * job.profile.activation_factor;
  CHECK((layer_costs(job, layer_key(layout)).moe_activations - kept).raw() == doctest::Approx(outputs));
}

TEST_CASE("a measured link that is slower than its kind slows DeepEP as much") {
  // All-to-all over 2 nodes of 8, measured at four times the time that the constants give: the network's part of the
  // exchange, its slower one, takes four times as long too. A faster measurement than the constants changes nothing.
  auto job = priced_job(deepseek_v3(), "h100-80gb-sxm", 2, 8, 4096, 64);
  job.model.moe->routing_group_limit = 0;
  job.training.dispatcher = Dispatcher::deepep;
  const double base = 2 * job.links[1].base.raw();
  const double rated = exchange_s(job, experts_over(16)) - base;
  const GroupPlacement group = place_group(job.cluster, 16, 1);
  const auto measure = [&](double times) {
    CollectiveCurve curve;
    curve.collective = Collective::all_to_all;
    curve.placement = {2, 8, 1};
    for (const double mib : {1.0, 16.0, 256.0, 1024.0}) {
      const Bytes size(mib * (1 << 20));
      const Seconds time = rated_law(job, Collective::all_to_all, group).time(size) * times;
      curve.points.push_back({size, time, time, time});
    }
    curve.pieces = {{Bytes(1e12), curve.points.front().time, BytesPerSecond(1e9)}};
    job.calibration.curves = {curve};
    return exchange_s(job, experts_over(16)) - base;
  };
  CHECK(measure(4) == doctest::Approx(4 * rated).epsilon(0.01));
  CHECK(measure(0.5) == doctest::Approx(rated).epsilon(1e-9));
}

TEST_CASE("only a dispatcher made for it sends 8 bits") {
  auto job = priced_job(deepseek_v3(), "h100-80gb-sxm", 1, 8, 4096, 64);
  job.training.dispatcher = Dispatcher::deepep;
  const double wide = exchange_s(job, experts_over(8));
  job.training.precision = Precision::fp8;
  CHECK(exchange_s(job, experts_over(8)) == doctest::Approx(wide).epsilon(1e-12));
  job.training.dispatcher = Dispatcher::deepep_fp8;
  const double base = job.links[0].base.raw();
  CHECK(exchange_s(job, experts_over(8)) - 2 * base == doctest::Approx(0.75 * (wide - 2 * base)).epsilon(1e-9));
}

TEST_CASE("grouped products slow down as the measured ones do when an expert has few rows") {
  // B200, 16 bits, TFLOP/s of SimuMax's table (configs/system/b200_bf16_ceperm.json): experts, rows of each, n, k,
  // forward and data gradient.
  struct Measured {
    int experts, rows;
    double n, k, forward, input_gradient;
  };
  constexpr std::array<Measured, 4> kMeasured{{{32, 1024, 4096, 7168, 1030, 978},
                                               {32, 1024, 7168, 2048, 885, 998},
                                               {20, 1232, 5120, 1536, 890, 863},
                                               {40, 2460, 3072, 5120, 1095, 1017}}};
  for (const auto& row : kMeasured) {
    auto job = priced_job(deepseek_v3(), "b200-180gb-sxm", 1, 8, row.rows, 64);
    auto& moe = *job.model.moe;
    job.model.hidden = static_cast<int>(row.k);
    moe.experts = row.experts;
    moe.top_k = row.experts;  // every token visits every expert: as many rows each as the sequence has
    moe.expert_ffn = static_cast<int>(row.n / 2);
    const auto op = operation_named(job, experts_over(1), "experts up+gate");
    INFO(row.experts << " experts of " << row.rows << " rows");
    CHECK(op.m == row.rows);
    CHECK(op.flops_forward.raw() / op.forward.raw() / 1e12 == doctest::Approx(row.forward).epsilon(0.15));
    CHECK(op.flops_forward.raw() / op.input_gradient.raw() / 1e12 == doctest::Approx(row.input_gradient).epsilon(0.15));
    // The inner size of the weight gradient is the rows of one expert.
    const double flops = 2.0 * row.experts * row.rows * row.n * row.k;
    const double rate = 2250e12 * job.constants.gemm_16bit * job.constants.power_factor;
    CHECK(op.weight_gradient.raw() ==
          doctest::Approx(flops * (1 + job.constants.gemm_k0 / row.rows) / rate + 2e-6).epsilon(1e-9));
  }
}

TEST_CASE("one grouped kernel for all experts has no tail for each") {
  // H200, 16 bits, seconds of clusters/samples/h200-grouped-products.json: 8 experts, rows of each, n, k, forward and
  // data gradient. With 5 us for each expert those of 512 rows would take 10 to 27 % longer.
  struct Measured {
    int rows;
    double n, k, forward, input_gradient;
  };
  constexpr std::array<Measured, 4> kMeasured{{{512, 4096, 7168, 343.8e-6, 395.8e-6},
                                               {512, 7168, 2048, 206.5e-6, 188.9e-6},
                                               {1024, 3072, 4096, 311.9e-6, 334.2e-6},
                                               {4096, 4096, 7168, 2897e-6, 2928e-6}}};
  for (const auto& row : kMeasured) {
    auto job = priced_job(deepseek_v3(), "h200-141gb-sxm", 1, 8, row.rows, 64, Framework::torchtitan);
    auto& moe = *job.model.moe;
    job.model.hidden = static_cast<int>(row.k);
    moe.experts = 8;
    moe.top_k = 8;
    moe.expert_ffn = static_cast<int>(row.n / 2);
    const auto op = operation_named(job, experts_over(1), "experts up+gate");
    INFO(row.rows << " rows, " << row.k << " to " << row.n);
    CHECK(op.forward.raw() == doctest::Approx(row.forward).epsilon(0.1));
    CHECK(op.input_gradient.raw() == doctest::Approx(row.input_gradient).epsilon(0.12));
    auto apart = job;
    apart.training.framework = Framework::megatron;
    CHECK(operation_named(apart, experts_over(1), "experts up+gate").forward.raw() ==
          doctest::Approx(op.forward.raw() + 8 * 5e-6).epsilon(1e-9));
  }
}

TEST_CASE("graphs leave a share of the host time where the dispatcher runs beside them") {
  auto job = priced_job(deepseek_v3(), "gb200", 2, 4, 4096, 64);
  job.profile.moe_host_forward_s = 1e-3;
  job.profile.moe_host_graphed = 0.4;
  job.training.dispatcher = Dispatcher::hybridep;
  const auto key = layer_key(experts_over(8));
  const double eager = layer_costs(job, key).moe.host_forward.raw();
  CHECK(eager == doctest::Approx(1e-3));
  job.training.cuda_graphs = true;
  CHECK(layer_costs(job, key).moe.host_forward.raw() == doctest::Approx(0.4e-3));
  // One copy per expert needs the counts of its rows on the host, graphs or not.
  job.training.dispatcher = Dispatcher::all_to_all;
  CHECK(layer_costs(job, key).moe.host_forward.raw() == doctest::Approx(1e-3));
  job.training.dispatcher = Dispatcher::deepep_proxied;
  job.training.cuda_graphs = false;
  job.profile.moe_host_proxied = 1.5;
  CHECK(layer_costs(job, key).moe.host_forward.raw() == doctest::Approx(1.5e-3));
}

TEST_CASE("an overlapped exchange also runs while the GPU waits for the host") {
  // Slow network: the exchange takes longer than the layer's work, so that what sticks out shrinks by part of the wait.
  auto job = priced_job(deepseek_v3(), "h100-80gb-sxm", 8, 8, 4096, 64);
  job.training.dispatcher = Dispatcher::all_to_all;
  job.training.overlap_ep = Switch::on;
  job.profile.network_factor = 0.2;
  const auto key = layer_key(experts_over(64));
  job.profile.moe_host_forward_s = 0;
  const auto free = layer_costs(job, key).moe;
  job.profile.moe_host_forward_s = 1e-3;
  const auto waiting = layer_costs(job, key).moe;
  CHECK(waiting.ep_forward + waiting.ep_backward < free.ep_forward + free.ep_backward);
  CHECK(waiting.total() > free.total());
}

TEST_CASE("a profile may hold for runs that state their dispatcher only") {
  const auto profiles = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  const auto gpu = priced_job(deepseek_v3(), "b300-sxm", 1, 8, 4096, 64).cluster.gpu;
  const auto name = [&](const char* date, const char* dispatcher) {
    return profiles.find(Framework::megatron, gpu, date, false, dispatcher).name;
  };
  CHECK(name("2026-06", "all-to-all") == "megatron-2026-06");
  CHECK(name("2026-07", "deepep-proxied") == "megatron-2026-06");
  CHECK(name("2026-06", "hybridep") == "megatron-2025-blackwell");
  CHECK(name("2026-06", "") == "megatron-2025-blackwell");
  CHECK(name("", "all-to-all") == "megatron-2025-blackwell");
}
