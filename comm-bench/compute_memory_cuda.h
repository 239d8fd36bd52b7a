#pragma once

// Memory-bound kernels, launches and copies; declares nothing without CUDA's headers.
#if defined(TPPLAN_HAVE_CUDA)

#include <memory>
#include <string>

#include "comm-bench/compute.h"
#include "comm-bench/compute_timer_cuda.h"

namespace tpplan::bench {

/// The kernels of compute_kernels.h, compiled for this GPU by NVRTC.
class CudaKernels {
 public:
  /// Throws CommError when NVRTC is missing or refuses the code. `buffer_bytes`: size of each of five buffers.
  CudaKernels(const CudaDevice& device, int capability, int multiprocessors, std::size_t buffer_bytes);
  ~CudaKernels();
  CudaKernels(CudaKernels&&) noexcept;
  CudaKernels& operator=(CudaKernels&&) noexcept;

  ComputeResult measure_memory(const ComputeItem& item, GraphTimer& timer, const Poll& poll);
  ComputeResult measure_launch(const ComputeItem& item, GraphTimer& timer, const Poll& poll);
  ComputeResult measure_copy(const ComputeItem& item, GraphTimer& timer, const Poll& poll);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
