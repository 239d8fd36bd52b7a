#include "comm-bench/compute.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace tpplan::bench;
using tpplan::Bytes;

TEST_CASE("the host stand-ins measure one of every kind and check results") {
  HostCompute device;
  std::set<ComputeKind> kinds;
  bool checked = false;
  int polls = 0;
  for (const ComputeItem& item : device.plan()) {
    CAPTURE(item.described());
    const ComputeResult result = device.measure(item, [&] { ++polls; });
    CHECK(result.unsupported.empty());
    REQUIRE(result.samples.size() >= 5);
    for (const auto sample : result.samples) CHECK(sample.raw() > 0);
    CHECK(result.check != Check::wrong);
    checked = checked || result.check == Check::ok;
    kinds.insert(item.kind);
  }
  CHECK(checked);
  CHECK(polls > 0);
  CHECK(kinds == std::set<ComputeKind>{ComputeKind::gemm, ComputeKind::attention, ComputeKind::memory,
                                       ComputeKind::launch, ComputeKind::copy});
}

TEST_CASE("what the host cannot measure is said") {
  HostCompute device;
  ComputeItem item;
  item.kind = ComputeKind::attention;
  item.pass = "backward";
  CHECK_FALSE(device.measure(item, [] {}).unsupported.empty());
}

TEST_CASE("a memory kernel counts each input and output once") {
  for (const ComputeItem& item : memory_kernels()) {
    const double cells = static_cast<double>(item.m) * item.n;
    if (item.name == "copy") CHECK(item.bytes.raw() == 4 * cells);              // bf16 in, bf16 out
    if (item.name == "swiglu_backward") CHECK(item.bytes.raw() == 10 * cells);  // in 2, gradient 1, out 2
    if (item.name == "adam") CHECK(item.bytes.raw() == 30 * cells);
    // The kernels move 16 bytes at a time and hold at most 4,096 elements of a normalised row.
    CHECK(item.n % 8 == 0);
    if (item.name.find("norm") == 0) CHECK(item.n <= 4096);
  }
}

TEST_CASE("described items tell their shape") {
  CHECK(transformer_gemms("bf16", {"dgrad"}).front().described() == "gemm bf16 dgrad 1024x768x2048");
  CHECK(attention_shapes().front().described() == "attention cudnn bf16 forward b1 s1024 h8x8 d128");
}
