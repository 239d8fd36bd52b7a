#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "cost-model/layer_cost.h"

using namespace tpplan;

namespace {

const GpuCatalogue& gpus() {
  static const GpuCatalogue catalogue = GpuCatalogue::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/gpus.json");
  return catalogue;
}

const ProfileSet& profiles() {
  static const ProfileSet set = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  return set;
}

/// Collectives need a cluster and a profile; the model does not matter.
Job job_on(ClusterSpec cluster, Calibration calibration = {}) {
  ModelSpec model;
  model.name = "any";
  model.layers = 1;
  model.hidden = 1024;
  model.heads = 8;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.ffn_hidden = 4096;
  model.vocab = 32000;
  TrainingSpec training;
  auto profile = profiles().find(Framework::plain, cluster.gpu, "");
  return assemble_job(model, std::move(cluster), training, profile, profiles(), std::move(calibration));
}

ClusterSpec pcie_cluster(double gigabytes_per_second) {
  auto cluster = usual_cluster(gpus().find("a100-80gb-pcie"), 1, 8);
  NetworkTier pcie;
  pcie.name = "PCIe";
  pcie.kind = LinkKind::pcie;
  pcie.topology = Topology::pcie;
  pcie.span = 8;
  pcie.bandwidth = BytesPerSecond(gigabytes_per_second * 1e9);
  pcie.latency = 5_us;
  cluster.tiers = {pcie};
  return cluster;
}

/// 10 us and a bus bandwidth at every size, measured at 1 KiB to 1 GiB.
CollectiveCurve measured_curve(Collective collective, const Placement& placement, double bus_gigabytes_per_second,
                               int concurrent_groups = 1) {
  CollectiveCurve curve;
  curve.collective = collective;
  curve.placement = placement;
  curve.concurrent_groups = concurrent_groups;
  const double wire = row_of(collective).wire_factor(placement.ranks());
  const BytesPerSecond bandwidth(bus_gigabytes_per_second * 1e9);
  curve.pieces = {{1_GiB, 10_us, bandwidth}};
  for (double bytes = 1024; bytes <= 1073741824.0; bytes *= 2) {
    const Seconds time = 10_us + wire * Bytes(bytes) / bandwidth;
    curve.points.push_back({Bytes(bytes), time, time, time});
  }
  return curve;
}

}  // namespace

TEST_CASE("a group is placed on the outermost tier it crosses") {
  const auto cluster = usual_cluster(gpus().find("h100-80gb-sxm"), 4, 8);
  // Eight neighbours fill one node.
  auto group = place_group(cluster, 8, 1);
  CHECK(group.tier == 0);
  CHECK(group.inside == 8);
  // One GPU of each of four nodes: stride 8, nobody shares a node.
  group = place_group(cluster, 4, 8);
  CHECK(group.tier == 1);
  CHECK(group.inside == 1);
  // All 32: eight members in each node.
  group = place_group(cluster, 32, 1);
  CHECK(group.tier == 1);
  CHECK(group.inside == 8);
}

TEST_CASE("a whole-node group uses every network port and a strided one only its own") {
  const auto job = job_on(usual_cluster(gpus().find("h100-80gb-sxm"), 4, 8));
  const auto whole = group_bandwidth(job, Collective::all_gather, place_group(job.cluster, 32, 1));
  const auto strided = group_bandwidth(job, Collective::all_gather, place_group(job.cluster, 4, 8));
  // 8 ports of 50 GB/s against NVLink's 450 GB/s x its fraction: the ports, or NVLink where that is less.
  CHECK(whole.raw() > 5 * strided.raw());
  CHECK(strided.raw() <= 50e9);
}

TEST_CASE("two GPUs of a mesh share one link of it and eight share seven") {
  const auto job = job_on(usual_cluster(gpus().find("mi300x"), 1, 8));
  const auto link = job.links[0];
  const double factor = job.profile.fast_link_factor;
  // MI300X: 64 GB/s to each of seven neighbours.
  CHECK(group_bandwidth(job, Collective::all_reduce, place_group(job.cluster, 2, 1)).raw() ==
        doctest::Approx(64e9 * link.all_reduce * factor));
  CHECK(group_bandwidth(job, Collective::all_reduce, place_group(job.cluster, 8, 1)).raw() ==
        doctest::Approx(448e9 * link.all_reduce * factor));
}

TEST_CASE("eight GPUs inside an NVL72 domain of hosts with four GPUs never touch the network") {
  const auto cluster = load_cluster(std::string(TPPLAN_SOURCE_DIR) + "/clusters/GB200-NVL72.json", gpus());
  CHECK(cluster.gpus_per_node == 4);
  const auto group = place_group(cluster, 8, 1);
  CHECK(group.tier == 0);
  CHECK(cluster.tiers[0].span == 72);
}

TEST_CASE("PCIe 4.0 instead of 3.0 cuts a large all-reduce by 40 to 50 percent") {
  const auto gen3 = job_on(pcie_cluster(16));
  const auto gen4 = job_on(pcie_cluster(32));
  const auto group = place_group(gen3.cluster, 8, 1);
  const double ratio = collective_time(gen4, Collective::all_reduce, 1_GiB, group) /
                       collective_time(gen3, Collective::all_reduce, 1_GiB, group);
  CHECK(ratio >= 0.5);
  CHECK(ratio <= 0.6);
}

TEST_CASE("NVLink of A100 is 9 to 20 times faster than PCIe 4.0 on eight GPUs") {
  // 300 against 32 GB/s on paper (9.4 x), 235 against 12.5 GB/s measured (18.8 x).
  const auto nvlink = job_on(usual_cluster(gpus().find("a100-80gb-sxm"), 1, 8));
  const auto pcie = job_on(pcie_cluster(32));
  const double ratio = collective_time(pcie, Collective::all_reduce, 1_GiB, place_group(pcie.cluster, 8, 1)) /
                       collective_time(nvlink, Collective::all_reduce, 1_GiB, place_group(nvlink.cluster, 8, 1));
  CHECK(ratio >= 9);
  CHECK(ratio <= 20);
}

TEST_CASE("one rank communicates for free and time grows with size and ranks") {
  const auto job = job_on(usual_cluster(gpus().find("a100-80gb-sxm"), 8, 8));
  CHECK(collective_time(job, Collective::all_reduce, 1_GiB, place_group(job.cluster, 1, 1)).raw() == 0);
  Seconds last(0);
  for (const int ranks : {2, 4, 8, 16, 32, 64}) {
    const auto group = place_group(job.cluster, ranks, 1);
    const auto small = collective_time(job, Collective::reduce_scatter, 1_MiB, group);
    const auto large = collective_time(job, Collective::reduce_scatter, 64_MiB, group);
    CHECK(small < large);
    CHECK(small > last);
    last = small;
  }
}

TEST_CASE("a group is priced by its own curve then by that of the nearest then by constants") {
  Calibration calibration;
  calibration.curves = {measured_curve(Collective::all_reduce, {4, 8, 1}, 300)};
  const auto job = job_on(usual_cluster(gpus().find("h100-80gb-sxm"), 16, 8), calibration);
  const auto law_of = [&](int ranks, int stride) {
    return collective_law(job, Collective::all_reduce, place_group(job.cluster, ranks, stride));
  };
  const auto own = law_of(32, 1);
  CHECK(own.source == Source::measured);
  CHECK(own.measured.exact);
  // 2 x 31/32 of 1 GiB at 300 GB/s = 6.934 ms, and 10 us.
  const double latency = job.profile.collective_latency_s;
  CHECK(own.time(1_GiB).raw() == doctest::Approx(1.9375 * 1073741824 / 300e9 + 10e-6 + latency).epsilon(1e-6));
  const auto larger = law_of(128, 1);
  CHECK(larger.source == Source::extrapolated);
  CHECK(larger.measured.rank_ratio == 4);
  CHECK(larger.time(1_GiB) > own.time(1_GiB));
  // Latency grows as the link's constants say: 2 x 127 steps after 2 x 31 around the ring, 2 x (7 + 4) after 2 x (7 +
  // 2) in the tree, and their mean.
  const double base = job.links[1].base.raw();
  const double step = job.links[1].step.raw();
  const double ring = (base + 254 * step) / (base + 62 * step);
  const double tree = (base + 22 * step) / (base + 18 * step);
  CHECK(larger.time(1_KiB).raw() == doctest::Approx(10e-6 * std::sqrt(ring * tree) + latency).epsilon(0.01));
  CHECK(law_of(16, 1).source == Source::assumed);  // two nodes
  CHECK(law_of(16, 8).source == Source::assumed);  // one GPU of each node
  CHECK(law_of(8, 1).source == Source::assumed);   // inside a node
}

TEST_CASE("groups that share the ports of their nodes get no more than their share") {
  // One group with one GPU of each node, measured with all eight ports for itself: 200 GB/s.
  Calibration calibration;
  calibration.curves = {measured_curve(Collective::all_reduce, {4, 1, 8}, 200)};
  auto cluster = usual_cluster(gpus().find("h100-80gb-sxm"), 4, 8);
  const double port = cluster.tiers[1].bandwidth.raw();
  REQUIRE(port < 200e9);
  const auto group = place_group(cluster, 4, 8);
  const Job lonely = job_on(cluster, calibration);
  const auto alone = collective_law(lonely, Collective::all_reduce, group);
  // 2 x 3/4 of 1 GiB through one port.
  CHECK(alone.time(1_GiB).raw() == doctest::Approx(1.5 * 1073741824 / port).epsilon(1e-3));
  // Measured with all eight groups at once there is nothing to add.
  calibration.curves.push_back(measured_curve(Collective::all_reduce, {4, 1, 8}, 40, 8));
  const Job crowded = job_on(cluster, calibration);
  const auto at_once = collective_law(crowded, Collective::all_reduce, group);
  CHECK(at_once.measured.nearest->concurrent_groups == 8);
  CHECK(at_once.time(1_GiB).raw() == doctest::Approx(1.5 * 1073741824 / 40e9).epsilon(1e-2));
}

TEST_CASE("links that many GPUs slow down do so from the fifth on") {
  Job job = job_on(usual_cluster(gpus().find("h100-80gb-sxm"), 1, 8));
  const auto rate = [&](int ranks) {
    return group_bandwidth(job, Collective::all_gather, place_group(job.cluster, ranks, 1)).raw();
  };
  job.links[0].beyond_four = 1;
  const double four = rate(4);
  const double five = rate(5);
  job.links[0].beyond_four = 0.5;
  CHECK(rate(4) == four);
  CHECK(rate(5) == doctest::Approx(0.5 * five));
}
