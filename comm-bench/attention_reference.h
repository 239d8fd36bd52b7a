#pragma once

#include <vector>

namespace tpplan::bench {

/// Operands of causal attention of one query head, row-major with `width` elements a row; `keys` and `values` may be
/// shared by several heads.
struct AttentionHead {
  int width = 0;
  std::vector<float> queries, keys, values, output_gradients;
  [[nodiscard]] int rows() const { return static_cast<int>(queries.size()) / width; }
};

/// What one query row gives, by the definition: probabilities p_j proportional to exp(q . k_j / sqrt(width)) over the
/// keys up to the row, output sum_j p_j v_j; s'_j = p_j (o' . v_j - o' . output) is the gradient of score j.
struct AttentionRow {
  std::vector<double> probabilities;    ///< of keys 0 to the row
  std::vector<double> score_gradients;  ///< as many
  std::vector<double> output, query_gradient;
};
AttentionRow attention_row(const AttentionHead& head, int row);

/// What one head adds to the gradients of one key and its value: sums over the rows from the key on.
struct KeyGradients {
  std::vector<double> key, value;
};
KeyGradients key_gradients(const AttentionHead& head, int key);

}  // namespace tpplan::bench
