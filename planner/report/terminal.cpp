#include "planner/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace tpplan {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool switched_on(std::string_view value) { return !value.empty() && value != "0"; }

bool color_of(ColorMode mode, bool interactive) {
  if (mode != ColorMode::automatic) {
    return mode == ColorMode::always;
  }
  if (!variable("NO_COLOR").empty()) {
    return false;
  }
  if (switched_on(variable("CLICOLOR_FORCE")) || switched_on(variable("FORCE_COLOR"))) {
    return true;
  }
  return interactive && variable("CLICOLOR") != "0" && variable("TERM") != "dumb";
}

/// The first of LC_ALL, LC_CTYPE and LANG that is set decides, as in setlocale.
bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (!value.empty()) {
      return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos ||
             value.find("utf-8") != std::string_view::npos;
    }
  }
  return false;
}

int width_of(int descriptor) {
  constexpr int kNarrowest = 40;
  constexpr int kWidest = 1000;
  const std::string columns(variable("COLUMNS"));
  int width = columns.empty() ? 0 : std::atoi(columns.c_str());
  if (width <= 0) {
    winsize size{};
    width = isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  return width < kNarrowest ? kNarrowest : width > kWidest ? kWidest : width;
}

}  // namespace

Terminal Terminal::of(int descriptor, ColorMode mode) {
  Terminal terminal;
  terminal.width = width_of(descriptor);
  terminal.interactive = isatty(descriptor) == 1;
  terminal.color = color_of(mode, terminal.interactive);
  terminal.unicode = terminal.interactive && utf8_locale();
  return terminal;
}

std::string Terminal::paint(Style style, std::string_view text) const {
  constexpr std::array<std::string_view, 6> kCodes{"", "1", "2", "32", "33", "31"};
  if (!color || style == Style::plain || text.empty()) {
    return std::string(text);
  }
  return "\033[" + std::string(kCodes[static_cast<std::size_t>(style)]) + "m" + std::string(text) + "\033[0m";
}

}  // namespace tpplan
