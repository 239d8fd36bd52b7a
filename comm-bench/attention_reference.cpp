#include "comm-bench/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tpplan::bench {

namespace {

const float* row_of(const std::vector<float>& matrix, int row, int width) {
  return matrix.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(width);
}

double product(const float* a, const float* b, int width) {
  double sum = 0;
  for (int i = 0; i < width; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

void add_scaled(std::vector<double>& to, double factor, const float* row) {
  for (double& element : to) {
    element += factor * static_cast<double>(*row++);
  }
}

}  // namespace

AttentionRow attention_row(const AttentionHead& head, int row) {
  const int width = head.width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const float* query = row_of(head.queries, row, width);
  const float* output_gradient = row_of(head.output_gradients, row, width);
  AttentionRow result;
  result.output.resize(static_cast<std::size_t>(width));
  result.query_gradient.resize(static_cast<std::size_t>(width));
  for (int key = 0; key <= row; ++key) {
    result.probabilities.push_back(scale * product(query, row_of(head.keys, key, width), width));
  }
  const double largest = *std::max_element(result.probabilities.begin(), result.probabilities.end());
  double sum = 0;
  for (double& score : result.probabilities) {
    score = std::exp(score - largest);
    sum += score;
  }
  double mean_gradient = 0;
  for (int key = 0; key <= row; ++key) {
    double& probability = result.probabilities[static_cast<std::size_t>(key)];
    probability /= sum;
    const float* value = row_of(head.values, key, width);
    add_scaled(result.output, probability, value);
    result.score_gradients.push_back(product(output_gradient, value, width));
    mean_gradient += probability * result.score_gradients.back();
  }
  for (int key = 0; key <= row; ++key) {
    const auto at = static_cast<std::size_t>(key);
    double& gradient = result.score_gradients[at];
    gradient = result.probabilities[at] * (gradient - mean_gradient);
    add_scaled(result.query_gradient, scale * gradient, row_of(head.keys, key, width));
  }
  return result;
}

KeyGradients key_gradients(const AttentionHead& head, int key) {
  const double scale = 1 / std::sqrt(static_cast<double>(head.width));
  KeyGradients result;
  result.key.resize(static_cast<std::size_t>(head.width));
  result.value.resize(static_cast<std::size_t>(head.width));
  for (int row = key; row < head.rows(); ++row) {
    const AttentionRow at_row = attention_row(head, row);
    const auto at = static_cast<std::size_t>(key);
    add_scaled(result.key, scale * at_row.score_gradients[at], row_of(head.queries, row, head.width));
    add_scaled(result.value, at_row.probabilities[at], row_of(head.output_gradients, row, head.width));
  }
  return result;
}

}  // namespace tpplan::bench
