#include "planner/explain_collectives.h"

#include <doctest/doctest.h>

#include "tests/planner/jobs.h"

namespace tpplan {
namespace {

/// All-reduce of 8 GPUs of one node at 1 KiB and 1 GiB, so that 4 GPUs are extrapolated.
Job calibrated_job() {
  Job job = tests::priced_job(tests::llama_7b(), "a100-80gb-sxm", 1, 8, 2048, 64);
  CollectiveCurve curve;
  curve.collective = Collective::all_reduce;
  curve.placement = {1, 8, 1};
  curve.pieces = {{1_GiB, 10_us, BytesPerSecond(2e11)}};
  for (const Bytes size : {1_KiB, 1_GiB}) {
    const Seconds time = time_of(curve.pieces, row_of(curve.collective).wire_factor(8), size);
    curve.points.push_back({size, time, time, time});
  }
  job.calibration.name = "lab";
  job.calibration.curves = {curve};
  return job;
}

Layout layout_of(const Job& job, std::string_view text) {
  return parse_layout(text, job.cluster.gpus(), usual_layout(job));
}

TEST_CASE("a term names the measured group that it rests on") {
  const Job job = calibrated_job();
  const auto uses = measured_collectives(job, layout_of(job, "tp=8 sequence-parallel=off"), "tp_comm");
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].name == "all_reduce 64 MiB x 8, s");
  CHECK(uses[0].source == "measured, 1 KiB to 1 GiB");
  // 2 x 7/8 of 64 MiB at 200 GB/s and 10 us; between the points the line is met within log-log interpolation.
  CHECK(uses[0].value > 0);
}

TEST_CASE("a term says how far it is extrapolated") {
  const Job job = calibrated_job();
  const auto uses = measured_collectives(job, layout_of(job, "tp=4 sequence-parallel=off"), "tp_comm");
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].source == "extrapolated 8 to 4 ranks, to 1 GiB");
  CHECK(speed_of(job, Collective::all_reduce, place_group(job.cluster, 4, 1)).rfind("extrapolated", 0) == 0);
}

TEST_CASE("terms without measured groups name none") {
  const Job job = calibrated_job();
  CHECK(measured_collectives(job, layout_of(job, "tp=8 sequence-parallel=on"), "tp_comm").empty());
  CHECK(measured_collectives(job, layout_of(job, "tp=8"), "compute").empty());
  const Job plain = tests::priced_job(tests::llama_7b(), "a100-80gb-sxm", 1, 8, 2048, 64);
  CHECK(measured_collectives(plain, layout_of(plain, "tp=8 sequence-parallel=off"), "tp_comm").empty());
}

}  // namespace
}  // namespace tpplan
