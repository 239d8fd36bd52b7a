#pragma once

#include <string>

namespace tpplan {

/// Throws SpecError, "cannot open PATH: No such file or directory", when a path is no file that can be read. Standard
/// input ("-") always is.
void require_readable(const std::string& path);

/// The bytes of a file, of standard input for "-"; throws as above.
std::string file_text(const std::string& path);

}  // namespace tpplan
