#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/commands/report.h"

using namespace tpplan;

namespace {

struct Ran {
  int code = 0;
  std::string out;
  nlohmann::json json;
};

Ran report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  words.insert(words.end(), {"--format", "json"});
  std::ostringstream out;
  std::ostringstream err;
  Ran ran;
  ran.code = run_report(parse_options(words), out, err);
  ran.out = out.str();
  ran.json = nlohmann::json::parse(ran.out);
  return ran;
}

const nlohmann::json& section(const nlohmann::json& report, std::string_view id) {
  for (const auto& section : report["sections"]) {
    if (section["id"] == id) {
      return section;
    }
  }
  FAIL("no section ", id);
  return report;
}

std::string usage_problem(const std::vector<std::string>& words) {
  try {
    (void)parse_options(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a report answers with decision and figures and every section that has an answer") {
  const Ran ran = report({"--model", "7b", "--cluster", "2x8xa100-80gb-sxm", "--tokens", "100G"});
  CHECK(ran.code == 0);
  CHECK(ran.json["answered"] == true);
  const auto& row = section(ran.json, "clusters")["rows"][0];
  // Days follow from speed and goodput, GPU-hours from days and GPUs.
  const double days = 100e9 / row["tokens_per_s"].get<double>() / row["goodput"].get<double>() / 86400;
  CHECK(row["time_days"].get<double>() == doctest::Approx(days).epsilon(1e-6));
  CHECK(row["gpu_hours"].get<double>() == doctest::Approx(days * 24 * 16).epsilon(1e-6));
  CHECK(row["time_days_low"] < row["time_days"]);
  CHECK(ran.json["headlines"]["time_days"] == row["time_days"]);
  for (const std::string_view id :
       {"layouts", "families", "failures", "storage", "scaling", "network", "upgrades", "limits", "hardware"}) {
    CHECK_MESSAGE(!section(ran.json, id)["rows"].empty(), id);
  }
  // Terms of a step add up to the step.
  double sum = 0;
  const auto& layout = section(ran.json, "layouts")["rows"][0];
  for (const auto& [key, value] : layout.items()) {
    const bool term = key.ends_with("_s") && !key.starts_with("step_time") && !key.starts_with("tokens");
    sum += term ? value.get<double>() : 0;
  }
  CHECK(sum == doctest::Approx(layout["step_time_s"].get<double>()).epsilon(1e-6));
}

TEST_CASE("a report is the same for any number of threads") {
  const std::vector<std::string> words{"--model", "7b", "--cluster", "2x8xa100-80gb-sxm", "--tokens", "100G"};
  std::vector<std::string> threaded = words;
  threaded.insert(threaded.end(), {"--jobs", "3"});
  CHECK(report(words).out == report(threaded).out);
}

TEST_CASE("with a deadline the report chooses a size that meets it and names the smallest") {
  const Ran ran = report(
      {"--model", "7b", "--cluster", "8xA100,8xH100", "--tokens", "1T", "--deadline", "20d", "--sections", "scaling"});
  CHECK(ran.code == 0);
  CHECK(ran.json["headlines"]["time_days"] <= 20);
  int met = 0;
  for (const auto& row : section(ran.json, "scaling")["rows"]) {
    met += row["time_days"] <= 20 ? 1 : 0;
  }
  CHECK(met > 0);
  // Of the clusters that meet it the cheaper one is chosen.
  double cheapest = 1e30;
  for (const auto& row : section(ran.json, "clusters")["rows"]) {
    cheapest = row["time_days"] <= 20 ? std::min(cheapest, row["cost"].get<double>()) : cheapest;
  }
  CHECK(ran.json["headlines"]["cost"].get<double>() == doctest::Approx(cheapest));
}

TEST_CASE("a budget without tokens buys the most tokens and with them is a check") {
  const Ran most = report({"--model", "7b", "--cluster", "8xA100", "--budget", "10k", "--sections", "storage"});
  CHECK(most.code == 0);
  CHECK(most.json["headlines"]["cost"].get<double>() == doctest::Approx(10000));
  const Ran over =
      report({"--model", "7b", "--cluster", "8xA100", "--tokens", "1T", "--budget", "10k", "--sections", "storage"});
  CHECK(over.code == 1);
  CHECK(over.json["answered"] == false);
  CHECK(over.json["decision"].get<std::string>().find("over the budget") != std::string::npos);
}

TEST_CASE("what a budget buys is said of each plan and not of all of them") {
  const Ran ran = report({"--model", "7b,13b", "--cluster", "8xA100", "--budget", "10k", "--sections", "scaling"});
  CHECK(ran.json["title"] == "Llama 2 7B, Llama 2 13B");
  const auto& rows = section(ran.json, "clusters")["rows"];
  CHECK(rows[0]["tokens_billion"] > rows[1]["tokens_billion"]);
}

TEST_CASE("a run that is interrupted all the time says so and ends with 1") {
  const Ran ran =
      report({"--model", "7b", "--cluster", "8xA100", "--tokens", "1T", "--gpu-mtbf", "1s", "--sections", "failures"});
  CHECK(ran.code == 1);
  const auto& row = section(ran.json, "clusters")["rows"][0];
  CHECK(row["goodput"] == 0);
  CHECK(row["reason"].get<std::string>().find("an interruption every 125 ms, a restart takes") == 0);
  for (const auto& waste : section(ran.json, "failures")["rows"]) {
    CHECK(waste["restarts"] == 1);
    CHECK(waste["wasted_simulated"].is_null());
  }
}

TEST_CASE("a report on a cluster too small says what is missing and ends with 1") {
  const Ran ran = report({"--model", "70b", "--cluster", "8xA100", "--tokens", "1T"});
  CHECK(ran.code == 1);
  CHECK(section(ran.json, "clusters")["rows"][0]["reason"].get<std::string>().find("GiB") != std::string::npos);
}

TEST_CASE("the hardware comparison gives the reason where a chip has no answer") {
  const Ran ran = report({"--model", "7b", "--cluster", "2x8xh100-80gb-sxm", "--tokens", "100G", "--compare",
                          "v100-32gb-sxm,h100-80gb-sxm,mi300x", "--sections", "hardware"});
  for (const auto& row : section(ran.json, "hardware")["rows"]) {
    const std::string gpu = row["gpu"];
    const std::string reason = row["reason"].is_null() ? "" : row["reason"].get<std::string>();
    if (gpu.find("V100") != std::string::npos) {
      CHECK(reason == "has no bf16");
    } else if (gpu.find("MI300X") != std::string::npos && row["basis"] == "equal money") {
      CHECK(reason.find("no price") != std::string::npos);
    } else {
      CHECK_MESSAGE(reason.empty(), gpu, reason);
      CHECK(row["gpus"].get<int>() % 8 == 0);
    }
  }
}

TEST_CASE("the network section finds a speed between too slow and fast enough") {
  const Ran ran = report({"--model", "13b", "--cluster", "8x8xa100-80gb-sxm", "--framework", "deepspeed", "--zero", "3",
                          "--tokens", "100G", "--sections", "network"});
  double before = 1e30;
  for (const auto& row : section(ran.json, "network")["rows"]) {
    if (row["family"] == "Any layout") {
      CHECK(row["step_time_s"].get<double>() <= before * (1 + 1e-9));  // a faster network never slows the best layout
      before = row["step_time_s"];
    }
  }
}

TEST_CASE("a report warns when storage is the limit") {
  const std::vector<std::string> words{"--model",  "7b",   "--cluster",  "8xA100",
                                       "--tokens", "100G", "--sections", "storage"};
  CHECK(report(words).json["warnings"].empty());
  std::vector<std::string> slow = words;
  slow.insert(slow.end(), {"--storage-read", "50 kB/s", "--checkpoint-write", "500 kB/s"});
  const nlohmann::json warnings = report(slow).json["warnings"];
  REQUIRE(warnings.size() == 2);
  for (const auto& warning : warnings) {
    CHECK(warning.get<std::string>().starts_with("storage is the limit"));
  }
}

TEST_CASE("a report warns when more GPUs of a kind are slower than fewer") {
  const Ran ran = report({"--model",        "llama3.2-1b", "--cluster",   "1x2xrtx-4090,1x8xrtx-4090",
                          "--framework",    "fsdp",        "--tp",        "1",
                          "--pp",           "1",           "--cp",        "1",
                          "--zero",         "0",           "--optimizer", "adam-8bit",
                          "--recompute",    "none",        "--seq",       "512",
                          "--global-batch", "8",           "--tokens",    "1G",
                          "--sections",     "storage"});
  REQUIRE(!ran.json["warnings"].empty());
  CHECK(ran.json["warnings"].dump().find("8 x RTX 4090 train slower than 2 x RTX 4090") != std::string::npos);
}

TEST_CASE("a cluster that holds no plan says why on a narrow terminal too") {
  // 70B of training states: 16 bytes x 69 billion over 8 x 80 GB do not fit.
  const Ran ran =
      report({"--model", "70b", "--cluster", "8xA100,8x8xh100-80gb-sxm", "--tokens", "10G", "--sections", "storage"});
  bool told = false;
  for (const auto& note : section(ran.json, "clusters")["notes"]) {
    told = told || note.get<std::string>().find("Llama 2 70B on 8xA100: needs ") == 0;
  }
  CHECK(told);
}

TEST_CASE("GPU-hours are allocated to a model and tokens that use them up") {
  const Ran ran =
      report({"--model", "7b", "--cluster", "8x8xh100-80gb-sxm", "--gpu-hours", "20k", "--sections", "allocation"});
  for (const auto& row : section(ran.json, "allocation")["rows"]) {
    if (row["tokens_per_parameter"] == 20) {
      CHECK(row["gpu_hours"].get<double>() == doctest::Approx(20000).epsilon(0.05));
      CHECK(row["tokens_billion"].get<double>() / row["parameters_billion"].get<double>() ==
            doctest::Approx(20).epsilon(0.1));
    }
  }
}

TEST_CASE("the date of a report comes from --date or SOURCE_DATE_EPOCH alone") {
  const std::vector<std::string> words{"--model",  "7b", "--cluster",  "8xA100",
                                       "--tokens", "1G", "--sections", "storage"};
  unsetenv("SOURCE_DATE_EPOCH");
  CHECK_FALSE(report(words).json.contains("date"));
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  CHECK(report(words).json["date"] == "2023-11-14");
  std::vector<std::string> dated = words;
  dated.insert(dated.end(), {"--date", "2026-11-30"});
  CHECK(report(dated).json["date"] == "2026-11-30");
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST_CASE("wrong values of report's options are reported all at once") {
  const std::string text =
      usage_problem({"report", "--model", "7b", "--cluster", "8xA100", "--tokens", "many", "--deadline", "30",
                     "--goodput", "1.5", "--sections", "storage,scalling", "--pue", "0.5"});
  for (const std::string_view part : {"--tokens", "--deadline", "--goodput", "did you mean \"scaling\"", "--pue"}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " in ", text);
  }
}

TEST_CASE("a number of GPUs is a cluster of usual servers of the GPU that is named") {
  const Ran ran = report(
      {"--model", "7b", "--cluster", "16,64", "--gpu", "h100-80gb-sxm", "--tokens", "100G", "--sections", "storage"});
  CHECK(section(ran.json, "clusters")["rows"][0]["gpus"] == 16);
  CHECK(section(ran.json, "clusters")["rows"][1]["gpus"] == 64);
}
