#include "comm-bench/cuda_libs.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>

namespace tpplan::bench {

namespace {

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> found;
  glob_t result{};
  if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &result) == 0) {
    for (std::size_t i = 0; i < result.gl_pathc; ++i) found.emplace_back(result.gl_pathv[i]);
  }
  globfree(&result);
  return found;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

void add_environment(const std::string& root, std::vector<std::string>& folders) {
  for (const char* wheels : {"/lib/python3*/site-packages/nvidia/*/lib", "/lib/python3*/dist-packages/nvidia/*/lib"}) {
    for (std::string& folder : matches(root + wheels)) folders.push_back(std::move(folder));
  }
  for (std::string& folder : matches(root + "/lib/python3*/site-packages/torch/lib")) {
    folders.push_back(std::move(folder));
  }
}

void keep_first_of_each(std::vector<std::string>& texts) {
  std::vector<std::string> kept;
  for (std::string& text : texts) {
    if (std::find(kept.begin(), kept.end(), text) == kept.end()) kept.push_back(std::move(text));
  }
  texts = std::move(kept);
}

std::string opened_path(void* handle, std::string_view asked) {
  // dladdr needs a symbol; any exported one of the library tells its file, and the names below exist in one each.
  for (const char* probe : {"cuInit", "cudaGetDeviceCount", "ncclGetVersion", "cublasLtGetVersion", "cudnnGetVersion",
                            "nvmlInit_v2", "nvrtcVersion"}) {
    Dl_info info{};
    void* address = dlsym(handle, probe);
    if (address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr) return info.dli_fname;
  }
  return std::string(asked);
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = variable(name);
    if (root.empty()) continue;
    folders.push_back(root + "/lib64");
    folders.push_back(root + "/lib");
  }
  for (const char* folder : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/nvidia/lib64"}) {
    folders.emplace_back(folder);
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = variable(name);
    if (root.empty()) continue;
    add_environment(root, folders);
    folders.push_back(root + "/lib");
  }
  const std::string path = variable("PATH");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string program_folder = path.substr(at, end - at);
    if (program_folder.size() > 4 && program_folder.ends_with("/bin")) {
      add_environment(program_folder.substr(0, program_folder.size() - 4), folders);
    }
    at = end + 1;
  }
  keep_first_of_each(folders);
  return folders;
}

std::optional<OpenLibrary> OpenLibrary::open(CudaLibrary library, std::string& problem) {
  const CudaLibraryRow& row = row_of(library);
  std::string names;
  std::string reason;
  const auto try_open = [&](const std::string& file) -> std::optional<OpenLibrary> {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return OpenLibrary(handle, opened_path(handle, file));
    const char* text = dlerror();
    // A file that exists and does not load is worth more to the reader than a list of places without it.
    if (text != nullptr && std::string_view(text).find("No such file") == std::string_view::npos) reason = text;
    return std::nullopt;
  };
  for (const std::string_view soname : row.sonames) {
    if (soname.empty()) continue;
    names += (names.empty() ? "" : ", ") + std::string(soname);
    if (auto opened = try_open(std::string(soname))) return opened;
  }
  const std::vector<std::string> folders = library_folders();
  for (const std::string& folder : folders) {
    for (const std::string_view soname : row.sonames) {
      if (soname.empty()) continue;
      if (auto opened = try_open(folder + "/" + std::string(soname))) return opened;
    }
  }
  problem = std::string(row.name) + " not found: looked for " + names +
            " on the loader's path (LD_LIBRARY_PATH, ld.so.cache) and in";
  for (std::size_t i = 0; i < folders.size(); ++i) problem += (i == 0 ? " " : ", ") + folders[i];
  if (!reason.empty()) problem += "; last refusal: " + reason;
  problem += ". It comes with " + std::string(row.comes_with) + "; add its folder to LD_LIBRARY_PATH";
  return std::nullopt;
}

void* OpenLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace tpplan::bench
