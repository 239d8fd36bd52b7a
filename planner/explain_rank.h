#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/pipeline.h"
#include "cost-model/stage_cost.h"
#include "planner/explain.h"

namespace tpplan {

/// What the formulas of one pipeline rank are made of.
struct ExplainedRank {
  const Job& whole;
  const Job& job;  ///< of the part of a mixed cluster that the rank lies on, else the same
  const Layout& layout;
  LayerCosts costs;
  StageGroup group;
  StageCosts stage;
  DataGroups data;
  double micro_batches = 1;
};
ExplainedRank explained_rank(const Job& whole, const Layout& layout, const StageGroup& group);

/// Numbers with thousands separators.
std::string number(std::int64_t value);
std::string count_of(double value);
/// "4 ranks 8 apart"
std::string group_text(const GroupPlacement& group);

/// Whether the rank has a head matrix that is not the embedding it also holds.
bool holds_own_head(const ExplainedRank& c);
/// Parameters of the rank without routed experts; all; and those whose optimizer states it holds.
double dense_parameters(const ExplainedRank& c);
double parameters(const ExplainedRank& c);
double local_parameters(const ExplainedRank& c);

/// A constant that stands behind a term, by its key in the profile or in the GPU table.
enum class From : std::uint8_t { profile, gpu };
struct Behind {
  From from;
  std::string_view key;
};
/// Adds the constant with its value and where it comes from.
void add_constant(const Job& job, const Behind& behind, std::vector<ConstantUse>& uses);

}  // namespace tpplan
