#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tpplan::tests {

inline std::string data_path(const std::string& name) { return std::string(TPPLAN_SOURCE_DIR) + "/tests/data/" + name; }

inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string data_text(const std::string& name) { return text_of_file(data_path(name)); }

}  // namespace tpplan::tests
