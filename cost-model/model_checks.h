#pragma once

#include <string>

#include "cost-model/model_spec.h"

namespace tpplan::detail {

inline constexpr int kMaxLayers = 10'000;
inline constexpr int kMaxWidth = 1 << 24;
inline constexpr int kMaxHeads = 1 << 16;
inline constexpr int kMaxExperts = 1 << 16;
inline constexpr int kMaxTokens = 1 << 28;

/// The keys under which a file gave the shapes, so that a cross-check can point at them.
struct ShapeKeys {
  std::string layers = "layers";
  std::string hidden = "hidden";
  std::string heads = "heads";
  std::string kv_heads = "kv_heads";
  std::string head_dim = "head_dim";
};

/// Works out head_dim and kv_heads where the file leaves them open, and notes shapes that contradict each other:
/// heads against hidden, kv_heads against heads, more than 10^16 parameters. Only values that were read without a
/// problem are compared.
void complete_shapes(ObjectReader& object, const ShapeKeys& keys, ModelSpec& model);

/// Notes experts that contradict each other, in the object that holds them.
void check_moe(ObjectReader& object, const std::string& experts_key, const std::string& top_k_key, const MoeSpec& moe);

}  // namespace tpplan::detail
