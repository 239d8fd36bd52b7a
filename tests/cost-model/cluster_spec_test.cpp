#include "cost-model/cluster_spec.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace {

using namespace tpplan;
namespace fs = std::filesystem;

const std::string kClusters = TPPLAN_SOURCE_DIR "/clusters/";

GpuCatalogue catalogue() { return GpuCatalogue::load(kClusters + "gpus.json"); }
ClusterSpec shipped(const std::string& name) { return load_cluster(kClusters + name + ".json", catalogue()); }
ClusterSpec parsed(const std::string& text, std::string* warnings = nullptr) {
  return parse_cluster("test.json", text, catalogue(), warnings);
}
std::string message_of(const std::string& gpu) {
  try {
    return catalogue().find(gpu).id;
  } catch (const SpecError& problem) {
    return problem.what();
  }
}
bool mentions(const std::vector<std::string>& lines, const std::string& word) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.find(word) != line.npos; });
}

TEST_CASE("every row of the GPU catalogue can be used or says why not") {
  const GpuCatalogue gpus = catalogue();
  CHECK(gpus.rows().size() >= 68);
  for (const GpuSpec& gpu : gpus.rows()) {
    CAPTURE(gpu.id);
    CHECK(&gpus.find(gpu.id) == &gpu);
    CHECK(gpus.try_find(gpu.name) == &gpu);
    for (const std::string& alias : gpu.aliases) {
      CAPTURE(alias);
      CHECK(gpus.try_find(alias) == &gpu);
    }
    CHECK(gpu.usable <= gpu.memory);
    CHECK(!gpu.source.empty());
    const auto widest = std::max(gpu.peak_of(Precision::bf16), gpu.peak_of(Precision::fp16));
    CHECK(widest > FlopsPerSecond{});
    if (gpu.topology == Topology::torus || gpu.topology == Topology::other) CHECK(!gpu.unplannable.empty());
    if (gpu.unplannable.empty()) {
      CHECK(usual_cluster(gpu, 2, gpu.gpus_per_host).tiers.back().span == 2 * gpu.gpus_per_host);
    } else {
      CHECK_THROWS_AS(usual_cluster(gpu, 1, 8), SpecError);
    }
  }
}

TEST_CASE("dense peaks of NVIDIA GPUs stand as 2 to 1 to 4 for bf16 and tf32 and fp8") {
  const auto ratio = [](const GpuSpec& gpu, Precision a, Precision b) { return gpu.peak_of(a) / gpu.peak_of(b); };
  for (const std::string id : {"a100-80gb-sxm", "h100-80gb-sxm", "b200-180gb-sxm", "gb300", "mi300x"}) {
    CAPTURE(id);
    const GpuSpec gpu = catalogue().find(id);
    CHECK(ratio(gpu, Precision::bf16, Precision::tf32) == doctest::Approx(2).epsilon(0.01));
    if (gpu.peak_of(Precision::fp8) > FlopsPerSecond{}) {
      CHECK(ratio(gpu, Precision::fp8, Precision::tf32) == doctest::Approx(4).epsilon(0.01));
    }
  }
}

TEST_CASE("block formats are offered where the matrix units have them") {
  CHECK(catalogue().find("b200").peak_of(Precision::nvfp4).raw() == 9e15);
  CHECK(catalogue().find("b200").peak_of(Precision::mxfp8).raw() == 4.5e15);
  CHECK(catalogue().find("mi355x").peak_of(Precision::mxfp8).raw() == 5.033e15);
  CHECK(catalogue().find("mi355x").peak_of(Precision::nvfp4).raw() == 0);
  CHECK(catalogue().find("h200").peak_of(Precision::mxfp8).raw() == 0);
}

TEST_CASE("every shipped cluster loads without a warning and its tiers end at all GPUs") {
  const GpuCatalogue gpus = catalogue();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kClusters)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json") || name == "gpus.json" || name.ends_with(".calibration.json")) continue;
    CAPTURE(name);
    ++files;
    std::string warnings;
    const ClusterSpec cluster = load_cluster(entry.path().string(), gpus, &warnings);
    CHECK(warnings.empty());
    CHECK(cluster.name + ".json" == name);
    REQUIRE(!cluster.tiers.empty());
    CHECK(cluster.tiers.size() <= 4);
    CHECK(cluster.tiers.back().span == cluster.gpus());
    for (std::size_t i = 1; i < cluster.tiers.size(); ++i) {
      CHECK(cluster.tiers[i].span > cluster.tiers[i - 1].span);
      CHECK(cluster.tiers[i].span % cluster.tiers[i - 1].span == 0);
    }
    CHECK(cluster.host_link > BytesPerSecond{});
  }
  CHECK(files >= 50);
}

TEST_CASE("8xA100 is one host of A100-SXM4-80GB on NVSwitch") {
  const ClusterSpec cluster = shipped("8xA100");
  CHECK(cluster.gpu.name == "A100-SXM4-80GB");
  CHECK(cluster.gpus() == 8);
  REQUIRE(cluster.tiers.size() == 1);
  CHECK(cluster.tiers[0].kind == LinkKind::nvlink);
  CHECK(cluster.tiers[0].topology == Topology::switched);
  CHECK(cluster.tiers[0].bandwidth.raw() == 300e9);  // 12 links x 25 GB/s
  CHECK(cluster.host_link.raw() == 32e9);            // PCIe 4.0 x16: 16 lanes x 2 GB/s
  CHECK(cluster.gpu.peak_of(Precision::bf16).raw() == 312e12);
  CHECK(cluster.gpu.memory == 80_GiB);
  // The same with 64 hosts has its network: 200 Gbit/s = 25 GB/s per GPU.
  const ClusterSpec large = shipped("64x8xA100");
  REQUIRE(large.tiers.size() == 2);
  CHECK(large.tiers[1].kind == LinkKind::infiniband);
  CHECK(large.tiers[1].bandwidth.raw() == 25e9);
  CHECK(large.tiers[1].span == 512);
}

TEST_CASE("a mesh gives a pair one link and the whole host all seven") {
  const ClusterSpec cluster = shipped("8xMI300X");
  REQUIRE(cluster.tiers.size() == 1);
  const NetworkTier& tier = cluster.tiers[0];
  CHECK(tier.topology == Topology::mesh);
  CHECK(tier.per_peer.raw() == 64e9);            // a group of 2: one link
  CHECK((tier.per_peer * 7) == tier.bandwidth);  // a group of 8: 7 x 64 = 448 GB/s
}

TEST_CASE("an NVL72 rack is one fast domain of hosts with four GPUs each") {
  const ClusterSpec cluster = shipped("GB200-NVL72");
  CHECK(cluster.gpus_per_node == 4);
  CHECK(cluster.nodes == 18);
  REQUIRE(cluster.tiers.size() == 1);
  CHECK(cluster.tiers[0].span == 72);
  // Two racks: the network joins them.
  const ClusterSpec racks = parsed(R"({"gpu": "gb200", "gpus_per_node": 4, "nodes": 36})");
  REQUIRE(racks.tiers.size() == 2);
  CHECK(racks.tiers[0].span == 72);
  CHECK(racks.tiers[1].span == 144);
}

TEST_CASE("bridged pairs have NVLink in the pair and PCIe beyond") {
  const ClusterSpec cluster = shipped("4x3090");
  REQUIRE(cluster.tiers.size() == 2);
  CHECK(cluster.tiers[0].span == 2);
  CHECK(cluster.tiers[0].kind == LinkKind::nvlink);
  CHECK(cluster.tiers[1].span == 4);
  CHECK(cluster.tiers[1].kind == LinkKind::pcie);
  CHECK(cluster.tiers[1].bandwidth.raw() == 32e9);
  CHECK(!cluster.tiers[1].peer_to_peer);
}

TEST_CASE("GeForce cards are planned without peer access unless the file says otherwise") {
  const ClusterSpec cluster = shipped("8x4090");
  REQUIRE(cluster.tiers.size() == 1);
  CHECK(!cluster.tiers[0].peer_to_peer);
  CHECK(mentions(cluster.assumed, "stock driver"));
  const ClusterSpec patched = parsed(R"({"gpu": "rtx-4090", "gpus_per_node": 8, "pcie": {"p2p": "yes"}})");
  CHECK(patched.tiers[0].peer_to_peer);
  CHECK(!mentions(patched.assumed, "stock driver"));
}

TEST_CASE("a fast domain may be a part of the host") {
  // H200 NVL: two islands of four in a host, PCIe between them.
  const ClusterSpec cluster = parsed(R"({"gpu": "h200-141gb-nvl", "gpus_per_node": 8, "nodes": 2,
    "fast_domain": {"gpus": 4}})");
  REQUIRE(cluster.tiers.size() == 3);
  CHECK(cluster.tiers[0].span == 4);
  CHECK(cluster.tiers[0].topology == Topology::switched);
  CHECK(cluster.tiers[1].kind == LinkKind::pcie);
  CHECK(cluster.tiers[1].span == 8);
  CHECK(cluster.tiers[2].span == 16);
}

TEST_CASE("tiers may be given one by one") {
  const ClusterSpec cluster = parsed(R"({"gpu": "h100-80gb-sxm", "gpus_per_node": 8, "nodes": 64, "tiers": [
    {"kind": "nvlink", "span": 8, "bandwidth": "450 GB/s"},
    {"kind": "infiniband", "name": "leaf", "span": 256, "bandwidth": "400 Gbit/s"},
    {"kind": "infiniband", "name": "spine", "span": 512, "bandwidth": "400 Gbit/s", "oversubscription": 2}]})");
  REQUIRE(cluster.tiers.size() == 3);
  CHECK(cluster.tiers[1].name == "leaf");
  CHECK(cluster.tiers[1].bandwidth.raw() == 50e9);
  CHECK(cluster.tiers[2].oversubscription == 2);
}

TEST_CASE("network bandwidth per node is shared by its GPUs") {
  // p4d: 400 Gbit/s for 8 GPUs = 6.25 GB/s each.
  const ClusterSpec cluster = parsed(R"({"gpu": "a100-40gb-sxm", "gpus_per_node": 8, "nodes": 2,
    "network": {"kind": "roce", "per_node": "400 Gbit/s"}})");
  CHECK(cluster.tiers.back().bandwidth.raw() == 6.25e9);
  CHECK(cluster.tiers.back().kind == LinkKind::roce);
}

TEST_CASE("defaults that matter are listed as assumed and given values are not") {
  const ClusterSpec bare = parsed(R"({"gpu": "a100-80gb-sxm", "gpus_per_node": 8, "nodes": 2})");
  CHECK(mentions(bare.assumed, "fast domain: 8 GPUs by NVLink"));
  CHECK(mentions(bare.assumed, "network: 25 GB/s"));
  const ClusterSpec full = parsed(R"({"gpu": "a100-80gb-sxm", "gpus_per_node": 8, "nodes": 2,
    "fast_domain": {"gpus": 8}, "host_link": "25 GB/s",
    "network": {"kind": "infiniband", "per_gpu": "200 Gbit/s", "latency": "4 us", "oversubscription": 1}})");
  CHECK(full.assumed.empty());
  CHECK(full.tiers.back().latency.raw() == doctest::Approx(4e-6));
}

TEST_CASE("values of the GPU can be overridden and usable memory follows") {
  const ClusterSpec cluster = parsed(R"({"gpu": {"id": "h20-96gb", "memory": "141 GB", "memory_bandwidth": "4.8 TB/s"},
    "gpus_per_node": 8})");
  const GpuSpec row = catalogue().find("h20-96gb");
  CHECK(cluster.gpu.memory.raw() == 141e9);
  CHECK(cluster.gpu.memory_bandwidth.raw() == 4.8e12);
  CHECK(cluster.gpu.usable.raw() == doctest::Approx(141e9 * (row.usable / row.memory)));
  CHECK(cluster.gpu.peak_of(Precision::bf16) == row.peak_of(Precision::bf16));
}

TEST_CASE("a sparse peak given as dense is doubted") {
  struct Row {
    const char* peak;
    const char* doubt;
  };
  const Row rows[] = {
      {R"({"bf16": "1979 TFLOP/s"})", "bf16 at 1979 TFLOP/s is twice the dense 989.4 TFLOP/s of h100-80gb-sxm"},
      {R"({"tf32": "989 TFLOP/s"})", "tf32 at 989 TFLOP/s is twice the dense 494.7 TFLOP/s"},
      {R"({"fp8": "3958 TFLOP/s"})", "fp8 at 3958 TFLOP/s is twice the dense"},
      {R"({"tf32": "247 TFLOP/s"})", "bf16 at 989.4 TFLOP/s is four times tf32"},
      {R"({"bf16": "700 TFLOP/s"})", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.peak));
    std::string warnings;
    parsed(std::string(R"({"gpus_per_node": 8, "gpu": {"id": "h100-80gb-sxm", "peak": )") + row.peak + "}}", &warnings);
    if (std::string(row.doubt).empty()) {
      CHECK(warnings.empty());
    } else {
      CHECK(warnings.find("warning: gpu.peak: " + std::string(row.doubt)) != std::string::npos);
    }
  }
}

TEST_CASE("a calibration beside the cluster file is found") {
  const fs::path folder = fs::temp_directory_path() / "tpplan_cluster_spec_test";
  fs::create_directories(folder);
  std::ofstream(folder / "mine.json") << R"({"gpu": "t4", "gpus_per_node": 2})";
  CHECK(load_cluster((folder / "mine.json").string(), catalogue()).calibration.empty());
  std::ofstream(folder / "mine.calibration.json") << "{}";
  const ClusterSpec cluster = load_cluster((folder / "mine.json").string(), catalogue());
  CHECK(cluster.name == "mine");
  CHECK(cluster.calibration == (folder / "mine.calibration.json").string());
  fs::remove_all(folder);
}

TEST_CASE("GPUs are found by the words people and drivers use") {
  struct Row {
    const char* text;
    const char* id;
  };
  const Row rows[] = {{"A100-80GB-SXM", "a100-80gb-sxm"},
                      {"a100 sxm 80gb", "a100-80gb-sxm"},
                      {"a100-sxm4-80g", "a100-80gb-sxm"},
                      {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
                      {"NVIDIA H100 80GB HBM3", "h100-80gb-sxm"},
                      {"NVIDIA H100 PCIe", "h100-80gb-pcie"},
                      {"H20", "h20-96gb"},
                      {"H200", "h200-141gb-sxm"},
                      {"NVIDIA H200 NVL", "h200-141gb-nvl"},
                      {"b300", "b300-sxm"},
                      {"GB300", "gb300"},
                      {"Tesla T4", "t4"},
                      {"4090", "rtx-4090"},
                      {"rtx4090", "rtx-4090"},
                      {"910B", "ascend-910b3"},
                      {"AMD Instinct MI300X", "mi300x"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    CHECK(message_of(row.text) == row.id);
  }
}

TEST_CASE("an ambiguous GPU is asked about and an unknown one gets a suggestion") {
  CHECK(message_of("a100 80gb") ==
        "\"a100 80gb\" fits more than one GPU: a100-80gb-sxm, a100-80gb-pcie; name one of them");
  CHECK(message_of("h100-80gb-smx") == "unknown GPU \"h100-80gb-smx\"; did you mean h100-80gb-sxm?");
  CHECK(message_of("mi400x") == "unknown GPU \"mi400x\"; did you mean mi300x?");
  CHECK(message_of("") == "unknown GPU \"\"; tpplan gpus lists the known ones");
  for (const std::string chip : {"RK3588", "stm32n6", "NVIDIA Jetson Orin", "raspberry pi 5"}) {
    CAPTURE(chip);
    CHECK(message_of(chip).find("is not a training device") != std::string::npos);
  }
}

TEST_CASE("NODESxGPUSxGPU names a cluster") {
  const GpuCatalogue gpus = catalogue();
  const auto cluster = cluster_from_name("16X8xH100-80GB-sxm", gpus);
  REQUIRE(cluster);
  CHECK(cluster->nodes == 16);
  CHECK(cluster->gpus_per_node == 8);
  REQUIRE(cluster->tiers.size() == 2);
  CHECK(cluster->tiers[0].bandwidth.raw() == 450e9);
  CHECK(cluster->tiers[1].bandwidth.raw() == 50e9);  // 400 Gbit/s per GPU
  CHECK(cluster->tiers[1].span == 128);
  CHECK(!cluster->assumed.empty());

  CHECK(cluster_from_name("8x4090", gpus)->gpus() == 8);
  CHECK(cluster_from_name("8*a100-80gb-sxm", gpus)->gpus() == 8);
  CHECK(cluster_from_name("16xh100-80gb-sxm", gpus)->nodes == 2);  // hosts of 8
  CHECK(cluster_from_name("12xrtx-4090", gpus)->nodes == 1);
  CHECK(cluster_from_name("72xgb200", gpus)->gpus_per_node == 4);
  CHECK(!cluster_from_name("7b", gpus));
  CHECK(!cluster_from_name("8xA100.json", gpus));
  CHECK(!cluster_from_name("2x/etc", gpus));
  // A count of nothing is named as such, also where the GPU is not clear.
  CHECK_THROWS_WITH_AS(cluster_from_name("0x8xA100", gpus), "cluster \"0x8xA100\": counts must be at least 1",
                       SpecError);
  CHECK_THROWS_AS(cluster_from_name("16x8xh1000", gpus), SpecError);
  CHECK_THROWS_AS(cluster_from_name("0x8xt4", gpus), SpecError);
  CHECK_THROWS_AS(cluster_from_name("99999999999999999999x8xt4", gpus), SpecError);
}

TEST_CASE("a GB200 domain reaches 72 GPUs whatever the hosts are") {
  const GpuSpec gb200 = catalogue().find("gb200");
  CHECK(usual_cluster(gb200, 18, 4).tiers[0].span == 72);
  CHECK(usual_cluster(gb200, 9, 8).tiers[0].span == 72);
  CHECK(usual_cluster(gb200, 1, 72).tiers[0].span == 72);
  CHECK(usual_cluster(gb200, 36, 4).tiers[0].span == 72);
  CHECK(usual_cluster(gb200, 2, 4).tiers[0].span == 8);
  CHECK(usual_cluster(gb200, 32, 4).tiers[0].span == 64);  // 128 GPUs: 72 does not divide them, 64 is next
}

TEST_CASE("network and fast domain of a usual cluster can be given") {
  const GpuSpec a100 = catalogue().find("a100-80gb-pcie");
  // Cards: no bridges unless said.
  CHECK(usual_cluster(a100, 2, 8).tiers[0].kind == LinkKind::pcie);
  const ClusterSpec bridged = usual_cluster(a100, 2, 8, BytesPerSecond(6e9), 2);
  REQUIRE(bridged.tiers.size() == 3);
  CHECK(bridged.tiers[0].span == 2);
  CHECK(bridged.tiers[2].bandwidth.raw() == 6e9);
  const ClusterSpec single = usual_cluster(a100, 1, 1);
  REQUIRE(single.tiers.size() == 1);
  CHECK(single.tiers[0].span == 1);
}

TEST_CASE("the nominal rate of a PCIe slot doubles with each generation") {
  CHECK(pcie_bandwidth("3.0x16").raw() == 16e9);
  CHECK(pcie_bandwidth("4.0x16").raw() == 32e9);
  CHECK(pcie_bandwidth("5.0x16").raw() == 64e9);
  CHECK(pcie_bandwidth("4.0x8").raw() == 16e9);
  for (const std::string slot : {"", "4.0", "x16", "4.0x0", "4.0x32", "4.1x16", "4.0x"}) {
    CAPTURE(slot);
    CHECK(pcie_bandwidth(slot).raw() == 0);
  }
}

}  // namespace
