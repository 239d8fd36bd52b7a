#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/explain.h"
#include "planner/import/imported_job.h"
#include "planner/inputs.h"
#include "planner/report/terminal.h"

namespace tpplan {

/// A job as it is beside the best plan for the same model, cluster and batch.
struct ImportComparison {
  Job job;
  Explanation present;
  std::optional<Plan> best;  ///< nothing when no layout fits
  std::vector<Assumption> assumed;
};

/// What `import` found, for every output format.
struct ImportReport {
  const ImportedJob& job;
  std::vector<std::string> files;
  const ImportComparison* comparison = nullptr;  ///< nothing without --cluster or a model
  std::string next;                              ///< command worth running next
};

/// Best over present step time: 0.8 when the best plan takes four fifths of the time; nothing when
/// one is missing or the present layout does not fit.
std::optional<double> best_over_present(const ImportComparison& comparison);

std::string import_table(const ImportReport& report, const Terminal& terminal);
std::string import_json(const ImportReport& report);

}  // namespace tpplan
