#include "planner/commands/simulate.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cost-model/spec_reader.h"

using namespace tpplan;

namespace {

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome run(const std::string& layout, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"simulate", "--model", "7b",      "--cluster", "8xA100",
                                 "--layout", layout,    "--color", "never"};
  words.insert(words.end(), more.begin(), more.end());
  std::ostringstream out, err;
  Outcome outcome;
  outcome.code = run_simulate(parse_options(words), out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("simulate shows simulated and estimated step and a line per stage") {
  const auto outcome = run("tp=2 pp=4 micro-batch=1");
  CHECK(outcome.code == 0);
  CHECK(outcome.err ==
        "tpplan: note: left out to fit 80 columns: first (s), last (s), peak at (s) (COLUMNS=N widens the "
        "table; --format json has everything)\n");
  CHECK(has(outcome.out, "simulated step"));
  CHECK(has(outcome.out, "estimated step"));
  CHECK(has(outcome.out, "stage 3  "));
  CHECK_FALSE(has(outcome.out, "as planned"));
}

TEST_CASE("the JSON of simulate agrees with itself") {
  const auto json =
      nlohmann::json::parse(run("tp=2 pp=4 micro-batch=1", {"--format", "json", "--what-if", "gpu=5 slow=20%"}).out);
  CHECK(json["schema_version"] == 1);
  CHECK(json["what_if"] == "gpu=5 slow=20%");
  CHECK(json["layout"]["pp"] == 4);
  REQUIRE(json["stages"].size() == 4);
  const double planned = json["planned_step_time_s"].get<double>();
  CHECK(json["step_time_s"].get<double>() > planned);
  CHECK(json["lower_bound_s"].get<double>() <= planned);
  // GPU 5 is on stage 2 (tp 2): its passes alone take 1 / 0.8 as long.
  const auto plain = nlohmann::json::parse(run("tp=2 pp=4 micro-batch=1", {"--format", "json"}).out);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CHECK(json["stages"][stage]["passes_s"].get<double>() ==
          doctest::Approx(plain["stages"][stage]["passes_s"].get<double>() * (stage == 2 ? 1.25 : 1)));
  }
}

TEST_CASE("simulate writes a trace beside its result") {
  const auto path = std::filesystem::temp_directory_path() / ("tpplan-trace-" + std::to_string(getpid()) + ".json");
  const auto outcome = run("tp=2 pp=4 micro-batch=4", {"--trace", path.string()});
  CHECK(outcome.code == 0);
  std::ifstream file(path);
  const auto trace = nlohmann::json::parse(file);
  CHECK(trace["traceEvents"].size() > 100);
  std::filesystem::remove(path);
}

TEST_CASE("simulate names the rules that a layout breaks and ends with 1") {
  const auto outcome = run("tp=3 pp=2");
  CHECK(outcome.code == 1);
  CHECK(outcome.out.empty());
  CHECK(has(outcome.err, "this layout cannot run"));
}

TEST_CASE("simulate refuses a what-if it cannot read") {
  CHECK_THROWS_AS(run("tp=2 pp=4", {"--what-if", "gpu=8 slow=20%"}), SpecError);
}
