#include "comm-bench/samples.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tpplan::bench;
using nlohmann::json;
using tpplan::Bytes;
using tpplan::Collective;
using tpplan::Seconds;

namespace {

SampleRow row() {
  SampleRow row;
  row.cell.operation = {Collective::all_reduce, Dtype::bf16, 1048576, true};
  row.set = {"node", {1, 4, 1}, 1, {{0, 1, 2, 3}}};
  row.check = Check::ok;
  row.stop = Stop::interval;
  row.samples = {Seconds(1e-4), Seconds(1.2e-4), Seconds(1.1e-4)};
  row.summary = summary(row.samples);
  return row;
}

SampleHeader header() {
  SampleHeader header;
  header.command = {"/home/ann/bin/comm-bench", "--backend", "nccl", "-o", "/home/ann/x.jsonl"};
  header.backend = "nccl";
  header.topology = topology_from({"k0", "k1"}, {"secret-a", "secret-b"});
  RankFacts facts;
  facts.host = "secret-a";
  facts.world_ranks = 2;
  facts.variables = {{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_TOPO_FILE", "/home/ann/topo.xml"}};
  facts.gpu.emplace();
  facts.gpu->name = "NVIDIA H200";
  facts.gpu->uuid = "GPU-1234";
  facts.nccl = 22809;
  header.facts.push_back(facts);
  facts.rank = 1;
  facts.node = 1;
  facts.host = "secret-b";
  header.facts.push_back(facts);
  return header;
}

}  // namespace

TEST_CASE("a row has the fields of the contract and the bandwidths of nccl-tests") {
  const json value = json::parse(to_json(row()));
  for (const char* key :
       {"collective", "dtype", "bytes", "ranks", "group", "placement", "concurrent", "mode", "in_place", "median_s",
        "p5_s", "p95_s", "min_s", "n", "stopped_by", "algbw_gbs", "busbw_gbs", "check", "samples_s"}) {
    CAPTURE(std::string(key));
    CHECK(value.contains(key));
  }
  CHECK(value["collective"] == "all_reduce");
  CHECK(value["dtype"] == "bf16");
  CHECK(value["placement"] == json({{"nodes", 1}, {"gpus_per_node", 4}, {"stride", 1}}));
  CHECK(value["mode"] == "single");
  CHECK(value["stopped_by"] == "interval");
  CHECK(value["check"] == "ok");
  // 1,048,576 B / 110 us = 9.5325 GB/s; times 2 (n - 1) / n = 1.5 for 4 ranks.
  CHECK(value["algbw_gbs"].get<double>() == doctest::Approx(9.53250909));
  CHECK(value["busbw_gbs"].get<double>() == doctest::Approx(14.2987636));
  CHECK(value["samples_s"] == json({1e-4, 1.2e-4, 1.1e-4}));
}

TEST_CASE("the header is an object that tells versions and topology and keeps the preflight") {
  SampleHeader full = header();
  full.warnings = preflight(full.facts);
  const json value = json::parse(to_json(full));
  CHECK(value["schema_version"] == 1);
  CHECK(value["gpu"] == "NVIDIA H200");
  CHECK(value["versions"]["nccl"] == "2.28.9");
  CHECK(value["variables"]["NCCL_NVLS_ENABLE"] == "0");
  CHECK(value["topology"]["nodes"] == 2);
  CHECK(value["hosts"][1]["name"] == "secret-b");
  CHECK(value["preflight"]["facts"].size() == 2);
  CHECK_FALSE(value["preflight"]["warnings"].empty());
  CHECK(value["preflight"]["warnings"][0].contains("fix"));
}

TEST_CASE("an anonymous header names no host nor person nor serial number") {
  SampleHeader full = header();
  full.facts[1].mpi_library = "Open MPI v5.0.1";
  full.warnings = preflight(full.facts);
  const std::string text = to_json(anonymous(full));
  CHECK(text.find("secret") == std::string::npos);
  CHECK(text.find("/home/ann") == std::string::npos);
  CHECK(text.find("GPU-1234") == std::string::npos);
  CHECK(text.find("\"node1\"") != std::string::npos);
  // What bears on the results stays.
  CHECK(json::parse(text)["variables"]["NCCL_NVLS_ENABLE"] == "0");
}

TEST_CASE("the facts of a rank survive writing and reading") {
  RankFacts facts = header().facts[0];
  facts.peers = {{"GPU 1", "chipset not supported"}};
  facts.ports = {{"mlx5_0", "ACTIVE", "InfiniBand", 400}};
  facts.numa_nodes_allowed = {0, 1};
  facts.gpu->throttled_by = {"power brake"};
  facts.gpu->ecc_uncorrected = 3;
  facts.gpu->numa_node = -1;
  const auto read = facts_from_json("facts", to_json(std::vector<RankFacts>{facts}));
  REQUIRE(read.size() == 1);
  CHECK(to_json(read) == to_json(std::vector<RankFacts>{facts}));
}

TEST_CASE("compute rows carry what their kind needs") {
  ComputeRow gemm;
  gemm.item.m = 16384;
  gemm.item.n = 4096;
  gemm.item.k = 4096;
  gemm.item.dtype = "bf16";
  gemm.item.pass = "wgrad";
  gemm.device = "NVIDIA H200";
  gemm.summary = summary(std::vector<Seconds>{Seconds(8e-4)});
  const json value = json::parse(to_json(gemm));
  CHECK(value["kind"] == "gemm");
  CHECK(value["pass"] == "wgrad");
  CHECK(value["n"] == 4096);  // the width, not the number of samples
  // 2 * 16384 * 4096 * 4096 / 0.8 ms = 687.2 TFLOP/s
  CHECK(value["tflops"].get<double>() == doctest::Approx(687.194767));
  ComputeRow memory;
  memory.item = memory_kernels().front();
  memory.summary = summary(std::vector<Seconds>{Seconds(1e-5)});
  const json traffic = json::parse(to_json(memory));
  CHECK(traffic["name"] == "copy");
  // 2048 * 4096 bf16 read and written: 33,554,432 B in 10 us.
  CHECK(traffic["gbs"].get<double>() == doctest::Approx(3355.4432));
}

TEST_CASE("the transformer shapes are 36 weights of three models") {
  const auto items = transformer_gemms("bf16", {"forward"});
  CHECK(items.size() == 36 * 3);
  // Llama 70B at tensor parallelism 8: qkv (8192 + 2 * 1024) / 8 = 1280 outputs of 8192 inputs.
  CHECK(std::any_of(items.begin(), items.end(),
                    [](const ComputeItem& item) { return item.n == 1280 && item.k == 8192 && item.m == 16384; }));
}

TEST_CASE("causal attention counts half of the square and the backward pass two and a half times that") {
  ComputeItem item;
  item.kind = ComputeKind::attention;
  item.batch = 1;
  item.seq = 4096;
  item.heads = 32;
  item.head_dim = 128;
  item.pass = "forward";
  CHECK(item.flops().raw() == 2.0 * 32 * 4096 * 4096 * 128);
  item.pass = "backward";
  CHECK(item.flops().raw() == 5.0 * 32 * 4096 * 4096 * 128);
}

TEST_CASE("the end line counts what is missing") {
  SampleEnd end;
  end.sweep.rows = 3;
  end.sweep.unmeasured = {"all_reduce of 1 GiB"};
  const json value = json::parse(to_json(end));
  CHECK(value["end"]["rows"] == 3);
  CHECK(value["end"]["unmeasured"][0] == "all_reduce of 1 GiB");
  CHECK(value["end"]["drift"].is_null());
}

TEST_CASE("a sample file holds a line per write and nothing of an older file") {
  const std::string path = std::string(TPPLAN_BINARY_DIR) + "/samples_test.jsonl";
  std::ofstream(path) << "an older and longer file\n";
  {
    SampleFile file(path);
    file.write_line("{\"a\":1}");
    file.write_line("{\"b\":2}");
  }
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  CHECK(text == "{\"a\":1}\n{\"b\":2}\n");
  std::remove(path.c_str());
  CHECK_THROWS_AS(SampleFile("/no/such/folder/x.jsonl"), CommError);
}
