#pragma once

#include <iosfwd>

#include "planner/options.h"

namespace tpplan {

/// Which uses of a model fit on which GPU alone: inference in four precisions, QLoRA, LoRA and full fine-tuning.
/// Returns 1 when nothing fits anywhere.
int run_fit(const PlannerOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tpplan
