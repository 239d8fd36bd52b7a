#include "planner/report/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

void write_file(const std::string& path, std::string_view text) {
  const auto failed = [&](const char* action) {
    return EnvironmentError("cannot " + std::string(action) + " " + path + ": " + std::strerror(errno));
  };
  Temporary temporary(path + ".part" + std::to_string(getpid()));
  std::FILE* file = std::fopen(temporary.path().c_str(), "wb");
  if (file == nullptr) {
    temporary.release();
    throw failed("write");
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int write_error = errno;
  if (std::fclose(file) != 0 || !written) {
    errno = written ? errno : write_error;
    throw failed("write");
  }
  if (std::rename(temporary.path().c_str(), path.c_str()) != 0) {
    throw failed("replace");
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
