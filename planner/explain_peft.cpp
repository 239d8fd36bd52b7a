#include "planner/explain_peft.h"

#include <cmath>

#include "cost-model/peft.h"

namespace tpplan {
namespace {

std::string count_of(double value) { return with_separators(std::llround(value)); }
std::string bytes_of(double value) { return shortest(std::round(value * 10000) / 10000) + " B"; }

bool own_head(const FrozenRank& rank) {
  return rank.group.content.head && (!rank.job.model.tied_embeddings || !rank.group.content.embedding);
}
double trained(const FrozenRank& rank) {
  return trained_parameters(rank.costs, rank.group.content, rank.stage, own_head(rank)).dense;
}
std::string divided(const FrozenRank& rank, int from_stage) {
  return rank.layout.zero >= from_stage && rank.data.dense_shards > 1
             ? ", divided over " + count_of(rank.data.dense_shards) + " ranks"
             : "";
}

/// How the number of adapter parameters comes about.
std::string adapter_count_formula(const TrainingSpec& training) {
  std::string prompts = std::to_string(kPromptLength) + " x hidden and a gate per head in all but the first " +
                        std::to_string(kLayersWithoutPrompts) + " layers";
  switch (training.peft) {
    case PeftMethod::adapter:
      return prompts;
    case PeftMethod::adapter_v2:
      return "2 per output of every matrix, the norms, and " + prompts;
    default:
      return "rank " + std::to_string(training.peft_rank) + " x (inputs + outputs) of each adapted matrix";
  }
}

}  // namespace

std::string adapters_text(const TrainingSpec& training) {
  switch (training.peft) {
    case PeftMethod::adapter:
      return "prompts and gates";
    case PeftMethod::adapter_v2:
      return "prompts, gates, biases, scales and norms";
    default:
      return "adapters of rank " + std::to_string(training.peft_rank);
  }
}

std::string frozen_weights_formula(const FrozenRank& rank) {
  const auto& profile = rank.job.profile;
  const double quantised = rank.stage.quantised + (own_head(rank) ? rank.costs.head_quantised : 0);
  const double all = rank.stage.params + rank.stage.expert_params + (own_head(rank) ? rank.costs.head_params : 0);
  std::string text;
  double plain_bytes = training_in_fp32(rank.job) ? 4 : 2;
  if (quantised > 0) {
    const bool doubly = rank.job.training.double_quantisation;
    plain_bytes = profile.unquantised_bytes;
    text = bytes_of(quantised_weight_bytes(doubly)) + " x " + count_of(quantised) + " NF4 weights (0.5 + " +
           (doubly ? "1/64 + 4/(64 x 256)" : "4/64") + ", arXiv:2305.14314) + ";
  }
  text += bytes_of(plain_bytes) + " x " + count_of(all - quantised) + (quantised > 0 ? " others + " : " frozen + ") +
          bytes_of(profile.adapter_bytes) + " x " + count_of(trained(rank)) + " of adapters (" +
          adapter_count_formula(rank.job.training) + ")";
  const bool hosted = rank.layout.zero >= 3 && rank.layout.offload == Offload::optimizer;
  return text + divided(rank, 3) + (hosted ? ", in host memory" : "");
}

std::string adapter_gradients_formula(const FrozenRank& rank) {
  const auto& profile = rank.job.profile;
  if (profile.flat_gradients > 0.5 && rank.layout.zero >= 3) {
    return "2 B x every parameter of the rank: frozen weights share flat parameters with their adapters";
  }
  return bytes_of(profile.adapter_gradient_bytes) + " x " + count_of(trained(rank)) +
         " parameters of adapters; frozen weights have none" + divided(rank, 2);
}

std::string adapter_states_formula(const FrozenRank& rank) {
  const auto& profile = rank.job.profile;
  if (rank.layout.offload == Offload::optimizer || (rank.job.training.holds_nf4() && profile.paged_states > 0.5)) {
    return "moments of the adapters in host memory";
  }
  return bytes_of(profile.adapter_state_bytes) + " x " + count_of(trained(rank)) +
         " parameters of adapters (Adam; others their share of it)" + divided(rank, 1);
}

std::vector<std::string_view> frozen_constants(std::string_view term) {
  if (term == "weights") {
    return {"adapter_bytes", "unquantised_bytes"};
  }
  if (term == "gradients") {
    return {"adapter_gradient_bytes"};
  }
  return term == "optimizer" ? std::vector<std::string_view>{"adapter_state_bytes"} : std::vector<std::string_view>{};
}

}  // namespace tpplan
