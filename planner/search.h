#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost-model/estimate.h"
#include "planner/rules.h"

namespace tpplan {

/// Values an axis may take; empty means every legal one ("auto").
struct AxisChoice {
  std::vector<int> values;
  [[nodiscard]] bool allows(int value) const;
};

enum class Objective : std::uint8_t { step_time, memory, cost };

/// What part of the space to look at. An empty list leaves the axis open:
/// tp, pp, cp (and with them dp): every divisor of the world; ep: every divisor of the experts; etp: 1 and tp; vpp: 1
/// and, for interleaved, every number of chunks that divides the layers evenly, alone or with the head, or with
/// embedding and head, counted as a layer; micro-batch: powers of two up to 64 and every number up to 8 that divide the
/// global batch. Values that are given are tried as they are, legal or not.
struct SearchSpace {
  std::array<AxisChoice, kAxes.size()> axes;  ///< in the order of kAxes
  std::vector<int> zero;                      ///< empty: those the framework uses; 0 alone on one data-parallel rank
  std::vector<int> shard_group;               ///< empty: all data-parallel ranks share states
  std::vector<int> vpp_group;                 ///< of interleaved layouts, 0: as many as stages; empty: that alone
  std::vector<bool> sequence_parallel;        ///< empty: on when tp > 1 and the sequence divides by it
  std::vector<std::string> recompute;    ///< texts of set_recompute(); empty: those the framework uses, less what fused
                                         ///< attention makes useless
  std::vector<Schedule> schedules;       ///< empty: 1f1b with one chunk per rank, interleaved with more
  std::vector<CpType> cp_types;          ///< empty: the framework's usual one
  std::vector<Offload> offloads;         ///< empty: none
  std::vector<Optimizer> optimizers;     ///< empty: adam
  std::vector<RanksOrder> ranks_orders;  ///< empty: tp-cp-dp-pp
  std::vector<GradReduce> grad_reduces;  ///< empty: as the framework does
};

/// One ranked layout.
struct Plan {
  Layout layout;
  Estimate estimate;
  Fits fits = Fits::fits;
  std::vector<int> layers_per_stage;
  /// The prediction cannot tell this plan from the best of its group, the last plan above that is not tied: their
  /// intervals overlap. Plans of one search share profile and links, and with them most of the error, so a quarter of
  /// the profile's 80 % width is taken.
  bool tied_with_previous = false;
  double simulated_s = 0;  ///< seconds of the step as simulate_plans() has it; 0: not simulated
};

/// A layout priced as it is shown: where the profile asks for it, the reserved memory comes from a replay of the
/// allocator, which takes a millisecond; the search itself ranks by estimate() alone.
Plan plan_of(const Job& job, const Layout& layout);

/// What the search did: printed as "evaluated ..." and kept as the signature of a job.
struct SearchStats {
  std::int64_t enumerated = 0;         ///< candidates before the rules
  std::vector<std::int64_t> rejected;  ///< per row of rules()
  std::int64_t out_of_memory = 0;
  std::int64_t ranked = 0;
  double seconds = 0;
  int simulated = 0;                ///< layouts
  bool simulation_certain = false;  ///< no layout that was not simulated could be among the fastest by simulation
  double simulate_seconds = 0;
  [[nodiscard]] std::int64_t rejected_total() const;
  [[nodiscard]] std::int64_t costed() const { return enumerated - rejected_total(); }
};

/// A layout that a search passed over.
struct PassedOver {
  Layout layout;
  double lower_bound = 0;  ///< seconds of a step
  friend bool operator==(const PassedOver&, const PassedOver&) = default;
};

struct SearchResult {
  std::vector<Plan> plans;  ///< best first, at most top_k
  SearchStats stats;
  std::optional<Plan> closest;            ///< when nothing fits: the legal layout that needs least memory
  std::vector<PassedOver> next;           ///< the layouts that follow the plans, some
  double left_out_bound = 0;              ///< lower bound of the step time of all ranked layouts that are in neither
  std::optional<Plan> fastest_simulated;  ///< when simulation puts a layout of `next` before every plan
};

/// Exhaustive search: enumerates, applies the rules, prices every legal layout (time and memory), sorts by the
/// objective (cost: of one cluster it orders as step time; memory: device bytes of the fullest GPU, then step time).
/// Deterministic for any number of threads; ties break on the layout itself. `progress` gets the share done, now and
/// then.
SearchResult search(const Job& job, const SearchSpace& space, Objective objective, std::size_t top_k, int threads = 1,
                    const std::function<void(double)>& progress = {});

/// Every layout of the space that fits and that no other equals or beats in both step time and device memory of the
/// fullest GPU, by step time. `stats` receives what was done.
std::vector<Plan> undominated_plans(const Job& job, const SearchSpace& space, int threads, SearchStats& stats,
                                    const std::function<void(double)>& progress = {});
/// Simulates the plans of a search, and of the layouts after them those, in order of their lower bounds, that could be
/// among as many fastest ones: once the next bound is no less than the slowest of them, none can. Plans keep their
/// order, which is that of the estimate; `fastest_simulated` names a layout that the order passes over.
void simulate_plans(const Job& job, SearchResult& result);

}  // namespace tpplan
