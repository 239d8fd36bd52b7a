#pragma once

// Attention through cuDNN; declares nothing without CUDA's headers.
#if defined(TPPLAN_HAVE_CUDA)

#include <memory>
#include <string>

#include "comm-bench/compute.h"
#include "comm-bench/compute_timer_cuda.h"

namespace tpplan::bench {

/// Causal attention in bf16, forward (with what the backward pass needs) and backward, by the first plan that cuDNN's
/// heuristics name, as frameworks run it. Whatever cuDNN refuses leaves out a measurement and not the program.
class CudaAttention {
 public:
  /// Null with `problem` filled when cuDNN 9 is missing at run time, was at build time, or does not start.
  static std::unique_ptr<CudaAttention> open(const CudaDevice& device, std::string& problem);
  ~CudaAttention();
  CudaAttention(const CudaAttention&) = delete;
  CudaAttention& operator=(const CudaAttention&) = delete;

  /// Compares sampled rows of the result with the host's arithmetic.
  ComputeResult measure(const ComputeItem& item, GraphTimer& timer, const Poll& poll);

 private:
  struct State;
  explicit CudaAttention(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
