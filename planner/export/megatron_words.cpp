#include "planner/export/megatron_words.h"

namespace tpplan {
namespace {

/// Modules of selective recomputation that Megatron-Core calls otherwise.
std::string module_word(std::string_view ours) { return ours == "norm" ? "layernorm" : std::string(ours); }

}  // namespace

std::vector<MegatronRecompute> megatron_recompute(const Layout& layout) {
  if (layout.recompute == RecomputeKind::full) {
    const bool some = layout.recompute_layers > 0;
    const std::string layers = std::to_string(some ? layout.recompute_layers : 1);
    const std::string method = some ? "block" : "uniform";
    return {{"granularity", "full", "full"}, {"method", method, method}, {"num-layers", layers, layers}};
  }
  if (layout.recompute != RecomputeKind::selective) {
    return {};
  }
  std::string flags;
  std::string list;
  for (const auto& row : kRecomputeModuleNames) {
    if ((layout.recompute_modules & row.value) != 0) {
      flags += (flags.empty() ? "" : " ") + module_word(row.name);
      list += (list.empty() ? "" : ",") + module_word(row.name);
    }
  }
  return {{"granularity", "selective", "selective"}, {"modules", flags, "[" + list + "]"}};
}

std::string megatron_stages(const ExportRequest& request) {
  const std::vector<int>& layers = request.stage_layers;
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    text += i == 0 ? "" : "|";
    if (layers[i] > 0) {
      text += layers[i] == 1 ? "t" : "t*" + std::to_string(layers[i]);
    }
  }
  for (int i = 0; i < request.job.model.mtp_layers; ++i) {
    text += "m";
  }
  return text + "L";
}

std::string dispatcher_flags(const Job& job) {
  switch (job.training.dispatcher) {
    case Dispatcher::deepep:
    case Dispatcher::deepep_fp8:
    case Dispatcher::deepep_proxied:
      return "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep";
    case Dispatcher::hybridep:
      return "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep";
    default:
      return "--moe-token-dispatcher-type alltoall";
  }
}

}  // namespace tpplan
