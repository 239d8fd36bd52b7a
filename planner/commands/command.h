#pragma once

#include <iosfwd>
#include <string_view>
#include <vector>

#include "planner/options.h"

namespace tpplan {

/// One command of tpplan. Results go to `out`, all else to `err`; the value is the exit code (0 done, 1 nothing fits or
/// a check failed, 2 bad input, 3 environment failure).
struct Command {
  std::string_view name = {};
  std::string_view summary = {};   ///< one line, starts with a verb
  std::string_view required = {};  ///< "--model M": the options that it cannot do without
  std::string_view operands = {};  ///< "SAMPLES..."; empty: the command takes options only
  int (*run)(const PlannerOptions& options, std::ostream& out, std::ostream& err) = nullptr;
  std::string_view formats = {};   ///< values of --format it can write, separated by blanks; empty: no such option
  std::string_view examples = {};  ///< complete command lines, one per line
  std::string_view details = {};   ///< sentences of the long help, empty when the summary says it all
};

/// Every command that works, in the order help lists them; adding one is adding a row to commands/command.cpp.
const std::vector<Command>& commands();
const Command* find_command(std::string_view name);

}  // namespace tpplan
