#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_features.h"
#include "planner/export/framework_keys.h"

namespace tpplan {

/// Why a target cannot run a layout.
struct Refusal {
  std::string_view rule;   ///< stable word
  std::string arithmetic;  ///< with the nearest legal value
};

/// Every reason why the target cannot run the layout; `expresses`: Feature bits of what its configuration can say.
std::vector<Refusal> export_refusals(Target target, std::uint32_t expresses, const Job& job, const Layout& layout);

/// What else the layout or the training asks for and the target's configuration cannot say, in words: it does not keep
/// the job from running, but must be set elsewhere.
std::vector<std::string> export_omissions(Target target, std::uint32_t expresses, const Job& job, const Layout& layout);

}  // namespace tpplan
