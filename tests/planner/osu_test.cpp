#include <doctest/doctest.h>

#include <string>

#include "planner/import/samples.h"
#include "tests/planner/log_files.h"

using namespace tpplan;
using tpplan::tests::data_text;

TEST_CASE("an OSU table is read by its header") {
  const BenchmarkLog log = parse_osu("osu", data_text("osu/allreduce-v75-slingshot.txt"));
  REQUIRE(log.runs.size() == 1);
  CHECK(log.runs[0].collective == "all_reduce");
  CHECK(log.runs[0].variables.at("OSU") == "7.5");
  REQUIRE(log.runs[0].rows.size() >= 19);
  CHECK(log.runs[0].rows[0].size == 4);
  CHECK(log.runs[0].rows[0].out_of_place->time_us == 10.05);
  CHECK(log.runs[0].rows[17].size == 524288);
  CHECK(log.runs[0].rows[17].out_of_place->time_us == 515.50);
}

TEST_CASE("full OSU output gives the average and not the minimum") {
  const BenchmarkLog log = parse_osu("osu", data_text("osu/reduce-v62-200nodes-full.txt"));
  REQUIRE(log.rows() >= 6);
  CHECK(log.runs[0].collective == "reduce");
  CHECK(log.runs[0].rows[0].out_of_place->time_us == 132.14);
}

TEST_CASE("an OSU row that was cut is told with its line") {
  const BenchmarkLog log =
      parse_osu("osu",
                "# OSU MPI Allreduce Latency Test v7.0\n# Size       Avg Latency(us)   Min Latency(us)   Max "
                "Latency(us)  Iterations\n16 8.5 8.4 8.6 10\n32 8.6 8.5\n");
  CHECK(log.rows() == 1);
  REQUIRE(log.runs[0].warnings.size() == 1);
  CHECK(log.runs[0].warnings[0].line == 4);
  CHECK(log.runs[0].warnings[0].text == "damaged row: expected 5 columns, found 3");
}

TEST_CASE("OSU output needs the number of ranks from the user") {
  const std::string text = data_text("osu/allreduce-v75-slingshot.txt");
  Samples samples = parse_samples("osu_allreduce.txt", text, {});
  REQUIRE(samples.curves.size() == 1);
  CHECK(samples.curves[0].refusal == "the number of ranks is nowhere in the file: give --ranks N");
  ImportOptions options;
  options.ranks = 16;
  options.nodes = 16;
  samples = parse_samples("osu_allreduce.txt", text, options);
  CHECK(samples.curves[0].refusal.empty());
  CHECK(samples.curves[0].curve.placement == Placement{16, 1, 1});
}

TEST_CASE("OSU counts one block of a gather where curves count all of them") {
  ImportOptions options;
  options.ranks = 4;
  options.nodes = 1;
  const Samples samples = parse_samples(
      "osu", "# OSU MPI Allgather Latency Test v7.0\n# Size       Avg Latency(us)\n1024 10\n2048 11\n4096 13\n",
      options);
  REQUIRE(samples.curves.size() == 1);
  CHECK(samples.curves[0].curve.points[0].size == Bytes(4096));
}

TEST_CASE("an IMB table gives ranks and average time") {
  const BenchmarkLog log = parse_osu(
      "imb",
      "# Benchmarking Allreduce\n# #processes = 8\n       #bytes #repetitions  t_min[usec]  t_max[usec]  "
      "t_avg[usec]\n            0         1000         0.10         0.12         0.11\n         1024         1000 "
      "        9.10         9.90         9.50\n");
  CHECK(log.tool == "IMB");
  REQUIRE(log.runs.size() == 1);
  CHECK(log.runs[0].nranks == 8);
  CHECK(log.runs[0].collective == "all_reduce");
  REQUIRE(log.runs[0].rows.size() == 2);
  CHECK(log.runs[0].rows[1].out_of_place->time_us == 9.5);
}
