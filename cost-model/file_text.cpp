#include "cost-model/file_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cost-model/spec_reader.h"

namespace tpplan {
namespace {

std::ifstream opened(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw SpecError(path + ": is a folder, not a file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw SpecError("cannot open " + path + ": " + std::strerror(errno == 0 ? ENOENT : errno));
  }
  return file;
}

}  // namespace

void require_readable(const std::string& path) {
  if (path != "-") {
    (void)opened(path);
  }
}

std::string file_text(const std::string& path) {
  if (path == "-") {
    return {std::istreambuf_iterator<char>(std::cin), {}};
  }
  std::ifstream file = opened(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tpplan
