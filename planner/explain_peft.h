#pragma once

#include "cost-model/stage_cost.h"
#include "planner/explain.h"

namespace tpplan {

/// What a rank with frozen weights and adapters is made of, for the formulas of its memory.
struct FrozenRank {
  const Job& job;
  const Layout& layout;
  const LayerCosts& costs;
  const StageGroup& group;
  const StageCosts& stage;
  const DataGroups& data;
};
/// "adapters of rank 16", "prompts and gates".
std::string adapters_text(const TrainingSpec& training);
std::string frozen_weights_formula(const FrozenRank& rank);
std::string adapter_gradients_formula(const FrozenRank& rank);
std::string adapter_states_formula(const FrozenRank& rank);

/// Constants behind those terms: keys of the profile.
std::vector<std::string_view> frozen_constants(std::string_view term);

}  // namespace tpplan
