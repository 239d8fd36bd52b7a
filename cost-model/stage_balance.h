#pragma once

#include <functional>
#include <vector>

#include "cost-model/estimate.h"

namespace tpplan {

/// Cost of layers [begin, end) on a stage, what else the stage holds included; must not fall when `end` grows.
using StageCostOf = std::function<double(int stage, int begin, int end)>;

/// Layers of each stage, in order, such that the dearest stage is as cheap as whole layers can make it, the others
/// near an equal share of the rest. Inner stages get at least one layer as long as there
/// are enough.
std::vector<int> deal_layers(int layers, int stages, const StageCostOf& cost);

/// Layers of each stage (virtual ones where ranks have several) balanced as the job asks: by the time of a micro-batch,
/// or by the memory of the rank.
std::vector<int> balanced_stages(const Job& job, const Layout& layout, const LayerCosts& costs);

}  // namespace tpplan
