#include "comm-bench/attention_reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using tpplan::bench::attention_row;
using tpplan::bench::AttentionHead;
using tpplan::bench::AttentionRow;
using tpplan::bench::key_gradients;
using tpplan::bench::KeyGradients;

namespace {

AttentionHead random_head(int rows, int width) {
  std::mt19937 generator(7);
  AttentionHead head;
  head.width = width;
  for (std::vector<float>* matrix : {&head.queries, &head.keys, &head.values, &head.output_gradients}) {
    for (int i = 0; i < rows * width; ++i) {
      matrix->push_back(static_cast<float>(generator()) * 0x1p-31F - 1.0F);
    }
  }
  return head;
}

/// Sum over rows of output times output_gradient: its derivatives are the gradients of attention.
double loss(const AttentionHead& head) {
  double sum = 0;
  for (int row = 0; row < head.rows(); ++row) {
    const AttentionRow result = attention_row(head, row);
    for (std::size_t i = 0; i < result.output.size(); ++i) {
      sum += result.output[i] *
             static_cast<double>(head.output_gradients[static_cast<std::size_t>(row) * result.output.size() + i]);
    }
  }
  return sum;
}

/// Central difference of the loss by one element.
double slope(AttentionHead head, std::vector<float> AttentionHead::*matrix, std::size_t element) {
  constexpr float kStep = 0x1p-8F;
  (head.*matrix)[element] += kStep;
  const double above = loss(head);
  (head.*matrix)[element] -= 2 * kStep;
  const double below = loss(head);
  return (above - below) / (2 * static_cast<double>(kStep));
}

}  // namespace

TEST_CASE("a row of attention weighs the values up to it") {
  // Two rows of width 1: the first sees one key and returns its value; the second has scores 0 and ln 3, so weights
  // 1/4 and 3/4 of the values 2 and 6.
  AttentionHead head;
  head.width = 1;
  head.queries = {5, 1};
  head.keys = {0, static_cast<float>(std::log(3.0))};
  head.values = {2, 6};
  head.output_gradients = {1, 1};
  CHECK(attention_row(head, 0).output.front() == doctest::Approx(2));
  const AttentionRow second = attention_row(head, 1);
  CHECK(second.output.front() == doctest::Approx(0.25 * 2 + 0.75 * 6));
  // p (v - output): 1/4 (2 - 5) and 3/4 (6 - 5).
  CHECK(second.score_gradients.front() == doctest::Approx(-0.75));
  CHECK(second.score_gradients.back() == doctest::Approx(0.75));
}

TEST_CASE("gradients of attention are the slopes of its loss") {
  constexpr int kRows = 6;
  constexpr int kWidth = 4;
  const AttentionHead head = random_head(kRows, kWidth);
  for (int row = 0; row < kRows; ++row) {
    const AttentionRow at_row = attention_row(head, row);
    const KeyGradients at_key = key_gradients(head, row);
    for (int i = 0; i < kWidth; ++i) {
      const auto element = static_cast<std::size_t>(row * kWidth + i);
      const auto at = static_cast<std::size_t>(i);
      // The central difference errs by step^2 / 6 of a third derivative below 10.
      CHECK(std::abs(at_row.query_gradient[at] - slope(head, &AttentionHead::queries, element)) < 1e-4);
      CHECK(std::abs(at_key.key[at] - slope(head, &AttentionHead::keys, element)) < 1e-4);
      CHECK(std::abs(at_key.value[at] - slope(head, &AttentionHead::values, element)) < 1e-4);
    }
  }
}
