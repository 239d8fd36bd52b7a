#include "planner/errors.h"

#include <algorithm>
#include <string_view>

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
  constexpr std::string_view kMark = "error: ";
  std::string text = error.what();
  if (text.find(kMark) == std::string::npos) {
    return "tpplan: error: " + text;
  }
  // Problems of the whole job have no place in a file to start with.
  for (std::size_t line = 0; line < text.size();) {
    if (text.compare(line, kMark.size(), kMark) == 0) {
      text.insert(line, "tpplan: ");
    }
    line = std::min(text.find('\n', line), text.size() - 1) + 1;
  }
  return text;
}

}  // namespace tpplan
