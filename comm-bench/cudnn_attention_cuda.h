#pragma once

// The graphs of causal attention for cuDNN; declares nothing without its headers.
#include "comm-bench/cudnn_graph_cuda.h"

#if defined(TPPLAN_HAVE_CUDNN)

#include "comm-bench/compute.h"

namespace tpplan::bench {

/// Tensors in memory, by their numbers in the graph; zero where a graph has none. Layout of q, k, v, output and their
/// gradients: batch, sequence, head, element of the head, the last innermost; of row sums: batch, head, sequence.
struct AttentionTensors {
  CudnnTensor q = 0, k = 0, v = 0, output = 0;  ///< bf16
  CudnnTensor log_sums = 0;                     ///< fp32: logarithm of the sum of exponentials of each row
  CudnnTensor output_gradient = 0;              ///< bf16
  CudnnTensor q_gradient = 0, k_gradient = 0, v_gradient = 0;  ///< bf16
  CudnnTensor q_gradient_sum = 0;                              ///< fp32, as large as q: where blocks of keys add up
  CudnnTensor row_products = 0;                                ///< fp32: sum over a row of output times its gradient
  CudnnTensor scale = 0, excluded = 0, one = 0;                ///< scalars
};

struct AttentionPlan {
  CudnnPlan plan;
  AttentionTensors tensors;
};

/// output = softmax(scale q k^T, keys after the query masked) v, keeping log_sums for the backward pass. Throws
/// CudnnError where this library or GPU has no kernel for it.
AttentionPlan plan_attention_forward(const std::shared_ptr<const CudnnLibrary>& library, const CudnnTarget& target,
                                     const ComputeItem& item);

/// Gradients of q, k and v from that of the output: probabilities p are computed again from log_sums;
/// v' = p^T o', s' = scale p (o' v^T - row_products), q' = s' k, k' = s'^T q; heads that share a key are summed.
AttentionPlan plan_attention_backward(const std::shared_ptr<const CudnnLibrary>& library, const CudnnTarget& target,
                                      const ComputeItem& item);

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDNN
