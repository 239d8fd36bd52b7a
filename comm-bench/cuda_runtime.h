#pragma once

// The part of the CUDA runtime that the measurements use, opened at run time, with owning types. Only the CUDA sources
// of this folder include it; without CUDA's headers it declares nothing.
#if defined(TPPLAN_HAVE_CUDA)

#include <cuda_runtime_api.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "comm-bench/comm_error.h"
#include "comm-bench/cuda_libs.h"

namespace tpplan::bench {

/// Functions of libcudart by their own names; the types come from its header.
struct CudaRuntime {
  decltype(&::cudaGetDeviceCount) get_device_count;
  decltype(&::cudaSetDevice) set_device;
  decltype(&::cudaDeviceGetAttribute) device_attribute;
  decltype(&::cudaDeviceSynchronize) device_synchronize;
  decltype(&::cudaRuntimeGetVersion) runtime_version;
  decltype(&::cudaDriverGetVersion) driver_version;
  decltype(&::cudaMemGetInfo) memory_info;
  cudaError_t (*malloc)(void**, std::size_t);
  decltype(&::cudaFree) free;
  cudaError_t (*malloc_host)(void**, std::size_t);
  decltype(&::cudaFreeHost) free_host;
  decltype(&::cudaMemcpyAsync) memcpy_async;
  decltype(&::cudaMemsetAsync) memset_async;
  decltype(&::cudaStreamCreateWithFlags) stream_create;
  decltype(&::cudaStreamDestroy) stream_destroy;
  decltype(&::cudaStreamSynchronize) stream_synchronize;
  decltype(&::cudaStreamBeginCapture) begin_capture;
  decltype(&::cudaStreamEndCapture) end_capture;
  decltype(&::cudaGraphInstantiateWithFlags) graph_instantiate;
  decltype(&::cudaGraphLaunch) graph_launch;
  decltype(&::cudaGraphExecDestroy) graph_exec_destroy;
  decltype(&::cudaGraphDestroy) graph_destroy;
  cudaError_t (*event_create)(cudaEvent_t*, unsigned int);
  decltype(&::cudaEventDestroy) event_destroy;
  cudaError_t (*event_record)(cudaEvent_t, cudaStream_t);
  decltype(&::cudaEventQuery) event_query;
  decltype(&::cudaEventElapsedTime) event_elapsed;
  decltype(&::cudaGetErrorString) error_string;
  decltype(&::cudaGetLastError) last_error;

  /// Null with `problem` filled when the library is missing or lacks a function.
  static std::shared_ptr<const CudaRuntime> open(std::string& problem);
};

/// A CUDA device in use by this rank, and how errors name it.
struct CudaDevice {
  std::shared_ptr<const CudaRuntime> cuda;
  int device = 0;
  int rank = 0;
  std::string place;  ///< "node07, GPU 1"

  /// Throws CommError "CALL failed on rank R (PLACE): TEXT".
  void check(cudaError_t code, const char* call) const {
    if (code != cudaSuccess) throw CommError(call, rank, place, cuda->error_string(code));
  }
};

/// Owner of a CUDA handle; the destructor ignores errors. While an error unwinds nothing is released: freeing waits for
/// the GPU, which may hang, and the program ends anyway.
template <class Value, auto Destroy>
class CudaOwner {
 public:
  CudaOwner() = default;
  CudaOwner(std::shared_ptr<const CudaRuntime> cuda, Value value) : cuda_(std::move(cuda)), value_(value) {}
  ~CudaOwner() { release(); }
  CudaOwner(const CudaOwner&) = delete;
  CudaOwner& operator=(const CudaOwner&) = delete;
  CudaOwner(CudaOwner&& other) noexcept : cuda_(std::move(other.cuda_)), value_(std::exchange(other.value_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    if (this != &other) {
      release();
      cuda_ = std::move(other.cuda_);
      value_ = std::exchange(other.value_, nullptr);
    }
    return *this;
  }
  [[nodiscard]] Value handle() const { return value_; }

 private:
  void release() noexcept {
    if (value_ != nullptr && std::uncaught_exceptions() == 0) ((*cuda_).*Destroy)(value_);
    value_ = nullptr;
  }
  std::shared_ptr<const CudaRuntime> cuda_;
  Value value_ = nullptr;
};

using CudaStream = CudaOwner<cudaStream_t, &CudaRuntime::stream_destroy>;
using CudaEvent = CudaOwner<cudaEvent_t, &CudaRuntime::event_destroy>;
using CudaGraph = CudaOwner<cudaGraphExec_t, &CudaRuntime::graph_exec_destroy>;
using DeviceMemory = CudaOwner<void*, &CudaRuntime::free>;
using PinnedMemory = CudaOwner<void*, &CudaRuntime::free_host>;

CudaStream make_stream(const CudaDevice& device);
CudaEvent make_event(const CudaDevice& device);
DeviceMemory allocate_device(const CudaDevice& device, std::size_t bytes);
PinnedMemory allocate_pinned(const CudaDevice& device, std::size_t bytes);

/// Fills device memory with a repeated pattern: one upload, then copies on the device that double the filled part.
void fill_tiled(const CudaDevice& device, cudaStream_t stream, void* to, std::size_t bytes, const void* tile,
                std::size_t tile_bytes);

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
