#include "comm-bench/preflight.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "comm-bench/preflight_facts.h"

using namespace tpplan::bench;

namespace {

std::vector<RankFacts> recorded(const std::string& name) {
  const std::string path = std::string(TPPLAN_SOURCE_DIR) + "/tests/data/preflight/" + name;
  std::ifstream file(path);
  REQUIRE(file.good());
  return facts_from_json(path, std::string((std::istreambuf_iterator<char>(file)), {}));
}

/// The ids found, notes apart.
std::set<std::string> warned(const std::string& name) {
  std::set<std::string> ids;
  for (const PreflightWarning& warning : preflight(recorded(name))) {
    if (!warning.is_note) ids.insert(warning.id);
  }
  return ids;
}

PreflightWarning the(const std::string& name, const std::string& id) {
  for (PreflightWarning& warning : preflight(recorded(name))) {
    if (warning.id == id) return warning;
  }
  FAIL("no finding " << id << " in " << name);
  return {};
}

using Ids = std::set<std::string>;

}  // namespace

TEST_CASE("healthy machines give no finding at all") {
  CHECK(preflight(recorded("healthy-8xh200.json")).empty());
  CHECK(preflight(recorded("healthy-2x2xh200.json")).empty());
  CHECK(preflight({}).empty());
}

TEST_CASE("ranks that share a GPU or have none are named") {
  CHECK(warned("gpus-shared-and-missing.json") == Ids{"gpu-shared", "gpu-none"});
  const PreflightWarning shared = the("gpus-shared-and-missing.json", "gpu-shared");
  CHECK(shared.message == "2 ranks use one GPU");
  CHECK(shared.ranks == std::vector<int>{1, 2});
  const PreflightWarning none = the("gpus-shared-and-missing.json", "gpu-none");
  CHECK(none.message == "no GPU: no CUDA-capable device is detected");
  CHECK(none.ranks == std::vector<int>{3});
}

TEST_CASE("versions that do not go together are told with both numbers") {
  CHECK(warned("versions-apart.json") == Ids{"mpi-mixed", "mpi-header", "driver-mixed", "nccl-mixed", "cuda-driver"});
  CHECK(the("versions-apart.json", "cuda-driver").message ==
        "the CUDA runtime is 13.0, driver 535.183.01 supports up to 12.2");
  CHECK(the("versions-apart.json", "mpi-header").message ==
        "compiled for Open MPI v4.1.4, running with Open MPI v5.0.3");
  // A library older than the header runs, so that is a note.
  const PreflightWarning nccl = the("versions-apart.json", "nccl-header");
  CHECK(nccl.is_note);
  CHECK(nccl.message == "compiled for NCCL 2.28.9, running with 2.18.5");
}

TEST_CASE("busy and throttled GPUs are told with their state") {
  CHECK(warned("busy-and-throttled.json") == Ids{"gpu-busy", "gpu-throttled", "gpu-power"});
  CHECK(the("busy-and-throttled.json", "gpu-busy").message ==
        "the GPU is in use: 1 other processes, 97 % busy, 64 GiB taken");
  CHECK(the("busy-and-throttled.json", "gpu-throttled").message ==
        "clocks are held down by hardware thermal limit at 91 C, 1095 of 1980 MHz");
  CHECK(the("busy-and-throttled.json", "gpu-power").message == "the power limit is 400 W, its default 700 W");
}

TEST_CASE("memory errors and divided GPUs are found") {
  CHECK(warned("memory-errors.json") == Ids{"gpu-ecc", "gpu-remap", "gpu-mig", "ecc-mixed"});
  CHECK(the("memory-errors.json", "gpu-ecc").ranks == std::vector<int>{0});
}

TEST_CASE("peer access and RDMA that are off are found") {
  CHECK(warned("links-off.json") ==
        Ids{"p2p-off", "rdma-off", "rdma-none", "rdma-port", "gpudirect", "rdma-rates", "variable-mixed"});
  CHECK(the("links-off.json", "rdma-none").message == "no RDMA port is active (mlx5_0 is DOWN): nodes talk over TCP");
  CHECK(the("links-off.json", "rdma-rates").message == "RDMA ports differ in speed: 200 Gbit/s, 400 Gbit/s");
  CHECK(the("links-off.json", "rdma-port").message == "port mlx5_3 is DOWN");
}

TEST_CASE("a rank bound to the wrong NUMA node is found and a free one noted") {
  CHECK(warned("binding-wrong.json") == Ids{"numa", "cpu-few"});
  const PreflightWarning numa = the("binding-wrong.json", "numa");
  CHECK(numa.message == "runs on NUMA node 1, its GPU is attached to node 0");
  CHECK(numa.ranks == std::vector<int>{0, 2, 3});
  CHECK(the("binding-wrong.json", "numa-free").ranks == std::vector<int>{1});
  // A finding of every rank names none.
  CHECK(the("binding-wrong.json", "cpu-few").ranks.empty());
}

TEST_CASE("an mpirun of another MPI is noticed") {
  CHECK(warned("foreign-launcher.json") == Ids{"launcher"});
  CHECK(the("foreign-launcher.json", "launcher").message ==
        "the launcher started 8 processes, but MPI sees 1: each of them measures alone");
}

TEST_CASE("a laptop without a GPU has nothing wrong but its variables are noted") {
  CHECK(warned("laptop.json").empty());
  const PreflightWarning variables = the("laptop.json", "variables");
  CHECK(variables.is_note);
  CHECK(variables.message == "measured with NCCL_NVLS_ENABLE=0");
}

TEST_CASE("every finding comes with a fix and prints with its place") {
  for (const char* name : {"gpus-shared-and-missing.json", "versions-apart.json", "busy-and-throttled.json",
                           "memory-errors.json", "links-off.json", "binding-wrong.json", "foreign-launcher.json"}) {
    for (const PreflightWarning& warning : preflight(recorded(name))) {
      CHECK_FALSE(warning.fix.empty());
      CHECK_FALSE(warning.message.empty());
    }
  }
  const auto facts = recorded("gpus-shared-and-missing.json");
  CHECK(rendered(the("gpus-shared-and-missing.json", "gpu-shared"), facts) ==
        "warning: 2 ranks use one GPU [gpu-shared] (rank 1 on node07, rank 2 on node07)\n"
        "  fix: start one rank per GPU (mpirun --map-by ppr:GPUS:node), or give each rank its own in "
        "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("clock event bits become words and idleness is none of them") {
  CHECK(throttle_reasons(0x1).empty());  // idle
  CHECK(throttle_reasons(0x4).empty());  // power cap: normal under load
  CHECK(throttle_reasons(0x48) == std::vector<std::string>{"hardware slowdown", "hardware thermal limit"});
}

TEST_CASE("version codes read as people write them") {
  CHECK(cuda_version_text(12020) == "12.2");
  CHECK(cuda_version_text(13000) == "13.0");
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(2708) == "2.7.8");
}
