#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// What a rule reads of a layout, besides the job: the loops of the search that must be open before it can be checked.
enum class RuleDepth : std::uint8_t {
  layer,     ///< tp, cp, ep, etp, micro-batch, sequence parallelism, recomputation (its layers excepted), cp type
  pipeline,  ///< also pp, vpp, schedule, dp
  data       ///< also zero, shard group, offload, optimizer
};

/// One validity rule of training frameworks: a layout that breaks it cannot run.
struct Rule {
  std::string_view name;       ///< "heads-divide-tp": stable word, key of `rejected`
  std::string_view statement;  ///< the rule in one sentence with its source
  RuleDepth depth = RuleDepth::layer;
  bool (*broken)(const Job&, const Layout&);             ///< allocates nothing
  std::string (*arithmetic)(const Job&, const Layout&);  ///< the numbers and the nearest legal values
};

/// All rules, in the order they are applied (ascending depth); the first broken one counts.
const std::vector<Rule>& rules();

/// Index of the first rule the layout breaks, or -1.
int first_broken_rule(const Job& job, const Layout& layout);

/// Indices of every rule the layout breaks.
std::vector<int> broken_rules(const Job& job, const Layout& layout);

/// When gradients can be reduced (bit mask).
enum ReductionTime : std::uint8_t { kOnEach = 1, kOnLast = 2 };

/// What a framework offers, and what it takes when nothing is said.
struct FrameworkHabits {
  Framework framework;
  std::vector<Schedule> schedules;        ///< offered; the search tries 1f1b and, when offered, interleaved
  std::vector<std::uint8_t> zero;         ///< stages it has
  std::vector<int> tried_zero;            ///< stages the search tries when none are asked for
  std::uint8_t usual_zero = 0;            ///< of a layout that does not name a stage
  std::vector<CpType> cp_types;           ///< offered; the first is the usual one
  std::vector<std::string> recompute;     ///< tried by the search, texts of set_recompute()
  bool replicates_kv_heads = false;       ///< tp may be a multiple of the key/value heads
  std::array<std::uint8_t, 4> reduces{};  ///< by ZeRO stage: bits of ReductionTime
};
const FrameworkHabits& habits_of(Framework framework);

/// The layout that a text leaves open: usual ZeRO stage and context-parallel variant of the framework, experts split as
/// the rest (etp 0: follows tp) in a mixture of experts. The defaults of parse_layout() for this job.
Layout usual_layout(const Job& job);

/// Micro-batches of one step on each pipeline: global batch / (dp x micro-batch).
int micro_batches(const Job& job, const Layout& layout);

/// Legal but slow, one sentence each: head size, dimensions off the multiple of 8 or 16, tp beyond the fast domain, an
/// unpadded vocabulary, a sparse peak given as dense, a GPU that waits for its host, too few micro-batches.
std::vector<std::string> warnings(const Job& job, const Layout& layout);

}  // namespace tpplan
