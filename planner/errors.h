#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace tpplan {

/// Every problem of a command line, one per line; ends the program with exit code 2.
class UsageError : public std::runtime_error {
 public:
  /// `command` names the help page that the last line points to; empty: the overview.
  UsageError(const std::vector<std::string>& problems, const std::string& command);
};

/// The machine failed, not the request (a file cannot be written, a measurement is unusable); exit code 3.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text of an error as the program prints it: "tpplan: error: ..." unless it names its own place.
std::string error_text(const std::exception& error);

}  // namespace tpplan
