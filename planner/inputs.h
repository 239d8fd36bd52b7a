#pragma once

#include <string>
#include <vector>

#include "planner/options.h"

namespace tpplan {

/// A default that moved the answer, and the option (or file key) that sets it.
struct Assumption {
  std::string what, value, set_by;
};

/// Loads what the options name (model, cluster, profiles, calibration), fills in defaults and checks the parts against
/// each other. `assumed` receives every default that was used and `warnings` rendered warnings about the files, when
/// not null. Throws SpecError or UsageError.
Job job_from(const PlannerOptions& options, std::vector<Assumption>* assumed = nullptr,
             std::string* warnings = nullptr);

/// The same of parts that were loaded before, for many jobs of few parts.
Job job_from(const PlannerOptions& options, ModelSpec model, ClusterSpec cluster, const ProfileSet& profiles,
             std::vector<Assumption>* assumed = nullptr);

/// The part of the layout space that the options leave open for this job.
SearchSpace space_from(const PlannerOptions& options, const Job& job);

}  // namespace tpplan
