#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_request.h"

namespace tpplan {

/// A key of Megatron-Core's recomputation, which its flags and overrides write alike: "granularity".
struct MegatronRecompute {
  std::string_view key;
  std::string flag_value;      ///< "core_attn layernorm"
  std::string override_value;  ///< "[core_attn,layernorm]"
};
/// Keys and values for a layout; none without recomputation.
std::vector<MegatronRecompute> megatron_recompute(const Layout& layout);

/// Stages in the words of --pipeline-model-parallel-layout: "Et*3|t*4|t*3mL".
std::string megatron_stages(const ExportRequest& request);

/// "--moe-token-dispatcher-type alltoall", or flex with its backend.
std::string dispatcher_flags(const Job& job);

}  // namespace tpplan
