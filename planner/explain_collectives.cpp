#include "planner/explain_collectives.h"

#include <algorithm>
#include <array>

#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

constexpr Bytes kShownSize = 64_MiB;
constexpr double kGuessBeyond = 8;  ///< ratio of ranks

struct GroupUse {
  Collective collective;
  GroupPlacement group;
};

std::vector<GroupUse> tensor_groups(const Job& job, const Layout& layout) {
  const auto group = place_group(job.cluster, layout.tp, 1);
  if (layout.sequence_parallel) {
    return {{Collective::all_gather, group}, {Collective::reduce_scatter, group}};
  }
  return {{Collective::all_reduce, group}};
}

std::vector<GroupUse> context_groups(const Job& job, const Layout& layout) {
  switch (layout.cp_type) {
    case CpType::ulysses:
      return {{Collective::all_to_all, place_group(job.cluster, layout.cp, layout.tp)}};
    case CpType::all_gather:
      return {{Collective::all_gather, place_group(job.cluster, layout.cp, layout.tp)},
              {Collective::reduce_scatter, place_group(job.cluster, layout.cp, layout.tp)}};
    default:
      return {{Collective::send_recv, place_group(job.cluster, 2, layout.tp)}};
  }
}

std::vector<GroupUse> expert_groups(const Job& job, const Layout& layout) {
  return {{Collective::all_to_all, place_group(job.cluster, layout.ep, layout.etp)}};
}

std::vector<GroupUse> pipeline_groups(const Job& job, const Layout& layout) {
  const int stride = layout.tp * layout.cp * (layout.ranks_order == RanksOrder::tp_cp_pp_dp ? 1 : layout.dp);
  return {{Collective::send_recv, place_group(job.cluster, 2, stride)}};
}

std::vector<GroupUse> data_parallel_groups(const Job& job, const Layout& layout) {
  const DataGroups groups = data_groups(job, layout);
  if (layout.zero == 0) {
    return {{Collective::all_reduce, groups.dense}};
  }
  return {{Collective::reduce_scatter, groups.dense_shard},
          {Collective::all_gather, groups.dense_shard},
          {Collective::all_reduce, groups.dense_replicas}};
}

struct TermRow {
  std::string_view term;
  std::vector<GroupUse> (*groups)(const Job&, const Layout&);
};
constexpr std::array<TermRow, 5> kTerms{{{"tp_comm", tensor_groups},
                                         {"cp_comm", context_groups},
                                         {"ep_comm", expert_groups},
                                         {"pp_comm", pipeline_groups},
                                         {"dp_comm", data_parallel_groups}}};

/// Short, for a column: "measured, 1 KiB to 1 GiB", "extrapolated 8 to 16 ranks, to 1 GiB".
std::string source_of(const RankLaw& law, int ranks) {
  const CollectiveCurve& curve = *law.nearest;
  const std::string largest = curve.points.empty() ? "" : format(curve.points.back().size);
  if (!law.exact) {
    const std::string text =
        "extrapolated " + std::to_string(curve.placement.ranks()) + " to " + std::to_string(ranks) + " ranks";
    const bool far = std::max(law.rank_ratio, 1 / law.rank_ratio) > kGuessBeyond;
    return far ? text + " (guess)" : largest.empty() ? text : text + ", to " + largest;
  }
  std::string text = "measured";
  if (curve.concurrent_groups > 1) {
    text += " " + std::to_string(curve.concurrent_groups) + " at once";
  }
  return largest.empty() ? text : text + ", " + format(curve.points.front().size) + " to " + largest;
}

}  // namespace

std::string speed_of(const Job& job, Collective collective, const GroupPlacement& group) {
  const std::string& tier = job.cluster.tiers[group.tier].name;
  const CollectiveLaw law = collective_law(job, collective, group);
  if (law.measured.nearest == nullptr) {
    return format(group_bandwidth(job, collective, group)) + " on " + tier;
  }
  return (law.measured.exact ? "measured on " : "extrapolated from measurements on ") + tier;
}

std::vector<ConstantUse> measured_collectives(const Job& job, const Layout& layout, std::string_view term) {
  std::vector<ConstantUse> uses;
  const auto row = std::find_if(kTerms.begin(), kTerms.end(), [&](const TermRow& r) { return r.term == term; });
  if (row == kTerms.end()) {
    return uses;
  }
  for (const GroupUse& use : row->groups(job, layout)) {
    const CollectiveLaw law = collective_law(job, use.collective, use.group);
    if (law.silent || law.measured.nearest == nullptr) {
      continue;
    }
    std::string name =
        std::string(row_of(use.collective).name) + " " + format(kShownSize) + " x " + std::to_string(use.group.ranks);
    if (use.group.stride > 1) {
      name += "/" + std::to_string(use.group.stride);
    }
    uses.push_back({name + ", s", law.time(kShownSize).raw(), source_of(law.measured, use.group.ranks)});
  }
  return uses;
}

}  // namespace tpplan
