#pragma once

#include <string_view>

namespace tpplan {

/// The style sheet of a page: light, dark, narrow, paper.
std::string_view page_style();

/// What a page gains where scripts run: tables sorted by a column, CSV copied.
std::string_view page_script();

}  // namespace tpplan
