#pragma once

#include <cstdint>
#include <vector>

#include "cost-model/calibration.h"
#include "cost-model/cluster_spec.h"
#include "cost-model/profile.h"

namespace tpplan {

/// Measured kernels of a calibration in the form that pricing looks up: how a matrix product of some shape compares
/// with a large one, and the rate of fused attention. Tables say how rates depend on shapes; the level inside a
/// training step stays the GPU's constant, since a kernel that runs alone meets other clocks than one between other
/// kernels.
class KernelTables {
 public:
  KernelTables() = default;
  explicit KernelTables(const Calibration& calibration);

  /// Rate of a product m x n x k over the median rate of the large products of its precision: mean of the four nearest
  /// measured shapes in log space, weighted by inverse distance. 0 when nothing near (a factor of 4 in total) is known.
  [[nodiscard]] double relative_rate(double m, double n, double k, Precision precision) const;

  struct AttentionRate {
    FlopsPerSecond forward, backward;
  };
  /// Causal fused attention of b x heads sequences of length s with this head size, FLOP counted causal; 0 when the
  /// table does not hold the head size or nothing within a factor of 4.
  [[nodiscard]] AttentionRate attention(double seq, double batch_heads, int head_dim) const;
  [[nodiscard]] bool empty() const { return gemms_.empty() && attention_.empty(); }

 private:
  struct Gemm {
    double m, n, k;  ///< log2
    double ratio;    ///< log of rate over the median of large products
    std::uint8_t narrow;
  };
  struct Attention {
    double seq, batch_heads;  ///< log2
    int head_dim;
    double forward, backward;  ///< log of FLOP/s
  };
  std::vector<Gemm> gemms_;
  std::vector<Attention> attention_;
};

/// The GPU's constants with those a calibration measured put in: fractions of memory bandwidth of copies, norms and
/// fused Adam.
GpuConstants measured_constants(GpuConstants constants, const GpuSpec& gpu, const Calibration& calibration);

}  // namespace tpplan
