#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan::detail {

/// A shell pattern in which "*" and "?" alone are special.
bool matches(std::string_view pattern, std::string_view text);

/// Decides the test that begins at word `at` and goes on to `end` ("]", "]]"); `at` is moved behind it. What asks for
/// files is false.
bool tested(const std::vector<std::string>& words, std::size_t& at, std::string_view end);

}  // namespace tpplan::detail
