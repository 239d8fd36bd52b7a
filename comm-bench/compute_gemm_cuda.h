#pragma once

// Matrix products through cuBLASLt; declares nothing without CUDA's headers.
#if defined(TPPLAN_HAVE_CUDA)

#include <memory>
#include <string>

#include "comm-bench/compute.h"
#include "comm-bench/compute_timer_cuda.h"

namespace tpplan::bench {

/// Runs matrix products as frameworks do: the first algorithm that cuBLASLt's heuristic names, a workspace of 32 MiB on
/// Hopper and later and 8 MiB before, fp32 accumulation, bf16 results of fp8 products (no fast accumulation, scale 1).
class CudaGemm {
 public:
  /// `buffer_bytes`: size of each of the three operands' buffers; larger products are refused.
  CudaGemm(const CudaDevice& device, int capability_major, std::size_t buffer_bytes);
  ~CudaGemm();
  CudaGemm(CudaGemm&&) noexcept;
  CudaGemm& operator=(CudaGemm&&) noexcept;

  /// Chooses an algorithm and fills the operands; on refusal (too large, unsupported type) says why.
  std::string prepare(const ComputeItem& item, cudaStream_t stream);
  /// Puts the prepared product on the stream.
  void enqueue(cudaStream_t stream);
  /// Compares sampled elements of the result with the host's arithmetic.
  Check verify(const ComputeItem& item, cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
