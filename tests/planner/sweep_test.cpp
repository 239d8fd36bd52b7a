#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/errors.h"
#include "planner/launcher.h"
#include "planner/report/progress.h"
#include "planner/report/sweep_row.h"
#include "planner/sweep_journal.h"
#include "planner/sweep_ledger.h"

namespace {

namespace fs = std::filesystem;
using namespace tpplan;

const std::string kGrid = TPPLAN_SOURCE_DIR "/tests/data/sweep/grid.json";

std::string problems_of(const std::string& text) {
  try {
    SweepGrid::parse("grid.json", text);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A path whose file is gone before and after the test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) : path_((fs::temp_directory_path() / name).string()) {
    fs::remove(path_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { fs::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string row_text(std::size_t cell) { return R"({"cell": )" + std::to_string(cell) + R"(, "status": "fits"})"; }

}  // namespace

TEST_CASE("the first key of a grid varies slowest") {
  const SweepGrid grid = SweepGrid::parse("grid.json", R"({
    "clusters": ["8xA100", "1x8xh100-80gb-sxm"], "models": "7b", "seq": [2048, 4096, 8192], "nodes": [1, 2]})");
  REQUIRE(grid.cells() == 12);
  const SweepCell first = grid.cell(0);
  CHECK(first.cluster_name == "8xA100");
  CHECK(first.options.seq == 2048);
  CHECK(first.cluster->cluster.nodes == 1);
  CHECK(grid.cell(1).cluster->cluster.nodes == 2);
  CHECK(grid.cell(2).options.seq == 4096);
  CHECK(grid.cell(5).options.seq == 8192);
  CHECK(grid.cell(6).cluster_name == "1x8xh100-80gb-sxm");
  CHECK(grid.cell(6).options.seq == 2048);
  CHECK(grid.cell(11).cluster->cluster.gpus() == 16);
}

TEST_CASE("any option of plan can be an axis of a grid") {
  const SweepGrid grid = SweepGrid::parse("grid.json", R"({
    "models": ["7b"], "clusters": ["8xA100"], "tp": "1..4", "recompute": ["none", "full"], "memory_headroom": 0.1,
    "micro_batch": [1, 2]})");
  REQUIRE(grid.cells() == 4);
  const SweepCell last = grid.cell(3);
  CHECK(last.options.space.axes[1].values == std::vector<int>{1, 2, 3, 4});
  CHECK(last.options.space.recompute == std::vector<std::string>{"full"});
  CHECK(last.options.space.axes.back().values == std::vector<int>{2});
  CHECK(last.options.memory_headroom == doctest::Approx(0.1));
}

TEST_CASE("problems of a grid are told together and at their places") {
  const std::string text = problems_of(R"({
  "models": ["7b", "13bb"],
  "clusters": ["8xA100", "8xA101"],
  "sequ": [4096],
  "global_batch": [0, 512, 512],
  "precision": ["bf17"],
  "nodes": [1.5],
  "tp": []
})");
  CHECK(contains(text, "grid.json:2:20: error: models[1]: no model \"13bb\""));
  CHECK(contains(text, "did you mean 13b"));
  CHECK(contains(text, "grid.json:3:26: error: clusters[1]: unknown GPU \"A101\""));
  CHECK(contains(text, "grid.json:4:3: error: unknown key \"sequ\""));
  CHECK(contains(text, "did you mean \"seq\"?"));
  CHECK(contains(text, "grid.json:5:20: error: global_batch[0]: "));
  CHECK(contains(text, "grid.json:5:28: error: global_batch[2]: 512 is listed twice"));
  CHECK(contains(text, "grid.json:6:17: error: precision[0]: unknown value \"bf17\"; did you mean \"bf16\"?"));
  CHECK(contains(text, "grid.json:7:13: error: nodes[0]: expected a count"));
  CHECK(contains(text, "grid.json:8:9: error: tp: expected 1 to 10,000 values, got 0"));
  CHECK(contains(text, "8 errors in grid.json"));
}

TEST_CASE("a grid needs models and clusters and one kind of size") {
  CHECK(contains(problems_of("{}"), "models"));
  CHECK(contains(problems_of("{}"), "clusters"));
  CHECK(contains(problems_of(R"({"model": ["7b"], "clusters": ["8xA100"]})"), "did you mean \"models\"?"));
  CHECK(contains(problems_of(R"({"models": ["7b"], "clusters": ["8xA100"], "nodes": [1], "gpus": [8]})"),
                 "nodes and gpus both given"));
  CHECK(contains(problems_of(R"({"models": ["7b"], "clusters": ["8xA100"], "jobs": 2})"), "unknown key \"jobs\""));
  CHECK(contains(problems_of(R"({"models": ["-"], "clusters": ["8xA100"]})"), "standard input"));
  CHECK(contains(problems_of(R"({"models": [["7b"]], "clusters": ["8xA100"]})"), "expected a text"));
}

TEST_CASE("a cell that makes no sense is a row with its reason") {
  const SweepGrid grid = SweepGrid::parse("grid.json", R"({
    "models": ["7b"], "clusters": ["8xA100"], "gpus": [8, 12], "precision": ["bf16", "fp8"], "global_batch": 64,
    "tp": 8, "pp": 1})");
  REQUIRE(grid.cells() == 4);
  std::vector<nlohmann::json> rows;
  for (std::size_t cell = 0; cell < grid.cells(); ++cell) {
    rows.push_back(nlohmann::json::parse(sweep_row(grid, cell, 1)));
    CHECK(rows.back()["cell"] == cell);
    CHECK(rows.back()["options"]["tp"] == "8");
  }
  CHECK(rows[0]["status"] == "fits");
  CHECK(rows[0]["layout"]["tp"] == 8);
  CHECK(rows[0]["gpus"] == 8);
  // No A100 multiplies fp8, and 12 GPUs are one and a half servers.
  CHECK(rows[1]["status"] == "refused");
  CHECK(rows[1]["reason"].get<std::string>().rfind("A100-SXM4-80GB has no fp8 matrix units", 0) == 0);
  CHECK(rows[2]["status"] == "refused");
  CHECK(rows[2]["reason"] == "12 GPUs are no whole number of nodes of 8");
  CHECK(rows[2]["size"] == "gpus 12");
}

TEST_CASE("a model too large for every layout is a row that names the closest") {
  const SweepGrid grid = SweepGrid::parse("grid.json", R"({"models": ["70b"], "clusters": ["8xA100"]})");
  const auto row = nlohmann::json::parse(sweep_row(grid, 0, 1));
  CHECK(row["status"] == "nothing-fits");
  CHECK(contains(row["reason"], "closest: "));
  CHECK(row["search"]["ranked"] == 0);
}

TEST_CASE("a row is the same for any number of threads") {
  const SweepGrid grid = SweepGrid::load(kGrid);
  CHECK(sweep_row(grid, 2, 1) == sweep_row(grid, 2, 4));
}

TEST_CASE("the identity of a grid follows its text") {
  const std::string a = R"({"models": ["7b"], "clusters": ["8xA100"]})";
  const std::string b = R"({"models": ["7b"], "clusters": ["8xH100"]})";
  CHECK(SweepGrid::parse("x", a).identity() == SweepGrid::parse("y", a).identity());
  CHECK(SweepGrid::parse("x", a).identity() != SweepGrid::parse("x", b).identity());
}

TEST_CASE("a journal gives its rows back and drops a line that was cut") {
  const ScratchFile file("tpplan-sweep-test.journal");
  const SweepIdentity identity{"tpplan 1", "abc", 10};
  {
    SweepJournal journal = SweepJournal::begin(file.path(), identity);
    journal.add(row_text(3));
    journal.add(row_text(1));
  }
  std::ofstream(file.path(), std::ios::app) << R"({"cell": 4, "sta)";
  std::vector<std::pair<std::size_t, std::string>> rows;
  {
    SweepJournal journal = SweepJournal::resume(file.path(), identity, rows);
    journal.add(row_text(5));
  }
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].first == 3);
  CHECK(rows[1].second == row_text(1));
  const std::string text = content(file.path());
  CHECK(text.find("\"sta\n") == std::string::npos);
  CHECK(text.ends_with(row_text(1) + "\n" + row_text(5) + "\n"));
}

TEST_CASE("a journal of another sweep is refused and left alone") {
  const ScratchFile file("tpplan-sweep-other.journal");
  SweepJournal::begin(file.path(), {"tpplan 1", "abc", 10}).add(row_text(3));
  const std::string before = content(file.path());
  const auto refusal = [&](const SweepIdentity& identity) {
    std::vector<std::pair<std::size_t, std::string>> rows;
    try {
      SweepJournal::resume(file.path(), identity, rows);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(contains(refusal({"tpplan 2", "abc", 10}), "was written by tpplan 1, and this is tpplan 2"));
  CHECK(contains(refusal({"tpplan 1", "abd", 10}), "belongs to another grid"));
  CHECK(contains(refusal({"tpplan 1", "abc", 11}), "belongs to another grid"));
  CHECK_THROWS_AS(SweepJournal::begin(file.path(), {"tpplan 1", "abc", 10}), UsageError);
  CHECK(content(file.path()) == before);
}

TEST_CASE("a journal without rows is begun anew") {
  const ScratchFile file("tpplan-sweep-empty.journal");
  SweepJournal::begin(file.path(), {"tpplan 1", "abc", 10});
  SweepJournal::begin(file.path(), {"tpplan 2", "abd", 11}).add(row_text(0));
  CHECK(contains(content(file.path()), "tpplan 2"));
  CHECK_THROWS_AS(SweepJournal::begin(file.path(), {"tpplan 2", "abd", 11}), UsageError);
}

TEST_CASE("a damaged line of a journal is named") {
  const ScratchFile file("tpplan-sweep-damaged.journal");
  const SweepIdentity identity{"tpplan 1", "abc", 10};
  SweepJournal::begin(file.path(), identity).add(row_text(3));
  std::ofstream(file.path(), std::ios::app) << "{\"cell\": 99, \"status\": \"fits\"}\n";
  std::vector<std::pair<std::size_t, std::string>> rows;
  CHECK_THROWS_WITH_AS(SweepJournal::resume(file.path(), identity, rows),
                       (file.path() + ":3:1: error: no cell 99 in a grid of 10").c_str(), SpecError);
  std::ofstream(file.path(), std::ios::app) << "garbage\n";
  CHECK_THROWS_AS(SweepJournal::resume(file.path(), identity, rows), SpecError);
}

TEST_CASE("a ledger hands out every missing cell once and passes rows on in order") {
  std::vector<std::string> passed;
  SweepLedger ledger(5, {{1, "row 1"}, {3, "row 3"}}, nullptr, [&](const std::string& row) { passed.push_back(row); });
  CHECK(ledger.known() == 2);
  CHECK(passed.empty());
  CHECK(ledger.take() == 0);
  CHECK(ledger.take() == 2);
  CHECK(ledger.take() == 4);
  CHECK(!ledger.take());
  ledger.deliver(2, "row 2");
  CHECK(passed.empty());
  ledger.deliver(0, "row 0");
  CHECK(passed == std::vector<std::string>{"row 0", "row 1", "row 2", "row 3"});
  CHECK(!ledger.complete());
  ledger.deliver(4, "row 4");
  CHECK(ledger.complete());
  CHECK(passed.size() == 5);
}

TEST_CASE("threads compute all cells and a failure of one reaches the caller") {
  constexpr std::size_t kCells = 200;
  SweepLedger ledger(kCells, {}, nullptr, {});
  {
    SweepWorkers workers(
        4, [&] { return ledger.take(); }, [](std::size_t cell) { return std::to_string(cell); },
        [&](std::size_t cell, std::string row) { ledger.deliver(cell, std::move(row)); });
    while (!workers.finished()) {
      std::this_thread::yield();
    }
    workers.rethrow();
  }
  CHECK(ledger.complete());
  CHECK(ledger.rows()[137] == "137");

  SweepLedger failing(kCells, {}, nullptr, {});
  SweepWorkers workers(
      3, [&] { return failing.take(); },
      [](std::size_t cell) -> std::string {
        if (cell == 50) {
          throw EnvironmentError("cell 50");
        }
        return "row";
      },
      [&](std::size_t cell, std::string row) { failing.deliver(cell, std::move(row)); });
  while (!workers.finished()) {
    std::this_thread::yield();
  }
  CHECK_THROWS_WITH_AS(workers.rethrow(), "cell 50", EnvironmentError);
  CHECK(!failing.complete());
}

TEST_CASE("remaining times are rough") {
  CHECK(rough_time(0.2) == "1 s");
  CHECK(rough_time(119) == "119 s");
  CHECK(rough_time(200) == "3 min");
  CHECK(rough_time(7800) == "2 h 10 min");
}

TEST_CASE("processes of a launcher are told from a process of its own") {
  const char* const kVariables[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                                    "SLURM_NTASKS"};
  for (const char* variable : kVariables) {
    unsetenv(variable);
  }
  setenv("SLURM_NTASKS", "8", 1);  // inside an allocation, but not started by srun
  CHECK(!launched());
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  REQUIRE(launched());
  CHECK(launched()->rank == 3);
  CHECK(launched()->size == 4);
  for (const char* variable : kVariables) {
    unsetenv(variable);
  }
}
