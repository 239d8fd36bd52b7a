#pragma once

#include <string>
#include <vector>

#include "planner/rules.h"

namespace tpplan::detail {

/// The rules by depth, in the order they are applied.
std::vector<Rule> layer_rules();
std::vector<Rule> pipeline_rules();
std::vector<Rule> data_rules();

using Broken = bool (*)(const Job&, const Layout&);

/// "; nearest: pp 4 or 6": the values of an axis just below and above at which `broken` does not hold, dp following.
/// Such as leave the whole layout legal come first, else such as divide the world, else any; "; no value of pp is
/// legal".
std::string nearest_values(const Job& job, const Layout& layout, std::int32_t Layout::*axis, Broken broken);

/// "; nearest: micro-batch 96 or 192, global batch 1,024 or 2,048": what changes the number of micro-batches so that
/// `broken` does not hold; the global batch to a multiple of `unit` sequences of at least `least`.
std::string nearest_batches(const Job& job, const Layout& layout, std::int64_t unit, std::int64_t least, Broken broken);

/// The option of an axis: "micro-batch".
std::string_view option_of(std::int32_t Layout::*axis);

/// "a, b or c".
std::string one_of(const std::vector<std::string>& words);

}  // namespace tpplan::detail
