#include "comm-bench/compute_memory_cuda.h"

#if defined(TPPLAN_HAVE_CUDA)

#include <cuda.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include "comm-bench/compute_kernels.h"
#include "comm-bench/payload.h"

namespace tpplan::bench {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kVector = 8;  ///< bf16 elements in 16 bytes
constexpr int kHead = 128;
constexpr int kNormBlocksPerMultiprocessor = 2;
constexpr int kLaunches = 2000;
constexpr int kLaunchesInGraph = 500;
constexpr int kSamples = 9;
constexpr std::size_t kSampledElements = 64;
constexpr std::array<const char*, 10> kNames{"nothing",         "add",  "norm_forward",   "norm_backward",
                                             "norm_weight",     "rope", "swiglu_forward", "swiglu_backward",
                                             "grad_accumulate", "adam"};

unsigned blocks_for(std::size_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

/// NVRTC from source to machine code.
std::vector<char> compile(int capability) {
  std::string problem;
  const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::nvrtc, problem);
  if (!library) throw CommError(problem);
  auto* create = library->find<decltype(::nvrtcCreateProgram)>("nvrtcCreateProgram");
  auto* destroy = library->find<decltype(::nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  auto* build = library->find<decltype(::nvrtcCompileProgram)>("nvrtcCompileProgram");
  auto* log_size = library->find<decltype(::nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  auto* log = library->find<decltype(::nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  auto* code_size = library->find<decltype(::nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  auto* code = library->find<decltype(::nvrtcGetCUBIN)>("nvrtcGetCUBIN");
  if (!create || !destroy || !build || !log_size || !log || !code_size || !code) {
    throw CommError(library->path() + " is too old: NVRTC 11.1 or later is needed");
  }
  nvrtcProgram program = nullptr;
  if (create(&program, kComputeKernels, "compute_kernels.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    throw CommError("nvrtcCreateProgram failed");
  }
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(capability);
  const std::array<const char*, 1> options{architecture.c_str()};
  const nvrtcResult built = build(program, static_cast<int>(options.size()), options.data());
  if (built != NVRTC_SUCCESS) {
    std::size_t size = 0;
    log_size(program, &size);
    std::string text(size, '\0');
    if (size > 0) log(program, text.data());
    destroy(&program);
    throw CommError("NVRTC does not compile the kernels for sm_" + std::to_string(capability) + ": " + text);
  }
  std::size_t size = 0;
  code_size(program, &size);
  std::vector<char> binary(size);
  code(program, binary.data());
  destroy(&program);
  return binary;
}

struct DriverFunctions {
  decltype(&::cuModuleLoadData) load;
  decltype(&::cuModuleUnload) unload;
  decltype(&::cuModuleGetFunction) function;
  decltype(&::cuLaunchKernel) launch;
  decltype(&::cuGetErrorString) error_string;

  static DriverFunctions open() {
    std::string problem;
    const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::driver, problem);
    if (!library) throw CommError(problem);
    DriverFunctions driver{};
    driver.load = library->find<decltype(::cuModuleLoadData)>("cuModuleLoadData");
    driver.unload = library->find<decltype(::cuModuleUnload)>("cuModuleUnload");
    driver.function = library->find<decltype(::cuModuleGetFunction)>("cuModuleGetFunction");
    driver.launch = library->find<decltype(::cuLaunchKernel)>("cuLaunchKernel");
    driver.error_string = library->find<decltype(::cuGetErrorString)>("cuGetErrorString");
    return driver;
  }
};

}  // namespace

struct CudaKernels::State {
  State(const CudaDevice& on, int capability, int multiprocessors, std::size_t bytes)
      : device(on),
        driver(DriverFunctions::open()),
        buffer_bytes(bytes),
        norm_blocks(static_cast<unsigned>(multiprocessors * kNormBlocksPerMultiprocessor)) {
    const std::vector<char> binary = compile(capability);
    check(driver.load(&module, binary.data()), "cuModuleLoadData");
    for (const char* name : kNames) check(driver.function(&functions[name], module, name), "cuModuleGetFunction");
    for (DeviceMemory& buffer : buffers) buffer = allocate_device(device, bytes);
  }
  ~State() {
    if (module != nullptr && std::uncaught_exceptions() == 0) driver.unload(module);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void check(CUresult code, const char* call) const {
    if (code == CUDA_SUCCESS) return;
    const char* text = nullptr;
    driver.error_string(code, &text);
    throw CommError(call, device.rank, device.place, text == nullptr ? "unknown error" : text);
  }

  /// Arguments are passed by address, as the driver wants them; they are read before this returns.
  template <class... Arguments>
  void launch(const char* name, unsigned blocks, unsigned rows, cudaStream_t stream, Arguments... arguments) const {
    std::array<void*, sizeof...(Arguments) + 1> addresses{static_cast<void*>(&arguments)..., nullptr};
    check(driver.launch(functions.at(name), blocks, rows, 1, kThreads, 1, 1, 0, stream, addresses.data(), nullptr),
          name);
  }

  [[nodiscard]] void* at(std::size_t buffer) const { return buffers[buffer].handle(); }
  [[nodiscard]] void* offset(std::size_t buffer, std::size_t bytes) const {
    return static_cast<std::byte*>(buffers[buffer].handle()) + bytes;
  }

  void fill(cudaStream_t stream, bool single) {
    const std::string format = single ? "fp32" : "bf16";
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::vector<std::byte> bits = tile(i).bits(format);
      fill_tiled(device, stream, at(i), buffer_bytes, bits.data(), bits.size());
    }
  }
  static RandomTile tile(std::size_t buffer) { return RandomTile(10 + buffer); }

  CudaDevice device;
  DriverFunctions driver;
  std::size_t buffer_bytes;
  unsigned norm_blocks;
  CUmodule module = nullptr;
  std::map<std::string, CUfunction> functions;
  std::array<DeviceMemory, 5> buffers;
  bool filled = false;
  bool filled_single = false;
};

namespace {

/// How a kernel is put on a stream and which of its results can be recomputed on the host.
struct KernelRow {
  const char* name;
  bool single;  ///< operands are fp32
  std::size_t (*buffer_bytes)(const ComputeItem&);
};

std::size_t rows_by_width(const ComputeItem& item) {
  return static_cast<std::size_t>(item.m) * static_cast<std::size_t>(item.n);
}
std::size_t halves(const ComputeItem& item) { return 2 * rows_by_width(item); }
std::size_t doubled(const ComputeItem& item) { return 4 * rows_by_width(item); }

constexpr std::array<KernelRow, 9> kRows{{{"copy", false, halves},
                                          {"add", false, halves},
                                          {"norm_forward", false, halves},
                                          {"norm_backward", false, halves},
                                          {"rope", false, halves},
                                          {"swiglu_forward", false, doubled},
                                          {"swiglu_backward", false, doubled},
                                          {"grad_accumulate", true, doubled},
                                          {"adam", true, doubled}}};

}  // namespace

CudaKernels::CudaKernels(const CudaDevice& device, int capability, int multiprocessors, std::size_t buffer_bytes)
    : state_(std::make_unique<State>(device, capability, multiprocessors, buffer_bytes)) {}
CudaKernels::~CudaKernels() = default;
CudaKernels::CudaKernels(CudaKernels&&) noexcept = default;
CudaKernels& CudaKernels::operator=(CudaKernels&&) noexcept = default;

namespace {

/// The value that element `index` of the result must have, for the kernels that can be recomputed element by element.
std::optional<double> expected_value(const ComputeItem& item, std::size_t index, const std::array<RandomTile, 2>& in) {
  const auto width = static_cast<std::size_t>(item.n);
  const auto first = [&](std::size_t i) { return static_cast<double>(in[0].value("bf16", i)); };
  const auto second = [&](std::size_t i) { return static_cast<double>(in[1].value("bf16", i)); };
  if (item.name == "copy") return first(index);
  if (item.name == "add") return first(index) + second(index);
  const std::size_t row = index / width;
  const std::size_t column = index % width;
  if (item.name == "norm_forward") {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += first(row * width + i) * first(row * width + i);
    return first(index) / std::sqrt(squares / static_cast<double>(width) + 1e-5) * second(column);
  }
  if (item.name == "swiglu_forward") {
    const double gate = first(row * 2 * width + column);
    return gate / (1 + std::exp(-gate)) * first(row * 2 * width + width + column);
  }
  return std::nullopt;
}

}  // namespace

ComputeResult CudaKernels::measure_memory(const ComputeItem& item, GraphTimer& timer, const Poll& poll) {
  State& s = *state_;
  ComputeResult result;
  const auto* row = std::find_if(kRows.begin(), kRows.end(), [&](const KernelRow& r) { return item.name == r.name; });
  if (row == kRows.end()) {
    result.unsupported = "no kernel of this name";
    return result;
  }
  if (row->buffer_bytes(item) > s.buffer_bytes) {
    result.unsupported = "needs buffers of " + format(Bytes(static_cast<double>(row->buffer_bytes(item))));
    return result;
  }
  // Kernels that update their operands start from fresh ones.
  if (!s.filled || row->single || s.filled_single) s.fill(timer.stream(), row->single);
  s.filled = true;
  s.filled_single = row->single;
  poll();

  const std::size_t elements = rows_by_width(item);
  const std::size_t vectors = elements / kVector;
  const auto width_vectors = static_cast<int>(static_cast<std::size_t>(item.n) / kVector);
  const auto rows = static_cast<unsigned>(item.m);
  const unsigned width_blocks = blocks_for(static_cast<std::size_t>(width_vectors));
  const std::size_t eighth = s.buffer_bytes / 8;
  const std::map<std::string, Enqueue> kernels{
      {"copy",
       [&](cudaStream_t stream) {
         s.device.check(s.device.cuda->memcpy_async(s.at(2), s.at(0), 2 * elements, cudaMemcpyDeviceToDevice, stream),
                        "cudaMemcpyAsync");
       }},
      {"add",
       [&](cudaStream_t stream) {
         s.launch("add", blocks_for(vectors), 1, stream, s.at(0), s.at(1), s.at(2), vectors);
       }},
      {"norm_forward",
       [&](cudaStream_t stream) { s.launch("norm_forward", rows, 1, stream, s.at(0), s.at(1), s.at(2), item.n); }},
      {"norm_backward",
       [&](cudaStream_t stream) {
         s.launch("norm_backward", s.norm_blocks, 1, stream, s.at(0), s.at(1), s.at(3), s.at(2), s.at(4), item.n,
                  item.m);
         s.launch("norm_weight", static_cast<unsigned>(item.n / 32), 1, stream, s.at(4), s.offset(4, 4 * eighth),
                  item.n, static_cast<int>(s.norm_blocks));
       }},
      {"rope",
       [&](cudaStream_t stream) {
         s.launch("rope", blocks_for(vectors / 2), 1, stream, s.at(0), s.at(1), s.at(3), s.at(2), vectors / 2,
                  item.n / kHead);
       }},
      {"swiglu_forward",
       [&](cudaStream_t stream) {
         s.launch("swiglu_forward", width_blocks, rows, stream, s.at(0), s.at(2), width_vectors);
       }},
      {"swiglu_backward",
       [&](cudaStream_t stream) {
         s.launch("swiglu_backward", width_blocks, rows, stream, s.at(0), s.at(1), s.at(2), width_vectors);
       }},
      {"grad_accumulate",
       [&](cudaStream_t stream) {
         s.launch("grad_accumulate", blocks_for(elements / 4), 1, stream, s.at(0), s.at(1), elements / 4);
       }},
      {"adam", [&](cudaStream_t stream) {
         s.launch("adam", blocks_for(elements / 4), 1, stream, s.at(0), s.at(1), s.at(2), s.at(3), s.at(4),
                  elements / 4);
       }}};
  result.samples = timer.time(kernels.at(item.name), 1, poll);

  const std::array<RandomTile, 2> inputs{State::tile(0), State::tile(1)};
  for (std::size_t i = 0; i < kSampledElements; ++i) {
    const std::size_t index = elements / kSampledElements * i + i;
    const std::optional<double> expected = expected_value(item, index, inputs);
    if (!expected) break;
    std::uint16_t bits = 0;
    s.device.check(
        s.device.cuda->memcpy_async(&bits, s.offset(2, 2 * index), sizeof bits, cudaMemcpyDeviceToHost, timer.stream()),
        "cudaMemcpyAsync");
    timer.finish(poll);
    const double got = static_cast<double>(from_bf16(bits));
    result.check = Check::ok;
    if (!(std::abs(got - *expected) <= 0.01 * std::abs(*expected) + 1e-3)) {
      result.check = Check::wrong;
      break;
    }
  }
  return result;
}

ComputeResult CudaKernels::measure_launch(const ComputeItem& item, GraphTimer& timer, const Poll& poll) {
  const State& s = *state_;
  ComputeResult result;
  const auto launch = [&](cudaStream_t stream) { s.launch("nothing", 1, 1, stream); };
  if (item.name == "graph") {
    result.samples = timer.time(launch, kLaunchesInGraph, poll);
    return result;
  }
  // From the host: an unbroken run of launches, until the GPU has done the last.
  for (int sample = 0; sample < kSamples + 1; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch(timer.stream());
    timer.finish(poll);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (sample > 0) result.samples.emplace_back(seconds / kLaunches);  // the first one warms up
  }
  return result;
}

ComputeResult CudaKernels::measure_copy(const ComputeItem& item, GraphTimer& timer, const Poll& poll) {
  const State& s = *state_;
  ComputeResult result;
  const auto bytes = static_cast<std::size_t>(item.bytes.raw());
  if (bytes > s.buffer_bytes) {
    result.unsupported = "needs a buffer of " + format(item.bytes);
    return result;
  }
  const PinnedMemory host = allocate_pinned(s.device, bytes);
  const std::vector<std::byte> tile = State::tile(0).bits("bf16");
  write_tiled({static_cast<std::byte*>(host.handle()), bytes}, {tile.data(), kTile * 2}, 2, 0);
  const bool to_device = item.name == "host_to_device";
  result.samples = timer.time(
      [&](cudaStream_t stream) {
        const auto kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
        void* to = to_device ? s.at(4) : host.handle();
        const void* from = to_device ? host.handle() : s.at(4);
        s.device.check(s.device.cuda->memcpy_async(to, from, bytes, kind, stream), "cudaMemcpyAsync");
      },
      1, Seconds(0.02), kSamples, poll);
  return result;
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
