#pragma once

// Timing of GPU work without host time; declares nothing without CUDA's headers.
#if defined(TPPLAN_HAVE_CUDA)

#include <cstdint>
#include <functional>
#include <vector>

#include "comm-bench/compute.h"
#include "comm-bench/cuda_runtime.h"
#include "cost-model/units.h"

namespace tpplan::bench {

/// A repeated pattern of random values, known to the host, so that results can be computed there too. Normal
/// distribution: the power that a matrix product draws, and so its clock, depends on the data.
class RandomTile {
 public:
  static constexpr std::size_t kElements = 1048573;  ///< prime, so that rows never line up
  explicit RandomTile(std::uint64_t seed);
  /// Bits of the tile in an element type: bf16, fp16, fp32 or e4m3.
  [[nodiscard]] std::vector<std::byte> bits(const std::string& dtype) const;
  /// Value of element `index` of a buffer filled with the tile in that type.
  [[nodiscard]] float value(const std::string& dtype, std::size_t index) const;

 private:
  std::vector<float> values_;
};

/// 8-bit floats with 4 exponent and 3 fraction bits (OCP 8-bit floating point, e4m3fn): largest value 448, no infinity.
std::uint8_t to_e4m3(float value);
float from_e4m3(std::uint8_t bits);

/// Puts work on a stream.
using Enqueue = std::function<void(cudaStream_t)>;

class GraphTimer {
 public:
  explicit GraphTimer(const CudaDevice& device);

  /// Seconds of one piece of work: `copies` of it captured in a CUDA graph, which is replayed for about 8 ms per
  /// sample, 7 samples, after a warm-up.
  std::vector<Seconds> time(const Enqueue& work, int copies, const Poll& poll);
  /// The same with other lengths: seconds of one sample and number of samples.
  std::vector<Seconds> time(const Enqueue& work, int copies, Seconds sample, int samples, const Poll& poll);
  /// Waits until everything on the stream is done, polling.
  void finish(const Poll& poll);

  [[nodiscard]] cudaStream_t stream() const { return stream_.handle(); }
  [[nodiscard]] const CudaDevice& device() const { return device_; }

 private:
  double stretch(cudaGraphExec_t graph, int replays, const Poll& poll);
  void wait(const CudaEvent& event, const Poll& poll);
  CudaDevice device_;
  CudaStream stream_;
  CudaEvent start_, stop_;
};

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
