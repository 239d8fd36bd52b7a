#include "cost-model/schedules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cost-model/pipeline.h"
#include "cost-model/spec_reader.h"
#include "tests/cost-model/schedule_run.h"

using namespace tpplan;
using tests::execute;

namespace {

PipelineSchedule make(Schedule schedule, int p, int m, int v = 1) {
  ScheduleRequest request;
  request.ranks = p;
  request.chunks = v;
  request.micro_batches = m;
  return make_schedule(schedule, request);
}

std::string first_problem(const PipelineSchedule& schedule) {
  const auto problems = problems_of(schedule);
  return problems.empty() ? "" : problems.front();
}

std::string parse_error(std::string_view text) {
  try {
    parse_schedule("order.txt", text);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every generated schedule is complete and runs and keeps its memory bound") {
  for (const ScheduleRow& row : schedule_rows()) {
    for (const int p : {1, 2, 3, 4, 6, 8, 16}) {
      for (const int m : {1, 2, 3, 5, 8, 12, 16, 33, 64}) {
        const bool two_way = row.schedule == Schedule::dualpipe;
        if (two_way && (p % 2 != 0 || m % 2 != 0 || m < 2 * p)) {
          continue;
        }
        for (const int v : {1, 2, 3}) {
          if (v > 1 && row.schedule != Schedule::interleaved) {
            continue;
          }
          CAPTURE(name_in(kScheduleNames, row.schedule));
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(v);
          const auto schedule = make(row.schedule, p, m, v);
          ScheduleRequest request;
          request.ranks = p;
          request.chunks = v;
          request.micro_batches = m;
          std::vector<int> bound;
          for (int r = 0; r < p; ++r) {
            bound.push_back(row.most_held(request, r));
          }
          const auto problems = problems_of(schedule, bound);
          CHECK_MESSAGE(problems.empty(), (problems.empty() ? "" : problems.front()));
        }
      }
    }
  }
}

TEST_CASE("generated GPipe and 1F1B take M + p - 1 rounds") {
  // arXiv 1811.06965 and 2104.04473 section 2.2: (M + p - 1)(tf + tb).
  const PassTimes times{1.0, 1.25, 0.75};
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8, 32}) {
      CHECK(execute(make(Schedule::gpipe, p, m), times).makespan == doctest::Approx((m + p - 1) * 3.0));
      CHECK(execute(make(Schedule::f1b1, p, m), times).makespan == doctest::Approx((m + p - 1) * 3.0));
    }
  }
}

TEST_CASE("generated interleaving divides the bubble by the chunks") {
  // arXiv 2104.04473 section 2.2.2: (M + (p - 1) / v)(tf + tb) for M a multiple of p; a chunk takes 1/v of a stage.
  for (const int p : {2, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int rounds : {1, 2, 5}) {
        const int m = rounds * p;
        const PassTimes times{1.0 / v, 1.25 / v, 0.75 / v};
        CHECK(execute(make(Schedule::interleaved, p, m, v), times).makespan ==
              doctest::Approx((m + (p - 1.0) / v) * 3.0));
      }
    }
  }
}

TEST_CASE("interleaving fewer micro-batches than ranks goes through every chunk once and a chunk further for each") {
  // The first micro-batch goes through p v chunks and back, p (tf + tb); each further one follows a chunk of a rank
  // later, on its way down and on its way back. The closed form says the same.
  for (const int p : {2, 4, 8, 16}) {
    for (const int v : {1, 2, 3, 4}) {
      for (int m = 1; m < p; ++m) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const double by_hand = 3.0 * p + 3.0 * (m - 1) / v;
        const PassTimes times{1.0 / v, 1.25 / v, 0.75 / v};
        CHECK(execute(make(Schedule::interleaved, p, m, v), times).makespan == doctest::Approx(by_hand));
        PipelineTimes stages;
        stages.forward_sum = Seconds(p);
        stages.backward_sum = Seconds(2.0 * p);
        stages.slowest = Seconds(3);
        CHECK(pipeline_time(Schedule::interleaved, p, v, m, stages).raw() == doctest::Approx(by_hand));
      }
    }
  }
}

TEST_CASE("generated ZB-H1 keeps a third of the bubble") {
  // arXiv 2401.10241 section 2.3, TF = TB = TW: (p - 1)(TF + TB - TW) = (p - 1) TF.
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 3 * p, 40}) {
      CHECK(execute(make(Schedule::zb_h1, p, m), {}).makespan == doctest::Approx(3 * m + p - 1));
    }
  }
}

TEST_CASE("generated ZB-H2 and ZB-V ranks never idle between their first and last pass") {
  // arXiv 2401.10241 section 2.2 (bubble (p - 1)(TF + TB - 2 TW) = 0) and section 6 with TF = TB = TW.
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 3 * p, 40}) {
      CAPTURE(p);
      CAPTURE(m);
      CHECK(execute(make(Schedule::zb_h2, p, m), {}).longest_idle == doctest::Approx(0));
      CHECK(execute(make(Schedule::zb_v, p, m), {}).longest_idle == doctest::Approx(0));
    }
  }
}

TEST_CASE("two ranks with two chunks run five micro-batches in groups of three as worked out by hand") {
  // The forward order is the example in Megatron-LM core/pipeline_parallel/schedules.py (PP2 N3M5 with VP2): 0 1 2 on
  // chunk 0, 0 1 2 on chunk 1, then the last group 3 4 likewise; gradients go through the chunks the other way round.
  // Rank r warms up with 2 (2 - r - 1) + (2 - 1) 3 forward passes, 5 and 3, then does one of each in turn.
  ScheduleRequest request;
  request.ranks = 2;
  request.chunks = 2;
  request.micro_batches = 5;
  request.group = 3;
  const auto schedule = make_schedule(Schedule::interleaved, request);
  CHECK(to_text(schedule) == to_text(parse_schedule("order.txt",
                                                    "0: F0 F1 F2 F0.1 F1.1 F2.1 BW0.1 F3 BW1.1 F4 BW2.1 F3.1 BW0 F4.1 "
                                                    "BW1 BW2 BW3.1 BW4.1 BW3 BW4\n"
                                                    "1: F0 F1 F2 F0.1 BW0.1 F1.1 BW1.1 F2.1 BW2.1 F3 BW0 F4 BW1 F3.1 "
                                                    "BW2 F4.1 BW3.1 BW4.1 BW3 BW4\n")));
  CHECK(chunks_held(schedule) == std::vector<int>{6, 4});
}

TEST_CASE("every allowed group keeps the bubble and holds the chunks of its rule") {
  // The last rank begins after p - 1 forward passes of a chunk. From then on it works without a break: a group of at
  // least p micro-batches spends p passes on a chunk while the first of them goes round all ranks, and gradients go
  // round in no more than p passes of each kind. After its last gradient p - 1 passes of a chunk are left to do below:
  // M (tf + tb) + (p - 1) (tf + tb) / v, as with g = p, whether the last group is whole or not.
  int groups = 0;
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int m : {p, p + 1, 2 * p, 3 * p - 1, 3 * p, 5 * p + 2}) {
        for (int group = p; group <= m; ++group) {
          if (m % group != 0 && m % group < p) {
            continue;
          }
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(m);
          CAPTURE(group);
          ScheduleRequest request;
          request.ranks = p;
          request.chunks = v;
          request.micro_batches = m;
          request.group = group;
          const auto schedule = make_schedule(Schedule::interleaved, request);
          std::vector<int> most;
          for (int r = 0; r < p; ++r) {
            most.push_back(std::min(2 * (p - r - 1) + (v - 1) * group + 1, m * v));
            CHECK(in_flight(Schedule::interleaved, p, v, r, m, group) * v == doctest::Approx(most.back()));
          }
          CHECK(problems_of(schedule, most).empty());
          CHECK(chunks_held(schedule) == most);
          for (const PassTimes times : {PassTimes{1, 1, 1}, PassTimes{1, 0.3, 0.2}, PassTimes{1, 0.6, 0.4}}) {
            const double pass = times.forward + times.backward + times.weight;
            CHECK(execute(schedule, times).makespan == doctest::Approx((m + (p - 1.0) / v) * v * pass));
          }
          ++groups;
        }
      }
    }
  }
  CHECK(groups > 200);
}

TEST_CASE("larger groups give the transfers of the warm-up time") {
  // In groups of p the first micro-batch is needed on rank 0 again p forward passes after it began and comes p
  // transfers later than that; in groups of 2 p it has p passes more, here as long as the transfers.
  ScheduleRequest request;
  request.ranks = 4;
  request.chunks = 2;
  request.micro_batches = 16;
  PassTimes times;
  times.transfer = 0.5;
  const double close = execute(make_schedule(Schedule::interleaved, request), times).makespan;
  request.group = 8;
  const double apart = execute(make_schedule(Schedule::interleaved, request), times).makespan;
  CHECK(apart < close);
}

TEST_CASE("groups of micro-batches change the order of interleaving and not its bubble") {
  // Whole groups of g >= p micro-batches never stall a rank: (M + (p - 1) / v)(tf + tb), here 3; g = M runs chunk after
  // chunk.
  for (const int group : {4, 8, 16}) {
    ScheduleRequest request;
    request.ranks = 4;
    request.chunks = 2;
    request.micro_batches = 16;
    request.group = group;
    const auto schedule = make_schedule(Schedule::interleaved, request);
    CHECK(first_problem(schedule).empty());
    CHECK(execute(schedule, {0.5, 0.6, 0.4}).makespan == doctest::Approx((16 + 3.0 / 2) * 3));
    // Warm-up: 2 (p - 1) chunks to fill the pipeline and (v - 1) g more, and the chunk in work.
    CHECK(chunks_held(schedule).front() == std::min(2 * 3 + group + 1, 32));
  }
}

TEST_CASE("generated DualPipe has the bubble of its authors' table") {
  // DeepSeek-V3 report, table 2: (p/2 - 1)(F&B + B - 3W); with one unit for F, B and W, F&B is 3 and B is 2.
  for (const int p : {2, 4, 8, 16}) {
    for (const int m : {2 * p, 4 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const auto run = execute(make(Schedule::dualpipe, p, m), {});
      CHECK(run.idle_of(3.0 * m) == doctest::Approx((p / 2 - 1) * (3 + 2 - 3)));
    }
  }
}

TEST_CASE("generated DualPipe leaves as many passes alone as are counted") {
  for (const int p : {2, 4, 8, 16}) {
    const auto schedule = make(Schedule::dualpipe, p, 4 * p);
    double forward = 0;
    double backward = 0;
    for (const auto& passes : schedule.ranks) {
      for (std::size_t i = 0; i < passes.size(); ++i) {
        if (passes[i].with_next) {
          ++i;  // the second of the pair
        } else if (passes[i].kind == PassKind::forward) {
          ++forward;
        } else if (passes[i].kind != PassKind::weight) {
          ++backward;
        }
      }
    }
    CAPTURE(p);
    CHECK(forward / p == doctest::Approx(lone_passes(p)));
    CHECK(backward / p == doctest::Approx(lone_passes(p)));
  }
}

TEST_CASE("a split schedule ordered by given times beats 1F1B in them") {
  ScheduleRequest request;
  request.ranks = 4;
  request.micro_batches = 16;
  request.weight_share = 0.5;
  for (const PassTimes times : {PassTimes{1.0, 1.6, 0.5}, PassTimes{1.0, 1.0, 0.8}, PassTimes{0.7, 1.2, 0.9}}) {
    request.times = times;
    const double whole = execute(make(Schedule::f1b1, 4, 16), times).makespan;
    for (const auto schedule : {Schedule::zb_h1, Schedule::zb_1p, Schedule::zb_h2, Schedule::zb_2p}) {
      CHECK(execute(make_schedule(schedule, request), times).makespan < whole);
    }
  }
}

TEST_CASE("a schedule survives being written and read") {
  for (const ScheduleRow& row : schedule_rows()) {
    const auto schedule = make(row.schedule, 4, 8, 2);
    const auto again = parse_schedule("order.txt", to_text(schedule));
    CHECK(again.placement == schedule.placement);
    CHECK(again.chunks == schedule.chunks);
    CHECK(again.ranks == schedule.ranks);
  }
}

TEST_CASE("missing and doubled and misplaced passes are named") {
  auto schedule = make(Schedule::f1b1, 2, 3);
  const auto last = schedule.ranks[1].back();
  schedule.ranks[1].pop_back();
  CHECK(first_problem(schedule) == "rank 1: B2 is missing");
  schedule.ranks[1].push_back(last);
  schedule.ranks[1].push_back(last);
  CHECK(first_problem(schedule) == "rank 1: B2 comes 2 times");
  schedule.ranks[1].back() = {PassKind::forward, 7, 0, false};
  CHECK(first_problem(schedule) == "rank 1: F7 does not belong to this rank");
}

TEST_CASE("ranks that wait for each other are named") {
  // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, rank 1 the other way round.
  CHECK(parse_error("0: F0 BW0 F1 BW1\n1: F0 F1 BW0 BW1\n").find("rank 0: waits forever before BW0") !=
        std::string::npos);
}

TEST_CASE("a schedule that holds too much is refused") {
  const auto problems = problems_of(make(Schedule::gpipe, 2, 5), {4, 5});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0] == "rank 0: holds the activations of 5 chunks, at most 4 are allowed");
}

TEST_CASE("every word that is no pass is reported with its place") {
  const auto text = parse_error("# order\n0: F0 X1 BW0\n1: F0 BW\n");
  CHECK(text.find("order.txt:2:7") != std::string::npos);
  CHECK(text.find("\"X1\" is not a pass") != std::string::npos);
  CHECK(text.find("order.txt:3:7") != std::string::npos);
  CHECK(parse_error("0: F1000000 BW0\n").find("need at least") != std::string::npos);
  CHECK(parse_error("1: F0 BW0\n").find("expected rank 0") != std::string::npos);
  CHECK(parse_error("").find("no ranks") != std::string::npos);
  CHECK(parse_error("placement sideways\n0: F0 BW0\n").find("not a placement") != std::string::npos);
}
