#include "planner/export/torchtitan_stages.h"

#include <array>
#include <utility>

namespace tpplan {
namespace {

/// Layers of every stage when the ends count as `first` and `last` layers: equal shares of all, what is left over to
/// the first stages.
std::vector<int> dealt(int layers, int stages, int first, int last) {
  const int all = layers + first + last;
  std::vector<int> share(static_cast<std::size_t>(stages), all / stages);
  for (int i = 0; i < all % stages; ++i) {
    ++share[static_cast<std::size_t>(i)];
  }
  share.front() -= first;
  share.back() -= last;
  return share;
}

}  // namespace

TorchtitanCut torchtitan_cut(int layers, const std::vector<int>& stage_layers) {
  const auto stages = static_cast<int>(stage_layers.size());
  constexpr std::array<std::pair<int, int>, 4> kEnds{{{0, 0}, {1, 1}, {0, 1}, {1, 0}}};
  TorchtitanCut usual;
  for (const auto& [first, last] : kEnds) {
    const int all = layers + first + last;
    const int share = (all + stages - 1) / stages;
    const bool reached = (all + share - 1) / share == stages;
    const bool exact = dealt(layers, stages, first, last) == stage_layers;
    if (reached && (exact || usual.layers_per_stage == 0)) {
      usual = {first, last, share, exact};
    }
    if (usual.exact) {
      break;
    }
  }
  return usual;
}

bool torchtitan_reaches(int layers, int pp, int stages) {
  return stages <= 2 * pp ||
         torchtitan_cut(layers, std::vector<int>(static_cast<std::size_t>(stages))).layers_per_stage > 0;
}

}  // namespace tpplan
