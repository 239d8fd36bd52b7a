#include "cost-model/cluster_tiers.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace {

namespace fs = std::filesystem;
using namespace tpplan;

const GpuCatalogue& catalogue() {
  static const GpuCatalogue kGpus = GpuCatalogue::load(TPPLAN_SOURCE_DIR "/clusters/gpus.json");
  return kGpus;
}

std::string shipped(const std::string& name) { return TPPLAN_SOURCE_DIR "/clusters/" + name + ".json"; }

/// A cluster file of its own, gone after the test.
class ClusterFile {
 public:
  explicit ClusterFile(const std::string& text) : path_((fs::temp_directory_path() / "tpplan-resized.json").string()) {
    std::ofstream(path_) << text;
  }
  ClusterFile(const ClusterFile&) = delete;
  ClusterFile& operator=(const ClusterFile&) = delete;
  ~ClusterFile() { fs::remove(path_); }
  [[nodiscard]] ClusterSpec with(int nodes) const { return load_resized_cluster(path_, catalogue(), nodes); }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("a file of one server keeps its network for more of them") {
  // 8xA100.json: one server with 200 Gbit/s per GPU, which one server alone does not use.
  CHECK(load_cluster(shipped("8xA100"), catalogue()).tiers.size() == 1);
  const ClusterSpec four = load_resized_cluster(shipped("8xA100"), catalogue(), 4);
  CHECK(four.gpus() == 32);
  REQUIRE(four.tiers.size() == 2);
  CHECK(four.tiers[0].span == 8);
  CHECK(four.tiers[1].span == 32);
  CHECK(four.tiers[1].bandwidth == 25_GBps);
}

TEST_CASE("a file read for its own number of nodes is the file") {
  for (const std::string name : {"64x8xH100", "GB200-NVL72", "8xMI300X"}) {
    const ClusterSpec own = load_cluster(shipped(name), catalogue());
    const ClusterSpec same = load_resized_cluster(shipped(name), catalogue(), own.nodes);
    CAPTURE(name);
    CHECK(same.gpus() == own.gpus());
    REQUIRE(same.tiers.size() == own.tiers.size());
    for (std::size_t i = 0; i < own.tiers.size(); ++i) {
      CHECK(same.tiers[i].span == own.tiers[i].span);
      CHECK(same.tiers[i].bandwidth == own.tiers[i].bandwidth);
    }
    CHECK(same.assumed == own.assumed);
  }
}

TEST_CASE("a fast domain over several nodes is cut for fewer and kept for more") {
  // GB200-NVL72.json: 18 trays of 4 GPUs in one domain of 72.
  const ClusterSpec half = load_resized_cluster(shipped("GB200-NVL72"), catalogue(), 9);
  REQUIRE(half.tiers.size() == 1);
  CHECK(half.tiers[0].span == 36);
  const ClusterSpec two = load_resized_cluster(shipped("GB200-NVL72"), catalogue(), 36);
  REQUIRE(two.tiers.size() == 2);
  CHECK(two.tiers[0].span == 72);
  CHECK(two.tiers[1].span == 144);
}

TEST_CASE("tiers that a file lists are cut and the network grows") {
  const ClusterFile file(R"({"gpu": "a100-80gb-sxm", "gpus_per_node": 8, "nodes": 8, "tiers": [
    {"kind": "nvlink", "span": 8, "bandwidth": "300 GB/s"},
    {"kind": "infiniband", "span": 32, "bandwidth": "200 Gbit/s"},
    {"kind": "infiniband", "span": 64, "bandwidth": "100 Gbit/s"}]})");
  const ClusterSpec larger = file.with(16);
  REQUIRE(larger.tiers.size() == 3);
  CHECK(larger.tiers[1].span == 32);
  CHECK(larger.tiers[2].span == 128);
  const ClusterSpec smaller = file.with(2);  // 16 GPUs: the rail of 32 joins them all
  REQUIRE(smaller.tiers.size() == 2);
  CHECK(smaller.tiers[0].span == 8);
  CHECK(smaller.tiers[1].span == 16);
  CHECK(smaller.tiers[1].bandwidth == 25_GBps);
}

TEST_CASE("tiers without a network do not grow") {
  const ClusterFile file(R"({"gpu": "a100-80gb-sxm", "gpus_per_node": 8, "tiers": [
    {"kind": "nvlink", "span": 8, "bandwidth": "300 GB/s"}]})");
  CHECK(file.with(1).tiers.size() == 1);
  CHECK_THROWS_AS((void)file.with(2), SpecError);
}
