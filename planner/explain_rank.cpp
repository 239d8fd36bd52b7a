// What the formulas of time and memory of one pipeline rank share.
#include "planner/explain_rank.h"

#include <cmath>

namespace tpplan {
namespace {

std::string source_in(const FrameworkProfile& profile, std::string_view key) {
  for (const auto& [name, source] : profile.sources) {
    if (name == key) {
      return std::string(name_of(source));
    }
  }
  return "assumed";
}

}  // namespace

std::string number(std::int64_t value) { return with_separators(value); }
std::string count_of(double value) { return number(std::llround(value)); }

ExplainedRank explained_rank(const Job& whole, const Layout& layout, const StageGroup& group) {
  const Job& job = whole.part(group.part);
  const LayerCosts costs = layer_costs(job, layer_key(layout));
  return {whole,
          job,
          layout,
          costs,
          group,
          stage_costs(costs, group.content),
          data_groups(job, layout),
          static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch)};
}

std::string group_text(const GroupPlacement& group) {
  return number(group.ranks) + " ranks" + (group.stride > 1 ? " " + number(group.stride) + " apart" : "");
}

bool holds_own_head(const ExplainedRank& c) {
  return c.group.content.head && (!c.job.model.tied_embeddings || !c.group.content.embedding);
}
double dense_parameters(const ExplainedRank& c) {
  return c.stage.params + (holds_own_head(c) ? c.costs.head_params : 0);
}
double parameters(const ExplainedRank& c) { return dense_parameters(c) + c.stage.expert_params; }

double local_parameters(const ExplainedRank& c) {
  if (c.costs.frozen) {
    return trained_parameters(c.costs, c.group.content, c.stage, holds_own_head(c)).dense /
           (c.layout.zero >= 1 ? c.data.dense_shards : 1);
  }
  return c.layout.zero >= 1 ? dense_parameters(c) / c.data.dense_shards + c.stage.expert_params / c.data.expert_shards
                            : parameters(c);
}

void add_constant(const Job& job, const Behind& behind, std::vector<ConstantUse>& uses) {
  const std::string key(behind.key);
  if (behind.from == From::gpu) {
    for (const GpuConstantRow& row : kGpuConstantTable) {
      if (row.key == behind.key) {
        uses.push_back({key, job.constants.*row.field, "GPU table, " + job.constants.id});
      }
    }
    return;
  }
  for (const ProfileScalarRow& row : profile_scalars()) {
    if (row.key == behind.key) {
      uses.push_back({key, job.profile.*row.field, source_in(job.profile, key)});
    }
  }
}

}  // namespace tpplan
