#pragma once

#include <string>
#include <vector>

#include "planner/export/framework_keys.h"
#include "planner/search.h"

namespace tpplan {

/// A legal layout that is to be written: everything the writers of the targets read.
struct ExportRequest {
  const Job& job;
  Plan plan;
  Launcher launcher = Launcher::torchrun;
  std::string command = {};            ///< repeats the export
  std::string file = {};               ///< name of the main file, as launch lines call it
  std::vector<int> stage_layers = {};  ///< layers of every stage in the order a micro-batch goes through them
  std::vector<std::string> left = {};  ///< what the target's file cannot say, in words

  [[nodiscard]] const Layout& layout() const { return plan.layout; }
  [[nodiscard]] bool stages_are_equal() const;
};

/// Layers of every (virtual) stage of a pipeline: given, balanced, or as the framework deals them out.
std::vector<int> export_stage_layers(const Job& job, const Layout& layout);

/// What a key says of the job, counted as we count; switches are 0 or 1. Nothing where the job has no such thing
/// (experts of a dense model, virtual stages without a schedule that has them).
std::optional<std::int64_t> number_of(const Job& job, const Layout& layout, JobFact fact);

/// The same of what words say: "1f1b", "fp8:tensorwise", "ring", "full".
std::string word_of(const Job& job, const Layout& layout, JobFact fact);

}  // namespace tpplan
