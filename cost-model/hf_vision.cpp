// Parameters of vision towers and of the projectors that join them to the language model. They are reported, not
// planned: a tower is a few percent of the model and is often frozen.

#include <array>

#include "cost-model/hf_config.h"

namespace tpplan::detail {
namespace {

using Count = std::int64_t;

/// One tower while it is read: its object, the file's root and the width of the language model.
struct Tower {
  ObjectReader vision;
  ObjectReader& root;
  Count hidden;

  Count count(std::string_view key, Count fallback) { return vision.count(key, 0, kMaxWidth, fallback); }
};

/// Linear layer with bias.
Count linear(Count in, Count out) { return in * out + out; }

/// A transformer encoder layer with biases everywhere, a plain MLP and two LayerNorms.
Count encoder_layer(Count width, Count ffn) {
  return 4 * linear(width, width) + linear(width, ffn) + linear(ffn, width) + 4 * width;
}

struct Shape {
  Count width;
  Count ffn;
  Count layers;
  Count image;
  Count patch;
  Count channels;

  [[nodiscard]] Count patches() const { return patch > 0 ? (image / patch) * (image / patch) : 0; }
  [[nodiscard]] Count patch_weights() const { return channels * patch * patch * width; }
};

Shape read_shape(Tower& tower, const Shape& fallback) {
  return {tower.count("hidden_size", fallback.width),        tower.count("intermediate_size", fallback.ffn),
          tower.count("num_hidden_layers", fallback.layers), tower.count("image_size", fallback.image),
          tower.count("patch_size", fallback.patch),         tower.count("num_channels", fallback.channels)};
}

constexpr Shape kSiglipDefaults = {768, 3072, 12, 224, 16, 3};

/// SigLIP: patches with bias, learned positions, final LayerNorm; returns the tower without a projector.
Count siglip(const Shape& shape) {
  return shape.patch_weights() + shape.width + shape.patches() * shape.width +
         shape.layers * encoder_layer(shape.width, shape.ffn) + 2 * shape.width;
}

/// Gemma 3: SigLIP, then an RMSNorm and a projection without bias.
Count gemma3(Tower& tower) {
  const Shape shape = read_shape(tower, kSiglipDefaults);
  return siglip(shape) + shape.width + shape.width * tower.hidden;
}

/// PaliGemma: SigLIP, then one linear layer.
Count paligemma(Tower& tower) {
  const Shape shape = read_shape(tower, kSiglipDefaults);
  return siglip(shape) + linear(shape.width, tower.hidden);
}

/// Llama 4: patches without bias, a class token, two outer LayerNorms, a pixel-shuffle adapter and a projector.
Count llama4(Tower& tower) {
  const Shape shape = read_shape(tower, {768, 5632, 34, 448, 14, 3});
  const Count into = tower.count("projector_input_dim", 4096);
  const Count out = tower.count("projector_output_dim", 4096);
  const Count adapter = shape.ffn * into + into * out;
  return shape.patch_weights() + shape.width + (shape.patches() + 1) * shape.width +
         shape.layers * encoder_layer(shape.width, shape.ffn) + 4 * shape.width + adapter +
         tower.count("vision_output_dim", 7680) * tower.hidden;
}

/// LLaVA: CLIP with class token and two outer LayerNorms, then two linear layers.
Count llava(Tower& tower) {
  const Shape shape = read_shape(tower, {768, 3072, 12, 224, 32, 3});
  return shape.patch_weights() + shape.width + (shape.patches() + 1) * shape.width +
         shape.layers * encoder_layer(shape.width, shape.ffn) + 4 * shape.width + linear(shape.width, tower.hidden) +
         linear(tower.hidden, tower.hidden);
}

/// Mistral 3: Pixtral (no biases, RMSNorm, gated MLP), a norm, a patch merger and two linear layers.
Count mistral3(Tower& tower) {
  const Shape shape = read_shape(tower, {1024, 4096, 24, 1024, 16, 3});
  const Count merge = tower.root.count("spatial_merge_size", 1, 64, 2);
  const Count bias = tower.root.flag("multimodal_projector_bias", false) ? 2 * tower.hidden : 0;
  const Count layer = 4 * shape.width * shape.width + 3 * shape.width * shape.ffn + 2 * shape.width;
  return shape.patch_weights() + shape.width + shape.layers * layer + shape.width +
         merge * merge * shape.width * shape.width + shape.width * tower.hidden + tower.hidden * tower.hidden + bias;
}

struct QwenShape {
  Count width;
  Count depth;
  Count patch_weights;
  Count merged;  ///< width after patches are merged
  Count out;
};

QwenShape read_qwen(Tower& tower, std::string_view width_key, Count patch) {
  const Count width = tower.count(width_key, 1280);
  const Count side = tower.count("patch_size", patch);
  const Count channels = tower.count("in_channels", tower.count("in_chans", 3));
  const Count merge = tower.count("spatial_merge_size", 2);
  return {width, tower.count("depth", 32), channels * tower.count("temporal_patch_size", 2) * side * side * width,
          merge * merge * width, tower.hidden};
}

Count qwen_merger(const QwenShape& shape, Count norm) {
  return norm + linear(shape.merged, shape.merged) + linear(shape.merged, shape.out);
}

Count qwen2_vl(Tower& tower) {
  const QwenShape shape = read_qwen(tower, "embed_dim", 14);
  const Count ffn = shape.width * tower.count("mlp_ratio", 4);
  return shape.patch_weights + shape.depth * encoder_layer(shape.width, ffn) + qwen_merger(shape, 2 * shape.width);
}

/// Gated MLP with biases and RMSNorm.
Count qwen2_5_vl(Tower& tower) {
  const QwenShape shape = read_qwen(tower, "hidden_size", 14);
  const Count ffn = tower.count("intermediate_size", 3420);
  const Count layer =
      4 * linear(shape.width, shape.width) + 2 * linear(shape.width, ffn) + linear(ffn, shape.width) + 2 * shape.width;
  return shape.patch_weights + shape.depth * layer + qwen_merger(shape, shape.width);
}

/// Learned positions, and a merger for each layer whose output is injected deeper into the language model.
Count qwen3_vl(Tower& tower) {
  const QwenShape shape = read_qwen(tower, "hidden_size", 16);
  const Count ffn = tower.count("intermediate_size", 4304);
  const Count positions = tower.count("num_position_embeddings", 2304) * shape.width;
  const Count taps = tower.vision.is_array("deepstack_visual_indexes")
                         ? static_cast<Count>(tower.vision.array("deepstack_visual_indexes").size())
                         : 3;
  return shape.patch_weights + shape.width + positions + shape.depth * encoder_layer(shape.width, ffn) +
         qwen_merger(shape, 2 * shape.width) + taps * qwen_merger(shape, 2 * shape.merged);
}

struct TowerRow {
  std::string_view type;  ///< model_type of the whole file
  Count (*parameters)(Tower& tower);
};

constexpr std::array kTowers = {
    TowerRow{"gemma3", gemma3},         TowerRow{"paligemma", paligemma}, TowerRow{"llama4", llama4},
    TowerRow{"llava", llava},           TowerRow{"mistral3", mistral3},   TowerRow{"qwen2_vl", qwen2_vl},
    TowerRow{"qwen2_5_vl", qwen2_5_vl}, TowerRow{"qwen3_vl", qwen3_vl},   TowerRow{"qwen3_vl_moe", qwen3_vl},
};

}  // namespace

std::int64_t vision_parameters(HfConfig& config, const std::string& type) {
  for (const TowerRow& row : kTowers) {
    if (row.type == type) {
      Tower tower{config.root.object("vision_config"), config.root, config.model.hidden};
      const Count parameters = row.parameters(tower);
      tower.vision.ignore_rest();
      return parameters;
    }
  }
  config.root.warning("vision_config", "the vision tower of \"" + type + "\" is not counted", "unknown kind of tower");
  return 0;
}

}  // namespace tpplan::detail
