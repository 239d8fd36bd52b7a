#pragma once

#include <string>
#include <string_view>

#include "planner/options.h"

namespace tpplan {

enum class Style : std::uint8_t { plain, bold, dim, good, caution, bad };

/// What the output device can show. The default suits a pipe: 80 columns, no colour, ASCII.
struct Terminal {
  int width = 80;
  bool interactive = false;
  bool color = false;
  bool unicode = false;  ///< a terminal in a UTF-8 locale

  /// Of a file descriptor: COLUMNS, else the window size, else 80; --color, else NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR,
  /// CLICOLOR, else colour on a terminal only.
  static Terminal of(int descriptor, ColorMode mode);
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
};

}  // namespace tpplan
