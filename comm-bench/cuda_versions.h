#pragma once

#include <cstdint>
#include <string>

namespace tpplan::bench {

/// Versions of NVIDIA's libraries at run time; 0 where a library is missing. nccl_header is what this program was
/// compiled against.
struct CudaVersions {
  int driver_cuda = 0, runtime_cuda = 0, nccl = 0, nccl_header = 0;
  std::int64_t cublas_lt = 0, cudnn = 0;
  std::string nccl_path;
  int devices = 0;
  std::string no_device_reason;
};
CudaVersions cuda_versions();

/// PCI address of a CUDA device, such as "0000:19:00.0"; empty when it cannot be asked.
std::string pci_of_device(int device);
/// The driver's name of a CUDA device, such as "NVIDIA H200"; empty when it cannot be asked.
std::string name_of_device(int device);

}  // namespace tpplan::bench
