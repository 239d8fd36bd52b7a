#include "planner/capacity/model_shapes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tpplan {
namespace {

int rounded(double value, int multiple) {
  return std::max(1, static_cast<int>(std::lround(value / multiple))) * multiple;
}

/// Widths `factor` times as large, as near as they may be.
ModelSpec widened(const ModelSpec& model, double factor) {
  constexpr int kManyHeads = 16;
  ModelSpec scaled = model;
  const double heads = model.heads * factor;
  scaled.heads = rounded(heads, heads >= kManyHeads ? 8 : 2);
  scaled.kv_heads = model.kv_heads == model.heads ? scaled.heads : std::min(model.kv_heads, scaled.heads);
  while (scaled.heads % scaled.kv_heads != 0) {
    --scaled.kv_heads;  // query heads share key and value heads evenly
  }
  const double head_width = static_cast<double>(model.hidden) / model.heads;
  scaled.hidden = static_cast<int>(std::lround(head_width * scaled.heads));
  const double wider = static_cast<double>(scaled.hidden) / model.hidden;
  scaled.ffn_hidden = rounded(model.ffn_hidden * wider, 256);
  if (scaled.moe) {
    scaled.moe->expert_ffn = rounded(model.moe->expert_ffn * wider, 128);
    scaled.moe->shared_ffn = model.moe->shared_ffn > 0 ? rounded(model.moe->shared_ffn * wider, 128) : 0;
  }
  return scaled;
}

void set_layers(ModelSpec& model, int layers) {
  model.layers = layers;
  if (!model.moe_layers.empty()) {
    model.moe_layers.resize(static_cast<std::size_t>(layers), model.moe_layers.back());
  }
}

}  // namespace

ModelSpec scaled_model(const ModelSpec& model, double params) {
  const double factor = std::cbrt(params / static_cast<double>(parameter_counts(model).total));
  ModelSpec scaled = widened(model, factor);
  // Widths come in steps; the layers make up for them.
  const auto total = [&](int layers) {
    set_layers(scaled, layers);
    return static_cast<double>(parameter_counts(scaled).total);
  };
  const int near = rounded(model.layers * factor, 2);
  const double per_layer = (total(near + 2) - total(near)) / 2;
  set_layers(scaled, rounded(near + (params - total(near)) / per_layer, 2));
  char name[64];
  std::snprintf(name, sizeof name, " in proportion, %.3g B",
                static_cast<double>(parameter_counts(scaled).total) * 1e-9);
  scaled.name = model.name + name;
  return scaled;
}

double flops_per_token(const ModelSpec& model, int seq) {
  const ParameterCounts counts = parameter_counts(model);
  const double input_table = static_cast<double>(model.tied_embeddings ? 0 : model.vocab) * model.hidden;
  const double head_dim = model.latent ? model.latent->qk_nope + model.latent->qk_rope : model.head_dim;
  return 6 * (static_cast<double>(counts.active) - input_table) + 6.0 * model.layers * model.heads * head_dim * seq;
}

}  // namespace tpplan
