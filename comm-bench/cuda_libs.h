#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan::bench {

/// NVIDIA's libraries that this program can use. None is linked: each is opened when it is first needed, so that one
/// binary runs on machines with and without a GPU.
enum class CudaLibrary { driver, runtime, nccl, cublas_lt, cudnn, nvml, nvrtc };

struct CudaLibraryRow {
  CudaLibrary library;
  std::string_view name;                    ///< for people
  std::array<std::string_view, 4> sonames;  ///< newest first, unused ones empty
  std::string_view comes_with;              ///< where a user gets it
};
inline constexpr std::array<CudaLibraryRow, 7> kCudaLibraries{{
    {CudaLibrary::driver, "CUDA driver", {"libcuda.so.1"}, "the NVIDIA driver"},
    {CudaLibrary::runtime,
     "CUDA runtime",
     {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"},
     "the CUDA toolkit or the nvidia-cuda-runtime wheel"},
    {CudaLibrary::nccl, "NCCL", {"libnccl.so.2", "libnccl.so"}, "the NCCL package or the nvidia-nccl wheel"},
    {CudaLibrary::cublas_lt,
     "cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"},
     "the CUDA toolkit or the nvidia-cublas wheel"},
    {CudaLibrary::cudnn, "cuDNN", {"libcudnn.so.9", "libcudnn.so"}, "the cuDNN package or the nvidia-cudnn wheel"},
    {CudaLibrary::nvml, "NVML", {"libnvidia-ml.so.1", "libnvidia-ml.so"}, "the NVIDIA driver"},
    {CudaLibrary::nvrtc,
     "NVRTC",
     {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"},
     "the CUDA toolkit or the nvidia-cuda-nvrtc wheel"},
}};
constexpr const CudaLibraryRow& row_of(CudaLibrary library) {
  return kCudaLibraries[static_cast<std::size_t>(library)];
}

/// An opened library; stays open until the program ends, because these libraries do not survive being unloaded while
/// the driver holds their state.
class OpenLibrary {
 public:
  /// The loader's own search first (LD_LIBRARY_PATH, cache), then the folders of the toolkit and of Python
  /// environments. On failure returns nothing and fills `problem` with what was looked for and where.
  static std::optional<OpenLibrary> open(CudaLibrary library, std::string& problem);

  /// The function of this name, or null when this version of the library has none.
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }
  /// The file that was opened.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  OpenLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  [[nodiscard]] void* symbol(const char* name) const;
  void* handle_;
  std::string path_;
};

/// Folders searched after the loader's own: CUDA_HOME, CUDA_PATH, /usr/local/cuda, and nvidia/*/lib of the Python
/// environments in VIRTUAL_ENV, CONDA_PREFIX and next to the programs on PATH.
std::vector<std::string> library_folders();

}  // namespace tpplan::bench
