#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "planner/commands/export.h"

namespace tpplan {

/// What `tpplan export` printed and its exit code.
struct Outcome {
  int code = -1;
  std::string out, err;
};

inline Outcome exported(const std::string& target, const std::string& model, const std::string& cluster,
                        const std::string& layout, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"export", "--to", target, "--model", model, "--cluster", cluster, "--layout", layout};
  words.insert(words.end(), more.begin(), more.end());
  std::ostringstream out, err;
  Outcome outcome;
  outcome.code = run_export(parse_options(words), out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// The lines, indentation and comments at their ends taken off, that a text must hold; names the first missing one.
inline std::string missing_line(const std::string& text, const std::vector<std::string>& wanted) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t remark = line.find("  # ");
    line = line.substr(0, remark);
    const std::size_t start = line.find_first_not_of(' ');
    lines.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  for (const std::string& line : wanted) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      return line;
    }
  }
  return "";
}

/// A folder that is gone after the test.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "tpplan-export-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether bash can read a script.
inline bool is_shell(const std::string& script) {
  const Scratch scratch;
  std::ofstream(scratch.file("script.sh")) << script;
  return std::system(("bash -n '" + scratch.file("script.sh") + "'").c_str()) == 0;
}

}  // namespace tpplan
