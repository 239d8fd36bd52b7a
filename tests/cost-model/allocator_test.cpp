#include "cost-model/allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cost-model/step_trace.h"

namespace tpplan {
namespace {

double mib(Bytes bytes) { return bytes.raw() / 1048576; }
double gib(Bytes bytes) { return bytes.raw() / 1073741824; }

TEST_CASE("sizes round up to 512 bytes and small requests share a segment of 2 MiB") {
  CachingAllocator memory;
  memory.allocate(1_B);
  CHECK(memory.allocated() == 512_B);
  memory.allocate(513_B);
  CHECK(memory.allocated() == 1536_B);
  CHECK(memory.reserved() == 2_MiB);
  memory.allocate(1_MiB);
  CHECK(memory.reserved() == 2_MiB);
  memory.allocate(1_MiB);  // 1 MiB - 1536 are left
  CHECK(memory.reserved() == 4_MiB);
}

TEST_CASE("requests above 1 MiB come from segments of 20 MiB and those from 10 MiB get their own") {
  CachingAllocator memory;
  memory.allocate(1_MiB + 1_B);
  CHECK(mib(memory.reserved()) == 20);
  memory.allocate(10_MiB);  // fits the 19 MiB that are left
  CHECK(mib(memory.reserved()) == 20);
  memory.allocate(10_MiB);
  CHECK(mib(memory.reserved()) == 30);
  memory.allocate(11_MiB);  // rounded up to a multiple of 2 MiB
  CHECK(mib(memory.reserved()) == 42);
}

TEST_CASE("a rest of at most 1 MiB stays part of a large block") {
  CachingAllocator memory;
  memory.allocate(9_MiB);
  memory.allocate(10_MiB);  // the 11 MiB left are exactly 1 MiB too large: not split
  CHECK(mib(memory.allocated()) == 20);
  CachingAllocator split;
  split.allocate(9_MiB);
  split.allocate(10_MiB - 512_B);  // 512 bytes more are left: split
  CHECK(split.allocated() == 19_MiB - 512_B);
}

TEST_CASE("the smallest free block that holds a request serves it") {
  CachingAllocator memory;
  const auto large = memory.allocate(30_MiB);
  const auto fitting = memory.allocate(12_MiB);
  memory.release(large);
  memory.release(fitting);
  memory.allocate(12_MiB);
  memory.allocate(30_MiB);  // still whole, because the 12 MiB came from the other block
  CHECK(mib(memory.reserved()) == 42);
}

TEST_CASE("freed neighbours merge whichever is freed last") {
  for (const std::vector<std::size_t>& order :
       std::vector<std::vector<std::size_t>>{{0, 1, 2}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}}) {
    CachingAllocator memory;
    std::vector<CachingAllocator::Block> blocks;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(memory.allocate(6_MiB));
    }
    for (const auto index : order) {
      memory.release(blocks[index]);
    }
    CHECK(memory.allocated() == 0_B);
    memory.allocate(20_MiB);  // the whole segment again: 3 x 6 and the rest of 2
    CHECK(mib(memory.reserved()) == 20);
    CHECK(mib(memory.peak_allocated()) == 20);
  }
}

TEST_CASE("neighbours of different segments do not merge") {
  CachingAllocator memory;
  const auto first = memory.allocate(10_MiB);
  const auto second = memory.allocate(10_MiB);
  memory.release(first);
  memory.release(second);
  memory.allocate(20_MiB);
  CHECK(mib(memory.reserved()) == 40);
}

TEST_CASE("a stream never uses what another stream has freed") {
  CachingAllocator memory;
  memory.release(memory.allocate(16_MiB, 1));
  memory.allocate(16_MiB, 0);
  CHECK(mib(memory.reserved()) == 32);
  memory.allocate(16_MiB, 1);
  CHECK(mib(memory.reserved()) == 32);
}

TEST_CASE("a tensor is freed with its last reference") {
  CachingAllocator memory;
  auto tensor = std::make_shared<const Tensor>(memory, 4_MiB, 0);
  TensorRef other = tensor;
  tensor.reset();
  CHECK(mib(memory.allocated()) == 4);
  other.reset();
  CHECK(mib(memory.allocated()) == 0);
}

TEST_CASE("a lasting tensor cut out of a freed block makes the next step reserve it anew") {
  CachingAllocator memory;
  memory.release(memory.allocate(100_MiB));  // softmax of the first step
  memory.allocate(60_MiB);                   // moments, made after the first backward pass
  CHECK(mib(memory.reserved()) == 100);
  memory.allocate(100_MiB);  // softmax of the second
  CHECK(mib(memory.reserved()) == 200);
  CHECK(mib(memory.peak_allocated()) == 160);
}

/// A Llama-like model and layout with the peaks that max_memory_allocated and max_memory_reserved showed, GiB.
struct MeasuredRun {
  const char* name;
  double layers, h, heads, kv_heads, ffn, vocab, seq;
  int micro_batches;
  double micro_batch;
  bool full_recompute;
  int dp, tp, pp;
  bool sequence_parallel;
  int zero;
  double allocated, reserved;
};
// PyTorch 2.11, one or two H200: the runs of tests/data/runs/lab.jsonl that differ in memory. 1.3B: 24 layers of 2048;
// 3.6B: 28 layers of 3072.
const std::vector<MeasuredRun> kRuns{
    {"mbs 1", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 1, false, 1, 1, 1, false, 0, 26.49, 27.07},
    {"mbs 2", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 2, false, 1, 1, 1, false, 0, 30.25, 31.08},
    {"mbs 4", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 4, false, 1, 1, 1, false, 0, 37.77, 39.54},
    {"mbs 8", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 8, false, 1, 1, 1, false, 0, 52.82, 58.90},
    {"mbs 16", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 16, false, 1, 1, 1, false, 0, 82.99, 100.85},
    {"full recompute", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 8, true, 1, 1, 1, false, 0, 27.23, 31.43},
    {"3.6B mbs 1", 28, 3072, 24, 8, 8192, 128256, 4096, 4, 1, false, 1, 1, 1, false, 0, 74.03, 75.06},
    {"3.6B full recompute", 28, 3072, 24, 8, 8192, 128256, 4096, 2, 4, true, 1, 1, 1, false, 0, 75.09, 79.64},
    {"one micro-batch", 24, 2048, 16, 16, 5504, 32000, 2048, 1, 4, false, 2, 1, 1, false, 0, 37.77, 39.54},
    {"zero 1", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 4, false, 2, 1, 1, false, 1, 30.19, 33.68},
    {"3.6B zero 1", 28, 3072, 24, 8, 8192, 128256, 4096, 4, 2, false, 2, 1, 1, false, 1, 67.36, 70.97},
    {"fsdp", 24, 2048, 16, 16, 5504, 32000, 2048, 2, 4, false, 2, 1, 1, false, 3, 28.05, 33.07},
    {"3.6B fsdp", 28, 3072, 24, 8, 8192, 128256, 4096, 4, 2, false, 2, 1, 1, false, 3, 62.30, 76.92},
    {"tp 2", 24, 2048, 16, 16, 5504, 32000, 2048, 4, 4, false, 1, 2, 1, false, 0, 20.48, 21.25},
    {"tp 2 sp", 24, 2048, 16, 16, 5504, 32000, 2048, 4, 4, false, 1, 2, 1, true, 0, 19.71, 20.38},
    {"pp 2", 24, 2048, 16, 16, 5504, 32000, 2048, 4, 4, false, 1, 1, 2, false, 0, 25.20, 26.25},
    {"3.6B pp 2", 28, 3072, 24, 8, 8192, 128256, 4096, 8, 2, false, 1, 1, 2, false, 0, 51.71, 54.94},
};

/// The first stage of the run's pipeline, by the formulas of a Llama layer in 16-bit precision.
StepSizes sizes_of(const MeasuredRun& run) {
  const double t = run.seq * run.micro_batch;
  const double tp = run.tp;
  const double head = run.h / run.heads;
  const double kv = run.kv_heads * head / tp;
  const double q = run.h / tp;
  const double f = run.ffn / tp;
  StepSizes s;
  auto& l = s.dense;
  l.residual = Bytes(2 * run.h * t / (run.sequence_parallel ? tp : 1));
  l.linear_input = Bytes(2 * run.h * t);
  l.norm_statistic = Bytes(4 * t);
  l.qkv = Bytes(2 * (q + 2 * kv) * t);
  l.query = Bytes(2 * q * t);
  l.key = Bytes(2 * kv * t);
  l.attention = Bytes(2 * q * t);
  l.statistics = Bytes(4 * run.heads / tp * t);
  l.up = Bytes(4 * f * t);
  l.product = Bytes(2 * f * t);
  l.norm_weight = run.h;
  l.qkv_weight = run.h * (q + 2 * kv);
  l.output_weight = q * run.h;
  l.up_weight = 2 * run.h * f;
  l.down_weight = run.h * f;
  s.dense_layers = static_cast<int>(run.layers) / run.pp;
  s.recomputed_layers = run.full_recompute ? s.dense_layers : 0;
  s.embedding = true;
  s.head = run.pp == 1;
  s.embedding_weight = run.vocab * run.h / tp;
  s.head_weight = s.head ? s.embedding_weight : 0;
  s.tokens = t;
  s.logits = Bytes(2 * run.vocab / tp * t);
  s.softmax = Bytes(4 * run.vocab / tp * t);
  s.sequence_parallel = run.sequence_parallel;
  s.tensor_parallel = run.tp > 1;
  s.pp = run.pp;
  s.micro_batches = run.micro_batches;
  s.shards = run.zero > 0 ? run.dp : 1;
  s.fully_sharded = run.zero == 3;
  s.workspace = 64_MiB;
  return s;
}

TEST_CASE("a replay of measured runs gives allocated and reserved memory with nothing fitted") {
  std::vector<double> errors;
  for (const auto& run : kRuns) {
    const std::string name = run.name;
    CAPTURE(name);
    const auto peaks = replay_steps(sizes_of(run));
    CHECK(std::abs(gib(peaks.allocated) / run.allocated - 1) < 0.001);
    const double error = gib(peaks.reserved) / run.reserved - 1;
    // Packing hangs on single blocks: the 3.6B run with zero 1 is predicted one softmax (3.9 GiB) too high.
    CHECK(std::abs(error) < (name == "3.6B zero 1" ? 0.056 : 0.015));
    errors.push_back(std::abs(error));
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  CHECK(errors[errors.size() / 2] < 0.002);
}

TEST_CASE("a replay counts the states and the kept tensors of every layer") {
  // 18 bytes a parameter and the kept bytes of a layer, from two depths: embedding, head and loss cancel.
  auto run = kRuns[2];
  const auto deep = replay_steps(sizes_of(run));
  run.layers = 12;
  const auto sizes = sizes_of(run);
  const auto shallow = replay_steps(sizes);
  const Bytes per_layer = (deep.allocated - shallow.allocated) / 12;
  const Bytes expected = sizes.dense.kept() + Bytes(18 * sizes.dense.weights());
  // Norm outputs and inputs 8 h, qkv 6 h, rotated 4 h, attention 2 h; FFN 6 f; statistics 4 a + 8: per token.
  CHECK(sizes.dense.kept() == Bytes((20 * 2048.0 + 6 * 5504 + 4 * 16 + 8) * 8192));
  CHECK(std::abs(per_layer / expected - 1) < 0.003);
}

TEST_CASE("a pipeline rank holds the micro-batches that 1F1B or GPipe leave in flight") {
  auto sizes = sizes_of(kRuns[2]);
  sizes.pp = 4;
  sizes.head = false;
  sizes.head_weight = 0;
  sizes.dense_layers = 6;
  sizes.micro_batches = 4;
  const auto first = replay_steps(sizes);
  sizes.embedding = false;
  sizes.rank = 2;
  const auto third = replay_steps(sizes);
  // Four against two micro-batches of six layers, and the embedding's 18 bytes a parameter.
  const double difference = gib(first.allocated - third.allocated);
  const double expected = gib(sizes.dense.kept() * 12.0 + Bytes(18 * sizes.embedding_weight));
  CHECK(std::abs(difference / expected - 1) < 0.05);
  // GPipe holds all eight.
  sizes.all_forward_first = true;
  sizes.micro_batches = 8;
  const auto gpipe = replay_steps(sizes);
  CHECK(std::abs(gib(gpipe.allocated - third.allocated) / gib(sizes.dense.kept() * 36.0) - 1) < 0.05);
}

TEST_CASE("a model made as shards never holds its whole parameters") {
  // One token and many shards: the peak is the build, or else the states and one step's gathered copies.
  auto sizes = sizes_of(kRuns[11]);
  sizes.micro_batches = 1;
  sizes.tokens = 1;
  for (const auto field : {&LayerTensors::residual, &LayerTensors::linear_input, &LayerTensors::norm_statistic,
                           &LayerTensors::qkv, &LayerTensors::query, &LayerTensors::key, &LayerTensors::attention,
                           &LayerTensors::statistics, &LayerTensors::up, &LayerTensors::product}) {
    sizes.dense.*field = 1_KiB;
  }
  sizes.logits = 1_KiB;
  sizes.softmax = 1_KiB;
  sizes.shards = 64;
  const double whole = gib(replay_steps(sizes).allocated);
  CHECK(whole >= gib(Bytes(4 * sizes.parameters())));
  sizes.builds_whole = false;
  CHECK(gib(replay_steps(sizes).allocated) < 0.5 * whole);
}

TEST_CASE("steady micro-batches change nothing") {
  auto sizes = sizes_of(kRuns[13]);
  const auto few = replay_steps(sizes);
  sizes.micro_batches = 4096;
  const auto many = replay_steps(sizes);
  CHECK(few.reserved == many.reserved);
  CHECK(few.allocated == many.allocated);
}

}  // namespace
}  // namespace tpplan
