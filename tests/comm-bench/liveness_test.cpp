#include "comm-bench/liveness.h"

#include <doctest/doctest.h>

using namespace tpplan::bench;
using tpplan::Seconds;

namespace {
const std::vector<std::string> kHosts{"a", "a", "b", "b"};
const std::string kDoing = "all_reduce of 64 KiB (world, 4 ranks)";
}  // namespace

TEST_CASE("a rank that does not answer is named with its host and the operation") {
  std::vector<Pulse> pulses(4, Pulse{true, 7, Seconds(9), kDoing});
  pulses[2] = Pulse{};
  const auto text = verdict(pulses, kHosts, kDoing, Seconds(9), Seconds(10));
  REQUIRE(text.has_value());
  CHECK(*text == "rank 2 (b) does not answer after 9 s: dead or hung in all_reduce of 64 KiB (world, 4 ranks)");
}

TEST_CASE("of ranks that all answer the one behind is named") {
  std::vector<Pulse> pulses(4, Pulse{true, 7, Seconds(9), kDoing});
  pulses[1] = Pulse{true, 6, Seconds(9.5), "broadcast of 1 KiB (world, 4 ranks)"};
  const auto text = verdict(pulses, kHosts, kDoing, Seconds(9), Seconds(10));
  REQUIRE(text.has_value());
  CHECK(*text == "rank 1 (a) hangs after 9 s in broadcast of 1 KiB (world, 4 ranks), the others wait in " + kDoing);
}

TEST_CASE("ranks that are together are not blamed one by one") {
  const std::vector<Pulse> pulses(4, Pulse{true, 7, Seconds(9), kDoing});
  const auto text = verdict(pulses, kHosts, kDoing, Seconds(9), Seconds(10));
  REQUIRE(text.has_value());
  CHECK(text->find("all ranks answer and hang in all_reduce") != std::string::npos);
}

TEST_CASE("a slow job that still moves is left alone") {
  std::vector<Pulse> pulses(4, Pulse{true, 7, Seconds(9), kDoing});
  pulses[3].idle = Seconds(1);
  pulses[0] = Pulse{};
  CHECK_FALSE(verdict(pulses, kHosts, kDoing, Seconds(9), Seconds(10)).has_value());
}

TEST_CASE("many silent ranks are counted") {
  const std::vector<Pulse> pulses(20);
  const std::vector<std::string> hosts(20, "h");
  const auto text = verdict(pulses, hosts, kDoing, Seconds(9), Seconds(10));
  REQUIRE(text.has_value());
  CHECK(text->find("and 12 more do not answer") != std::string::npos);
}
