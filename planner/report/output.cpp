#include "planner/report/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <ostream>

namespace tpplan {
namespace {

/// Removes the temporary file unless it has been renamed.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) {
      std::remove(path_.c_str());
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::string path_;
};

}  // namespace

void write_file(const std::string& name, std::string_view text) {
  namespace fs = std::filesystem;
  const auto reason = [&] { return "cannot write " + name + ": " + std::strerror(errno); };
  std::error_code ignored;
  // A link keeps pointing where it did; devices and pipes are written to, not replaced.
  const fs::path target = fs::is_symlink(name, ignored) ? fs::weakly_canonical(name, ignored) : fs::path(name);
  const bool special = fs::exists(target, ignored) && !fs::is_regular_file(target, ignored);
  Temporary temporary(special ? "" : target.string() + ".part" + std::to_string(getpid()));
  std::FILE* file = std::fopen(special ? target.c_str() : temporary.path().c_str(), "wb");
  if (file == nullptr) {
    temporary.release();
    throw UsageError({reason()}, "");
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int write_error = errno;
  if (std::fclose(file) != 0 || !written) {
    errno = written ? errno : write_error;
    throw EnvironmentError(reason());
  }
  if (!special && std::rename(temporary.path().c_str(), target.c_str()) != 0) {
    throw EnvironmentError(reason());
  }
  temporary.release();
}

void write_result(const PlannerOptions& options, std::string_view text, std::ostream& out) {
  if (options.output.empty() || options.output == "-") {
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    return;
  }
  write_file(options.output, text);
}

}  // namespace tpplan
