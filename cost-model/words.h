#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

/// The text with A to Z in lower case; other bytes stay.
std::string lower(std::string_view text);

/// The words with a separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator);

}  // namespace tpplan
