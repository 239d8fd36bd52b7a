#include "cost-model/pipeline.h"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/cost-model/schedule_run.h"

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

TEST_CASE("interleaved steps show the transfers that their groups do not cover") {
  // The order of passes run with transfers between the ranks, which nobody computes meanwhile: the closed form is exact
  // for short transfers, in groups of p for any up to half a forward and backward pass, and never above the order.
  int exact_ones = 0;
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int rounds : {1, 2, 5}) {
        for (int group = 0; group <= 3 * p; group += group == 0 ? p : 1) {
          ScheduleRequest request;
          request.ranks = p;
          request.chunks = v;
          request.micro_batches = rounds * p;
          request.group = group;
          const auto order = make_schedule(Schedule::interleaved, request);
          for (const double transfer : {0.01, 0.3, 0.9, 1.2, 4.0}) {
            PassTimes times{1, 1, 0.6, transfer};
            const auto t = equal_stages(p, v, v, 0.6 * v);  // of a rank, all its chunks
            const double ran = tests::execute(order, times).makespan;
            const double closed = span(Schedule::interleaved, p, v, request.micro_batches, t) +
                                  interleaved_transfers(request, t, Seconds(transfer), Seconds(0)).raw();
            CAPTURE(p);
            CAPTURE(v);
            CAPTURE(group);
            CAPTURE(request.micro_batches);
            CAPTURE(transfer);
            CHECK(closed <= ran * (1 + 1e-9));
            const bool exact = transfer < 0.5 || (group <= p && transfer < 1.3);
            exact_ones += exact ? 1 : 0;
            if (transfer <= 1 || group <= p) {
              CHECK(closed >= ran * (exact ? 1 - 1e-9 : transfer <= 1 ? 0.99 : 0.85));
            }
          }
        }
      }
    }
  }
  CHECK(exact_ones > 600);
}

TEST_CASE("groups of twice the ranks cover every round of transfers while the pipeline fills and drains") {
  // p = 4, v = 3, chunks of 1 and 2: 2 (p - 1) + 2 (v - 1) p = 22 transfers in groups of p. In groups of 6 there are
  // two further passes to do at either end: of 4 x 0.6 s a round, 2 x 1 s of the fill and all of the drain.
  const auto t = equal_stages(4, 3, 3, 3);
  const auto transfers = [&t](int group, double transfer) {
    return interleaved_transfers(rule_request(4, 3, 48, group), t, Seconds(transfer), Seconds(0)).raw();
  };
  CHECK(transfers(0, 0.1) == doctest::Approx(2.2));
  CHECK(transfers(4, 0.1) == doctest::Approx(2.2));
  CHECK(transfers(8, 0.1) == doctest::Approx(0.6));
  CHECK(transfers(6, 0.6) == doctest::Approx(6 * 0.6 + 2 * (4 * 0.6 - 2 * 1)));
  // Where passes wait for their own transfers, so do those of rank 0 while a round is under way.
  CHECK(interleaved_transfers(rule_request(4, 3, 48, 0), t, Seconds(0.6), Seconds(0.6)).raw() ==
        doctest::Approx(6 * 0.6));
  CHECK(interleaved_transfers(rule_request(4, 3, 48, 0), t, Seconds(0.6), Seconds(0.2)).raw() ==
        doctest::Approx(6 * 0.6 + 2 * 2 * 4 * 0.4));
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
