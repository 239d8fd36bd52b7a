#include "planner/commands/calibrate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cost-model/curve_fit.h"
#include "cost-model/fit.h"
#include "planner/calibration_build.h"
#include "planner/errors.h"
#include "planner/report/curve_svg.h"
#include "planner/spec_files.h"
#include "tests/planner/log_files.h"

using namespace tpplan;
using tpplan::tests::data_path;
using tpplan::tests::data_text;

namespace {

Samples samples_of(const std::string& name, const ImportOptions& options = {}) {
  return parse_samples(name, data_text("nccl-logs/" + name), options);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool any_has(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) { return has(text, part); });
}

struct CommandResult {
  int code = 0;
  std::string out, err;
};

CommandResult calibrate(PlannerOptions options) {
  options.command = "calibrate";
  std::ostringstream out;
  std::ostringstream err;
  CommandResult result;
  result.code = run_calibrate(options, out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

std::string scratch_file(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "tpplan-calibrate-test";
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

/// One row of a comm-bench sample file.
std::string sample_row(double bytes, double seconds, const std::string& check = "ok") {
  std::ostringstream row;
  row << R"({"collective":"all_reduce","dtype":"bf16","bytes":)" << bytes
      << R"(,"ranks":8,"group":"world","placement":{"nodes":2,"gpus_per_node":4,"stride":1},"concurrent":1,)"
      << R"("mode":"single","in_place":true,"median_s":)" << seconds << R"(,"p5_s":)" << 0.9 * seconds << R"(,"p95_s":)"
      << 1.2 * seconds << R"(,"min_s":)" << 0.8 * seconds
      << R"(,"n":50,"stopped_by":"interval","algbw_gbs":1,"busbw_gbs":1,"check":")" << check << R"(","samples_s":[)"
      << seconds << "]}\n";
  return row.str();
}

const std::string kSampleHeader =
    R"({"schema_version":1,"program":"comm-bench","gpu":"NVIDIA H200","hosts":[{"name":"node0","ranks":[0],"gpus":[]}],)"
    R"("versions":{"nccl":"2.28.9"},"variables":{"NCCL_NVLS_ENABLE":"0"},"topology":{"nodes":2,"gpus_per_node":4},)"
    R"("preflight":{"warnings":[{"id":"p2p","severity":"warning","message":"P2P is off"}],)"
    R"("facts":[{"ports":[{"device":"mlx5_0","state":"ACTIVE","gbit_per_s":400}]}]}})"
    "\n";

std::string sample_rows() {
  std::string rows;
  for (int i = 10; i <= 28; ++i) rows += sample_row(std::exp2(i), 20e-6 + std::exp2(i) / 10e9);
  return rows;
}

}  // namespace

// Every collected log with at least 12 sizes and more than one rank: fitted on every second size, judged on the others.
TEST_CASE("held-out sizes of the collected logs are predicted within three per cent") {
  std::vector<std::filesystem::path> logs;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("nccl-logs"))) {
    if (entry.path().extension() == ".txt") logs.push_back(entry.path());
  }
  std::sort(logs.begin(), logs.end());
  std::vector<double> medians;
  std::vector<std::string> refused;
  for (const std::filesystem::path& path : logs) {
    if (has(path.string(), "hccl-ascend")) continue;
    const Samples samples = parse_samples(path.filename().string(), tests::text_of_file(path.string()), {});
    std::string refusal;
    std::vector<double> errors;
    for (SampleCurve sample : samples.curves) {
      if (!sample.refusal.empty() && sample.curve.points.size() >= 12) refusal = sample.refusal;
      if (!sample.refusal.empty() || sample.curve.points.size() < 12) continue;
      const std::vector<double> more = held_out_errors(sample.curve);
      errors.insert(errors.end(), more.begin(), more.end());
    }
    if (!errors.empty()) {
      medians.push_back(nearest_rank(errors, 0.5));
    } else if (!refusal.empty()) {
      refused.push_back(path.filename().string() + ": " + refusal);
    }
  }
  CAPTURE(nearest_rank(medians, 0.5));
  CHECK(medians.size() >= 20);
  CHECK(nearest_rank(medians, 0.5) <= 0.03);
  CHECK(nearest_rank(medians, 0.9) <= 0.10);
  // One rank, wrong results, an unstable run: nothing else may be refused.
  REQUIRE(refused.size() == 5);
  CHECK(
      has(refused[0], "dgx-roce-16-allreduce-oldfmt-unstable-small.txt: unstable: time falls by more than a quarter"));
  CHECK(has(refused[1], "gh200-slingshot-2-allreduce-wrong.txt: wrong results in 1 row, first in line 27"));
  CHECK(has(refused[2], "h100-1rank-sendrecv-bf16-overflow-mislabelled.txt"));
  CHECK(has(refused[3], "rtx2080ti-pcie-1-reduce-1rank.txt: one rank: nothing was sent over a link"));
  CHECK(has(refused[4], "v100-dgx2-12-allgather-error-failed.txt: wrong results in 2 rows"));
}

TEST_CASE("sick and empty measurements are refused with their reason") {
  struct Row {
    const char* file;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"h200-8-allreduce-1size.txt", "only one size (16 GiB)"},
      {"multi-24-allreduce-jammed-prefix.txt", "bandwidth collapses from 29.5 GB/s at 32 MiB to 5.31 GB/s at 512 MiB"},
      {"a6000-1-allreduce-1rank.txt", "one rank"},
      {"azure-sample-inconsistent-ratio.txt", "2 of 4 figures contradict size"},
      {"gh200-slingshot-2-allreduce-wrong.txt", "wrong results"},
  };
  for (const Row& row : rows) {
    const std::string file = row.file;
    CAPTURE(file);
    const Samples samples = samples_of(file);
    REQUIRE_FALSE(samples.curves.empty());
    CHECK(has(samples.curves[0].refusal, row.reason));
  }
}

TEST_CASE("ranks and nodes come from devices and digits and comments") {
  struct Row {
    const char* file;
    Placement placement;
    const char* operation;
  };
  const std::vector<Row> rows{
      {"a100-40g-efa-16-allreduce-mpi-prefix-info-interleaved.txt", {2, 8, 1}, "all_reduce"},
      {"a100-40g-rdma-16-allreduce-newfmt-ranks-elided.txt", {2, 8, 1}, "all_reduce"},  // four of 16 lines listed
      {"h100-roce-sendrecv-roce-4gpu-info.txt", {2, 4, 1}, "sendrecv"},
      {"a100-40g-sxm-8-alltoall-oldfmt-nocheck.txt", {1, 8, 1}, "alltoall"},
      {"h100-8-all-gather-bf16-rowsonly.txt", {1, 8, 1}, "all_gather"},
      {"h100-8-reduce-scatter-bf16-rowsonly.txt", {1, 8, 1}, "reduce_scatter"},
      {"v100-efa-16-allreduce-2019-cut.txt", {2, 8, 1}, "all_reduce"},  // 0.33 GB/s at most: digits allow 16 to 18
      {"v100-efa-64-allreduce-2019-cut.txt", {8, 8, 1}, "all_reduce"},  // only the comment tells
      {"rtx4090-pcie-6-allreduce-1size.txt", {1, 6, 1}, "all_reduce"},
      {"rtx2080ti-pcie-2-reduce.txt", {1, 2, 1}, "reduce"},
      {"a40-nvlink-2-allreduce.txt", {1, 2, 1}, "all_reduce"},
      {"a100-8-sendrecv.txt", {1, 8, 1}, "sendrecv"},
  };
  for (const Row& row : rows) {
    const std::string file = row.file;
    CAPTURE(file);
    const Samples samples = samples_of(file);
    REQUIRE_FALSE(samples.curves.empty());
    CHECK(samples.curves[0].curve.placement == row.placement);
    CHECK(samples.curves[0].operation == row.operation);
  }
  const Samples nodes = samples_of("mi325x-rccl-8to64-allreduce-grepped.txt");
  REQUIRE(nodes.curves.size() == 8);
  CHECK(nodes.curves[0].curve.placement == Placement{1, 8, 1});
  CHECK(nodes.curves[6].curve.placement == Placement{8, 8, 1});
}

TEST_CASE("groups of a split are counted and keep their stride") {
  // 16 ranks on two nodes split by rank modulo 8: eight groups of one GPU per node, ranks 8 apart.
  std::string text;
  for (int rank = 0; rank < 16; ++rank) {
    text += "#  Rank " + std::to_string(rank) + " Group " + std::to_string(rank % 8) + " Pid 1 on node" +
            std::to_string(rank / 8) + " device " + std::to_string(rank % 8) + " [0x10] NVIDIA H100 80GB HBM3\n";
  }
  text += "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
  for (int i = 20; i <= 26; ++i) {
    // n = 2: busbw = algbw; 10 GB/s
    const double size = std::exp2(i);
    const double time = size / 10e9 * 1e6;
    std::ostringstream row;
    row << std::fixed << static_cast<long long>(size) << " " << static_cast<long long>(size / 4) << " float sum -1 "
        << time << " 10.00 10.00 0 " << time << " 10.00 10.00 0\n";
    text += row.str();
  }
  const Samples samples = parse_samples("all_reduce.txt", text, {});
  REQUIRE_FALSE(samples.curves.empty());
  CHECK(samples.curves[0].refusal.empty());
  CHECK(samples.curves[0].curve.placement == Placement{2, 1, 8});
  CHECK(samples.curves[0].curve.concurrent_groups == 8);
}

TEST_CASE("a run that was repeated after a crash is no run without MPI") {
  const std::string devices =
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor)\n"
      "#  Rank  0 Group  0 Pid  1 on node0 device  0 [0x10] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid  2 on node0 device  1 [0x20] NVIDIA H100 80GB HBM3\n";
  const std::string table =
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "1048576 262144 float sum -1 27.76 37.77 37.77 0 27.49 38.14 38.14 0\n"
      "2097152 524288 float sum -1 35.00 59.92 59.92 0 35.00 59.92 59.92 0\n"
      "4194304 1048576 float sum -1 50.00 83.89 83.89 0 50.00 83.89 83.89 0\n";
  const Samples repeated = parse_samples("all_reduce.log", devices + devices + table, {});
  REQUIRE_FALSE(repeated.curves.empty());
  CHECK(repeated.curves[0].refusal.empty());
  CHECK(repeated.curves[0].curve.placement == Placement{1, 2, 1});
  const Samples apart =
      parse_samples("all_reduce.log", devices + devices + table + table.substr(table.find('\n') + 1), {});
  REQUIRE_FALSE(apart.curves.empty());
  CHECK(has(apart.curves[0].refusal, "built without MPI"));
}

TEST_CASE("JSON of one process with eight GPUs counts them all") {
  std::string text = data_text("nccl-logs/constructed/nccl-tests-json-v3.json");
  const std::size_t second = text.find(",{\"rank\":1");
  text.erase(second, text.find("]},\"results\"") - second);
  text.replace(text.find("\"ngpus\":1"), 9, "\"ngpus\":8");
  // send/recv: the bandwidths do not tell the ranks
  text.replace(text.find("all_reduce_perf_mpi"), 19, "sendrecv_perf_mpi");
  const Samples samples = parse_samples("run.json", text, {});
  REQUIRE_FALSE(samples.curves.empty());
  CHECK(samples.curves[0].operation == "sendrecv");
  CHECK(samples.curves[0].curve.placement == Placement{1, 8, 1});
}

TEST_CASE("an outlier that the other place does not show is left out and told") {
  const Samples samples = samples_of("h100-8-reduce-scatter-bf16-rowsonly.txt");
  REQUIRE(samples.curves.size() == 2);
  CHECK(samples.curves[0].curve.points.size() == 14);
  CHECK(samples.curves[1].curve.points.size() == 13);
  CHECK(any_has(samples.curves[1].warnings, "16 MiB took 192.4 us, 2.4 times what its neighbours say: left out"));
}

TEST_CASE("host times are replaced by those of the bandwidth") {
  const std::string text =
      "# all_reduce_perf -C 1\n# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong\n"
      "1048576 262144 float sum -1 5.10 37.78 66.11 0 5.20 38.15 66.76 0\n"
      "16777216 4194304 float sum -1 5.30 138.28 242.00 0 5.30 139.26 243.71 0\n";
  const Samples samples = parse_samples("log", text, {});
  REQUIRE_FALSE(samples.curves.empty());
  CHECK(samples.curves[0].refusal.empty());
  // 1,048,576 bytes at 37.78 GB/s are 27.755 us
  CHECK(samples.curves[0].curve.points[0].time.raw() == doctest::Approx(27.755e-6).epsilon(1e-4));
}

TEST_CASE("a slow network is compared with its rated speed") {
  // Two nodes of one GPU each: all-reduce of n = 2 has a wire factor of 1, so 3.625 GB/s are 29 Gbit/s of bus
  // bandwidth.
  SampleCurve sample;
  sample.operation = "all_reduce";
  sample.collective = Collective::all_reduce;
  sample.curve.placement = {2, 1, 1};
  for (int i = 10; i <= 30; ++i) {
    const Seconds time(20e-6 + std::exp2(i) / 3.625e9);
    sample.curve.points.push_back({Bytes(std::exp2(i)), time, time, time});
  }
  sample.network_gbps = 400;
  const auto comparison = compare_with_rated(sample, nullptr, std::nullopt);
  REQUIRE(comparison.has_value());
  CHECK(comparison->text() == "measured 29 of 400 Gbit/s");
  Samples samples;
  samples.file = "lab.txt";
  samples.curves = {sample};
  const CalibrationReport report = build_calibration({samples}, nullptr, std::nullopt, "lab");
  REQUIRE(report.curves.size() == 1);
  CHECK(any_has(report.curves[0].warnings, "measured 29 of 400 Gbit/s: check that RDMA and P2P are on"));
}

TEST_CASE("a fast node is compared with its NVLink") {
  const GpuCatalogue catalogue = shipped_gpus();
  const Samples samples = samples_of("h100-8-allreduce-mpi-prefix-ragged-header.txt");
  const auto comparison = compare_with_rated(samples.curves.at(0), &catalogue.find("h100-80gb-sxm"), std::nullopt);
  REQUIRE(comparison.has_value());
  CHECK(comparison->text() == "measured 483 of 450 GB/s");  // reduced in the switch
}

TEST_CASE("a small largest message is not compared") {
  const Samples samples = samples_of("v100-efa-16-allreduce-2019-cut.txt");
  CHECK_FALSE(compare_with_rated(samples.curves.at(0), nullptr, BytesPerSecond(12.5e9)).has_value());
}

TEST_CASE("lists of a microbenchmark become tables and curves") {
  const Samples two = parse_samples("h200x2.json", data_text("microbench/h200x2.json"), {});
  CHECK(two.gpu_model == "NVIDIA H200");
  CHECK(two.gpus_per_node == 2);
  REQUIRE_FALSE(two.gemms.empty());
  CHECK(two.gemms[0].m == 1024);
  CHECK(two.gemms[0].dtype == "bf16");
  CHECK(two.gemms[0].rate.raw() == doctest::Approx(154.51289211e12));
  // 2048 x 2048 x 2048 stands twice in the file and once here.
  CHECK(std::count_if(two.gemms.begin(), two.gemms.end(), [](const GemmPoint& g) {
          return g.m == 2048 && g.n == 2048 && g.k == 2048 && g.dtype == "bf16";
        }) == 1);
  REQUIRE_FALSE(two.attention.empty());
  CHECK(two.attention[0].forward.raw() == doctest::Approx(368.039119e12));
  CHECK(two.attention[0].backward.raw() == doctest::Approx(281.780591e12));
  CHECK(two.launch_eager.raw() == doctest::Approx(9.958148e-6));
  CHECK(two.host_to_device.raw() == doctest::Approx(268435456 / 0.004864373207));
  REQUIRE(two.curves.size() == 7);
  for (const SampleCurve& sample : two.curves) {
    CAPTURE(sample.operation);
    CHECK(sample.refusal.empty());
    CHECK(sample.curve.placement == Placement{1, 2, 1});
  }
  CHECK(two.curves[5].curve.concurrent_groups == 1);
  CHECK(two.curves[6].curve.concurrent_groups == 2);  // both directions at once

  const Samples one = parse_samples("h200.json", data_text("microbench/h200-graphs.json"), {});
  CHECK(one.launch_graph.raw() == doctest::Approx(1.0977823e-6));
  CHECK(one.launch_eager.raw() == doctest::Approx(7.0919593e-6));
  CHECK(std::any_of(one.gemms.begin(), one.gemms.end(), [](const GemmPoint& g) { return g.kind == "wgrad"; }));
  CHECK(std::any_of(one.gemms.begin(), one.gemms.end(), [](const GemmPoint& g) { return g.dtype == "fp8"; }));
  CHECK(std::any_of(one.gemms.begin(), one.gemms.end(), [](const GemmPoint& g) { return g.dtype == "tf32"; }));
  CHECK(std::any_of(one.attention.begin(), one.attention.end(),
                    [](const AttentionPoint& a) { return a.kernel == "flash2" && a.kv_heads == 1 && a.heads == 4; }));
}

TEST_CASE("comm-bench samples are read with what they say about the machine") {
  const Samples samples = parse_samples("s.jsonl", kSampleHeader + sample_rows() + "{\"end\": {\"rows\": 19}}\n", {});
  CHECK(samples.tool == "comm-bench");
  CHECK(samples.gpu_model == "NVIDIA H200");
  CHECK(samples.nodes == 2);
  REQUIRE(samples.curves.size() == 1);
  const SampleCurve& sample = samples.curves[0];
  CHECK(sample.refusal.empty());
  CHECK(sample.curve.placement == Placement{2, 4, 1});
  CHECK(sample.curve.mode == "single");
  CHECK(sample.curve.in_place);
  CHECK(sample.curve.points.size() == 19);
  CHECK(sample.curve.points[0].low.raw() == doctest::Approx(0.9 * sample.curve.points[0].time.raw()));
  CHECK(sample.network_gbps == 400);
  CHECK(any_has(samples.warnings, "when measured: P2P is off"));
  CHECK(std::find(samples.variables.begin(), samples.variables.end(),
                  std::pair<std::string, std::string>("NCCL_NVLS_ENABLE", "0")) != samples.variables.end());
}

TEST_CASE("a partial sample file gives its complete rows") {
  const std::string cut = sample_row(1 << 29, 0.05).substr(0, 120);
  const Samples samples = parse_samples("s.jsonl", kSampleHeader + sample_rows() + cut, {});
  CHECK(samples.curves.at(0).curve.points.size() == 19);
  CHECK(any_has(samples.warnings, "line 21: cut in the middle"));
  CHECK(any_has(samples.warnings, "no closing line"));
}

TEST_CASE("a damaged line inside a sample file is an error with its line") {
  try {
    parse_samples("s.jsonl", kSampleHeader + "{\"collective\": \"all_reduce\", \"bytes\": }\n" + sample_rows(), {});
    FAIL("nothing was reported");
  } catch (const SpecError& error) {
    CHECK(has(error.what(), "s.jsonl:2:"));
  }
}

TEST_CASE("a wrong result refuses the curve") {
  const Samples samples = parse_samples(
      "s.jsonl", kSampleHeader + sample_rows() + sample_row(1 << 29, 0.05, "wrong") + "{\"end\": {}}\n", {});
  CHECK(samples.curves.at(0).refusal == "wrong results in 1 row, first in line 21");
}

TEST_CASE("noise of a crowded host is told and not refused where every point has its own statistics") {
  std::string rows;
  for (int i = 10; i <= 24; ++i) rows += sample_row(std::exp2(i), i % 3 == 0 ? 900e-6 : 100e-6 + std::exp2(i) / 10e9);
  const Samples samples = parse_samples("s.jsonl", kSampleHeader + rows + "{\"end\": {}}\n", {});
  REQUIRE(samples.curves.size() == 1);
  CHECK(samples.curves[0].refusal.empty());
  CHECK(any_has(samples.curves[0].warnings, "unstable: time falls"));
}

TEST_CASE("kernels of comm-bench become tables") {
  const Samples samples = parse_samples(
      "s.jsonl",
      kSampleHeader +
          R"({"kind":"gemm","device":"NVIDIA H200","dtype":"bf16","pass":"dgrad","m":1024,"n":640,"k":3072,"median_s":1e-5,"check":"ok"})"
          "\n"
          R"({"kind":"attention","kernel":"cudnn","dtype":"bf16","pass":"forward","batch":1,"seq":2048,"heads":4,"kv_heads":1,"head_dim":128,"causal":true,"median_s":3e-5,"check":"ok"})"
          "\n"
          R"({"kind":"attention","kernel":"cudnn","dtype":"bf16","pass":"backward","batch":1,"seq":2048,"heads":4,"kv_heads":1,"head_dim":128,"causal":true,"median_s":9e-5,"check":"ok"})"
          "\n"
          R"({"kind":"memory","name":"copy","bytes":33554432,"median_s":1e-5,"check":"ok"})"
          "\n"
          R"({"kind":"launch","name":"graph","median_s":1e-6,"check":"ok"})"
          "\n{\"end\": {}}\n",
      {});
  REQUIRE(samples.gemms.size() == 1);
  CHECK(samples.gemms[0].kind == "dgrad");
  CHECK(samples.gemms[0].rate.raw() == doctest::Approx(2.0 * 1024 * 640 * 3072 / 1e-5));
  REQUIRE(samples.attention.size() == 1);
  // 2 x 4 heads x 2048^2 x 128 operations forward, 2.5 times as many backward
  CHECK(samples.attention[0].forward.raw() == doctest::Approx(2.0 * 4 * 2048 * 2048 * 128 / 3e-5));
  CHECK(samples.attention[0].backward.raw() == doctest::Approx(2.5 * 2.0 * 4 * 2048 * 2048 * 128 / 9e-5));
  CHECK(samples.memory.at(0).rate.raw() == doctest::Approx(33554432 / 1e-5));
  CHECK(samples.launch_graph.raw() == 1e-6);
}

TEST_CASE("files that are no measurements are refused by name") {
  CHECK_THROWS_WITH_AS(parse_samples("a.txt", "", {}), "a.txt: the file is empty", SpecError);
  CHECK_THROWS_AS(parse_samples("a.txt", "hello\n", {}), SpecError);
  try {
    samples_of("hccl-ascend-8-allreduce-other-tool.txt");
    FAIL("nothing was reported");
  } catch (const SpecError& error) {
    CHECK(has(error.what(), "HCCL"));
  }
}

TEST_CASE("calibrate writes a calibration and a drawing that read back") {
  PlannerOptions options;
  options.operands = {data_path("nccl-logs/h100-8-allreduce-mpi-prefix-ragged-header.txt"),
                      data_path("nccl-logs/h100-8-all-gather-bf16-rowsonly.txt")};
  options.gpu = "h100-80gb-sxm";
  options.output = scratch_file("lab.calibration.json");
  options.plot = scratch_file("lab.svg");
  const CommandResult first = calibrate(options);
  CHECK(first.code == 0);
  CHECK(has(first.out, "p90 %"));
  CHECK(has(first.out, "measured 483 of 450 GB/s"));
  CHECK(has(first.err, "32 B took 22.2 us"));
  const std::string text = tests::text_of_file(options.output);
  const Calibration calibration = load_calibration(options.output);
  CHECK(calibration.name == "lab");
  CHECK(calibration.gpu == "h100-80gb-sxm");
  REQUIRE(calibration.curves.size() == 4);
  const CollectiveCurve* const curve = calibration.find(Collective::all_reduce, {1, 8, 1}, 1);
  REQUIRE(curve != nullptr);
  CHECK(curve->in_place);
  // 17,179,869,184 bytes in place took 62,200 us
  CHECK(curve->time(Bytes(17179869184.0)).raw() == doctest::Approx(62200e-6));
  CHECK(calibrate(options).code == 0);
  CHECK(tests::text_of_file(options.output) == text);

  const std::string svg = tests::text_of_file(options.plot);
  CHECK(has(svg, "role=\"img\""));
  CHECK(has(svg, "<title id=\"title\">Calibration lab</title>"));
  CHECK(has(svg, "all_reduce 1x8 float in place reaches 483.4 GB/s at 16 GiB."));
  CHECK(has(svg, "<text"));
  CHECK_FALSE(has(svg, "nan"));
}

TEST_CASE("calibrate ends with 3 and writes nothing when all is refused") {
  PlannerOptions options;
  options.operands = {data_path("nccl-logs/multi-24-allreduce-jammed-prefix.txt")};
  options.output = scratch_file("sick.calibration.json");
  std::filesystem::remove(options.output);
  const CommandResult result = calibrate(options);
  CHECK(result.code == 3);
  CHECK(has(result.out, "refused: multi-24-allreduce-jammed-prefix.txt: all_reduce out of place: bandwidth collapses"));
  CHECK_FALSE(std::filesystem::exists(options.output));
}

TEST_CASE("calibrate prints the rows as read") {
  PlannerOptions options;
  options.operands = {data_path("nccl-logs/a40-nvlink-2-allreduce.txt")};
  options.rows = true;
  CHECK(calibrate(options).out == data_text("nccl-logs/golden/a40-nvlink-2-allreduce.tsv"));
}

TEST_CASE("calibrate without files is a mistake of usage") { CHECK_THROWS_AS(calibrate(PlannerOptions()), UsageError); }

TEST_CASE("a drawing of many curves says which are left out") {
  std::vector<CollectiveCurve> curves;
  for (int nodes = 1; nodes <= 14; ++nodes) {
    CollectiveCurve curve;
    curve.placement = {nodes, 8, 1};
    curve.points = {{1_KiB, 10_us, 10_us, 10_us}, {1_MiB, 50_us, 50_us, 50_us}, {1_GiB, 9000_us, 9000_us, 9000_us}};
    fit_curve(curve);
    curves.push_back(curve);
  }
  const std::string svg = curve_svg(curves, "A & B <C>");
  CHECK(has(svg, "A &amp; B &lt;C&gt;"));
  CHECK(has(svg, "Not drawn: all_reduce 13x8, all_reduce 14x8."));
  CHECK(has(svg, "and 2 more, not drawn"));
}
