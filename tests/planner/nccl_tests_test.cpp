#include "planner/import/nccl_tests.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cost-model/spec_reader.h"
#include "tests/planner/log_files.h"

using namespace tpplan;
using tpplan::tests::data_path;
using tpplan::tests::data_text;

namespace {

BenchmarkLog log_of(const std::string& name) { return parse_nccl_tests(name, data_text("nccl-logs/" + name)); }

/// Header of 2022 on with one row, to which tests add.
const std::string kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n";
const std::string kRow =
    "     1048576        262144     float     sum      -1    27.76   37.78   66.11      0    27.49   38.15   66.76     "
    " 0\n";

bool any_warning(const BenchmarkRun& run, const std::string& part) {
  return std::any_of(run.warnings.begin(), run.warnings.end(),
                     [&](const ImportNote& note) { return note.text.find(part) != std::string::npos; });
}

}  // namespace

// The golden tables were made by another reader (regular expressions in Python), not by this one.
TEST_CASE("every row of the collected logs is read exactly") {
  std::vector<std::filesystem::path> tables;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("nccl-logs/golden"))) {
    tables.push_back(entry.path());
  }
  std::sort(tables.begin(), tables.end());
  CHECK(tables.size() >= 40);
  for (const std::filesystem::path& table : tables) {
    const std::string name = table.stem().string() + ".txt";
    CAPTURE(name);
    std::string path = data_path("nccl-logs/" + name);
    if (!std::filesystem::exists(path)) path = data_path("nccl-logs/constructed/" + name);
    REQUIRE(std::filesystem::exists(path));
    CHECK(rows_as_tsv(parse_nccl_tests(name, tests::text_of_file(path))) == tests::text_of_file(table.string()));
  }
}

TEST_CASE("the device list gives ranks and hosts and GPU model") {
  const BenchmarkLog log = log_of("h100-tcpxo-16-allreduce-hash-stripped.txt");
  REQUIRE(log.runs.size() == 1);
  const BenchmarkRun& run = log.runs[0];
  REQUIRE(run.devices.size() == 16);
  CHECK(run.devices[0].rank == 0);
  CHECK(run.devices[15].rank == 15);
  CHECK(run.devices[15].host == "node1");
  CHECK(run.devices[15].device == 7);
  CHECK(run.devices[15].bus_id == "[0000:80:00]");
  CHECK(run.devices[0].model == "NVIDIA H100 80GB HBM3");
  CHECK(run.configuration.at("maxBytes") == "8589934592");
  CHECK(run.configuration.at("graph") == "0");
  CHECK(run.summary);
  CHECK(*run.average_busbw == 70.742);
}

TEST_CASE("the configuration line of a fork keeps its unknown keys") {
  const BenchmarkRun run = log_of("a100-8-allreduce-fork-header-hash-stripped.txt").runs.at(0);
  CHECK(run.configuration.at("warmup iters") == "5");
  CHECK(run.configuration.at("iters") == "20");
  CHECK(run.configuration.at("test_buffer_kind") == "2");
}

TEST_CASE("messages of NCCL tell version and settings and network") {
  const BenchmarkRun run = log_of("h100-roce-sendrecv-roce-4gpu-info.txt").runs.at(0);
  CHECK(run.variables.at("NCCL_ALGO") == "RING");
  CHECK(run.variables.at("network") == "IB");
  CHECK(run.variables.at("NCCL_IB_DISABLE") == "0");
  CHECK(run.nranks == 8);
}

TEST_CASE("the choice of algorithm and protocol at the largest size is kept") {
  const BenchmarkLog log = parse_nccl_tests(
      "log", kHeader + "node0:7:9 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}\n" +
                 "node0:7:9 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 27.1\n" + kRow);
  CHECK(log.runs.at(0).variables.at("algorithm at the largest size") == "Ring");
  CHECK(log.runs.at(0).variables.at("protocol at the largest size") == "Simple");
}

TEST_CASE("a row that a message breaks into pieces is joined") {
  const std::string message = "node0:10000:10020 [2] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC\n";
  const std::string broken = "     1048576        262144     float     sum      -1" + message +
                             "    27.76   37.78   66.11      0" + message + "    27.49   38.15   66.76      0\n";
  const BenchmarkLog log = parse_nccl_tests("log", kHeader + broken);
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].out_of_place->time_us == 27.76);
  CHECK(log.runs[0].rows[0].in_place->busbw == 66.76);
  CHECK(log.runs[0].variables.at("channels") == "P2P 2");
  CHECK(log.runs[0].warnings.empty());
}

TEST_CASE("a row that a message breaks inside a number is joined") {
  const std::string message = "node0:10000:10020 [2] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC\n";
  const std::string row =
      "     1048576        262144     float     sum      -1    27.76   37.78   66.11      0    27.49   38.15   66.76   "
      "   "
      "0\n";
  for (std::size_t cut = 6; cut + 2 < row.size(); ++cut) {
    // A letter before the sender's name cannot be told from it.
    if (std::isalpha(static_cast<unsigned char>(row[cut - 1])) != 0) {
      continue;
    }
    CAPTURE(cut);
    const BenchmarkLog log = parse_nccl_tests("log", kHeader + row + row.substr(0, cut) + message + row.substr(cut));
    REQUIRE(log.rows() == 2);
    CHECK(log.runs[0].rows[1].size == 1048576);
    CHECK(log.runs[0].rows[1].out_of_place->time_us == 27.76);
    CHECK(log.runs[0].rows[1].in_place->busbw == 66.76);
    CHECK(log.runs[0].warnings.empty());
  }
}

TEST_CASE("a row behind a message on one line is read") {
  const std::string row =
      "     1048576        262144     float     sum      -1    27.76   37.78   66.11      0    27.49   38.15   66.76   "
      "   "
      "0\n";
  const BenchmarkLog log = parse_nccl_tests(
      "log", kHeader + row + "node0:10000:10020 [2] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC" + row);
  REQUIRE(log.rows() == 2);
  CHECK(log.runs[0].rows[1].in_place->time_us == 27.49);
  CHECK(log.runs[0].variables.at("channels") == "P2P 1");
}

TEST_CASE("a whole row before a message and the row after it are both read") {
  const std::string row =
      "     1048576        262144     float     sum      -1    27.76   37.78   66.11      0    27.49   38.15   66.76   "
      "   "
      "0";
  const BenchmarkLog log = parse_nccl_tests(
      "log", kHeader + row + " node0:10000:10020 [2] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC\n" + row + "\n");
  CHECK(log.rows() == 2);
}

TEST_CASE("prefixes of srun and mpirun and pdsh are taken off") {
  for (const std::string prefix : {"0: ", "[1,0]<stdout>:", "[prterun-gpu-1@1,0]<stdout>: ", "node0: ", "[0]",
                                   "  12: ", "2026-01-31T10:00:00Z "}) {
    CAPTURE(prefix);
    const BenchmarkLog log = parse_nccl_tests("log", prefix + kHeader + prefix + kRow);
    REQUIRE(log.rows() == 1);
    CHECK(log.runs[0].rows[0].size == 1048576);
    CHECK(log.runs[0].rows[0].in_place->time_us == 27.49);
  }
}

TEST_CASE("colours and tabs and Windows line ends are taken off") {
  const std::string row =
      "\x1b[32m1048576\x1b[0m\t262144\tfloat\tsum\t-1\t27.76\t37.78\t66.11\t0\t27.49\t38.15\t66.76\t0\r\n";
  const BenchmarkLog log = parse_nccl_tests("log", "\xef\xbb\xbf" + kHeader + row);
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].in_place->wrong == 0.0);
}

TEST_CASE("tables of 2017 give milliseconds and other names") {
  const std::string text =
      "# NCCL Tests compiled with NCCL 2.0\n"
      "#                                                 out-of-place                    in-place\n"
      "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
      "   33554432       8388608   float     sum    1.234  27.19  40.79    2e-07    1.240  27.06  40.59    2e-07\n";
  const BenchmarkLog log = parse_nccl_tests("log", text);
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].out_of_place->time_us == doctest::Approx(1234));
  CHECK(log.runs[0].rows[0].redop == "sum");
  CHECK(log.runs[0].error_is_deviation);
}

TEST_CASE("one place alone is told from the line above the names") {
  const std::string text =
      "#                                           in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "     1048576        262144     float     sum      -1    27.76   37.78   66.11      0\n";
  const BenchmarkLog log = parse_nccl_tests("log", text);
  REQUIRE(log.rows() == 1);
  CHECK_FALSE(log.runs[0].rows[0].out_of_place.has_value());
  CHECK(log.runs[0].rows[0].in_place->busbw == 66.11);
}

TEST_CASE("time stamps and columns per iteration do not shift the figures") {
  const std::string names =
      "size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw "
      "#wrong i_min i_max i_p99 i_cv% timestamp\n";
  const std::string row =
      "1048576 262144 float sum -1 27.76 37.78 66.11 0 27.1 29.9 29.9 1.2 27.49 38.15 66.76 N/A 27.0 "
      "28.1 28.1 0.9 2026-07-10 10:00:05\n";
  const BenchmarkLog log = parse_nccl_tests("log", "# " + names + row);
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].out_of_place->time_us == 27.76);
  CHECK(log.runs[0].rows[0].in_place->time_us == 27.49);
  CHECK_FALSE(log.runs[0].rows[0].in_place->wrong.has_value());
}

TEST_CASE("host time columns are marked as such") {
  std::string header = kHeader;
  for (std::size_t at = header.find("   time"); at != std::string::npos; at = header.find("   time")) {
    header.replace(at, 7, "cputime");
  }
  const BenchmarkLog log = parse_nccl_tests("log", header + kRow);
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].cpu_time);
}

TEST_CASE("several headers make several runs") {
  const BenchmarkLog log =
      parse_nccl_tests("log", "# Collective test starting: all_gather_perf\n" + kHeader + kRow +
                                  "# Avg bus bandwidth    : 66.4\n# Collective test concluded: all_gather_perf\n" +
                                  "# Collective test starting: alltoall_perf_mpi\n" + kHeader + kRow + kRow);
  REQUIRE(log.runs.size() == 2);
  CHECK(log.runs[0].collective == "all_gather");
  CHECK(log.runs[1].collective == "alltoall");
  CHECK(log.runs[0].rows.size() == 1);
  CHECK(log.runs[1].rows.size() == 2);
}

TEST_CASE("separators make runs that keep their text") {
  const BenchmarkLog log = log_of("mi325x-rccl-8to64-allreduce-grepped.txt");
  REQUIRE(log.runs.size() == 4);
  CHECK(log.runs[0].section == "1-node");
  CHECK(log.runs[3].section == "8-node");
  for (const BenchmarkRun& run : log.runs) CHECK(run.rows.size() == 3);
}

TEST_CASE("a cut row is told with its line and what was expected") {
  const BenchmarkRun run = log_of("rtx4090-pcie-8-allreduce-p2p-driver-cut.txt").runs.at(0);
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].line == 36);
  CHECK(run.warnings[0].text ==
        "cut row: expected 13 columns (size count type redop root, then time algbw busbw #wrong twice), found 6");
}

TEST_CASE("a damaged row in the middle is told and the others are read") {
  const BenchmarkLog log =
      parse_nccl_tests("log", kHeader + "  524288 131072 float sum -1 20.1 26.1 45.6 0 x\n" + kRow);
  REQUIRE(log.rows() == 1);
  REQUIRE(log.runs[0].warnings.size() == 1);
  CHECK(log.runs[0].warnings[0].line == 2);
  CHECK(log.runs[0].warnings[0].text.find("damaged row") == 0);
}

TEST_CASE("a row whose in-place part never came keeps its first place") {
  const BenchmarkLog log =
      parse_nccl_tests("log", kHeader +
                                  "  524288 131072 float sum -1 20.1 26.1 45.6 0\nnode0: Test NCCL failure "
                                  "common.cu:345 'unhandled system error'\n");
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].out_of_place->time_us == 20.1);
  CHECK_FALSE(log.runs[0].rows[0].in_place.has_value());
  CHECK(log.runs[0].failed);
  CHECK(any_warning(log.runs[0], "only one place"));
}

TEST_CASE("the last row of a file without line end is not trusted") {
  const std::string cut = kRow.substr(0, kRow.size() - 2) + "7";  // #wrong cut out, a digit of busbw could be too
  const BenchmarkLog log = parse_nccl_tests("log", kHeader + kRow + cut);
  CHECK(log.rows() == 1);
  CHECK(any_warning(log.runs[0], "the file ends inside this row"));
}

TEST_CASE("figures that lost the beginning of their row are told") {
  const BenchmarkRun run = log_of("multi-24-allreduce-jammed-prefix.txt").runs.at(0);
  CHECK(run.rows.size() == 10);
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].line == 4);
}

TEST_CASE("failures that the tool reports are kept with their lines") {
  const BenchmarkLog log = log_of("v100-ib-2node-nccl-failure.txt");
  CHECK(log.rows() == 0);
  REQUIRE_FALSE(log.failures.empty());
  CHECK(log.failures[0].line == 8);
  CHECK(log.failures[0].text.find("unhandled system error") != std::string::npos);
}

TEST_CASE("warnings of NCCL are kept once each") {
  const BenchmarkLog log = parse_nccl_tests("log", data_text("nccl-logs/constructed/nccl-messages-only.txt"));
  REQUIRE(log.warnings.size() == 1);
  CHECK(log.warnings[0].text.find("driver version is insufficient") != std::string::npos);
}

TEST_CASE("rank 0 in several places means a binary without MPI") {
  const std::string device = "#  Rank  0 Group  0 Pid  1 on node0 device  0 [0x10] NVIDIA A100\n";
  const BenchmarkLog log = parse_nccl_tests("log", device + device + kHeader + kRow);
  CHECK(log.runs.at(0).processes_without_mpi == 2);
}

TEST_CASE("a header cut at the right still reads whole rows") {
  const std::string cut = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  const BenchmarkLog log = parse_nccl_tests("log", cut + kRow + kRow);
  REQUIRE(log.rows() == 2);
  CHECK(log.runs[0].rows[1].out_of_place->time_us == 27.76);
  CHECK(log.runs[0].rows[1].in_place->time_us == 27.49);
}

TEST_CASE("a data row behind a comment sign or between bars is a row") {
  const std::string barred =
      "| 1048576 | 262144 | float | sum | -1 | 27.76 | 37.78 | 66.11 | 0 | 27.49 | 38.15 | 66.76 | 0 |\n";
  const BenchmarkLog log = parse_nccl_tests("log", kHeader + "#" + kRow + barred);
  REQUIRE(log.rows() == 2);
  CHECK(log.runs[0].rows[0].in_place->busbw == 66.76);
  CHECK(log.runs[0].rows[1].in_place->busbw == 66.76);
}

TEST_CASE("a check with an asterisk is over its threshold") {
  const BenchmarkLog log =
      parse_nccl_tests("log",
                       "# size count type redop time algbw busbw error time algbw busbw error\n"
                       "1048576 262144 float sum 27.76 37.78 66.11 3e-02* 27.49 38.15 66.76 2e-07\n");
  REQUIRE(log.rows() == 1);
  CHECK(log.runs[0].rows[0].out_of_place->over_threshold);
  CHECK(log.runs[0].rows[0].out_of_place->wrong == 0.03);
  CHECK_FALSE(log.runs[0].rows[0].in_place->over_threshold);
}

TEST_CASE("an error message inside a table does not split it") {
  const BenchmarkLog log = parse_nccl_tests(
      "log",
      kHeader + kRow + "libibverbs: Warning: couldn't load driver\n./all_reduce_perf: warning: no version\n" + kRow);
  REQUIRE(log.runs.size() == 1);
  CHECK(log.rows() == 2);
}

TEST_CASE("a command line above each table names its collective") {
  const BenchmarkLog log = parse_nccl_tests("log", "$ mpirun ./build/all_gather_perf -b 8\n" + kHeader + kRow +
                                                       "$ mpirun ./build/reduce_scatter_perf -b 8\n" + kHeader + kRow);
  REQUIRE(log.runs.size() == 2);
  CHECK(log.runs[0].collective == "all_gather");
  CHECK(log.runs[1].collective == "reduce_scatter");
}

TEST_CASE("cutting a log anywhere never fails and never invents rows") {
  for (const char* const name : {"h100-roce-sendrecv-roce-4gpu-info.txt", "multi-24-allreduce-jammed-prefix.txt",
                                 "a100-40g-efa-16-allreduce-mpi-prefix-info-interleaved.txt"}) {
    const std::string text = data_text(std::string("nccl-logs/") + name);
    const std::size_t whole = parse_nccl_tests(name, text).rows();
    std::size_t before = 0;
    for (std::size_t length = 0; length < text.size(); length += 97) {
      const std::size_t rows = parse_nccl_tests(name, text.substr(0, length)).rows();
      CHECK(rows <= whole);
      CHECK(rows + 1 >= before);  // only the row that the cut runs through may come and go
      before = rows;
    }
  }
}

TEST_CASE("a file of noise gives nothing and does not fail") {
  CHECK(parse_nccl_tests("log", "").runs.empty());
  std::string noise;
  for (int i = 0; i < 20000; ++i) noise += static_cast<char>((i * 7919 + i / 3) % 256);
  CHECK(parse_nccl_tests("log", noise).rows() == 0);
}

TEST_CASE("JSON of versions 1 and 3 gives the same rows as the text") {
  for (const char* const name : {"nccl-tests-json-v1.json", "nccl-tests-json-v3.json"}) {
    const std::string file = name;
    CAPTURE(file);
    const BenchmarkLog log = parse_nccl_tests_json(file, data_text("nccl-logs/constructed/" + file));
    REQUIRE(log.rows() == 3);
    const BenchmarkRun& run = log.runs[0];
    CHECK(run.collective == "all_reduce");
    CHECK(run.devices.size() == 8);
    CHECK(run.devices[7].model == "NVIDIA H100 80GB HBM3");
    CHECK(run.variables.at("NCCL version") == "2.28.9");
    CHECK(run.rows[0].size == 1048576);
    CHECK(run.rows[0].count == 262144);
    CHECK(run.rows[0].redop == "sum");
    CHECK(run.rows[0].root == -1);
    CHECK(run.rows[2].in_place->time_us == 195.4);
    CHECK(run.rows[2].in_place->busbw == 300.52);
    CHECK(*run.average_busbw == 203.268333);
    for (const auto& [key, value] : run.variables) CHECK(key != "HOME");
  }
}

TEST_CASE("JSON with null and nan and bare inf is read") {
  std::string text = data_text("nccl-logs/constructed/nccl-tests-json-v3-nan-null.json");
  const std::string figure = "\"alg_bw\":138.280000";
  text.replace(text.find(figure), figure.size(), "\"alg_bw\":inf");
  const BenchmarkLog log = parse_nccl_tests_json("run.json", text);
  REQUIRE(log.rows() == 3);
  CHECK(std::isnan(log.runs[0].rows[0].out_of_place->busbw));
  CHECK_FALSE(log.runs[0].rows[0].out_of_place->wrong.has_value());
  CHECK_FALSE(log.runs[0].rows[0].in_place.has_value());
  CHECK(std::isinf(log.runs[0].rows[1].out_of_place->algbw));
}

TEST_CASE("JSON of a killed run keeps the results that are complete") {
  const std::string text = data_text("nccl-logs/constructed/nccl-tests-json-v3.json");
  const std::size_t last = text.find("\"size\":33554432");
  const BenchmarkLog log = parse_nccl_tests_json("run.json", text.substr(0, last + 40));
  CHECK(log.rows() == 2);
  CHECK_FALSE(log.runs[0].summary);
  REQUIRE(log.warnings.size() == 1);
  CHECK(log.warnings[0].text.find("killed run") != std::string::npos);
}

TEST_CASE("JSON without results is refused by name") {
  CHECK_THROWS_AS(parse_nccl_tests_json("run.json", "{\"version\": 3}"), SpecError);
}

TEST_CASE("comma-separated tables are read by their column names") {
  const BenchmarkLog one =
      parse_benchmark_csv("a.csv", data_text("nccl-logs/constructed/csv-two-files-out-of-place.csv"));
  REQUIRE(one.rows() == 2);
  CHECK(one.runs[0].rows[1].out_of_place->busbw == 242.00);
  CHECK_FALSE(one.runs[0].rows[1].in_place.has_value());
  const BenchmarkLog both = parse_benchmark_csv("b.csv", data_text("nccl-logs/constructed/csv-summary-wide.csv"));
  REQUIRE(both.rows() == 1);
  CHECK(both.runs[0].collective == "all_reduce");
  CHECK(both.runs[0].nranks == 8);
  CHECK(both.runs[0].rows[0].in_place->time_us == 120.47);
  const BenchmarkLog bare =
      parse_benchmark_csv("c.csv", "1048576,262144,float,sum,-1,27.76,37.78,66.11,0,27.49,38.15,66.76,0\n");
  REQUIRE(bare.rows() == 1);
  CHECK(bare.runs[0].rows[0].redop == "sum");
  CHECK(bare.runs[0].rows[0].in_place->busbw == 66.76);
}
