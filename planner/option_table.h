#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/options.h"

namespace tpplan {

enum class OptionGroup : std::uint8_t { inputs, layout, search, command, output, general };
std::string_view name_of(OptionGroup group);

/// What a shell offers after the option.
enum class Completes : std::uint8_t { nothing, choices, files, models, clusters };

/// One option: parsing, help, the man page and shell completion are all made from these rows.
struct OptionRow {
  std::string_view name = {};      ///< "global-batch"
  char letter = 0;                 ///< 'o' for -o
  std::string_view argument = {};  ///< what stands for the value in help; empty: a flag
  OptionGroup group = OptionGroup::inputs;
  std::string_view commands = {};  ///< names separated by blanks; empty: every command
  std::string_view meaning = {};   ///< fits on one line of help
  std::string_view fallback = {};  ///< default, for help; empty: none
  std::string_view details = {};   ///< further sentences of the long help
  Completes completes = Completes::nothing;
  std::vector<std::string> (*choices)() = nullptr;  ///< the words the value is made of
  /// Checks the value and stores it; the result says what is wrong with it, empty when nothing is.
  std::string (*set)(PlannerOptions& options, const std::string& value) = nullptr;
  bool hidden = false;  ///< works, but is not listed
};

const std::vector<OptionRow>& option_rows();
[[nodiscard]] bool belongs_to(const OptionRow& row, std::string_view command);

}  // namespace tpplan
