#include "planner/spec_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace {

using namespace tpplan;
namespace fs = std::filesystem;

const std::string kClusters = TPPLAN_SOURCE_DIR "/clusters/";

std::string miss(const std::string& kind, const std::string& name) {
  try {
    return find_spec(kind, name);
  } catch (const SpecError& problem) {
    return problem.what();
  }
}

TEST_CASE("shipped clusters are found in any case with and without the suffix") {
  for (const std::string name : {"8xA100", "8xa100", "8xA100.json", "clusters/8xa100", "aws-P4D.24xlarge"}) {
    CAPTURE(name);
    const auto path = try_find_spec("cluster", name);
    REQUIRE(path);
    CHECK(fs::is_regular_file(*path));
    CHECK(fs::equivalent(fs::path(*path).parent_path(), kClusters));
  }
  CHECK(find_spec("cluster", "-") == "-");
}

TEST_CASE("a path as given comes before a shipped name") {
  const fs::path folder = fs::temp_directory_path() / "tpplan_spec_files_test";
  fs::create_directories(folder);
  const std::string file = (folder / "8xA100.json").string();
  std::ofstream(file) << R"({"gpu": "t4", "gpus_per_node": 3})";
  CHECK(find_spec("cluster", file) == file);
  CHECK(find_spec("cluster", (folder / "8xA100").string()) == file);
  CHECK(resolve_cluster(file).gpus() == 3);
  fs::remove_all(folder);
  // A mistyped path does not turn into the shipped file of that name.
  CHECK(!try_find_spec("cluster", file));
}

TEST_CASE("a folder is a model only when it holds config.json") {
  const fs::path folder = fs::temp_directory_path() / "tpplan_spec_files_model";
  fs::create_directories(folder);
  CHECK(!try_find_spec("model", folder.string()));
  std::ofstream(folder / "config.json") << "{}";
  CHECK(try_find_spec("model", folder.string()) == folder.string());
  CHECK(!try_find_spec("cluster", folder.string()));
  fs::remove_all(folder);
}

TEST_CASE("a miss lists all places and near names") {
  const std::string message = miss("cluster", "8xA10O");
  CHECK(message.find("no cluster \"8xA10O\"; looked at:\n  8xA10O\n  8xA10O.json\n  ") == 0);
  CHECK(message.find("clusters/8xA10O.json") != std::string::npos);
  CHECK(message.find("did you mean 8xA100") != std::string::npos);
  CHECK(message.find("16x8xh100-80gb-sxm") != std::string::npos);
}

TEST_CASE("a size alone leads to the models of that size") {
  const std::string message = miss("model", "8b");
  CHECK(message.find("llama3-8b") != std::string::npos);
  CHECK(message.find("qwen3-8b") != std::string::npos);
  CHECK(message.find("mixtral-8x7b") == std::string::npos);
}

TEST_CASE("a folder that is no model is named as what it is") {
  const std::string folder = TPPLAN_SOURCE_DIR "/docs";
  CHECK(miss("model", folder).find(folder + " is a folder without config.json\nno model ") == 0);
  CHECK(miss("cluster", folder).find(folder + " is a folder\nno cluster ") == 0);
}

TEST_CASE("a model without a name is called after its folder however that is written") {
  const fs::path folder = fs::temp_directory_path() / "tpplan_spec_files_name" / "some-model";
  fs::create_directories(folder);
  fs::copy_file(TPPLAN_SOURCE_DIR "/tests/data/hf-configs/meta-llama__Meta-Llama-3-8B.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  for (const char* way : {"", ".", "../some-model"}) {
    CHECK(resolve_model((folder / way).string()).name == "some-model");
  }
  fs::remove_all(folder.parent_path());
}

TEST_CASE("catalogues and calibrations are no clusters") {
  const auto names = shipped("cluster");
  CHECK(names.size() >= 50);
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    CHECK(name != "gpus");
    CHECK(!name.ends_with(".calibration"));
  }
}

TEST_CASE("a cluster is a shipped file first and a construction from the catalogue else") {
  // "8xH100" alone would be ambiguous between SXM and PCIe; the shipped file decides.
  CHECK(resolve_cluster("8xH100").gpu.id == "h100-80gb-sxm");
  CHECK(resolve_cluster("16x8xh100-80gb-sxm").gpus() == 128);
  std::string message;
  try {
    resolve_cluster("16x8xh100-80gb-sxn");
  } catch (const SpecError& problem) {
    message = problem.what();
  }
  CHECK(message.find("unknown GPU \"h100-80gb-sxn\"; did you mean h100-80gb-sxm?\n") == 0);
  CHECK(message.find("looked at:") != std::string::npos);
}

TEST_CASE("a missing data folder is reported with the places looked at") {
  CHECK(fs::is_directory(data_folder("clusters")));
  std::string message;
  try {
    data_folder("no-such-folder");
  } catch (const SpecError& problem) {
    message = problem.what();
  }
  CHECK(message.find(TPPLAN_SOURCE_DIR "/no-such-folder") != std::string::npos);
  CHECK(message.find("share/tpplan/no-such-folder") != std::string::npos);
}

}  // namespace
