#include <algorithm>
#include <array>

#include "comm-bench/compute.h"
#include "comm-bench/compute_attention_cuda.h"
#include "comm-bench/compute_gemm_cuda.h"
#include "comm-bench/compute_memory_cuda.h"
#include "comm-bench/compute_timer_cuda.h"
#include "comm-bench/cuda_runtime.h"
#include "comm-bench/cuda_versions.h"

#if defined(TPPLAN_HAVE_CUDA)

namespace tpplan::bench {

namespace {

constexpr std::size_t kGemmBuffer = std::size_t{16384} * 57344 * 2;  ///< the largest operand of the list
constexpr std::size_t kKernelBuffer = std::size_t{1} << 30;
constexpr double kGemmShare = 0.2;     ///< of the free memory for each of three operands
constexpr double kKernelShare = 0.05;  ///< for each of five buffers
constexpr int kCopiesInGraph = 4;
constexpr int kTensorCoresBf16 = 80;
constexpr int kTensorCoresFp8 = 89;

std::size_t limited(std::size_t wanted, double share, std::size_t free_bytes) {
  const auto most = static_cast<std::size_t>(share * static_cast<double>(free_bytes));
  return std::min(wanted, most / 256 * 256);
}

}  // namespace

struct CudaCompute::State {
  State(int rank, const std::string& host, int local_rank) {
    std::string problem;
    device.cuda = CudaRuntime::open(problem);
    if (!device.cuda) throw CommError(problem);
    device.rank = rank;
    device.place = host;
    int devices = 0;
    device.check(device.cuda->get_device_count(&devices), "cudaGetDeviceCount");
    device.device = local_rank % devices;
    device.place += ", GPU " + std::to_string(device.device);
    device.check(device.cuda->set_device(device.device), "cudaSetDevice");
    capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    device.check(device.cuda->memory_info(&free_bytes, &total), "cudaMemGetInfo");
    timer.emplace(device);
    gemm.emplace(device, capability / 10, limited(kGemmBuffer, kGemmShare, free_bytes));
    kernels.emplace(device, capability, attribute(cudaDevAttrMultiProcessorCount),
                    limited(kKernelBuffer, kKernelShare, free_bytes));
    attention = CudaAttention::open(device, problem);
    if (!attention) {
      notes.push_back("attention is not measured, tpplan calibrate takes it from a table file: " + problem);
    }
    if (capability < kTensorCoresFp8) notes.push_back("fp8 is not measured: the GPU has none");
    name = name_of_device(device.device);
  }

  [[nodiscard]] int attribute(cudaDeviceAttr which) const {
    int value = 0;
    device.check(device.cuda->device_attribute(&value, which, device.device), "cudaDeviceGetAttribute");
    return value;
  }

  ComputeResult measure_gemm(const ComputeItem& item, const Poll& poll) {
    ComputeResult result;
    result.unsupported = gemm->prepare(item, timer->stream());
    if (!result.unsupported.empty()) return result;
    const Enqueue product = [&](cudaStream_t stream) { gemm->enqueue(stream); };
    result.samples = timer->time(product, kCopiesInGraph, poll);
    result.check = gemm->verify(item, timer->stream());
    return result;
  }

  CudaDevice device;
  int capability = 0;
  std::string name;
  std::vector<std::string> notes;
  std::optional<GraphTimer> timer;
  std::optional<CudaGemm> gemm;
  std::optional<CudaKernels> kernels;
  std::unique_ptr<CudaAttention> attention;
};

std::optional<std::string> CudaCompute::why_not() {
  std::string problem;
  const std::shared_ptr<const CudaRuntime> cuda = CudaRuntime::open(problem);
  if (!cuda) return problem;
  int devices = 0;
  const cudaError_t code = cuda->get_device_count(&devices);
  if (code != cudaSuccess) return std::string("no usable GPU: ") + cuda->error_string(code);
  if (devices == 0) return "no GPU on this machine";
  return std::nullopt;
}

CudaCompute::CudaCompute(int rank, const std::string& host, int local_rank)
    : state_(std::make_unique<State>(rank, host, local_rank)) {}
CudaCompute::~CudaCompute() = default;
CudaCompute::CudaCompute(CudaCompute&&) noexcept = default;
CudaCompute& CudaCompute::operator=(CudaCompute&&) noexcept = default;

std::string CudaCompute::name() const { return state_->name; }
const std::vector<std::string>& CudaCompute::notes() const { return state_->notes; }

std::vector<ComputeItem> CudaCompute::plan() const {
  std::vector<ComputeItem> items;
  const auto append = [&](const std::vector<ComputeItem>& more) {
    items.insert(items.end(), more.begin(), more.end());
  };
  for (const char* name : {"graph", "stream"}) {
    ComputeItem item;
    item.kind = ComputeKind::launch;
    item.name = name;
    items.push_back(item);
  }
  for (const double bytes : {1048576.0, 67108864.0, 268435456.0}) {
    for (const char* name : {"host_to_device", "device_to_host"}) {
      ComputeItem item;
      item.kind = ComputeKind::copy;
      item.name = name;
      item.bytes = Bytes(bytes);
      items.push_back(item);
    }
  }
  append(memory_kernels());
  const std::string half = state_->capability >= kTensorCoresBf16 ? "bf16" : "fp16";
  append(transformer_gemms(half, {"forward", "dgrad", "wgrad"}));
  if (state_->capability >= kTensorCoresFp8) append(transformer_gemms("fp8", {"forward", "dgrad", "wgrad"}));
  for (const char* dtype : {"tf32", "fp16"}) {
    if (state_->capability < kTensorCoresBf16) break;
    for (const auto& [m, n, k] :
         {std::array{4096, 4096, 4096}, std::array{16384, 4096, 4096}, std::array{8192, 8192, 8192}}) {
      ComputeItem item;
      item.m = m;
      item.n = n;
      item.k = k;
      item.dtype = dtype;
      item.pass = "forward";
      items.push_back(item);
    }
  }
  // Last, because a library that fails in a kernel can take the whole device context with it.
  if (state_->attention && state_->capability >= kTensorCoresBf16) append(attention_shapes());
  return items;
}

ComputeResult CudaCompute::measure(const ComputeItem& item, const Poll& poll) {
  State& s = *state_;
  switch (item.kind) {
    case ComputeKind::gemm:
      return s.measure_gemm(item, poll);
    case ComputeKind::memory:
      return s.kernels->measure_memory(item, *s.timer, poll);
    case ComputeKind::launch:
      return s.kernels->measure_launch(item, *s.timer, poll);
    case ComputeKind::copy:
      return s.kernels->measure_copy(item, *s.timer, poll);
    case ComputeKind::attention:
      return s.attention->measure(item, *s.timer, poll);
  }
  return {};
}

}  // namespace tpplan::bench

#else

namespace tpplan::bench {

struct CudaCompute::State {
  std::vector<std::string> notes;
};

std::optional<std::string> CudaCompute::why_not() {
  return "comm-bench was built without CUDA's headers: build it where cuda_runtime_api.h is found (set CUDA_HOME)";
}
CudaCompute::CudaCompute(int /*rank*/, const std::string& /*host*/, int /*local_rank*/) { throw CommError(*why_not()); }
CudaCompute::~CudaCompute() = default;
CudaCompute::CudaCompute(CudaCompute&&) noexcept = default;
CudaCompute& CudaCompute::operator=(CudaCompute&&) noexcept = default;
std::string CudaCompute::name() const { return {}; }
const std::vector<std::string>& CudaCompute::notes() const { return state_->notes; }
std::vector<ComputeItem> CudaCompute::plan() const { return {}; }
ComputeResult CudaCompute::measure(const ComputeItem& /*item*/, const Poll& /*poll*/) { return {}; }

}  // namespace tpplan::bench

#endif
