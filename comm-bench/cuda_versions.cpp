#include "comm-bench/cuda_versions.h"

#include <array>

#include "comm-bench/cuda_libs.h"

#if defined(TPPLAN_HAVE_NCCL)
#include <nccl.h>
#endif

namespace tpplan::bench {

namespace {

// These calls have simple C types and are asked even when the program was built without CUDA's headers.
using VersionCall = int(int*);
using SizeCall = std::size_t();
using TextCall = const char*(int);
using AddressCall = int(char*, int, int);

int asked(const OpenLibrary& library, const char* name) {
  auto* ask = library.find<VersionCall>(name);
  int value = 0;
  return ask != nullptr && ask(&value) == 0 ? value : 0;
}

}  // namespace

CudaVersions cuda_versions() {
  CudaVersions versions;
#if defined(TPPLAN_HAVE_NCCL)
  versions.nccl_header = NCCL_VERSION_CODE;
#endif
  std::string problem;
  if (const auto runtime = OpenLibrary::open(CudaLibrary::runtime, problem)) {
    versions.runtime_cuda = asked(*runtime, "cudaRuntimeGetVersion");
    versions.driver_cuda = asked(*runtime, "cudaDriverGetVersion");
    auto* count = runtime->find<VersionCall>("cudaGetDeviceCount");
    const int code = count == nullptr ? -1 : count(&versions.devices);
    if (code != 0) {
      versions.devices = 0;
      auto* words = runtime->find<TextCall>("cudaGetErrorString");
      versions.no_device_reason = words == nullptr ? "the CUDA runtime fails" : words(code);
    } else if (versions.devices == 0) {
      versions.no_device_reason = "no GPU on this machine";
    }
  } else {
    versions.no_device_reason = problem;
  }
  if (const auto nccl = OpenLibrary::open(CudaLibrary::nccl, problem)) {
    versions.nccl = asked(*nccl, "ncclGetVersion");
    versions.nccl_path = nccl->path();
  }
  if (const auto blas = OpenLibrary::open(CudaLibrary::cublas_lt, problem)) {
    auto* ask = blas->find<SizeCall>("cublasLtGetVersion");
    if (ask != nullptr) versions.cublas_lt = static_cast<std::int64_t>(ask());
  }
  if (const auto dnn = OpenLibrary::open(CudaLibrary::cudnn, problem)) {
    auto* ask = dnn->find<SizeCall>("cudnnGetVersion");
    if (ask != nullptr) versions.cudnn = static_cast<std::int64_t>(ask());
  }
  return versions;
}

std::string pci_of_device(int device) {
  std::string problem;
  const auto runtime = OpenLibrary::open(CudaLibrary::runtime, problem);
  if (!runtime) return {};
  auto* ask = runtime->find<AddressCall>("cudaDeviceGetPCIBusId");
  std::array<char, 32> text{};
  return ask != nullptr && ask(text.data(), text.size(), device) == 0 ? text.data() : std::string();
}

std::string name_of_device(int device) {
  std::string problem;
  const auto driver = OpenLibrary::open(CudaLibrary::driver, problem);
  if (!driver) return {};
  // From the driver, because the runtime's structure of properties changes its layout between versions.
  auto* start = driver->find<int(unsigned)>("cuInit");
  auto* of_index = driver->find<int(int*, int)>("cuDeviceGet");
  auto* ask = driver->find<AddressCall>("cuDeviceGetName");
  std::array<char, 128> text{};
  int handle = 0;
  if (start == nullptr || of_index == nullptr || ask == nullptr || start(0) != 0) return {};
  if (of_index(&handle, device) != 0 || ask(text.data(), static_cast<int>(text.size()), handle) != 0) return {};
  return text.data();
}

}  // namespace tpplan::bench
