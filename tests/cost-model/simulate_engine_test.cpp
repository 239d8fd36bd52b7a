#include "cost-model/simulate_engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace tpplan;

namespace {

using Index = LaneEngine::Index;
using After = LaneEngine::After;
constexpr Index kNone = LaneEngine::kNone;

LaneEngine::Operation lasting(double seconds, After after = {}) {
  LaneEngine::Operation operation;
  operation.amount = seconds;
  operation.after[0] = after;
  return operation;
}

LaneEngine::Operation moving(double bytes, Index kind, After after = {}) {
  LaneEngine::Operation operation = lasting(bytes, after);
  operation.flow = kind;
  return operation;
}

/// A lane whose only operation moves bytes over the links.
Index flow_lane(LaneEngine& engine, double bytes, Index from, Index to = kNone, double latency = 0) {
  LaneEngine::FlowKind kind;
  kind.latency = Seconds(latency);
  kind.from = from;
  kind.to = to;
  const Index lane = engine.add_lane();
  engine.add(lane, moving(bytes, engine.add_flow_kind(kind)));
  return lane;
}

double end_of(const LaneEngine& engine, Index lane, std::size_t place = 0) {
  return engine.operations(lane)[place].end;
}

}  // namespace

TEST_CASE("the table of due times tells the earliest and of equals the lowest") {
  std::mt19937 random(5);
  for (const std::size_t players : {1U, 2U, 3U, 7U, 64U}) {
    DueTable table;
    table.reset(players);
    CHECK(table.due(table.first()) == DueTable::kNever);
    std::vector<double> due(players, DueTable::kNever);
    for (int change = 0; change < 500; ++change) {
      const auto player = static_cast<std::uint32_t>(random() % players);
      due[player] = random() % 4 == 0 ? DueTable::kNever : static_cast<double>(random() % 10);
      table.set(player, due[player]);
      std::size_t expected = 0;
      for (std::size_t i = 1; i < players; ++i) {
        expected = due[i] < due[expected] ? i : expected;
      }
      REQUIRE(due[table.first()] == due[expected]);
      if (due[expected] < DueTable::kNever) {
        REQUIRE(table.first() == expected);
      }
    }
  }
}

TEST_CASE("operations of a lane run in order and wait for what they need") {
  LaneEngine engine;
  const Index a = engine.add_lane();
  const Index b = engine.add_lane();
  engine.add(a, lasting(2));
  engine.add(b, lasting(1, {a, 1}));
  engine.add(a, lasting(1, {b, 1}));
  engine.add(b, lasting(3));
  for (int repeat = 0; repeat < 2; ++repeat) {
    CHECK(engine.run() == 6);
    CHECK(engine.operations(b)[0].start == 2);
    CHECK(engine.operations(a)[1].start == 3);
    CHECK(end_of(engine, b, 1) == 6);
    CHECK(engine.events() == 8);
  }
}

TEST_CASE("operations that wait for each other are refused") {
  LaneEngine engine;
  const Index a = engine.add_lane();
  const Index b = engine.add_lane();
  engine.add(a, lasting(1, {b, 1}));
  engine.add(b, lasting(1, {a, 1}));
  CHECK_THROWS_AS(engine.run(), std::invalid_argument);
}

TEST_CASE("two flows on one port each get half of it") {
  // 100 B at 10 B/s alone take 10 s; two of them share the port and take 20 s. The latency of 1 s is not shared.
  LaneEngine engine;
  const Index port = engine.add_link(BytesPerSecond(10));
  const Index one = flow_lane(engine, 100, port, kNone, 1);
  const Index two = flow_lane(engine, 100, port, kNone, 1);
  engine.run();
  CHECK(end_of(engine, one) == doctest::Approx(21));
  CHECK(end_of(engine, two) == doctest::Approx(21));
}

TEST_CASE("a third flow that joins late slows the others from then on") {
  // Port of 12 B/s, two flows of 120 B: 6 B/s each. At 10 s each has 60 B left when a third of 40 B joins: 4 B/s each.
  // The third ends at 20 s; the others have 20 B left and 6 B/s again: 20 + 20/6 s.
  LaneEngine engine;
  const Index port = engine.add_link(BytesPerSecond(12));
  const Index one = flow_lane(engine, 120, port);
  const Index two = flow_lane(engine, 120, port);
  const Index late = engine.add_lane();
  engine.add(late, lasting(10));
  engine.add(late, moving(40, engine.add_flow_kind({Seconds(0), BytesPerSecond(1e9), port, kNone})));
  engine.run();
  CHECK(end_of(engine, late, 1) == doctest::Approx(20));
  CHECK(end_of(engine, one) == doctest::Approx(20 + 20.0 / 6));
  CHECK(end_of(engine, two) == doctest::Approx(20 + 20.0 / 6));
}

TEST_CASE("flows over two ports are held by the tighter one and leave the rest to others") {
  // Ports A (10 B/s) and B (4 B/s). Flow 1 over A alone, flow 2 over A and B, flow 3 over B alone.
  // B is tightest: 2 B/s for flows 2 and 3; flow 1 gets what is left of A, 8 B/s.
  // 80 B over A: ends at 10 s. 20 B each over B: end at 10 s. Then a flow 4 of 40 B over A alone: 10 B/s, 4 s.
  LaneEngine engine;
  const Index a = engine.add_link(BytesPerSecond(10));
  const Index b = engine.add_link(BytesPerSecond(4));
  const Index over_a = engine.add_flow_kind({Seconds(0), BytesPerSecond(1e9), a, kNone});
  const Index first = engine.add_lane();
  engine.add(first, moving(80, over_a));
  engine.add(first, moving(40, over_a));
  const Index two = flow_lane(engine, 20, a, b);
  const Index three = flow_lane(engine, 20, b);
  // A flow elsewhere is not touched by any of it.
  const Index elsewhere = flow_lane(engine, 30, engine.add_link(BytesPerSecond(3)));
  engine.run();
  CHECK(end_of(engine, first, 0) == doctest::Approx(10));
  CHECK(end_of(engine, two) == doctest::Approx(10));
  CHECK(end_of(engine, three) == doctest::Approx(10));
  CHECK(end_of(engine, first, 1) == doctest::Approx(14));
  CHECK(end_of(engine, elsewhere) == doctest::Approx(10));
}

TEST_CASE("a flow that takes less than its share leaves the rest to the others") {
  // 10 B/s; a collective that moves 2 B/s at most leaves 8 B/s: 40 B in 20 s, 80 B in 10 s.
  LaneEngine engine;
  const Index port = engine.add_link(BytesPerSecond(10));
  const Index slow = engine.add_lane();
  engine.add(slow, moving(40, engine.add_flow_kind({Seconds(0), BytesPerSecond(2), port, kNone})));
  const Index fast = flow_lane(engine, 80, port);
  engine.run();
  CHECK(end_of(engine, fast) == doctest::Approx(10));
  CHECK(end_of(engine, slow) == doctest::Approx(20));
}

TEST_CASE("coupled lanes cost the longer plus a share of the shorter") {
  // beside() of stage_cost.h: max(p, c) + s min(p, c), whichever is longer and whenever the other starts.
  for (const double share : {0.0, 0.3, 0.6, 1.0, 1.3}) {
    for (const auto& [compute, traffic] :
         {std::pair{10.0, 4.0}, std::pair{4.0, 10.0}, std::pair{5.0, 5.0}, std::pair{7.0, 0.0}}) {
      CAPTURE(share);
      LaneEngine engine;
      const Index passes = engine.add_lane();
      const Index background = engine.add_lane();
      engine.couple(passes, background, share);
      engine.add(passes, lasting(compute / 2));
      engine.add(passes, lasting(compute / 2));
      engine.add(background, lasting(traffic));
      const double expected = std::max(compute, traffic) + share * std::min(compute, traffic);
      CHECK(engine.run() == doctest::Approx(expected));
    }
  }
}

TEST_CASE("a coupled flow shares its port at its slowed pace") {
  // Port of 10 B/s, collective of at most 10 B/s beside compute with a share of 1: it takes 5 B/s, a transfer the other
  // 5 B/s. Compute of 4 s runs at half speed until 8 s; 40 B are then moved by both. From then on the collective may
  // take 10 B/s and gets half of them: 20 B more of the collective and of the transfer end at 12 s.
  LaneEngine engine;
  const Index port = engine.add_link(BytesPerSecond(10));
  const Index passes = engine.add_lane();
  const Index background = engine.add_lane();
  engine.couple(passes, background, 1);
  engine.add(passes, lasting(4));
  engine.add(background, moving(60, engine.add_flow_kind({Seconds(0), BytesPerSecond(10), port, kNone})));
  const Index transfer = flow_lane(engine, 60, port);
  engine.run();
  CHECK(end_of(engine, passes) == doctest::Approx(8));
  CHECK(end_of(engine, background) == doctest::Approx(12));
  CHECK(end_of(engine, transfer) == doctest::Approx(12));
}

TEST_CASE("an engine that is cleared runs the next graph as a new one would") {
  LaneEngine engine;
  const Index port = engine.add_link(BytesPerSecond(10));
  flow_lane(engine, 100, port);
  engine.couple(engine.add_lane(), engine.add_lane(), 2);
  engine.add(1, lasting(30));
  CHECK(engine.run() == 30);
  engine.clear();
  const Index lane = engine.add_lane();
  engine.add(lane, lasting(3));
  engine.add(engine.add_lane(), lasting(4, {lane, 1}));
  CHECK(engine.lanes() == 2);
  CHECK(engine.run() == 7);
}
