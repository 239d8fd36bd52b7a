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

}  // namespace tpplan
