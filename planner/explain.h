#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/search.h"

namespace tpplan {

/// A constant that a term depends on, with where its value comes from.
struct ConstantUse {
  std::string name;
  double value = 0;
  std::string
      source;  ///< "measured", "code", "fitted", "assumed", "GPU table a100-80gb-sxm", "link table nvlink-ampere"
};

/// One term of step time (seconds) or memory (bytes): its formula with the numbers put in, and what stands behind it.
struct ExplainedTerm {
  std::string_view key;
  std::string_view meaning;
  double value = 0;
  std::string formula;
  std::vector<ConstantUse> constants;
};

/// The operations of one kind of layer or end, per micro-batch on one GPU.
struct ExplainedPart {
  std::string name;  ///< "dense layer", "MoE layer", "embedding", "head and loss"
  int count = 0;     ///< layers of that kind in the model, 1 for an end
  OperationList operations;
};

struct BrokenRule {
  std::string_view name, statement;
  std::string arithmetic;
};

/// A change of one or more axes after which the layout fits.
struct Remedy {
  std::string text;  ///< "pp 4 (was 2)"
  Plan plan;
  double slowdown = 0;  ///< step time after over before, minus 1
};

/// A measured step next to the predicted one.
struct StepComparison {
  Seconds measured, predicted;
  bool inside_interval = false;  ///< within the profile's 80 % interval
  /// What the term would be if it alone were wrong; negative where even none of it would not explain the difference.
  struct Term {
    std::string_view key;
    Seconds predicted, needed;
  };
  std::vector<Term> terms;
};

/// Everything there is to say about one layout.
struct Explanation {
  Layout layout;
  std::vector<BrokenRule> broken;  ///< not empty: the layout is illegal, and nothing below is filled
  Plan plan;
  int micro_batches = 0;
  int last_stage = 0;  ///< pipeline rank whose time the terms tell: the one that finishes last
  std::vector<ExplainedTerm> time, memory;
  std::vector<ExplainedPart> parts;
  Bytes missing;                 ///< beyond what the verdict "fits" allows; 0 when it fits
  std::vector<Remedy> remedies;  ///< when it does not fit: the three cheapest changes
  std::optional<Plan> fallback;  ///< when no small change helps: the fastest layout that fits, if there is one
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  ///< adjustments frameworks make: vocabulary padded, uneven stages
  std::optional<StepComparison> comparison;
};

/// Applies every rule, prices the layout and takes the price apart.
Explanation explain(const Job& job, const Layout& layout, std::optional<Seconds> measured_step = std::nullopt);

/// Terms of time and memory of a priced layout, in the order of kStepTerms and kMemoryTerms.
std::vector<ExplainedTerm> explained_time(const Job& job, const Plan& plan, int& last_stage);
std::vector<ExplainedTerm> explained_memory(const Job& job, const Plan& plan);

/// The three cheapest legal changes that make the layout fit: of one axis if there are three, else of two, else of
/// three.
std::vector<Remedy> remedies_of(const Job& job, const Plan& plan);

}  // namespace tpplan
