#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cost-model/in_flight.h"
#include "cost-model/pipeline.h"
#include "cost-model/simulate.h"
#include "tests/planner/jobs.h"

using namespace tpplan;
using tests::gpt3_175b;
using tests::llama_7b;
using tests::priced_job;

TEST_CASE("a long step is told from short ones as a whole simulation has it") {
  // Without shared ports every rank's time is a longest path, which grows by the same amount with each period once the
  // pipeline is full. Transfers that meet on a port come in ever changing pairs: there the sum may be off by the 1e-4
  // that makespan() accepts on each rank, and by what slack the shown periods had not used up yet. A thousandth covers
  // both.
  const std::vector<Job> jobs{priced_job(llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 128),
                              priced_job(gpt3_175b(), "h100-80gb-sxm", 2, 8, 2048, 128),
                              priced_job(tests::mixtral_8x7b(), "h100-80gb-sxm", 2, 8, 4096, 128)};
  std::mt19937 random(11);
  Simulator simulator;
  double worst = 0;
  for (Job job : jobs) {
    for (const auto& schedule : kScheduleNames) {
      for (const int pp : {1, 2, 4}) {
        Layout layout;
        layout.schedule = pp == 1 ? Schedule::f1b1 : schedule.value;
        layout.pp = pp;
        layout.tp = 2;
        layout.etp = job.moe() ? 1 : 2;
        layout.dp = 8 / pp;
        layout.vpp = chunks_of(layout.schedule, layout.schedule == Schedule::interleaved ? 2 : 1);
        layout.zero = static_cast<std::uint8_t>(random() % 4);
        layout.offload = random() % 3 == 0 ? Offload::activations : Offload::none;
        layout.vpp_group = layout.schedule == Schedule::interleaved && random() % 2 == 0 ? pp + 1 : 0;
        int micro_batches = 800 + static_cast<int>(random() % 1500);
        micro_batches -= layout.schedule == Schedule::dualpipe ? micro_batches % 2 : 0;
        job.training.global_batch = micro_batches * layout.dp;
        CAPTURE(to_text(layout));
        CAPTURE(micro_batches);
        const double whole = simulator.run(job, layout, Detail::times).makespan;
        const double told = simulator.makespan(job, layout);
        CHECK(told == doctest::Approx(whole).epsilon(1e-3));
        worst = std::max(worst, std::abs(told / whole - 1));
      }
    }
  }
  MESSAGE("largest difference " << worst);
}

TEST_CASE("steps that are too short to repeat themselves are simulated whole") {
  const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, 8);
  Layout layout;
  layout.tp = 2;
  layout.etp = 2;
  layout.pp = 4;
  Simulator simulator;
  CHECK(simulator.makespan(job, layout) == simulator.run(job, layout, Detail::times).makespan);
}

TEST_CASE("what ranks hold in a long step is told from short ones") {
  std::mt19937 random(12);
  const auto between = [&random](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / 4294967296.0;
  };
  constexpr std::array<int, 4> kRanks{2, 3, 4, 8};
  for (const Schedule schedule : {Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_1p, Schedule::zb_2p, Schedule::zb_v}) {
    for (int i = 0; i < 40; ++i) {
      ScheduleRequest request;
      request.ranks = kRanks[random() % kRanks.size()];
      request.micro_batches =
          48 * request.ranks + static_cast<int>(random() % (64U * static_cast<unsigned>(request.ranks)));
      request.times = {1, between(0.6, 2.6), between(0.1, 1.1), random() % 2 == 0 ? 0 : between(0, 0.3)};
      request.weight_share = between(0.05, 1);
      const auto whole = held_activations(make_schedule(schedule, request));
      const auto told = held_in_order(schedule, request);
      REQUIRE(told.size() == whole.size());
      for (std::size_t r = 0; r < whole.size(); ++r) {
        CHECK(told[r].forward == doctest::Approx(whole[r].forward));
        CHECK(told[r].loss == doctest::Approx(whole[r].loss));
        CHECK(told[r].backward == doctest::Approx(whole[r].backward));
        CHECK(told[r].end == doctest::Approx(whole[r].end));
      }
    }
  }
}
