#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/rules.h"

namespace tpplan {

/// Parts of a layout or a training that a target's configuration may have no words for (bit mask).
enum Feature : std::uint32_t {
  kPipelineStages = 1U << 0,
  kTensorParallel = 1U << 1,
  kContextParallel = 1U << 2,
  kExperts = 1U << 3,
  kNoZero = 1U << 4,
  kZero1 = 1U << 5,
  kZero2 = 1U << 6,
  kZero3 = 1U << 7,
  kShardGroup = 1U << 8,
  kRecomputeFull = 1U << 9,
  kRecomputeSome = 1U << 10,
  kSelective = 1U << 11,
  kSelectiveOp = 1U << 12,
  kOffloadOptimizer = 1U << 13,
  kOffloadActivations = 1U << 14,
  kGivenStages = 1U << 15,
  kVirtualStages = 1U << 16,
  kVppGroup = 1U << 17,
  kStagesNear = 1U << 18,
  kSequenceParallel = 1U << 19,
  kNoSequenceParallel = 1U << 20,
  kPeft = 1U << 21,
  kOptimizerKind = 1U << 22,
  kDispatcher = 1U << 23,
  kCapacity = 1U << 24,
  kGradientType = 1U << 25,
  kPrefetch = 1U << 26,
  kOverlaps = 1U << 27,
  kGradReduce = 1U << 28,
  kEightBit = 1U << 29,
  kCpVariant = 1U << 30,
  kGradOverlap = 1U << 31
};

/// One thing that a job may ask for. `refused`: without it the job would be another one, or not run; else it is told.
struct FeatureRow {
  Feature feature;
  bool refused;
  std::string_view rule;
  bool (*asked)(const Job&, const Layout&);
  std::string (*text)(const Job&, const Layout&);
  std::string_view nearest;  ///< or, of what is only told, where it is set
};

/// Every feature, a row each.
const std::vector<FeatureRow>& feature_rows();

}  // namespace tpplan
