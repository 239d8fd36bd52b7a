#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/cluster_spec.h"
#include "cost-model/model_spec.h"

namespace tpplan {

/// What the numbers of a term are, for people; machine formats carry them in base units.
enum class DiffUnit : std::uint8_t { count, share, seconds, bytes, bytes_per_second, flops_per_second, watts, tokens };

/// One number of both sides; a side that lacks it has none.
struct DiffTerm {
  std::string key;  ///< with its unit in machine formats: "tp_comm_s"
  std::string name;
  DiffUnit unit = DiffUnit::count;
  std::optional<double> a, b;
  [[nodiscard]] bool differs() const { return a != b; }
  [[nodiscard]] double change() const { return b.value_or(0) - a.value_or(0); }
  /// (b - a) / a; nothing when a side is missing or a is 0.
  [[nodiscard]] std::optional<double> relative() const;
};

/// Terms that belong together. Results of plans have an order of their own; other terms of one unit are sorted by the
/// size of their change, terms of several units by relative change; terms that one side lacks come first, terms that do
/// not differ last.
struct DiffSection {
  std::string key, title;
  std::vector<DiffTerm> terms;
};

/// A word or setting that is not the same on both sides.
struct DiffInput {
  std::string name;
  std::string a, b;  ///< empty: absent
};

/// Two things of one kind, term by term.
struct Difference {
  std::string kind;  ///< "plans", "clusters", "models", "calibrations"
  std::string a, b;  ///< as the user names them
  std::string summary;
  std::vector<DiffInput> inputs;
  std::vector<DiffSection> sections;
};

/// Puts the terms of a section in order.
void sort_terms(DiffSection& section);

/// One plan of a file that `plan --format json` wrote, `rank` counted from 1. Throws SpecError when the file is no such
/// file or has no such plan.
struct PlanFile {
  std::vector<std::pair<std::string, std::string>> inputs;  ///< every input and layout member: path and text
  double step_s = 0;
  std::vector<DiffTerm> results, times, memory;  ///< with side a filled in
};
PlanFile load_plan_file(const std::string& path, int rank);

Difference diff_plans(const PlanFile& a, const PlanFile& b);
Difference diff_clusters(const ClusterSpec& a, const ClusterSpec& b);
Difference diff_models(const ModelSpec& a, const ModelSpec& b);
/// Collectives are compared by the time of sizes that both sides measured, kernels by their rates.
Difference diff_calibrations(const Calibration& a, const Calibration& b);

}  // namespace tpplan
