#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "comm-bench/groups.h"
#include "comm-bench/measure.h"
#include "comm-bench/mpi_session.h"
#include "comm-bench/mpi_watchdog.h"
#include "cost-model/units.h"

namespace tpplan::bench {

enum class ComputeKind { gemm, attention, memory, launch, copy };
inline constexpr std::string_view kComputeKindNames[] = {"gemm", "attention", "memory", "launch", "copy"};

/// One thing that --compute measures on a GPU.
struct ComputeItem {
  ComputeKind kind = ComputeKind::gemm;
  std::string name;   ///< memory, launch, copy: which; attention: the kernel's library
  std::string dtype;  ///< gemm, attention
  std::string pass;   ///< gemm: forward, dgrad, wgrad; attention: forward, backward
  /// gemm: tokens, outputs and inputs of the layer's weight. forward: Y[m,n] = X[m,k] W[n,k]^T, dgrad: X[m,k] = Y[m,n]
  /// W[n,k], wgrad: W[n,k] = Y[m,n]^T X[m,k]; all row-major. memory: rows m of width n.
  int m = 0, n = 0, k = 0;
  int batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;  ///< attention, causal
  Bytes bytes;  ///< memory, copy: useful bytes, each input read and each output written once

  /// Operations: 2 m n k; causal attention 2 b a s^2 d forward (the masked half not counted) and 2.5 times that
  /// backward.
  [[nodiscard]] Flops flops() const;
  [[nodiscard]] std::string described() const;
};

struct ComputeResult {
  std::vector<Seconds> samples;
  Check check = Check::off;  ///< of sampled elements of the result against the host's arithmetic
  std::string unsupported;   ///< why there is nothing, else empty
};

/// Called again and again while a measurement waits.
using Poll = std::function<void()>;

/// Plain loops on the host: lets every path run where there is no GPU. Times say nothing about a GPU.
class HostCompute {
 public:
  [[nodiscard]] std::string name() const { return "host CPU"; }
  [[nodiscard]] std::vector<ComputeItem> plan() const;
  ComputeResult measure(const ComputeItem& item, const Poll& poll);
};

/// One CUDA device through cuBLASLt, cuDNN, and small kernels compiled by NVRTC. Times are those of CUDA events around
/// replays of a CUDA graph, so that no host time is in them; random data.
class CudaCompute {
 public:
  static std::optional<std::string> why_not();
  CudaCompute(int rank, const std::string& host, int local_rank);
  ~CudaCompute();
  CudaCompute(CudaCompute&&) noexcept;
  CudaCompute& operator=(CudaCompute&&) noexcept;

  [[nodiscard]] std::string name() const;
  /// What was left out and why (no cuDNN, no fp8).
  [[nodiscard]] const std::vector<std::string>& notes() const;
  [[nodiscard]] std::vector<ComputeItem> plan() const;
  ComputeResult measure(const ComputeItem& item, const Poll& poll);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using ComputeDevice = std::variant<HostCompute, CudaCompute>;

/// Matrix products of transformer layers: the four weights (query-key-value, attention output, gate and up, down) of
/// models like Llama 1.3B (hidden 2,048, MLP 5,504), 8B (4,096, 14,336) and 70B (8,192, 28,672) at tensor parallelism
/// 1, 4 and 8, for 1,024, 4,096 and 16,384 tokens.
std::vector<ComputeItem> transformer_gemms(const std::string& dtype, const std::vector<std::string>& passes);
std::vector<ComputeItem> attention_shapes();
std::vector<ComputeItem> memory_kernels();

struct ComputeRow {
  ComputeItem item;
  std::string device;
  Summary summary;  ///< of the median node when several measured
  Check check = Check::off;
  int nodes = 1;
  Seconds slowest;  ///< median time of the slowest node
  int slowest_rank = 0;
};
using ComputeSink = std::function<void(const ComputeRow&)>;

struct ComputeOutcome {
  std::size_t rows = 0;
  std::size_t wrong_rows = 0;
  std::size_t unmeasured = 0;  ///< items the budget did not reach
  std::vector<std::string> notes;
};

/// Measures the plan on the first rank of every node at once; collective over all ranks. `device` is set on those
/// ranks. Rank 0 gets the rows.
ComputeOutcome run_compute(std::optional<ComputeDevice>& device, const Communicator& world, const Topology& topology,
                           Watchdog& watchdog, Seconds budget, const ComputeSink& sink);

}  // namespace tpplan::bench
