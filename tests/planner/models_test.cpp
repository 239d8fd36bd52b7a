#include "planner/commands/models.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

using namespace tpplan;

namespace {

struct Run {
  int code = -1;
  std::string out, err;
};

Run models(const std::vector<std::string>& files, OutputFormat format) {
  PlannerOptions options;
  options.command = "models";
  options.operands = files;
  options.format = format;
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_models(options, out, err);
  return {code, out.str(), err.str()};
}

const std::string kConfigs = TPPLAN_SOURCE_DIR "/tests/data/hf-configs/";

}  // namespace

TEST_CASE("models lists what is shipped") {
  const Run run = models({}, OutputFormat::table);
  CHECK(run.code == 0);
  CHECK(run.out.find("6,738,415,616") != std::string::npos);
  CHECK(run.out.find("deepseek-v3") != std::string::npos);
}

TEST_CASE("models prints one entry per file with the counts of each") {
  const std::string gemma = kConfigs + "google__gemma-3-4b-it.json";
  const Run run = models({gemma, "mixtral-8x7b"}, OutputFormat::json);
  CHECK(run.code == 0);
  const nlohmann::json rows = nlohmann::json::parse(run.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["file"] == gemma);
  CHECK(rows[0]["architecture"] == "gemma3_text");
  CHECK(rows[0]["total_params"] == 3880263168);
  CHECK(rows[0]["active_params"] == 3880263168);
  CHECK(rows[0]["embedding_params"] == 262208LL * 2560);
  CHECK(rows[0]["vision_params"] == 419816304);
  CHECK(rows[0]["error"].is_null());
  CHECK(rows[1]["name"] == "Mixtral 8x7B");
  // Six of eight experts of 3 * 4096 * 14336 weights in 32 layers are not visited.
  CHECK(rows[1]["active_params"] == 46702792704 - 32LL * 6 * 3 * 4096 * 14336);
}

TEST_CASE("a file that cannot be read ends with 2 and the others are still printed") {
  const std::string broken = kConfigs + "quirks/negative-hidden.json";
  const Run run = models({broken, "7b"}, OutputFormat::json);
  CHECK(run.code == 2);
  const nlohmann::json rows = nlohmann::json::parse(run.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["total_params"].is_null());
  CHECK(rows[0]["error"].get<std::string>().find("hidden_size: must be positive, got -4096") != std::string::npos);
  CHECK(rows[1]["total_params"] == 6738415616);

  const Run table = models({broken, "7b"}, OutputFormat::table);
  CHECK(table.code == 2);
  CHECK(table.err.find("hidden_size: must be positive, got -4096") != std::string::npos);
  CHECK(table.out.find("6,738,415,616") != std::string::npos);
}

TEST_CASE("numbers written as text are warned about on the error stream") {
  const Run run = models({kConfigs + "quirks/string-numbers.json"}, OutputFormat::json);
  CHECK(run.code == 0);
  CHECK(run.err.find("warning: hidden_size: number written as text") != std::string::npos);
  CHECK(nlohmann::json::parse(run.out)[0]["total_params"] == 8030261248);
}
