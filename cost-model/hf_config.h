#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/model_checks.h"
#include "cost-model/model_spec.h"

namespace tpplan::detail {

/// Reads a parsed Hugging Face config.json. Problems are noted in the document, an architecture that cannot be planned
/// as "not supported, because ..."; the model is usable only when the document stays without errors.
ModelSpec read_hugging_face(SpecDocument& document, const std::string& name);

struct Family;

/// Names of one thing in files of different families, separated by blanks; the first is the usual one.
using Aliases = std::string_view;

/// Calls `use` with each word of a blank-separated list until it returns true; whether it did.
template <typename Use>
bool any_word(std::string_view words, Use use) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0 && use(words.substr(0, end))) {
      return true;
    }
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// One config.json while it is read: `text` is the part that describes the language model, `root` the whole file.
struct HfConfig {
  ObjectReader root;
  ObjectReader text;
  bool nested = false;  ///< the language model stands in a sub-object, whose defaults are left out of the file
  const Family* family = nullptr;
  ModelSpec model;
  ShapeKeys keys;

  /// The first of the names that the text part gives, or the first name at all; all of them become known keys.
  std::string key_of(Aliases aliases);
  [[nodiscard]] bool has(Aliases aliases);
  /// A count under any of the names; a list, with a number per layer, must say the same for each. Absent: `fallback`
  /// when it is not negative, else reported as missing.
  int count(Aliases aliases, int high, int fallback = -1);
  bool flag(std::string_view key, bool fallback) { return text.flag(key, fallback); }
};

/// Shapes of the configuration class, used where a nested part leaves them out; 0 stands for none.
struct ClassDefaults {
  int vocab = 0;
  int hidden = 0;
  int ffn = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int experts = 0;
  int top_k = 0;
  int expert_ffn = 0;
};

/// A set of biases: always there (`kind` with an empty key), or decided by a flag of the file.
struct BiasRule {
  AttentionBias kind = AttentionBias::none;
  std::string_view key = {};
  bool fallback = false;
};

struct MlpBiasRule {
  bool present = false;
  std::string_view key = {};
  bool fallback = false;
};

struct QkNormRule {
  QkNorm kind = QkNorm::none;
  std::string_view key = {};  ///< a flag that switches it on; empty: always on
  bool fallback = false;
};

/// How a family says which layers attend to a window of tokens only.
enum class WindowRule : std::uint8_t {
  none,
  plain,    ///< `sliding_window` holds for every layer (or those that `layer_types` names)
  flagged,  ///< only with `use_sliding_window`, from layer `max_window_layers` on
  pattern   ///< every `window_every`-th layer attends fully
};

/// What the parameters of one family of decoders depend on, beyond the shapes in the file. Source of each row: the
/// model code published with the family's checkpoints.
struct Family {
  std::string_view types;    ///< values of model_type, separated by blanks
  std::string_view classes;  ///< what `architectures` starts with, for files without a known model_type
  bool tied = false;         ///< when tie_word_embeddings is absent
  bool gated = true;
  NormKind norm = NormKind::rms;
  int norms = 2;
  BiasRule attention_bias = {};
  MlpBiasRule mlp_bias = {};
  QkNormRule qk_norm = {};
  bool head_bias = false;
  int ffn_times = 0;  ///< FFN width in multiples of hidden when the file has none, 0: the file must say
  bool moe = false;   ///< experts are read from the file's keys
  WindowRule window = WindowRule::none;
  int window_every = 0;  ///< every n-th layer attends fully, when the file does not say
  int window_tokens = 0;
  int head_dim = 0;  ///< when the file has none, 0: hidden / heads
  ClassDefaults defaults = {};
  void (*adjust)(HfConfig& config) = nullptr;  ///< what does not fit the columns
};

/// The row of a model_type or, failing that, of an architecture's class name; nothing when neither is known.
const Family* find_family(const std::string& type, const std::string& architecture);

/// All known values of model_type, for messages.
std::vector<std::string> family_names();

/// Why a kind of model cannot be planned ("it is an encoder-decoder model"), empty when nothing speaks against it.
std::string refusal_reason(const std::string& type, const std::string& architecture);

/// Parameters of the vision tower and its projector; noted as a warning and 0 when the tower is of an unknown kind.
std::int64_t vision_parameters(HfConfig& config, const std::string& type);

}  // namespace tpplan::detail
