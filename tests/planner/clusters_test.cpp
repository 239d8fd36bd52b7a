#include "planner/commands/clusters.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "cost-model/cluster_spec.h"
#include "planner/commands/gpus.h"
#include "planner/import/topology.h"
#include "planner/import/topology_links.h"
#include "planner/import/topology_matrix.h"
#include "planner/import/topology_query.h"
#include "planner/spec_files.h"

namespace {

using namespace tpplan;

const std::string kData = TPPLAN_SOURCE_DIR "/tests/data/topology/";

QueryFile file_of(const std::string& name) {
  std::ifstream file(kData + name, std::ios::binary);
  REQUIRE(file);
  return {name, {std::istreambuf_iterator<char>(file), {}}};
}

ImportedCluster imported(const std::vector<std::string>& names) {
  std::vector<QueryFile> files;
  for (const std::string& name : names) files.push_back(file_of(name));
  return import_cluster(files, shipped_gpus());
}

ClusterSpec cluster_of(const ImportedCluster& cluster) {
  return parse_cluster("imported.json", cluster.json, shipped_gpus());
}

std::string refusal(const std::vector<QueryFile>& files) {
  try {
    return import_cluster(files, shipped_gpus()).json;
  } catch (const SpecError& problem) {
    return problem.what();
  }
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("posted topologies become cluster files") {
  struct Row {
    const char* file;
    const char* gpu;
    int gpus;
    int domain;   // GPUs of one fast domain, 0 for none
    double link;  // GB/s of it
    Topology topology;
    double network_gbit;  // per node, 0 for none
  };
  const Row rows[] = {
      // NV12 x 25; of 10 NICs two are not behind a GPU's switch; 8 x 200
      {"a100-8-dgx-10nic-tabs.txt", "a100-80gb-sxm", 8, 8, 300, Topology::switched, 1600},
      {"a40-8-nvlink-pairs-cut.txt", "a40", 8, 2, 56.25, Topology::bridged_pairs, 0},
      {"a800-8-nv8-9nic-cut.txt", "a800-80gb-sxm", 8, 8, 200, Topology::switched, 1600},
      {"amd-8-xgmi-rocm-smi.txt", "mi300x", 8, 8, 448, Topology::mesh, 0},
      {"b200-8-13nic-glued-header-cut.txt", "b200-180gb-sxm", 8, 8, 900, Topology::switched, 3200},
      {"gpu-2-nv2.txt", "v100-32gb-sxm", 2, 2, 50, Topology::switched, 0},
      {"gpu-2-phb.txt", "rtx-4090", 2, 0, 0, Topology::pcie, 0},
      {"gpu-4-nvlink-bridge-pairs.txt", "v100-32gb-sxm", 4, 2, 25, Topology::switched, 0},
      {"h200-8-10nic-empty-affinity.txt", "h200-141gb-sxm", 8, 8, 450, Topology::switched, 3200},
      {"pcie-8-pix-node-mlx5.txt", "rtx-4090", 8, 0, 0, Topology::pcie, 200},
      {"power9-4-nv3-4mlx5.txt", "v100-32gb-sxm", 4, 2, 75, Topology::switched, 100},
      {"rtx5090-2-phb-tabs.txt", "rtx-5090", 2, 0, 0, Topology::pcie, 0},
      // rows 1+1+2, 1+2+1, 1+2+2, 2+1+2 links: the poorest GPU has 4 x 25
      {"v100-4-sxm2-nv1-nv2-mlx5.txt", "v100-32gb-sxm", 4, 4, 100, Topology::mesh, 25},
      {"topo-m.2xRTX3090-bridge.txt", "rtx-3090", 2, 2, 56.25, Topology::bridged_pairs, 0},
      {"topo-m.4xA100-PCIe-pairs.txt", "a100-80gb-pcie", 4, 2, 300, Topology::bridged_pairs, 200},
      {"topo-m.8xH200-2xNVL4.txt", "h200-141gb-sxm", 8, 4, 450, Topology::switched, 0},
      {"topo-m.8xRTX4090-dual-socket.txt", "rtx-4090", 8, 0, 0, Topology::pcie, 100},
  };
  for (const Row& row : rows) {
    const std::string file = row.file;
    CAPTURE(file);
    const ImportedCluster result = imported({file});
    const ClusterSpec cluster = cluster_of(result);
    CHECK(cluster.gpu.id == row.gpu);
    CHECK(cluster.gpus() == row.gpus);
    const NetworkTier& near = cluster.tiers.front();
    if (row.domain == 0) {
      CHECK(near.kind == LinkKind::pcie);
      CHECK(near.span == row.gpus);
    } else {
      CHECK(near.span == row.domain);
      CHECK(near.bandwidth.raw() == doctest::Approx(row.link * 1e9));
      CHECK(near.topology == row.topology);
    }
    if (row.network_gbit > 0) {
      std::ostringstream expected;
      expected << "\"per_node\": \"" << row.network_gbit << " Gbit/s\"";
      CHECK(contains(result.json, expected.str()));
    } else {
      CHECK(!contains(result.json, "\"network\""));
    }
    // Nothing in a matrix names the GPU, so that at least this is a guess; the file repeats every guess.
    CHECK(contains(all(result.guesses), "gpu: " + std::string(row.gpu) + " ("));
    for (const std::string& guess : result.guesses) CHECK(contains(result.json, guess));
  }
}

TEST_CASE("GPU queries become cluster files") {
  const ClusterSpec h200 = cluster_of(imported({"query-gpu.8xH200.csv"}));
  CHECK(h200.gpu.id == "h200-141gb-sxm");
  CHECK(h200.gpus() == 8);
  CHECK(h200.tiers.front().span == 8);
  const ImportedCluster single = imported({"query-gpu.1xRTX4090.csv"});
  CHECK(cluster_of(single).gpu.id == "rtx-4090");
  CHECK(contains(single.json, R"("pcie": {"version": "4.0", "lanes": 16})"));
  CHECK(!contains(all(single.guesses), "gpu:"));
}

TEST_CASE("a query beside a topology settles the GPU") {
  const ImportedCluster both = imported({"topo-m.8xH200-2xNVL4.txt", "query-gpu.8xH200.csv"});
  CHECK(cluster_of(both).tiers.front().span == 4);
  CHECK(!contains(all(both.guesses), "gpu:"));
}

TEST_CASE("ports give the network its kind and rate") {
  // One of the eight NICs beside GPUs is listed: 4X x 50 = 200 Gbit/s each.
  const ImportedCluster ib = imported({"a100-8-dgx-10nic-tabs.txt", "ibv-devinfo-hdr200-ib.txt"});
  CHECK(contains(ib.json, R"("network": {"kind": "infiniband", "per_node": "1600 Gbit/s"})"));
  CHECK(contains(all(ib.guesses), "8 NICs at the 200 Gbit/s of the 1 port listed"));
  const ImportedCluster roce = imported({"query-gpu.8xH200.csv", "ibstat-cx7-roce-400.txt"});
  CHECK(contains(roce.json, R"("network": {"kind": "roce", "per_node": "400 Gbit/s"})"));
  CHECK(roce.warnings.empty());
  const ImportedCluster two_lanes = imported({"query-gpu.8xH200.csv", "ibv-devinfo-2x100-gb10.txt"});
  CHECK(contains(two_lanes.json, R"("per_node": "200 Gbit/s")"));  // 2X x 100
  CHECK(contains(two_lanes.warnings, "no link layer given for this port"));
}

TEST_CASE("cut and glued matrices are read with precise warnings") {
  const std::string a800 = imported({"a800-8-nv8-9nic-cut.txt"}).warnings;
  CHECK(contains(a800, "a800-8-nv8-9nic-cut.txt:11:1: warning: the row of GPU7 is cut off after this one"));
  const ImportedCluster b200 = imported({"b200-8-13nic-glued-header-cut.txt"});
  CHECK(contains(b200.warnings,
                 "b200-8-13nic-glued-header-cut.txt:4:161: warning: column names run together: "
                 "\"NIC11NIC12\""));
  CHECK(contains(b200.warnings, "the rows of GPU4, GPU5, GPU6, GPU7 are cut off"));
  CHECK(contains(all(b200.guesses), "paths between GPUs whose rows are cut off: as between all others"));
  CHECK(contains(imported({"a40-8-nvlink-pairs-cut.txt"}).warnings,
                 "a40-8-nvlink-pairs-cut.txt:4:73: warning: columns were cut here"));
  CHECK(imported({"h200-8-10nic-empty-affinity.txt"}).warnings.empty());

  std::vector<Diagnostic> notes;
  const auto glued =
      topology_matrix("\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tNV4\tPIXNODE\nGPU1\tNV4\t X \tNODE\tPIX\n", notes);
  REQUIRE(glued);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].message == "cells run together: \"PIXNODE\"");
  CHECK(glued->near_nics() == 2);
  notes.clear();
  const auto short_row = topology_matrix("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tSYS\tPIX\nGPU1\tSYS\t X\n", notes);
  REQUIRE(short_row);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].message == "the row of GPU1 has 2 cells of 3");
}

TEST_CASE("colours of nvidia-smi do not hide the header") {
  const QueryFile file{"RTX3090.txt",
                       "\x1b[4m\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
                       "GPU0\t X \tNV4\t0-23\tN/A\nGPU1\tNV4\t X \t0-23\tN/A\n"};
  const ClusterSpec cluster = cluster_of(import_cluster({file}, shipped_gpus()));
  CHECK(cluster.gpu.id == "rtx-3090");
  CHECK(cluster.tiers.front().span == 2);
}

TEST_CASE("contradicting rows are reported") {
  std::vector<Diagnostic> notes;
  topology_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X \n", notes);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].message == "GPU0 and GPU1 contradict each other");
}

TEST_CASE("linked GPUs that are not neighbours ask for another order") {
  std::vector<Diagnostic> notes;
  const auto matrix = topology_matrix(
      "\tGPU0\tGPU1\tGPU2\tGPU3\n"
      "GPU0\t X \tSYS\tNV4\tSYS\nGPU1\tSYS\t X \tSYS\tNV4\nGPU2\tNV4\tSYS\t X \tSYS\nGPU3\tSYS\tNV4\tSYS\t X \n",
      notes);
  REQUIRE(matrix);
  const MatrixDomain domain = domain_of(*matrix, shipped_gpus().find("rtx-3090"));
  CHECK(domain.gpus == 2);
  CHECK(contains(all(domain.guesses), "CUDA_VISIBLE_DEVICES=0,2,1,3"));
}

TEST_CASE("groups of different sizes make no domain") {
  std::vector<Diagnostic> notes;
  const auto matrix =
      topology_matrix("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV4\tSYS\nGPU1\tNV4\t X \tSYS\nGPU2\tSYS\tSYS\t X \n", notes);
  REQUIRE(matrix);
  const MatrixDomain domain = domain_of(*matrix, shipped_gpus().find("rtx-3090"));
  CHECK(domain.gpus == 1);
  CHECK(domain.guesses.size() == 1);
}

TEST_CASE("peer tables decide about peer access") {
  const ImportedCluster refused = imported({"rtx5090-2-phb-tabs.txt", "p2p-rw-2-gns.txt"});
  CHECK(contains(refused.json, R"("p2p": "no")"));
  CHECK(contains(all(refused.guesses), "GNS"));
  const QueryFile ok{"p2p", " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"};
  const ImportedCluster allowed = import_cluster({file_of("rtx5090-2-phb-tabs.txt"), ok}, shipped_gpus());
  CHECK(cluster_of(allowed).tiers.front().peer_to_peer);
  // A peer table is not taken for a matrix.
  std::vector<Diagnostic> notes;
  CHECK(!topology_matrix(file_of("p2p-only-2-ns.txt").text, notes));
}

TEST_CASE("rows of nvidia-smi are read in every form") {
  std::vector<Diagnostic> notes;
  const auto plain = queried_gpus("NVIDIA A100-SXM4-40GB, 40960\nNVIDIA A100-SXM4-40GB, 40960\n", notes);
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].memory_mib == 40960);
  const auto listed = queried_gpus("GPU 0: Tesla T4 (UUID: GPU-0)\n", notes);
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "Tesla T4");
  const auto xml = queried_gpus("  <product_name>NVIDIA H200</product_name>\n", notes);
  REQUIRE(xml.size() == 1);
  CHECK(xml[0].name == "NVIDIA H200");
  const auto missing = queried_gpus("name, memory.total [MiB]\nNVIDIA H200, [N/A]\n", notes);
  REQUIRE(missing.size() == 1);
  CHECK(!missing[0].memory_mib);
  CHECK(notes.empty());
  CHECK(queried_gpus("name, memory.total [MiB]\nNVIDIA H200\n", notes).size() == 1);
  CHECK(queried_gpus("name, memory.total [MiB]\nNVIDIA H200, 1 MiB, 3\n", notes).empty());
  CHECK(notes.size() == 1);
}

TEST_CASE("a slot narrower than the card is used and told") {
  const QueryFile file{"q.csv",
                       "name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max, pcie.link.width.current\n"
                       "NVIDIA GeForce RTX 4090, 24564 MiB, 4, 16, 8\n"};
  const ImportedCluster result = import_cluster({file}, shipped_gpus());
  CHECK(cluster_of(result).host_link.raw() == 16e9);  // 8 lanes x 2 GB/s
  CHECK(contains(all(result.guesses), "fewer than its 16 lanes"));
}

TEST_CASE("other memory than the catalogue's is kept") {
  const QueryFile file{"q.csv", "name, memory.total [MiB]\nNVIDIA H20, 143771 MiB\n"};
  const ImportedCluster result = import_cluster({file}, shipped_gpus());
  CHECK(cluster_of(result).gpu.memory == Bytes(143771.0 * 1048576));
  CHECK(contains(all(result.guesses), "gpu.usable"));
}

TEST_CASE("equal hosts make nodes and different ones are refused") {
  const QueryFile one = file_of("query-gpu.8xH200.csv");
  const ImportedCluster two = import_cluster({one, one}, shipped_gpus());
  CHECK(cluster_of(two).nodes == 2);
  CHECK(cluster_of(two).gpus() == 16);
  CHECK(contains(refusal({one, {"q", "NVIDIA H200, 143771\n"}}), "q:1:1: error: 1 GPU here, 8 in the file before"));
}

TEST_CASE("files that cannot become a cluster say why") {
  CHECK(contains(refusal({file_of("query-gpu.mixed-A100-T4.csv")}),
                 "query-gpu.mixed-A100-T4.csv:3:1: error: a second kind of GPU: t4 beside a100-80gb-sxm"));
  CHECK(contains(refusal({file_of("query-gpu.no-driver.txt")}),
                 "query-gpu.no-driver.txt:1:1: error: nvidia-smi failed on that machine"));
  CHECK(contains(refusal({file_of("ibstat-cx7-roce-400.txt")}), "these files tell the network only"));
  CHECK(refusal({{"empty", " \n"}}) == "empty: error: empty file");
  CHECK(contains(refusal({{"x", "hello"}, {"y", "{}"}}), "y:1:1: error: neither a topology nor a GPU query"));
  CHECK(contains(refusal({{"q", "name, memory.total [MiB]\nNVIDIA A1O0, 1 MiB\n"}}), "unknown GPU \"NVIDIA A1O0\""));
}

TEST_CASE("the command writes the file to out and the guesses to err") {
  PlannerOptions options;
  options.command = "clusters";
  options.from = true;
  options.operands = {kData + "a800-8-nv8-9nic-cut.txt"};
  std::ostringstream out, err;
  CHECK(run_clusters(options, out, err) == 0);
  CHECK(parse_cluster("out.json", out.str(), shipped_gpus()).gpus() == 8);
  CHECK(contains(err.str(), "warning: the row of GPU7 is cut off"));
  CHECK(contains(err.str(), "  nodes: 1 (the files show one host)"));

  options.operands = {"no-such-file"};
  CHECK_THROWS_AS(run_clusters(options, out, err), SpecError);
  options.operands.clear();
  CHECK_THROWS_AS(run_clusters(options, out, err), UsageError);
}

TEST_CASE("clusters and GPUs are listed as table and JSON") {
  PlannerOptions options;
  std::ostringstream out, err;
  CHECK(run_clusters(options, out, err) == 0);
  CHECK(contains(out.str(), "8xA100 "));
  CHECK(contains(out.str(), "a100-80gb-sxm"));
  CHECK(!contains(out.str(), "gpus  "));

  out.str("");
  options.format = OutputFormat::json;
  options.operands = {"8xA100", "2x8xh100-80gb-sxm"};
  CHECK(run_clusters(options, out, err) == 0);
  CHECK(contains(out.str(), "\"schema_version\": 1"));
  CHECK(contains(out.str(), "\"gpus\": 16"));

  out.str("");
  options.operands.clear();
  CHECK(run_gpus(options, out, err) == 0);
  const GpuCatalogue gpus = shipped_gpus();
  for (const GpuSpec& gpu : gpus.rows()) CHECK(contains(out.str(), "\"id\": \"" + gpu.id + "\""));
  CHECK(contains(out.str(), "\"memory_bytes\": 85899345920"));  // 80 GiB exactly

  out.str("");
  options.format.reset();
  options.operands = {"tpu", "v4"};
  CHECK(run_gpus(options, out, err) == 0);
  CHECK(contains(out.str(), "not planned: its chips meet in an ICI torus"));
  options.operands = {"rk3588"};
  CHECK_THROWS_AS(run_gpus(options, out, err), SpecError);
}

}  // namespace
