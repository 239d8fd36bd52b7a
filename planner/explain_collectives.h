#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/explain.h"

namespace tpplan {

/// How fast a group's collective is, for a formula: "25 GB/s on InfiniBand", or by which curve it is priced.
std::string speed_of(const Job& job, Collective collective, const GroupPlacement& group);

/// The collectives behind a communication term ("tp_comm", "dp_comm", ...) of a layout that are read from measured
/// curves: seconds of 64 MiB over so many ranks ("x 8", or "x 8/4": four apart), and as source whether the group itself
/// was measured or which number of ranks it is extrapolated from, and at which sizes. None without measured curves.
std::vector<ConstantUse> measured_collectives(const Job& job, const Layout& layout, std::string_view term);

}  // namespace tpplan
