// Every layout that was trained must be legal for its framework.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "planner/rules.h"
#include "planner/validate.h"

using namespace tpplan;

namespace {

/// Runs of a group whose layout breaks a rule, as "id: rule: arithmetic" lines.
std::string refusals(const std::string& group, int& checked) {
  const std::string root = TPPLAN_SOURCE_DIR;
  static const ProfileSet kProfiles = ProfileSet::load(root + "/clusters/profiles");
  static const GpuCatalogue kGpus = GpuCatalogue::load(root + "/clusters/gpus.json");
  std::string warnings;
  const auto records = read_runs(root + "/tests/data/runs/" + group + ".jsonl", kGpus, warnings);
  std::string list;
  for (const auto& run : prepare(records, kProfiles)) {
    if (!run.skipped.empty()) {
      list += run.record->id + ": skipped: " + run.skipped + "\n";
      continue;
    }
    ++checked;
    for (const int broken : broken_rules(run.job, run.record->layout)) {
      const Rule& rule = rules()[static_cast<std::size_t>(broken)];
      list +=
          run.record->id + ": " + std::string(rule.name) + ": " + rule.arithmetic(run.job, run.record->layout) + "\n";
    }
  }
  return list;
}

}  // namespace

TEST_CASE("layouts of published runs are legal for their framework") {
  constexpr std::array<const char*, 6> kGroups{
      "megatron-bridge-dense", "megatron-bridge-moe", "nemo-archive", "mcore-moe", "torchtitan", "internevo"};
  for (const char* group : kGroups) {
    int checked = 0;
    const std::string refused = refusals(group, checked);
    INFO(group);
    CHECK(refused == "");
    CHECK(checked > 0);
  }
}
