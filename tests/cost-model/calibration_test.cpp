#include "cost-model/calibration.h"

#include <doctest/doctest.h>

#include <string>

#include "cost-model/curve_fit.h"

using namespace tpplan;

namespace {

CollectiveCurve two_point_curve() {
  CollectiveCurve curve;
  curve.collective = Collective::all_gather;
  curve.placement = {1, 2, 1};  // wire factor 1/2
  curve.dtype = "bf16";
  curve.mode = "batched";
  curve.origin = "a \"quoted\" file\twith a tab";
  curve.points = {{1000_B, Seconds(10e-6), Seconds(9e-6), Seconds(12e-6)},
                  {100000_B, Seconds(40e-6), Seconds(39e-6), Seconds(41e-6)}};
  curve.pieces = {{100000_B, Seconds(8e-6), BytesPerSecond(2e9)}};
  curve.residual_median = 0.0123456789;
  return curve;
}

Calibration sample_calibration() {
  Calibration calibration;
  calibration.name = "lab";
  calibration.gpu = "h200-141gb-sxm";
  calibration.gpus_per_node = 2;
  calibration.curves = {two_point_curve()};
  calibration.gemms = {{1024, 640, 3072, "bf16", "forward", FlopsPerSecond(1.54512892e14)}};
  calibration.attention = {{2048, 1, 4, 1, 128, "cudnn", FlopsPerSecond(3.5e14), FlopsPerSecond(2.5e14)}};
  calibration.memory = {{"copy", 33554432_B, BytesPerSecond(5.1e12)}};
  calibration.launch_graph = Seconds(1.1e-6);
  calibration.host_to_device = BytesPerSecond(55e9);
  calibration.variables = {{"NCCL version", "2.28.9"}};
  calibration.warnings = {"one warning"};
  calibration.origin = "tests";
  return calibration;
}

}  // namespace

TEST_CASE("a collective is known by its name and by no other") {
  for (const CollectiveRow& row : kCollectiveTable) CHECK(collective_from(row.name) == row.collective);
  CHECK_FALSE(collective_from("allreduce").has_value());
}

TEST_CASE("time between two sizes is interpolated on logarithmic axes") {
  // Half way in the logarithm: 10,000 bytes; the geometric mean of 10 and 40 us is 20 us.
  CHECK(two_point_curve().time(10000_B).raw() == doctest::Approx(20e-6));
  CHECK(two_point_curve().time(1000_B).raw() == doctest::Approx(10e-6));
  CHECK(two_point_curve().time(100000_B).raw() == doctest::Approx(40e-6));
}

TEST_CASE("beyond the largest size the slope of the last piece goes on") {
  // 100,000 bytes more at 2 GB/s of bus bandwidth and a wire factor of 1/2: 25 us.
  CHECK(two_point_curve().time(200000_B).raw() == doctest::Approx(65e-6));
}

TEST_CASE("below the smallest size time falls to the latency and never rises") {
  // The piece says 8 us + 0.25 us at 1,000 bytes and 8 us at none; scaled to the 10 us measured there.
  const CollectiveCurve curve = two_point_curve();
  CHECK(curve.time(Bytes(0)).raw() == doctest::Approx(10e-6 * 8 / 8.25));
  CHECK(curve.time(500_B) < curve.time(1000_B));
}

TEST_CASE("a curve without points is its pieces") {
  CollectiveCurve curve = two_point_curve();
  curve.points.clear();
  CHECK(curve.time(4000_B).raw() == doctest::Approx(8e-6 + 0.5 * 4000 / 2e9));
}

TEST_CASE("a calibration finds only exactly the placement that was measured") {
  const Calibration calibration = sample_calibration();
  CHECK(calibration.find(Collective::all_gather, {1, 2, 1}, 1) != nullptr);
  CHECK(calibration.find(Collective::all_gather, {2, 1, 1}, 1) == nullptr);
  CHECK(calibration.find(Collective::all_gather, {1, 2, 2}, 1) == nullptr);
  CHECK(calibration.find(Collective::all_gather, {1, 2, 1}, 2) == nullptr);
  CHECK(calibration.find(Collective::all_reduce, {1, 2, 1}, 1) == nullptr);
}

TEST_CASE("gradients are looked up in place and gathered parameters out of place") {
  Calibration calibration;
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather}) {
    for (const bool in_place : {false, true}) {
      CollectiveCurve curve = two_point_curve();
      curve.collective = collective;
      curve.in_place = in_place;
      calibration.curves.push_back(curve);
    }
  }
  CHECK(calibration.find(Collective::all_reduce, {1, 2, 1}, 1)->in_place);
  CHECK_FALSE(calibration.find(Collective::all_gather, {1, 2, 1}, 1)->in_place);
}

TEST_CASE("a calibration survives being written and read") {
  const std::string text = to_json(sample_calibration());
  const Calibration read = parse_calibration("lab.calibration.json", text);
  CHECK(to_json(read) == text);
  REQUIRE(read.curves.size() == 1);
  CHECK(read.curves[0].collective == Collective::all_gather);
  CHECK(read.curves[0].origin == two_point_curve().origin);
  CHECK(read.curves[0].points[1].high.raw() == doctest::Approx(41e-6));
  CHECK(read.curves[0].pieces[0].bandwidth.raw() == 2e9);
  CHECK(read.curves[0].residual_median == 0.0123456789);
  CHECK(read.gemms[0].rate.raw() == 1.54512892e14);
  CHECK(read.attention[0].kernel == "cudnn");
  CHECK(read.memory[0].size == 33554432_B);
  CHECK(read.launch_graph.raw() == 1.1e-6);
  CHECK(read.launch_eager.raw() == 0);
  CHECK(read.variables[0].second == "2.28.9");
  CHECK(read.warnings[0] == "one warning");
}

TEST_CASE("an unknown key of a calibration is reported with its place and the nearest name") {
  const std::string text = "{\"schema_version\": 1, \"curvs\": []}";
  try {
    parse_calibration("lab.calibration.json", text);
    FAIL("nothing was reported");
  } catch (const SpecError& error) {
    const std::string message = error.what();
    CHECK(message.find("lab.calibration.json:1:23") != std::string::npos);
    CHECK(message.find("curves") != std::string::npos);
  }
}

TEST_CASE("points that do not ascend are refused") {
  std::string text = to_json(sample_calibration());
  text.replace(text.find("\"bytes\": [1000, 100000]"), 23, "\"bytes\": [100000, 100]");
  CHECK_THROWS_AS(parse_calibration("lab.calibration.json", text), SpecError);
}
