#include "planner/errors.h"

namespace tpplan {
namespace {

std::string joined(const std::vector<std::string>& problems, const std::string& command) {
  std::string text;
  for (const std::string& problem : problems) {
    text += "tpplan: error: " + problem + "\n";
  }
  return text + "See \"tpplan " + (command.empty() ? "--help" : "help " + command) + "\".";
}

}  // namespace

UsageError::UsageError(const std::vector<std::string>& problems, const std::string& command)
    : std::runtime_error(joined(problems, command)) {}

std::string error_text(const std::exception& error) {
  const std::string text = error.what();
  return text.find("error: ") == std::string::npos ? "tpplan: error: " + text : text;
}

}  // namespace tpplan
