#pragma once

#include <string>
#include <vector>

#include "planner/single_gpu_fit.h"

namespace tpplan {

/// A figure that people quote for models of this size, beside what the same question gives here.
struct FitClaim {
  std::string what;     ///< the question
  std::string claimed;  ///< as it is quoted
  std::string here;     ///< the answer for the model asked about
  std::string reason;   ///< why they differ
};

/// Claims about models with as many parameters as the request's (7 and 13 billion, give or take 7 %), answered for that
/// model: bytes of its weights, and QLoRA on the RTX 4090 `card` at 1,024 tokens and micro-batch 1 with the request's
/// adapters. None for models of other sizes.
std::vector<FitClaim> claims_about(const FitRequest& request, const GpuSpec& card, const ProfileSet& profiles);

}  // namespace tpplan
