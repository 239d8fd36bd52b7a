#include "planner/import/run_records.h"

#include <doctest/doctest.h>

#include <string>

#include "planner/spec_files.h"

using namespace tpplan;

namespace {

/// A record with every required key; tests change one thing each.
const std::string kRecord =
    R"({"id": "r1", "source": "s", "framework": "megatron", "date": "2024-01", )"
    R"("model": {"name": "m", "layers": 8, "hidden": 1024, "heads": 8, "vocab": 32000}, )"
    R"("hardware": {"gpu": "a100-80gb-sxm", "gpus": 8, "gpus_per_node": 8, "inter_gbps_per_gpu": 200}, )"
    R"("training": {"seq": 2048, "global_batch": 64, "micro_batch": 2}, )"
    R"("layout": {"dp": 4, "tp": 2}, "measured": {"step_s": 1.5}})";

std::string with(const std::string& from, const std::string& to, std::string text = kRecord) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<RunRecord> records_of(const std::string& text, std::string& warnings) {
  static const GpuCatalogue catalogue = shipped_gpus();
  return parse_runs("runs.jsonl", text, catalogue, warnings);
}

RunRecord record_of(const std::string& text) {
  std::string warnings;
  const auto records = records_of(text, warnings);
  CHECK(warnings == "");
  REQUIRE(records.size() == 1);
  return records.front();
}

}  // namespace

TEST_CASE("a run record without optional keys gets the format's defaults") {
  const auto record = record_of(kRecord);
  CHECK(record.skipped == "");
  CHECK(record.group == "runs");        // the file's name
  CHECK(record.model.kv_heads == 8);    // as many as heads
  CHECK(record.model.head_dim == 128);  // hidden / heads
  CHECK(record.layout.pp == 1);
  CHECK(record.layout.micro_batch == 2);
  CHECK(record.training.precision == Precision::bf16);
  CHECK(record.layout.optimizer == Optimizer::adam);
  CHECK(record.measured.peak_kind == MemoryFigure::unknown);
  CHECK_FALSE(record.measured.out_of_memory);
  // 200 Gbit/s are 25 GB/s per GPU, on the tier that spans all nodes.
  CHECK(record.cluster.gpus() == 8);
}

TEST_CASE("the network of a run record is its stated Gbit/s per GPU") {
  const auto record = record_of(with("\"gpus\": 8", "\"gpus\": 16"));
  CHECK(record.cluster.nodes == 2);
  CHECK(record.cluster.tiers.back().bandwidth.raw() == doctest::Approx(25e9));
}

TEST_CASE("an unknown key of a run record is a warning and the run stays") {
  std::string warnings;
  const auto records = records_of(with("\"seq\": 2048", "\"seq\": 2048, \"sequence_packing\": true"), warnings);
  REQUIRE(records.size() == 1);
  CHECK(records.front().skipped == "");
  CHECK(warnings.find("runs.jsonl:1: warning: training: unknown key \"sequence_packing\"") != std::string::npos);
}

TEST_CASE("an unknown framework is a warning and priced as FSDP") {
  std::string warnings;
  const auto records = records_of(with("\"megatron\"", "\"levanter\""), warnings);
  REQUIRE(records.size() == 1);
  CHECK(records.front().skipped == "");
  CHECK(records.front().training.framework == Framework::fsdp);
  CHECK(warnings.find("unknown framework \"levanter\"") != std::string::npos);
  SUBCASE("other is a known word") {
    std::string none;
    CHECK(records_of(with("\"megatron\"", "\"other\""), none).front().training.framework == Framework::fsdp);
    CHECK(none == "");
  }
}

TEST_CASE("a value of the wrong type skips its record with the reason and no other") {
  std::string warnings;
  const auto bad = with("\"layers\": 8", "\"layers\": \"eight\"");
  const auto records = records_of(kRecord + "\n" + bad + "\n\n" + kRecord + "\r\n", warnings);
  REQUIRE(records.size() == 3);
  CHECK(records[0].skipped == "");
  CHECK(records[1].skipped.find("model.layers") != std::string::npos);
  CHECK(records[1].line == 2);
  CHECK(records[2].skipped == "");
  CHECK(records[2].line == 4);
}

TEST_CASE("a line that is no JSON skips that line only") {
  std::string warnings;
  const auto records = records_of("{\"id\": \n" + kRecord + "\n[1, 2]\n", warnings);
  REQUIRE(records.size() == 3);
  CHECK(records[0].skipped != "");
  CHECK(records[1].skipped == "");
  CHECK(records[2].skipped != "");
}

TEST_CASE("a missing required key skips the record even when a misspelt twin is there") {
  std::string warnings;
  auto records = records_of(with("\"layers\": 8, ", ""), warnings);
  CHECK(records.front().skipped.find("layers") != std::string::npos);
  records = records_of(with("\"layers\"", "\"layer\""), warnings);
  CHECK(records.front().skipped.find("layers") != std::string::npos);
  CHECK(warnings.find("unknown key \"layer\"; did you mean \"layers\"?") != std::string::npos);
  records = records_of(with("\"seq\": 2048, ", ""), warnings);
  CHECK(records.front().skipped.find("seq") != std::string::npos);
}

TEST_CASE("a GPU outside the catalogue and an unknown schedule skip the record with the name") {
  std::string warnings;
  CHECK(records_of(with("a100-80gb-sxm", "tpu-v4"), warnings).front().skipped.find("tpu-v4") != std::string::npos);
  CHECK(records_of(with("\"tp\": 2", "\"tp\": 2, \"schedule\": \"spiral\""), warnings).front().skipped.find("spiral") !=
        std::string::npos);
}

TEST_CASE("a sweep holds everything but layout and micro-batch and recomputation") {
  const auto base = record_of(kRecord);
  struct Row {
    const char* name;
    std::string text;
    bool same_sweep, same_input;
  };
  const std::vector<Row> rows{
      {"repeat", with("\"id\": \"r1\"", "\"id\": \"r2\", \"notes\": \"again\""), true, true},
      {"step", with("1.5", "1.6"), true, true},
      {"dp and tp", with("\"dp\": 4, \"tp\": 2", "\"dp\": 2, \"tp\": 4"), true, false},
      {"pipeline", with("\"dp\": 4", "\"dp\": 2, \"pp\": 2, \"schedule\": \"1f1b\""), true, false},
      {"stages", with("\"dp\": 4", "\"dp\": 4, \"layers_per_stage\": [8]"), true, false},
      {"sequence parallelism", with("\"tp\": 2", "\"tp\": 2, \"sp\": true"), true, false},
      {"zero", with("\"tp\": 2", "\"tp\": 2, \"zero\": 1"), true, false},
      {"micro-batch", with("\"micro_batch\": 2", "\"micro_batch\": 4"), true, false},
      {"recompute", with("\"micro_batch\": 2", "\"micro_batch\": 2, \"recompute\": \"full\""), true, false},
      {"framework", with("\"megatron\"", "\"nanotron\""), false, false},
      {"date", with("2024-01", "2024-02"), false, false},
      {"group", with("\"source\"", "\"group\": \"g\", \"source\""), false, false},
      {"precision", with("\"seq\": 2048", "\"seq\": 2048, \"precision\": \"fp16\""), false, false},
      {"kernel", with("\"seq\": 2048", "\"seq\": 2048, \"kernel\": \"torch\""), false, false},
      {"compile", with("\"seq\": 2048", "\"seq\": 2048, \"compile\": \"torch\""), false, false},
      {"overlap", with("\"seq\": 2048", "\"seq\": 2048, \"overlap\": {\"dp_grad\": false}"), false, false},
      {"optimizer", with("\"seq\": 2048", "\"seq\": 2048, \"optimizer\": \"sgd\""), false, false},
      {"batch", with("\"global_batch\": 64", "\"global_batch\": 128"), false, false},
      {"GPU", with("a100-80gb-sxm", "h100-80gb-sxm"), false, false},
      {"GPUs", with("\"gpus\": 8", "\"gpus\": 16"), false, false},
      {"network", with("200}", "100}"), false, false},
      {"kv heads", with("\"heads\": 8", "\"heads\": 8, \"kv_heads\": 2"), false, false},
      {"vocabulary", with("32000", "50257"), false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.name));
    const auto record = record_of(row.text);
    CHECK(record.skipped == "");
    CHECK((record.sweep_key == base.sweep_key) == row.same_sweep);
    CHECK((record.input_key == base.input_key) == row.same_input);
  }
}

TEST_CASE("interleaving without virtual stages is plain 1F1B and virtual stages make 1F1B interleaved") {
  CHECK(record_of(with("\"tp\": 2", "\"tp\": 1, \"pp\": 2, \"schedule\": \"interleaved\"")).layout.schedule ==
        Schedule::f1b1);
  CHECK(record_of(with("\"tp\": 2", "\"tp\": 1, \"pp\": 2, \"vpp\": 2, \"schedule\": \"1f1b\"")).layout.schedule ==
        Schedule::interleaved);
}

TEST_CASE("the group of micro-batches of a record counts where its schedule is interleaved") {
  CHECK(record_of(with("\"tp\": 2", "\"tp\": 1, \"pp\": 2, \"vpp\": 2, \"vpp_group\": 4")).layout.vpp_group == 4);
  CHECK(record_of(with("\"tp\": 2", "\"tp\": 1, \"pp\": 2, \"vpp\": 2")).layout.vpp_group == 0);
  CHECK(record_of(with("\"tp\": 2", "\"tp\": 1, \"pp\": 2, \"vpp_group\": 4")).layout.vpp_group == 0);
}

TEST_CASE("every shipped run record is read without a warning") {
  std::string warnings;
  const GpuCatalogue catalogue = shipped_gpus();
  const auto records =
      read_runs(std::string(TPPLAN_SOURCE_DIR) + "/tests/data/runs/megatron2021.jsonl", catalogue, warnings);
  CHECK(records.size() == 16);
  CHECK(warnings == "");
}

TEST_CASE("the dispatcher of a run record decides how its tokens travel") {
  const auto dispatcher = [](const std::string& word) {
    return record_of(with("\"micro_batch\": 2", "\"micro_batch\": 2, \"dispatcher\": \"" + word + "\""))
        .training.dispatcher;
  };
  CHECK(record_of(kRecord).training.dispatcher == Dispatcher::by_profile);
  CHECK(dispatcher("all-to-all") == Dispatcher::all_to_all);
  CHECK(dispatcher("deepep") == Dispatcher::deepep);
  CHECK(dispatcher("hybridep") == Dispatcher::hybridep);
  // Libraries with DeepEP's interface whose network is driven by processes of the host.
  CHECK(dispatcher("deepep-uccl") == Dispatcher::deepep_proxied);
  CHECK(dispatcher("deepep-nvshmem") == Dispatcher::deepep_proxied);
}

TEST_CASE("checkpointing that a TorchTitan record only assumes is the habit of its trainer") {
  const auto recompute = [](const std::string& date, const std::string& assumed) {
    auto text = with("\"framework\": \"megatron\"", "\"framework\": \"torchtitan\"");
    text = with("2024-01", date, text);
    text = with("\"step_s\": 1.5}", "\"step_s\": 1.5}, \"assumed\": [" + assumed + "]", text);
    return record_of(text).layout.recompute;
  };
  CHECK(recompute("2025-11", "\"training.recompute\"") == RecomputeKind::selective_op);
  CHECK(recompute("2025-11", "\"hardware.intra\"") == RecomputeKind::none);
  // The trainer of captured graphs wraps no modules.
  CHECK(recompute("2026-04", "\"training.recompute\"") == RecomputeKind::none);
}
