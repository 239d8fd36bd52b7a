#include "comm-bench/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "comm-bench/sweep_cells.h"

using namespace tpplan::bench;
using tpplan::Bytes;
using tpplan::Collective;
using tpplan::Placement;
using tpplan::Seconds;

namespace {

std::vector<CellSize> two_series() {
  std::vector<CellSize> cells;
  for (std::size_t series = 0; series < 2; ++series) {
    for (double bytes = 1024; bytes <= 1048576; bytes *= 32) cells.push_back({series, Bytes(bytes)});
  }
  return cells;
}

/// Runs a schedule against made-up times: a cell takes 10 us + bytes / 1 GB/s, with `noise` relative spread.
struct Run {
  std::vector<std::size_t> first_round;
  std::map<std::size_t, int> visits;
  double elapsed = 0;
};
Run run(Schedule& schedule, const std::vector<CellSize>& cells, double noise) {
  Run result;
  unsigned state = 12345;
  for (int guard = 0; guard < 100000; ++guard) {
    const auto visit = schedule.next(Seconds(result.elapsed));
    if (!visit) return result;
    if (visit->first) result.first_round.push_back(visit->cell);
    ++result.visits[visit->cell];
    std::vector<Seconds> samples;
    double spent = 0;
    for (int i = 0; i < visit->repetitions; ++i) {
      state = state * 1664525U + 1013904223U;
      const double time = (1e-5 + cells[visit->cell].bytes.raw() * 1e-9) * (1 + noise * (state >> 8) / 16777216.0);
      samples.emplace_back(time);
      spent += time;
    }
    result.elapsed += spent;
    schedule.record(*visit, samples, Seconds(spent), Seconds(result.elapsed));
  }
  FAIL("the schedule does not end");
  return result;
}

}  // namespace

TEST_CASE("quiet cells are done after a visit or two and say interval") {
  const auto cells = two_series();
  Schedule schedule(cells, {}, Seconds(10), 1);
  const Run result = run(schedule, cells, 0);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    CHECK(schedule.stop(cell) == Stop::interval);
    CHECK(schedule.samples(cell).size() >= 10);
    CHECK(result.visits.at(cell) <= 3);
  }
  CHECK(result.elapsed < 1);
}

TEST_CASE("the first round goes from small to large across the series") {
  const auto cells = two_series();
  Schedule schedule(cells, {}, Seconds(10), 1);
  const Run result = run(schedule, cells, 0);
  CHECK(result.first_round == std::vector<std::size_t>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("noisy cells are visited in turn until the budget ends") {
  const auto cells = two_series();
  StoppingRule strict;
  strict.relative_width = 1e-9;
  strict.most_samples = 1000000;
  Schedule schedule(cells, strict, Seconds(2), 1);
  const Run result = run(schedule, cells, 0.5);
  CHECK(result.elapsed >= 2);
  int fewest = 1 << 30;
  int most = 0;
  for (const auto& [cell, visits] : result.visits) {
    CHECK(schedule.stop(cell) == Stop::budget);
    fewest = std::min(fewest, visits);
    most = std::max(most, visits);
  }
  // Round by round: no cell is more than a round ahead.
  CHECK(most - fewest <= 1);
  CHECK(fewest > 2);
}

TEST_CASE("a cell that would overrun the budget is left out") {
  // 1 MiB at 1 GB/s takes 1 ms, so the first visit of 1 GiB (32 * 32 times as much) is predicted to take seconds.
  const std::vector<CellSize> cells{{0, Bytes(1048576)}, {0, Bytes(1073741824)}};
  Schedule schedule(cells, {}, Seconds(1), 1);
  run(schedule, cells, 0);
  CHECK(schedule.samples(0).size() >= 10);
  CHECK(schedule.samples(1).empty());
}

TEST_CASE("a dropped cell is not visited again") {
  const auto cells = two_series();
  Schedule schedule(cells, {}, Seconds(10), 1);
  schedule.drop(2);
  const Run result = run(schedule, cells, 0);
  CHECK(result.visits.count(2) == 0);
}

TEST_CASE("payload sizes are powers of two with half steps where protocols switch") {
  const auto sizes = payload_sizes(16384, 131072);
  CHECK(sizes == std::vector<std::size_t>{16384, 32768, 49152, 65536, 98304, 131072});
  // At least two sizes per octave between 32 KiB and 16 MiB, one outside.
  const auto all = payload_sizes(1024, std::size_t{1} << 30);
  CHECK(all.front() == 1024);
  CHECK(all.back() == std::size_t{1} << 30);
  CHECK(std::count_if(all.begin(), all.end(), [](std::size_t s) { return s >= 8388608 && s < 16777216; }) == 2);
  CHECK(std::count_if(all.begin(), all.end(), [](std::size_t s) { return s >= 16777216 && s < 33554432; }) == 1);
  // Ends that are no powers are measured too.
  CHECK(payload_sizes(1000, 3000) == std::vector<std::size_t>{1000, 1024, 2048, 3000});
}

TEST_CASE("cells are the combinations without sizes that fall together") {
  const std::vector<GroupSet> sets{{"world", Placement{1, 3, 1}, 1, {{0, 1, 2}}}};
  const Cells cells =
      make_cells({Collective::all_gather, Collective::send_recv}, {Dtype::bf16}, {16, 100, 110, 1024}, sets);
  // all_gather over 3 ranks works in units of 48 bytes: 16 -> 0 (left out), 100 and 110 -> 96 (once), 1024 -> 1008; out
  // of place and in place. send_recv in units of 16: 16, 96, 96 (once), 1024; it has no in-place form.
  std::multiset<std::size_t> gathered;
  std::multiset<std::size_t> sent;
  for (const Cell& cell : cells.cells) {
    (cell.operation.collective == Collective::all_gather ? gathered : sent).insert(cell.operation.bytes);
  }
  CHECK(gathered == std::multiset<std::size_t>{96, 96, 1008, 1008});
  CHECK(sent == std::multiset<std::size_t>{16, 96, 1024});
  CHECK(cells.sizes.size() == cells.cells.size());
  CHECK(largest_buffers(cells, sets).receive == 1024);
}

TEST_CASE("a cell is described with its size and group") {
  const GroupSet set{"concurrent", Placement{1, 2, 1}, 2, {{0, 1}, {2, 3}}};
  CHECK(described({{Collective::all_reduce, Dtype::bf16, 65536, true}, 0}, set) ==
        "all_reduce of 64 KiB bf16 in place (concurrent, 2 ranks x 2 groups)");
  CHECK(size_text(1572864) == "1.5 MiB");
  CHECK(size_text(100) == "100 B");
}
