// What the three kinds of context parallelism move, show and hold, derived by hand for one small case.
#include "cost-model/context_parallel.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/planner/jobs.h"

using namespace tpplan;

namespace {

/// Width 1,024 with 8 heads of 128 and `kv_heads` key/value heads, an FFN of 1,024; 8,192 tokens on four nodes of one
/// GPU. Links are set to round numbers: 25 GB/s of which 0.8 are reached = 20 GB/s, 10 us for any collective.
Job four_nodes(int kv_heads) {
  ModelSpec model = tests::llama_7b();
  model.name = "small";
  model.layers = 4;
  model.hidden = 1024;
  model.heads = 8;
  model.kv_heads = kv_heads;
  model.ffn_hidden = 1024;
  Job job = tests::priced_job(model, "a100-80gb-sxm", 4, 1, 8192, 16);
  job.cluster.tiers.back().bandwidth = BytesPerSecond(25e9);
  job.cluster.tiers.back().oversubscription = 1;
  auto& link = job.links.back();
  link.base = 10_us;
  link.step = Seconds(0);
  link.gather = link.send_recv = link.all_to_all = 0.8;
  job.profile.network_factor = 1;
  job.profile.all_to_all_factor = 1;
  job.profile.collective_latency_s = 0;
  job.profile.far_network_exponent = 0;
  return job;
}

LayerKey key_of(CpType type, int cp = 4) {
  LayerKey key;
  key.cp = cp;
  key.cp_type = type;
  return key;
}

struct Exchange {
  Operation attention, exchange;
};

Exchange exchange_of(const Job& job, const LayerKey& key) {
  Exchange found;
  const auto list = layer_operations(job, key, false);
  for (const auto& op : list) {
    if (op.kind == OperationKind::attention) {
      found.attention = op;
    } else if (op.kind == OperationKind::cp_comm) {
      found.exchange = op;
    }
  }
  return found;
}

double positive(double value) { return value > 0 ? value : 0; }

}  // namespace

TEST_CASE("context parallelism divides causal attention evenly") {
  // Both products, half of the square: 2 x 8 heads x 8,192^2 x 128 = 137,438,953,472 FLOP forward, 2.5 times backward.
  const Job job = four_nodes(4);
  const double whole = 2.0 * 8 * 8192 * 8192 * 128;
  CHECK(exchange_of(job, key_of(CpType::ring, 1)).attention.flops_forward.raw() == whole);
  for (const auto& row : kCpTypeNames) {
    const auto attention = exchange_of(job, key_of(row.value)).attention;
    CHECK(attention.flops_forward.raw() == whole / 4);
    CHECK(attention.flops_backward.raw() == 2.5 * whole / 4);
  }
}

TEST_CASE("a ring shows what each of its steps takes longer than the attention beside it") {
  // 2,048 tokens a rank, 4 heads of keys and values: 2,048 x 4 x (128 + 128) x 2 B = 4,194,304 B a step, 3 steps
  // forward; backward keys and values make 3 steps and their gradients 4.
  Job job = four_nodes(4);
  const auto [attention, exchange] = exchange_of(job, key_of(CpType::ring));
  CHECK(exchange.bytes_forward.raw() == 3 * 4194304.0);
  CHECK(exchange.bytes_backward.raw() == 7 * 4194304.0);
  // 10 us + 4,194,304 B / 20 GB/s = 219.7152 us; with a gradient beside it 10 us + 419.4304 us.
  const double one = 219.7152e-6;
  const double two = 429.4304e-6;
  const double forward = attention.forward.raw() / 4;
  const double backward = attention.input_gradient.raw() / 4;
  REQUIRE(forward < one);
  REQUIRE(backward > one);
  REQUIRE(backward < two);
  // Steps: K,V; K,V and dK,dV twice; dK,dV; and the way home of the last dK,dV, beside nothing. Attention hides the
  // first and the fourth.
  CHECK(exchange.input_gradient.raw() == doctest::Approx(2 * (two - backward) + one).epsilon(1e-9));
  // A link forty times as fast hides all but the way home: 10 us + 4,194,304 / 800 GB/s. Every micro-batch and layer
  // pays it once.
  job.cluster.tiers.back().bandwidth *= 40;
  const auto fast = exchange_of(job, key_of(CpType::ring));
  const double home = 10e-6 + 4194304.0 / 800e9;
  CHECK(fast.exchange.forward.raw() == doctest::Approx(3 * positive(home - forward)).epsilon(1e-9));
  CHECK(fast.exchange.forward.raw() == 0);
  CHECK(fast.exchange.input_gradient.raw() == doctest::Approx(home).epsilon(1e-9));
}

TEST_CASE("a gather of keys and values moves three quarters of the whole and of the gradients") {
  // Whole K,V: 4 x 4,194,304 B, of which 3/4 = 12,582,912 B arrive: 10 us + 629.1456 us; backward once more, and a
  // reduce-scatter of as much.
  const auto exchange = exchange_of(four_nodes(4), key_of(CpType::all_gather)).exchange;
  CHECK(exchange.bytes_forward.raw() == 16777216.0);
  CHECK(exchange.bytes_backward.raw() == 2 * 16777216.0);
  CHECK(exchange.forward.raw() == doctest::Approx(639.1456e-6).epsilon(1e-9));
  CHECK(exchange.input_gradient.raw() == doctest::Approx(2 * 639.1456e-6).epsilon(1e-9));
}

TEST_CASE("Ulysses makes four exchanges a pass and copies key and value heads that do not go round") {
  // Queries and output 2,048 x 8 x 128 x 2 B = 4,194,304 B each, keys and values of 4 heads 2,097,152 B each:
  // 12,582,912 B, of which 3/4 leave: 4 x 10 us + 9,437,184 / 20 GB/s = 511.8592 us.
  const Job four = four_nodes(4);
  const auto exchange = exchange_of(four, key_of(CpType::ulysses)).exchange;
  CHECK(exchange.bytes_forward.raw() == 12582912.0);
  CHECK(exchange.bytes_backward.raw() == 12582912.0);
  CHECK(exchange.forward.raw() == doctest::Approx(511.8592e-6).epsilon(1e-9));
  CHECK(exchange.input_gradient.raw() == doctest::Approx(511.8592e-6).epsilon(1e-9));
  // Two key/value heads over four ranks are sent twice; eight make each of keys and values as wide as the queries.
  CHECK(exchange_of(four_nodes(2), key_of(CpType::ulysses)).exchange.bytes_forward.raw() == 12582912.0);
  CHECK(exchange_of(four_nodes(8), key_of(CpType::ulysses)).exchange.bytes_forward.raw() == 4 * 4194304.0);
}

TEST_CASE("keys of latent attention go round as wide as its queries") {
  // DeepSeek-V3's 128 heads, keys 128 + 64 and values 128 wide: 2,048 x 128 x 320 x 2 B = 167,772,160 B a step.
  Job job = four_nodes(8);
  job.model.heads = job.model.kv_heads = 128;
  job.model.latent = LatentAttention{1536, 512, 128, 64, 128};
  CHECK(exchange_of(job, key_of(CpType::ring)).exchange.bytes_forward.raw() == 3 * 167772160.0);
  // Four all-to-alls: queries and keys 192, values and output 128 wide.
  CHECK(exchange_of(job, key_of(CpType::ulysses)).exchange.bytes_forward.raw() ==
        2048.0 * 128 * 2 * (192 + 192 + 128 + 128));
}

TEST_CASE("each kind of context parallelism holds its buffers while attention runs backward") {
  // A ring's two blocks of K,V,dK,dV: 4 x 4 MiB; all of them gathered: 2 x 16 MiB; sent and arrived parts of an
  // all-to-all: 2 x 12 MiB. By then the FFN has freed what the list keeps of it; before, its gradients were 4 B x 1,024
  // x 2,048 tokens = 8 MiB.
  const Job job = four_nodes(4);
  constexpr double kMib = 1048576;
  CHECK(context_parallel_buffers(job, key_of(CpType::ring), sizes_of(job, key_of(CpType::ring))).raw() == 16 * kMib);
  double freed = 0;
  for (const auto& row : job.profile.activations) {
    if (applies(job, key_of(CpType::ring), row) && (row.module & kMlp) != 0) {
      freed += (row.f * 1024 + row.h * 1024) * 2048 * job.profile.activation_factor;
    }
  }
  REQUIRE(freed >= 2 * 1024 * 2048);
  const auto transient = [&](const LayerKey& key) { return layer_costs(job, key).backward_transient.raw(); };
  const auto widest = [&](double buffers) { return doctest::Approx(std::max(8 * kMib, buffers * kMib - freed)); };
  CHECK(transient(key_of(CpType::ring)) == widest(16));
  CHECK(transient(key_of(CpType::all_gather)) == widest(32));
  CHECK(transient(key_of(CpType::ulysses)) == widest(24));
  CHECK(transient(key_of(CpType::all_gather)) > 8 * kMib);
  CHECK(transient(key_of(CpType::ring, 1)) == 4 * 8 * kMib);
  // Recomputed FFN tensors were not there to be freed.
  LayerKey recomputed = key_of(CpType::all_gather);
  recomputed.recompute = RecomputeKind::selective;
  recomputed.recompute_modules = kMlp;
  CHECK(transient(recomputed) == 32 * kMib);
}

TEST_CASE("a rank keeps its share of the sequence and under Ulysses the copies of key and value heads") {
  const Job job = four_nodes(2);
  const auto kept = [&](CpType type, int cp) { return layer_costs(job, key_of(type, cp)).dense_activations.raw(); };
  CHECK(kept(CpType::ring, 4) == doctest::Approx(kept(CpType::ring, 1) / 4).epsilon(1e-12));
  CHECK(kept(CpType::all_gather, 4) == kept(CpType::ring, 4));
  // Two heads are held as four: two further heads of 128 for every tensor of the list that counts key/value heads.
  double per_width = 0;
  const auto s = sizes_of(job, key_of(CpType::ring, 4));
  for (const auto& row : job.profile.activations) {
    per_width += applies(job, key_of(CpType::ring, 4), row) ? row.kv : 0;
  }
  REQUIRE(per_width > 0);
  CHECK(kept(CpType::ulysses, 4) - kept(CpType::ring, 4) ==
        doctest::Approx(per_width * 2 * 128 * s.tokens * job.profile.activation_factor).epsilon(1e-12));
}

TEST_CASE("the step and the memory of a layout follow its kind of context parallelism") {
  // One rank per node, cp 4, 16 micro-batches of 4 layers: exposed exchanges are 64 times those of a layer.
  const Job job = four_nodes(4);
  for (const auto& row : kCpTypeNames) {
    Layout layout;
    layout.cp = 4;
    layout.cp_type = row.value;
    const auto result = estimate(job, layout);
    const auto exchange = exchange_of(job, layer_key(layout)).exchange;
    CAPTURE(std::string(row.name));
    CHECK(result.step.cp_comm.raw() ==
          doctest::Approx(64 * (exchange.forward + exchange.input_gradient).raw()).epsilon(1e-9));
  }
}
