// What must not allocate: the inner loops of the search and the events of a simulation.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "cost-model/simulate.h"
#include "planner/layout_scan.h"
#include "tests/planner/jobs.h"

namespace {
// Counts every allocation of the test program.
std::atomic<long> allocations{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
}  // namespace

// Not inlined: g++ 12 takes the pair of replaced operators for a mismatch once it sees malloc and free through them.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*unused*/) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tpplan {

using tests::llama_7b;
using tests::measured_space;
using tests::mixtral_8x7b;
using tests::priced_job;

TEST_CASE("the inner loops of the search allocate nothing") {
  for (const bool moe : {false, true}) {
    const Job job = priced_job(moe ? mixtral_8x7b() : llama_7b(), "a100-80gb-sxm", 2, 8, 4096, 1024);
    const LayoutSpace space = layout_space(job, measured_space());
    LayoutScan scan(job, space, Objective::step_time, 10);
    (void)rules();
    const long before = allocations;
    for (std::size_t key = 0; key < space.layers.size(); ++key) {
      scan.visit(key);
    }
    CHECK(allocations - before == 0);
    CHECK(scan.stats().costed() > 1000);
  }
}

TEST_CASE("simulating a step allocates nothing per event") {
  // A step with eight times the micro-batches has eight times the events; whatever a warm simulator allocates for a
  // step it allocates for each of its ranks.
  Simulator simulator;
  std::array<long, 2> counts{};
  std::array<std::uint64_t, 2> events{};
  for (const std::size_t longer : {0U, 1U}) {
    const Job job = priced_job(llama_7b(), "a100-80gb-sxm", 1, 8, 4096, longer == 1 ? 512 : 64);
    Layout layout = usual_layout(job);
    layout.tp = 1;
    layout.pp = 4;
    layout.dp = 2;
    simulator.run(job, layout, Detail::times);
    const long before = allocations;
    events[longer] = simulator.run(job, layout, Detail::times).events;
    counts[longer] = allocations - before;
  }
  CHECK(counts[0] == counts[1]);
  CHECK(events[1] > 6 * events[0]);
}

}  // namespace tpplan
