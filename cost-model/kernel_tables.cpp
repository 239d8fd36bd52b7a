#include "cost-model/kernel_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

namespace tpplan {
namespace {

constexpr double kShortest = 60e-6;   // seconds: shorter ones in tables hold the host's dispatch time
constexpr double kLargeFlops = 1e11;  // products whose median rate is the level 1
constexpr double kReach = 2;          // log2 of the distance beyond which a shape says nothing

double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool narrow_name(std::string_view dtype) {
  return dtype.find("fp8") != std::string_view::npos || dtype.find("e4m3") != std::string_view::npos;
}
bool wide_name(std::string_view dtype) { return dtype == "bf16" || dtype == "fp16"; }

/// Mean of the values of the four nearest points, weighted by inverse distance.
class Nearest {
 public:
  void offer(double distance, double first, double second = 0) {
    for (auto& slot : slots_) {
      if (distance < slot.distance) {
        std::swap(slot.distance, distance);
        std::swap(slot.first, first);
        std::swap(slot.second, second);
      }
    }
  }
  [[nodiscard]] bool near() const { return slots_.front().distance <= kReach; }
  [[nodiscard]] std::pair<double, double> mean() const {
    double weight = 0;
    double first = 0;
    double second = 0;
    for (const auto& slot : slots_) {
      if (slot.distance < std::numeric_limits<double>::max()) {
        const double w = 1 / (slot.distance + 0.02);
        weight += w;
        first += w * slot.first;
        second += w * slot.second;
      }
    }
    return {first / weight, second / weight};
  }

 private:
  struct Slot {
    double distance = std::numeric_limits<double>::max();
    double first = 0, second = 0;
  };
  std::array<Slot, 4> slots_;
};

}  // namespace

KernelTables::KernelTables(const Calibration& calibration) {
  // Shapes measured more than once count once, by their mean.
  std::map<std::tuple<double, double, double, bool>, std::vector<double>> rates;
  for (const auto& point : calibration.gemms) {
    const bool narrow = narrow_name(point.dtype);
    if ((!narrow && !wide_name(point.dtype)) || point.rate.raw() <= 0) {
      continue;
    }
    // A weight gradient is the product n x k x m: tables name it by the forward shape.
    const bool input = point.kind == "dgrad";
    const bool weight = point.kind == "wgrad";
    const double m = weight ? point.n : point.m;
    const double n = weight || input ? point.k : point.n;
    const double k = weight ? point.m : input ? point.n : point.k;
    if (2 * m * n * k / point.rate.raw() >= kShortest) {
      rates[{m, n, k, narrow}].push_back(point.rate.raw());
    }
  }
  for (const bool narrow : {false, true}) {
    std::vector<double> large;
    for (const auto& [shape, values] : rates) {
      const auto& [m, n, k, is_narrow] = shape;
      if (is_narrow == narrow && 2 * m * n * k >= kLargeFlops) {
        large.push_back(median_of(values));
      }
    }
    const double level = median_of(large);
    if (level <= 0) {
      continue;
    }
    for (const auto& [shape, values] : rates) {
      const auto& [m, n, k, is_narrow] = shape;
      if (is_narrow == narrow) {
        gemms_.push_back({std::log2(m), std::log2(n), std::log2(k), std::log(median_of(values) / level),
                          static_cast<std::uint8_t>(narrow)});
      }
    }
  }
  for (const auto& point : calibration.attention) {
    if (point.kernel.find("flash") == std::string::npos && point.forward.raw() > 0 && point.backward.raw() > 0) {
      attention_.push_back({std::log2(point.seq), std::log2(static_cast<double>(point.batch) * point.heads),
                            point.head_dim, std::log(point.forward.raw()), std::log(point.backward.raw())});
    }
  }
}

double KernelTables::relative_rate(double m, double n, double k, Precision precision) const {
  if (gemms_.empty() || precision == Precision::fp32 || precision == Precision::tf32) {
    return 0;
  }
  const bool narrow = precision != Precision::bf16 && precision != Precision::fp16;
  const double lm = std::log2(m);
  const double ln = std::log2(n);
  const double lk = std::log2(k);
  Nearest nearest;
  for (const auto& point : gemms_) {
    if ((point.narrow != 0) == narrow) {
      nearest.offer(std::abs(point.m - lm) + std::abs(point.n - ln) + std::abs(point.k - lk), point.ratio);
    }
  }
  return nearest.near() ? std::exp(nearest.mean().first) : 0;
}

KernelTables::AttentionRate KernelTables::attention(double seq, double batch_heads, int head_dim) const {
  const double ls = std::log2(seq);
  const double lb = std::log2(batch_heads);
  Nearest nearest;
  for (const auto& point : attention_) {
    if (point.head_dim == head_dim) {
      nearest.offer(std::abs(point.seq - ls) + std::abs(point.batch_heads - lb), point.forward, point.backward);
    }
  }
  if (!nearest.near()) {
    return {};
  }
  const auto [forward, backward] = nearest.mean();
  return {FlopsPerSecond(std::exp(forward)), FlopsPerSecond(std::exp(backward))};
}

GpuConstants measured_constants(GpuConstants constants, const GpuSpec& gpu, const Calibration& calibration) {
  struct Row {
    std::string_view kind;
    double GpuConstants::*field;
  };
  // Sums rather than copies, which stumble at sizes of some GPUs (2.8 TB/s for 2 GiB on an H200 that adds at 4.4); the
  // optimizer of the frameworks, not the kernel of comm-bench, which reads and writes as much a fifth faster.
  constexpr std::array<Row, 3> kRows{{{"add", &GpuConstants::memory_plain},
                                      {"norm_forward", &GpuConstants::memory_norm},
                                      {"fused_adamw_fp32", &GpuConstants::memory_adam}}};
  const Bytes large = 256_MiB;  // beyond every cache
  for (const auto& row : kRows) {
    std::vector<double> fractions;
    for (const auto& point : calibration.memory) {
      if (point.kind == row.kind && point.size >= large && point.rate.raw() > 0) {
        fractions.push_back(point.rate / gpu.memory_bandwidth);
      }
    }
    const double fraction = median_of(fractions);
    if (fraction > 0 && fraction <= 1) {
      constants.*row.field = fraction;
    }
  }
  return constants;
}

}  // namespace tpplan
