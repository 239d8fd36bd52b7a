#include "planner/calibration_use.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace tpplan {
namespace {

Calibration measured_with(Variables variables) {
  Calibration calibration;
  calibration.name = "lab";
  calibration.gpu = "h200-141gb-sxm";
  calibration.variables = std::move(variables);
  CollectiveCurve curve;
  curve.pieces = {{1_GiB, 10_us, BytesPerSecond(1e11)}};
  calibration.curves.push_back(curve);
  return calibration;
}

TEST_CASE("a variable of NCCL that was set when measuring and is not set here is told") {
  const auto doubts = calibration_doubts(measured_with({{"NCCL_NVLS_ENABLE", "0"}}), {}, nullptr);
  REQUIRE(doubts.size() == 1);
  CHECK(doubts[0] ==
        "calibration lab was measured with NCCL_NVLS_ENABLE=0, which is not set here: set it for the training job too, "
        "or measure without it");
}

TEST_CASE("another value of a variable of NCCL and one more variable are told") {
  const auto doubts = calibration_doubts(measured_with({{"NCCL_ALGO", "Ring"}}),
                                         {{"NCCL_ALGO", "Tree"}, {"NCCL_P2P_DISABLE", "1"}}, nullptr);
  REQUIRE(doubts.size() == 2);
  CHECK(doubts[0].find("measured with NCCL_ALGO=Ring, here it is Tree") != std::string::npos);
  CHECK(doubts[1].find("measured without NCCL_P2P_DISABLE, here it is 1") != std::string::npos);
}

TEST_CASE("equal variables and those that only log or name things are not told") {
  const Variables measured{{"NCCL_ALGO", "Ring"}, {"NCCL_DEBUG", "INFO"}, {"nccl", "2.28.9"}, {"torch", "2.11.0"}};
  const Variables here{{"NCCL_ALGO", "Ring"}, {"NCCL_DEBUG_SUBSYS", "ALL"}, {"NCCL_VERSION", "2.27.3-1"}};
  CHECK(calibration_doubts(measured_with(measured), here, nullptr).empty());
}

TEST_CASE("a calibration of kernels alone does not depend on variables of NCCL") {
  Calibration calibration = measured_with({{"NCCL_NVLS_ENABLE", "0"}});
  calibration.curves.clear();
  calibration.gemms.push_back({4096, 4096, 4096, "bf16", "forward", FlopsPerSecond(6e14)});
  CHECK(calibration_doubts(calibration, {}, nullptr).empty());
}

TEST_CASE("a calibration of another GPU is told and one of the same is not") {
  GpuSpec gpu;
  gpu.id = "h200-141gb-sxm";
  CHECK(calibration_doubts(measured_with({}), {}, &gpu).empty());
  gpu.id = "a100-80gb-sxm";
  const auto doubts = calibration_doubts(measured_with({}), {}, &gpu);
  REQUIRE(doubts.size() == 1);
  CHECK(doubts[0].find("measured on h200-141gb-sxm, the cluster has a100-80gb-sxm") != std::string::npos);
}

TEST_CASE("the variables of this process are found by their prefix") {
  REQUIRE(setenv("NCCL_TPPLAN_TEST", "a=b", 1) == 0);
  const Variables found = nccl_environment();
  REQUIRE(unsetenv("NCCL_TPPLAN_TEST") == 0);
  bool seen = false;
  for (const auto& [name, value] : found) {
    CHECK(name.rfind("NCCL_", 0) == 0);
    seen = seen || (name == "NCCL_TPPLAN_TEST" && value == "a=b");
  }
  CHECK(seen);
}

}  // namespace
}  // namespace tpplan
