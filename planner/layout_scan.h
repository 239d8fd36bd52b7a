#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost-model/stage_cost.h"
#include "planner/search.h"

namespace tpplan {

/// The candidates of a search, laid out for its loops: layer keys outside, then pipelines, then what data parallelism
/// leaves open. A candidate is one of each whose tp * pp * cp divides the world (or was asked for all the same).
struct LayoutSpace {
  struct Pipeline {
    std::int32_t pp = 1, vpp = 1;
    Schedule schedule = Schedule::f1b1;
    std::int32_t vpp_group = 0;
    std::size_t shape = 0;  ///< index into shapes
  };
  struct Sharding {
    std::uint8_t zero = 0;
    std::int32_t shard_group = 0;
    Offload offload = Offload::none;
    Optimizer optimizer = Optimizer::adam;
    GradReduce grad_reduce = GradReduce::by_framework;
  };
  std::vector<Layout> layers;  ///< fields of RuleDepth::layer set, the others at their defaults
  std::vector<Pipeline> pipelines;
  std::vector<PipelineShape> shapes;  ///< per (pp, vpp); empty groups where the layers cannot be laid out
  std::vector<Sharding> shardings;
  std::vector<Sharding> alone;  ///< the same for a single data-parallel rank
  AxisChoice dp;
  bool pipelines_given = false;    ///< pp was asked for: combinations that do not divide the world count as rejected
  bool fewest_recomputed = false;  ///< full recomputation stands for that of as few layers as the memory asks for
};

LayoutSpace layout_space(const Job& job, const SearchSpace& space);

/// The inner loops of the search over some of a space's layer keys, keeping the best layouts seen so far.
class LayoutScan {
 public:
  /// Keeps the `top_k` best by the objective, and, when `keeps_front`, every layout that none beats in both step time
  /// and memory.
  LayoutScan(const Job& job, const LayoutSpace& space, Objective objective, std::size_t top_k,
             bool keeps_front = false);

  /// Enumerates, checks and prices every candidate of one layer key. Allocates nothing, but for the front.
  void visit(std::size_t layer_key);

  /// Adds what another scan of the same space has seen.
  void merge(const LayoutScan& other);

  /// A layout with what it is ordered by.
  struct Ranked {
    double value = 0, second = 0;
    Layout layout;
    double lower_bound = 0;  ///< seconds of a step
    friend auto operator<=>(const Ranked&, const Ranked&) = default;
  };
  [[nodiscard]] const SearchStats& stats() const { return stats_; }
  [[nodiscard]] std::vector<Ranked> best() const;  ///< best first
  [[nodiscard]] const std::optional<Ranked>& closest() const { return closest_; }
  /// By step time (`value`), less and less memory (`second`).
  [[nodiscard]] const std::vector<Ranked>& front() const { return front_; }
  /// Lower bound of the step time of all ranked layouts that are not among best(); infinity when there is none.
  [[nodiscard]] double left_out_bound() const { return left_out_bound_; }

 private:
  void visit_shardings(Layout layout, std::size_t pipeline, std::optional<LayerCosts>& costs);
  /// What the candidates of a layer key, pipeline and dp share. The order of their passes is worked out once the time
  /// of one of them is asked for.
  struct Candidates {
    LayerCosts& costs;
    const PipelineShape& shape;
    const TransferLaws& transfers;
    PipelineStages stages;
    std::optional<PipelineSpan> span;
    std::optional<Seconds> most_saved;  ///< of a step, when one layer of each stage is recomputed instead of all
  };
  [[nodiscard]] double seconds_of(const Layout& layout, Candidates& all, std::span<const ShardingLaws> sharding) const;
  bool price_fewest(Layout layout, const MemoryEstimate& memory, Candidates& all,
                    std::span<const ShardingLaws> sharding);
  const ShardingLaws& laws_of(const Layout& layout, std::size_t pipeline, std::size_t sharding);
  /// Counts a candidate and keeps it if it is among the best; `seconds` of its step are asked for only when that is
  /// open.
  template <class StepSeconds>
  void price(const Layout& layout, const MemoryEstimate& memory, double lower_bound, const StepSeconds& seconds);
  [[nodiscard]] bool cannot_be_kept(double bytes, double lower_bound) const;
  [[nodiscard]] Bytes too_much(const Layout& layout, const LayerCosts& costs) const;
  [[nodiscard]] std::size_t first_broken(const Layout& layout, std::size_t begin, std::size_t end) const;
  void keep(const Ranked& candidate);
  void keep_on_front(const Ranked& candidate);

  const Job& job_;
  const LayoutSpace& space_;
  const std::vector<Rule>& rules_;
  Objective objective_;
  std::size_t top_k_;
  std::size_t first_pipeline_rule_ = 0, first_data_rule_ = 0;
  /// Laws of the grid of the layer key in work (tp, cp, ep, etp, order of ranks): the next keys mostly share it.
  struct PipelineLaws {
    bool known = false;
    TransferLaws transfers;
  };
  struct DataLaws {
    bool known = false;
    ShardingLaws sharding;
  };
  void enter_grid(const Layout& layer);
  Layout grid_;
  std::optional<LayerLists> lists_;          ///< of the layer key priced last: the next ones often share them
  std::vector<PipelineLaws> pipeline_laws_;  ///< per pipeline
  std::vector<DataLaws> data_laws_;          ///< per pipeline and sharding

  SearchStats stats_;
  std::vector<Ranked> heap_;  ///< worst on top
  double left_out_bound_ = std::numeric_limits<double>::infinity();
  std::optional<Ranked> closest_;
  bool keeps_front_ = false;
  std::vector<Ranked> front_;
};

}  // namespace tpplan
