#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

/// One line of a log, freed from what launchers and web pages add.
struct LogLine {
  std::size_t number = 0;  ///< from 1
  std::string text;        ///< without launcher prefixes, colours, tabs, fences; cut where an NCCL message begins
  std::string message;     ///< "NCCL INFO ..." with the sender in front, empty when the line holds none
  bool ended = true;       ///< a line break follows
};

/// Splits a log into lines and removes what does not belong to the tool's own output: carriage returns, terminal
/// colours, non-breaking blanks, Markdown fences; the prefixes of mpirun --tag-output ("[1,0]<stdout>:"), of srun -l
/// ("0: ") and of launchers that write "[0]" before every piece, even inside a row; NCCL messages, which may begin in
/// the middle of a row and are kept apart.
std::vector<LogLine> log_lines(std::string_view text);

}  // namespace tpplan
