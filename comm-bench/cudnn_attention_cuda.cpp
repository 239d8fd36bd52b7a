#include "comm-bench/cudnn_attention_cuda.h"

#if defined(TPPLAN_HAVE_CUDNN)

namespace tpplan::bench {

namespace {

/// Shapes of one measurement.
struct Shapes {
  explicit Shapes(const ComputeItem& item)
      : batch(item.batch), rows(item.seq), heads(item.heads), kv_heads(item.kv_heads), width(item.head_dim) {}
  [[nodiscard]] CudnnShape interleaved(std::int64_t of_heads) const {
    return {{batch, of_heads, rows, width}, {rows * of_heads * width, width, of_heads * width, 1}};
  }
  [[nodiscard]] CudnnShape queries() const { return interleaved(heads); }
  [[nodiscard]] CudnnShape keys() const { return interleaved(kv_heads); }
  [[nodiscard]] CudnnShape scores() const { return CudnnShape::packed(batch, heads, rows, rows); }
  [[nodiscard]] CudnnShape row_sums() const { return CudnnShape::packed(batch, heads, rows, 1); }
  [[nodiscard]] CudnnShape all_heads() const { return CudnnShape::packed(batch, heads, rows, width); }

  std::int64_t batch, rows, heads, kv_heads, width;
};

/// Scores, excluded where the key comes after the query.
CudnnTensor masked(CudnnGraph& graph, const Shapes& shapes, CudnnTensor scores, CudnnTensor excluded) {
  const CudnnTensor row = graph.inner(shapes.scores(), CUDNN_DATA_INT32);
  const CudnnTensor column = graph.inner(shapes.scores(), CUDNN_DATA_INT32);
  graph.index(scores, 2, row);
  graph.index(scores, 3, column);
  const CudnnTensor seen = graph.inner(shapes.scores(), CUDNN_DATA_BOOLEAN);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, seen, CUDNN_DATA_BOOLEAN);
  const CudnnTensor result = graph.inner(shapes.scores());
  graph.select(scores, excluded, seen, result);
  return result;
}

/// scale * (a times b) as a matrix of scores.
CudnnTensor scaled_product(CudnnGraph& graph, const Shapes& shapes, CudnnTensor a, CudnnTensor b, CudnnTensor scale) {
  const CudnnTensor product = graph.inner(shapes.scores());
  graph.matmul(a, b, product);
  const CudnnTensor scaled = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_MUL, product, scale, scaled);
  return scaled;
}

/// to = left^T right, where `left` is a matrix of scores; heads that share keys are added up.
void accumulate_over_queries(CudnnGraph& graph, const Shapes& shapes, CudnnTensor left, CudnnTensor right,
                             CudnnTensor to) {
  const CudnnTensor turned = graph.inner(shapes.scores().transposed(), CUDNN_DATA_BFLOAT16);
  graph.reshape(left, turned);
  if (shapes.heads == shapes.kv_heads) {
    graph.matmul(turned, right, to);
    return;
  }
  const CudnnTensor of_each_head = graph.inner(shapes.all_heads(), CUDNN_DATA_BFLOAT16);
  graph.matmul(turned, right, of_each_head);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_each_head, to);
}

}  // namespace

AttentionPlan plan_attention_forward(const std::shared_ptr<const CudnnLibrary>& library, const CudnnTarget& target,
                                     const ComputeItem& item) {
  const Shapes shapes(item);
  CudnnGraph graph(library);
  AttentionTensors t;
  t.q = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.k = graph.given(shapes.keys().transposed(), CUDNN_DATA_BFLOAT16);
  t.v = graph.given(shapes.keys(), CUDNN_DATA_BFLOAT16);
  t.output = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.log_sums = graph.given(shapes.row_sums(), CUDNN_DATA_FLOAT);
  t.scale = graph.scalar();
  t.excluded = graph.scalar();

  const CudnnTensor scores = masked(graph, shapes, scaled_product(graph, shapes, t.q, t.k, t.scale), t.excluded);
  const CudnnTensor largest = graph.inner(shapes.row_sums());
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const CudnnTensor lowered = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, largest, lowered);
  const CudnnTensor powers = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_EXP, lowered, std::nullopt, powers);
  const CudnnTensor sums = graph.inner(shapes.row_sums());
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sums);
  const CudnnTensor logarithms = graph.inner(shapes.row_sums());
  graph.pointwise(CUDNN_POINTWISE_LOG, sums, std::nullopt, logarithms);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, logarithms, t.log_sums);
  const CudnnTensor probabilities = graph.inner(shapes.scores(), CUDNN_DATA_BFLOAT16);
  graph.pointwise(CUDNN_POINTWISE_DIV, powers, sums, probabilities);
  graph.matmul(probabilities, t.v, t.output);
  return {graph.plan(target), t};
}

AttentionPlan plan_attention_backward(const std::shared_ptr<const CudnnLibrary>& library, const CudnnTarget& target,
                                      const ComputeItem& item) {
  const Shapes shapes(item);
  CudnnGraph graph(library);
  AttentionTensors t;
  t.q = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.k = graph.given(shapes.keys().transposed(), CUDNN_DATA_BFLOAT16);
  t.v = graph.given(shapes.keys().transposed(), CUDNN_DATA_BFLOAT16);
  t.output = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.output_gradient = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.log_sums = graph.given(shapes.row_sums(), CUDNN_DATA_FLOAT);
  t.q_gradient = graph.given(shapes.queries(), CUDNN_DATA_BFLOAT16);
  t.k_gradient = graph.given(shapes.keys(), CUDNN_DATA_BFLOAT16);
  t.v_gradient = graph.given(shapes.keys(), CUDNN_DATA_BFLOAT16);
  t.q_gradient_sum = graph.given(shapes.all_heads(), CUDNN_DATA_FLOAT);
  t.row_products = graph.given(shapes.row_sums(), CUDNN_DATA_FLOAT);
  t.scale = graph.scalar();
  t.excluded = graph.scalar();
  t.one = graph.scalar();

  const CudnnTensor products = graph.inner(shapes.queries());
  graph.pointwise(CUDNN_POINTWISE_MUL, t.output_gradient, t.output, products);
  const CudnnTensor sums = graph.inner(shapes.row_sums());
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  // The kernels expect a scale here (of dropout); without dropout it is one.
  graph.pointwise(CUDNN_POINTWISE_MUL, sums, t.one, t.row_products);

  const CudnnTensor scores = scaled_product(graph, shapes, t.q, t.k, t.scale);
  const CudnnTensor lowered = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, t.log_sums, lowered);
  const CudnnTensor probabilities = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_EXP, masked(graph, shapes, lowered, t.excluded), std::nullopt, probabilities);
  accumulate_over_queries(graph, shapes, probabilities, t.output_gradient, t.v_gradient);

  const CudnnTensor probability_gradient = graph.inner(shapes.scores());
  graph.matmul(t.output_gradient, t.v, probability_gradient);
  const CudnnTensor centred = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_SUB, probability_gradient, t.row_products, centred);
  const CudnnTensor weighted = graph.inner(shapes.scores());
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, probabilities, weighted);
  const CudnnTensor score_gradient = graph.inner(shapes.scores(), CUDNN_DATA_BFLOAT16);
  graph.pointwise(CUDNN_POINTWISE_MUL, weighted, t.scale, score_gradient);
  accumulate_over_queries(graph, shapes, score_gradient, t.q, t.k_gradient);

  const CudnnTensor keys = graph.inner(shapes.keys(), CUDNN_DATA_BFLOAT16);
  graph.reshape(t.k, keys);
  graph.matmul(score_gradient, keys, t.q_gradient_sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, t.q_gradient_sum, std::nullopt, t.q_gradient);
  return {graph.plan(target), t};
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDNN
