#include "comm-bench/cuda_runtime.h"

#if defined(TPPLAN_HAVE_CUDA)

#include <algorithm>

namespace tpplan::bench {

std::shared_ptr<const CudaRuntime> CudaRuntime::open(std::string& problem) {
  const std::optional<OpenLibrary> library = OpenLibrary::open(CudaLibrary::runtime, problem);
  if (!library) return nullptr;
  auto cuda = std::make_shared<CudaRuntime>();
  std::string missing;
  const auto bind = [&](auto& function, const char* name) {
    function = library->find<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  bind(cuda->get_device_count, "cudaGetDeviceCount");
  bind(cuda->set_device, "cudaSetDevice");
  bind(cuda->device_attribute, "cudaDeviceGetAttribute");
  bind(cuda->device_synchronize, "cudaDeviceSynchronize");
  bind(cuda->runtime_version, "cudaRuntimeGetVersion");
  bind(cuda->driver_version, "cudaDriverGetVersion");
  bind(cuda->memory_info, "cudaMemGetInfo");
  bind(cuda->malloc, "cudaMalloc");
  bind(cuda->free, "cudaFree");
  bind(cuda->malloc_host, "cudaMallocHost");
  bind(cuda->free_host, "cudaFreeHost");
  bind(cuda->memcpy_async, "cudaMemcpyAsync");
  bind(cuda->memset_async, "cudaMemsetAsync");
  bind(cuda->stream_create, "cudaStreamCreateWithFlags");
  bind(cuda->stream_destroy, "cudaStreamDestroy");
  bind(cuda->stream_synchronize, "cudaStreamSynchronize");
  bind(cuda->begin_capture, "cudaStreamBeginCapture");
  bind(cuda->end_capture, "cudaStreamEndCapture");
  bind(cuda->graph_instantiate, "cudaGraphInstantiateWithFlags");
  bind(cuda->graph_launch, "cudaGraphLaunch");
  bind(cuda->graph_exec_destroy, "cudaGraphExecDestroy");
  bind(cuda->graph_destroy, "cudaGraphDestroy");
  bind(cuda->event_create, "cudaEventCreateWithFlags");
  bind(cuda->event_destroy, "cudaEventDestroy");
  bind(cuda->event_record, "cudaEventRecord");
  bind(cuda->event_query, "cudaEventQuery");
  bind(cuda->event_elapsed, "cudaEventElapsedTime");
  bind(cuda->error_string, "cudaGetErrorString");
  bind(cuda->last_error, "cudaGetLastError");
  if (missing.empty()) return cuda;
  problem = library->path() + " lacks " + missing + ": CUDA 11.4 or later is needed";
  return nullptr;
}

CudaStream make_stream(const CudaDevice& device) {
  cudaStream_t stream = nullptr;
  device.check(device.cuda->stream_create(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {device.cuda, stream};
}

CudaEvent make_event(const CudaDevice& device) {
  cudaEvent_t event = nullptr;
  device.check(device.cuda->event_create(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  return {device.cuda, event};
}

DeviceMemory allocate_device(const CudaDevice& device, std::size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) device.check(device.cuda->malloc(&memory, bytes), "cudaMalloc");
  return {device.cuda, memory};
}

PinnedMemory allocate_pinned(const CudaDevice& device, std::size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) device.check(device.cuda->malloc_host(&memory, bytes), "cudaMallocHost");
  return {device.cuda, memory};
}

void fill_tiled(const CudaDevice& device, cudaStream_t stream, void* to, std::size_t bytes, const void* tile,
                std::size_t tile_bytes) {
  auto* start = static_cast<std::byte*>(to);
  std::size_t filled = std::min(bytes, tile_bytes);
  if (filled == 0) return;
  device.check(device.cuda->memcpy_async(start, tile, filled, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  while (filled < bytes) {
    const std::size_t length = std::min(filled, bytes - filled);
    device.check(device.cuda->memcpy_async(start + filled, start, length, cudaMemcpyDeviceToDevice, stream),
                 "cudaMemcpyAsync");
    filled += length;
  }
  device.check(device.cuda->stream_synchronize(stream), "cudaStreamSynchronize");
}

}  // namespace tpplan::bench

#endif  // TPPLAN_HAVE_CUDA
