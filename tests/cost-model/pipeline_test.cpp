#include "cost-model/pipeline.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace tpplan;

namespace {

/// p equal stages with these times per micro-batch: forward, input gradient, weight gradient.
PipelineTimes equal_stages(int p, double f, double b, double w) {
  PipelineTimes t;
  t.forward_sum = Seconds(p * f);
  t.backward_sum = Seconds(p * (b + w));
  t.weight_sum = Seconds(p * w);
  t.slowest = Seconds(f + b + w);
  t.slowest_forward = Seconds(f);
  t.slowest_backward = Seconds(b + w);
  t.slowest_weight = Seconds(w);
  return t;
}

double span(Schedule schedule, int p, int v, int m, const PipelineTimes& t) {
  return pipeline_time(schedule, p, v, m, t).raw();
}

}  // namespace

TEST_CASE("equal stages take M + p - 1 rounds under GPipe and 1F1B") {
  // arXiv 1811.06965 and 2104.04473 section 2.2: (M + p - 1)(tf + tb).
  const auto t = equal_stages(4, 1, 1, 1);
  CHECK(span(Schedule::gpipe, 4, 1, 8, t) == doctest::Approx((8 + 3) * 3));
  CHECK(span(Schedule::f1b1, 4, 1, 8, t) == doctest::Approx((8 + 3) * 3));
}

TEST_CASE("v virtual stages divide the bubble by v") {
  // arXiv 2104.04473 section 2.2: (M + (p - 1) / v)(tf + tb).
  const auto t = equal_stages(4, 1, 1, 1);
  CHECK(span(Schedule::interleaved, 4, 3, 8, t) == doctest::Approx((8 + 3.0 / 3) * 3));
}

TEST_CASE("zero-bubble schedules fill the bubble with weight gradients") {
  // arXiv 2401.10241 section 2.3 with TF = TB = TW: ZB-H1 keeps (p - 1) TF, ZB-H2 none.
  const auto t = equal_stages(4, 1, 1, 1);
  CHECK(span(Schedule::zb_h1, 4, 1, 12, t) == doctest::Approx(12 * 3 + 3 * 1));
  CHECK(span(Schedule::zb_h2, 4, 1, 12, t) == doctest::Approx(12 * 3));
  CHECK(span(Schedule::zb_v, 4, 2, 12, t) == doctest::Approx(12 * 3));
  // Too few micro-batches leave gaps: one micro-batch goes down and up alone, F + B on each of the other stages.
  CHECK(span(Schedule::zb_h2, 4, 1, 1, t) == doctest::Approx(3 + 3 * 2));
}

TEST_CASE("DualPipe has the bubble of its authors' table") {
  // DeepSeek-V3 report table 2: (p/2 - 1)(F&B + B - 3W), F&B a whole forward and backward, B the whole backward pass.
  const auto t = equal_stages(8, 1, 1, 1);
  CHECK(span(Schedule::dualpipe, 8, 1, 40, t) == doctest::Approx(40 * 3 + (4 - 1) * (3 + 2 - 3)));
}

TEST_CASE("activations in flight follow the schedule") {
  // Rank r of p holds min(p - r, M) micro-batches under 1F1B; ZB-1p p and ZB-2p 2p - 1 on every rank.
  CHECK(in_flight(Schedule::f1b1, 8, 1, 0, 64) == 8);
  CHECK(in_flight(Schedule::f1b1, 8, 1, 7, 64) == 1);
  CHECK(in_flight(Schedule::f1b1, 8, 1, 0, 2) == 2);
  CHECK(in_flight(Schedule::gpipe, 8, 1, 3, 64) == 64);
  CHECK(in_flight(Schedule::zb_1p, 8, 1, 7, 64) == 8);
  CHECK(in_flight(Schedule::zb_2p, 8, 1, 7, 64) == 15);
  // Interleaved, p = 8, v = 3, rank 0: 2 * 7 + 2 * 8 + 1 = 31 chunks of a third of the rank's layers.
  CHECK(in_flight(Schedule::interleaved, 8, 3, 0, 64) == doctest::Approx(31.0 / 3));
  // In groups of 16 the first gradient comes (v - 1) (16 - 8) chunks later; never more than all 64 * 3.
  CHECK(in_flight(Schedule::interleaved, 8, 3, 0, 64, 16) == doctest::Approx(47.0 / 3));
  CHECK(in_flight(Schedule::interleaved, 8, 3, 7, 64, 16) == doctest::Approx(33.0 / 3));
  CHECK(in_flight(Schedule::interleaved, 8, 3, 0, 16, 16) == doctest::Approx(47.0 / 3));
  CHECK(in_flight(Schedule::interleaved, 8, 2, 0, 8, 8) == doctest::Approx(8));
}

TEST_CASE("every layer is on one stage and the ends hold embedding and head") {
  Job job;
  job.model.layers = 126;
  job.model.hidden = 8;
  job.model.vocab = 8;
  for (const int pp : {1, 2, 3, 8, 16}) {
    for (const int vpp : {1, 2, 4}) {
      const auto shape = pipeline_shape(job, pp, vpp);
      CHECK(std::accumulate(shape.layers_per_stage.begin(), shape.layers_per_stage.end(), 0) == 126);
      int ranks = 0;
      int embeddings = 0;
      int heads = 0;
      for (const auto& group : shape.groups) {
        ranks += group.count;
        embeddings += group.content.embedding ? group.count : 0;
        heads += group.content.head ? group.count : 0;
      }
      CHECK(ranks == pp);
      CHECK(embeddings == 1);
      CHECK(heads == 1);
    }
  }
  // 126 + 2 = 16 x 8: the ends of sixteen stages hold seven layers, the others eight.
  const auto shape = pipeline_shape(job, 16, 1);
  CHECK(shape.layers_per_stage.front() == 7);
  CHECK(shape.layers_per_stage[7] == 8);
  CHECK(shape.layers_per_stage.back() == 7);
}
