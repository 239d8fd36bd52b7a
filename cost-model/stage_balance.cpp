#include "cost-model/stage_balance.h"

#include <algorithm>
#include <cmath>

#include "cost-model/pipeline.h"
#include "cost-model/stage_cost.h"

namespace tpplan {
namespace {

/// Halvings of the range of limits: beyond them costs no longer differ in a way that matters.
constexpr int kHalvings = 40;

/// Where the layers of one stage may end.
class Borders {
 public:
  Borders(int layers, int stages, const StageCostOf& cost) : layers_(layers), stages_(stages), cost_(cost) {}

  /// The farthest end of a stage that begins at `begin` and costs no more than `limit`; -1 when nothing does.
  [[nodiscard]] int farthest(int stage, int begin, double limit) const {
    if (cost_(stage, begin, begin) > limit) {
      return -1;
    }
    int low = begin;
    int high = layers_;
    while (low < high) {
      const int middle = low + (high - low + 1) / 2;
      (cost_(stage, begin, middle) <= limit ? low : high) = cost_(stage, begin, middle) <= limit ? middle : middle - 1;
    }
    return low;
  }
  /// The nearest begin of a stage that ends at `end`; -1 when nothing does.
  [[nodiscard]] int nearest(int stage, int end, double limit) const {
    int begin = end + 1;
    while (begin > 0 && cost_(stage, begin - 1, end) <= limit) {
      --begin;
    }
    return begin > end ? -1 : begin;
  }
  [[nodiscard]] bool possible(double limit) const {
    int begin = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      begin = farthest(stage, begin, limit);
      if (begin < 0) {
        return false;
      }
    }
    return begin == layers_;
  }

 private:
  int layers_, stages_;
  const StageCostOf& cost_;
};

/// What each of the stages from `stage` on would cost if layers could be cut: those that cost more without a layer take
/// none.
double fair_share(int layers, int stages, int stage, int begin, const StageCostOf& cost) {
  const double left = cost(stage, begin, layers) - cost(stage, begin, begin);
  double share = left + cost(stage, begin, begin);
  for (int rounds = 0; rounds < 3; ++rounds) {
    double sum = left;
    int takers = 0;
    for (int other = stage; other < stages; ++other) {
      const double alone = cost(other, begin, begin);
      if (alone < share || other == stage) {
        sum += alone;
        ++takers;
      }
    }
    share = sum / takers;
  }
  return share;
}

StageContent content_of(const Job& job, int stage, int stages, int begin, int end) {
  StageContent content;
  content.moe = job.moe_in(begin, end);
  content.dense = end - begin - content.moe;
  content.embedding = stage == 0;
  content.head = stage + 1 == stages;
  content.mtp = content.head ? job.model.mtp_layers : 0;
  return content;
}

}  // namespace

std::vector<int> deal_layers(int layers, int stages, const StageCostOf& cost) {
  const Borders borders(layers, stages, cost);
  double low = 0;
  double high = 0;
  for (int stage = 0; stage < stages; ++stage) {
    high = std::max(high, cost(stage, 0, layers));
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (borders.possible(middle) ? high : low) = middle;
  }
  // The least begin of each stage from which the rest can still be dealt out.
  std::vector<int> least(static_cast<std::size_t>(stages) + 1, layers);
  for (int stage = stages - 1; stage > 0; --stage) {
    const auto at = static_cast<std::size_t>(stage);
    least[at] = std::max(0, borders.nearest(stage, least[at + 1], high));
  }
  std::vector<int> dealt;
  int begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int farthest = std::max(begin, borders.farthest(stage, begin, high));
    const int nearest = std::min(farthest, std::max(begin, least[static_cast<std::size_t>(stage) + 1]));
    const double share = fair_share(layers, stages, stage, begin, cost);
    int end = nearest;
    while (end < farthest &&
           std::abs(cost(stage, begin, end + 1) - share) < std::abs(cost(stage, begin, end) - share)) {
      ++end;
    }
    const int inner_after = std::max(0, stages - 2 - stage);
    if (end == begin && stage > 0 && stage + 1 < stages && begin < layers) {
      end = begin + 1;
    }
    end = stage + 1 == stages ? layers : std::max(begin, std::min(end, layers - inner_after));
    dealt.push_back(end - begin);
    begin = end;
  }
  return dealt;
}

std::vector<int> balanced_stages(const Job& job, const Layout& layout, const LayerCosts& costs) {
  const int stages = depth_of(layout.schedule, layout.pp, layout.vpp);
  if (job.training.balance == StageBalance::time) {
    return deal_layers(job.model.layers, stages, [&](int stage, int begin, int end) {
      return stage_costs(costs, content_of(job, stage, stages, begin, end)).sums.total().raw();
    });
  }
  const DataGroups groups = data_groups(job, layout);
  const double micro_batches =
      static_cast<double>(job.training.global_batch) / (static_cast<double>(layout.dp) * layout.micro_batch);
  return deal_layers(job.model.layers, stages, [&](int stage, int begin, int end) {
    StageGroup group;
    group.content = content_of(job, stage, stages, begin, end);
    group.first_rank = stage % layout.pp;
    group.count = 1;
    const StageCosts stage_cost = stage_costs(costs, group.content);
    return stage_memory(job, layout, costs, group, stage_cost, groups, micro_batches).total.raw();
  });
}

}  // namespace tpplan
