// How far predictions are from the measured runs in tests/data/runs, held against tests/data/ratchet.json.
//
// After an intended change: scripts/accuracy --update, and a row in tests/data/ratchet.md for every figure that rose.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/report/output.h"
#include "planner/report/validate_ratchet.h"
#include "planner/spec_files.h"

using namespace tpplan;

namespace {

const std::string kData = std::string(TPPLAN_SOURCE_DIR) + "/tests/data/";

const ProfileSet& profiles() {
  static const ProfileSet set = ProfileSet::load(std::string(TPPLAN_SOURCE_DIR) + "/clusters/profiles");
  return set;
}

const std::vector<RunRecord>& records() {
  static const std::vector<RunRecord> all = [] {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(kData + "runs")) {
      if (entry.path().extension() == ".jsonl") {
        files.push_back(entry.path().string());
      }
    }
    std::sort(files.begin(), files.end());
    const auto catalogue = shipped_gpus();
    std::vector<RunRecord> read;
    std::string warnings;
    for (const auto& file : files) {
      const auto some = read_runs(file, catalogue, warnings);
      read.insert(read.end(), some.begin(), some.end());
    }
    REQUIRE(warnings == "");
    return read;
  }();
  return all;
}

std::vector<RunPrediction> predicted_runs() {
  auto runs = prepare(records(), profiles());
  for (auto& run : runs) {
    predict(run);
  }
  return runs;
}

/// What to rewrite: "medians" (seconds), "all" with the left-out figures (minutes), nothing in a test run.
std::string update_wanted() {
  const char* text = std::getenv("TPPLAN_UPDATE_RATCHET");
  return text == nullptr ? "" : text;
}

/// Does a row of ratchet.md name the figure that rose? "| megatron2021 | step | 1.2 | 1.8 | reason |".
bool explained(const std::string& regression) {
  std::ifstream in(kData + "ratchet.md");
  const bool mean = regression.rfind("mean of ", 0) == 0;
  const auto kind = std::string(regression.find("memory median") != std::string::npos ? "memory" : "step");
  const auto group = mean ? "mean" : regression.substr(0, regression.find(':'));
  const auto last = regression.substr(0, regression.rfind(" %"));
  const double now = std::stod(last.substr(last.rfind(' ') + 1));
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) {
      const auto first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    if (cells.size() >= 6 && cells[1] == group && cells[2] == kind && !cells[5].empty() &&
        std::strtod(cells[4].c_str(), nullptr) >= now - 0.051) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("no group of measured runs is predicted worse than the ratchet says") {
  const auto path = kData + "ratchet.json";
  auto runs = predicted_runs();
  const auto groups = group_reports(runs);
  auto now = ratchet_of(groups);
  const auto update = update_wanted();
  if (!update.empty()) {
    auto then = std::filesystem::exists(path) ? load_ratchet(path) : Ratchet{};
    for (auto& [name, row] : now.groups) {
      auto& old = then.groups[name];
      old.step = row.step;
      old.memory = row.memory;
    }
    now = then;
    if (update == "all") {
      const auto by_model = left_out_stats(left_out_errors(runs, LeaveOut::model, profiles()), {});
      const auto by_group = left_out_stats(left_out_errors(runs, LeaveOut::group, profiles()), {});
      add_left_out(now, by_model, by_group);
      now.left_out_coverage_step = by_model.at("all runs").coverage_step;
      now.left_out_coverage_memory = by_model.at("all runs").coverage_memory;
    }
    write_file(path, to_json(now));
    return;
  }
  const auto then = load_ratchet(path);
  for (const auto& regression : regressions(then, now)) {
    CHECK_MESSAGE(explained(regression), regression << " (tests/data/ratchet.md does not name it)");
  }
  for (const auto& entry : now.groups) {
    CHECK_MESSAGE(then.groups.count(entry.first) == 1, "group " << entry.first << " has no recorded median");
  }
}

TEST_CASE("four fifths of the runs lie inside the stated intervals") {
  const auto runs = predicted_runs();
  const auto total = group_reports(runs).back();
  REQUIRE(total.coverage_step);
  REQUIRE(total.coverage_memory);
  // The widths come from left-out residuals, so that runs which the constants have seen lie inside a little more often.
  CHECK(*total.coverage_step >= 0.75);
  CHECK(*total.coverage_memory >= 0.75);
  const auto ratchet = load_ratchet(kData + "ratchet.json");
  REQUIRE(ratchet.left_out_coverage_step);
  REQUIRE(ratchet.left_out_coverage_memory);
  CHECK(*ratchet.left_out_coverage_step >= 0.75);
  CHECK(*ratchet.left_out_coverage_step <= 0.90);
  CHECK(*ratchet.left_out_coverage_memory >= 0.75);
  CHECK(*ratchet.left_out_coverage_memory <= 0.90);
}

TEST_CASE("constants fitted without a model predict it as the ratchet says") {
  // The profiles with few runs, so that the refits take a second; scripts/accuracy --update refits all.
  constexpr int kMostRuns = 60;
  constexpr int kFewestRuns = 8;
  constexpr double kAllowedRise = 0.005;
  auto runs = predicted_runs();
  std::map<std::string, int> sizes;
  std::map<std::string, std::map<std::string, int>> profiles_of_group;
  for (const auto& run : runs) {
    if (run.counted()) {
      ++sizes[run.job.profile.name];
      ++profiles_of_group[run.record->group][run.job.profile.name];
    }
  }
  std::vector<LeftOutError> errors;
  for (const auto& [profile, size] : sizes) {
    if (size <= kMostRuns) {
      const auto some = left_out_errors(profile, runs, LeaveOut::model, profiles());
      errors.insert(errors.end(), some.begin(), some.end());
    }
  }
  const auto ratchet = load_ratchet(kData + "ratchet.json");
  int compared = 0;
  for (const auto& entry : left_out_stats(errors, {})) {
    const auto& group = entry.first;
    const auto& stats = entry.second;
    const auto then = ratchet.groups.find(group);
    const auto& used = profiles_of_group[group];
    const bool whole =
        std::all_of(used.begin(), used.end(), [&](const auto& row) { return sizes[row.first] <= kMostRuns; });
    // The median of a few runs jumps with the last digit of a constant.
    const bool few = stats.step.n < kFewestRuns;
    if (group == "all runs" || few || !whole || then == ratchet.groups.end() || !then->second.left_out_step) {
      continue;
    }
    ++compared;
    CHECK_MESSAGE(stats.step.median <= *then->second.left_out_step + kAllowedRise,
                  group << ": left-out median " << stats.step.median << ", recorded " << *then->second.left_out_step);
  }
  CHECK(compared >= 3);
}
