#include "planner/report/plan_report.h"

#include <algorithm>

#include "cost-model/units.h"

namespace tpplan {

std::vector<RejectionCount> rejections(const SearchStats& stats) {
  std::vector<RejectionCount> counts;
  for (std::size_t i = 0; i < stats.rejected.size() && i < rules().size(); ++i) {
    if (stats.rejected[i] > 0) {
      counts.push_back({rules()[i].name, stats.rejected[i]});
    }
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const RejectionCount& a, const RejectionCount& b) { return a.layouts > b.layouts; });
  return counts;
}

std::string searched_line(const SearchStats& stats) {
  constexpr std::size_t kRulesShown = 3;
  std::string line = "evaluated " + with_separators(stats.enumerated) + " layouts: ";
  const std::vector<RejectionCount> counts = rejections(stats);
  if (!counts.empty()) {
    line += with_separators(stats.rejected_total()) + " illegal (";
    for (std::size_t i = 0; i < std::min(kRulesShown, counts.size()); ++i) {
      line += (i == 0 ? "" : ", ") + std::string(counts[i].rule) + " " + with_separators(counts[i].layouts);
    }
    line += counts.size() > kRulesShown ? ", ...), " : "), ";
  }
  line += with_separators(stats.out_of_memory) + " out of memory, " + with_separators(stats.ranked) + " ranked";
  if (stats.simulated > 0) {
    line += ", " + with_separators(stats.simulated) + " simulated";
    line += stats.simulation_certain ? " (no other can be among the fastest)" : "";
  }
  return line;
}

std::string job_line(const Job& job) {
  const ParameterCounts counts = parameter_counts(job.model);
  std::string line = job.model.name + " (" + brief_number(static_cast<double>(counts.total) / 1e9) + " B parameters";
  if (counts.active != counts.total) {
    line += ", " + brief_number(static_cast<double>(counts.active) / 1e9) + " B active";
  }
  line += ") on " + with_separators(job.cluster.gpus()) + " x " + job.cluster.gpu.name;
  if (job.cluster.nodes > 1) {
    line += " (" + with_separators(job.cluster.nodes) + " nodes of " + std::to_string(job.cluster.gpus_per_node) + ")";
  }
  const bool single = job.training.global_batch == 1;
  return line + ", " + std::string(name_of(job.training.precision)) + ", " +
         with_separators(job.training.global_batch) + (single ? " sequence of " : " sequences of ") +
         with_separators(job.training.seq) + " tokens, " + std::string(name_of(job.training.framework));
}

}  // namespace tpplan
