#pragma once

#include <string>

#include "planner/sweep_grid.h"

namespace tpplan {

/// Plans one cell and writes its row, one line of JSON without a line feed: `cell`, the inputs, `status` (fits, tight,
/// nothing-fits, refused), `reason` of the last two, else the members of the best plan; and `search`. Depends on the
/// cell alone: neither on `threads` nor on who computes it.
std::string sweep_row(const SweepGrid& grid, std::size_t index, int threads);

/// The cell and the status of such a row, for a count of them. Throws SpecError for a line of another form; `name` and
/// `line` say in the message where it stands.
struct SweepRowHead {
  std::size_t cell = 0;
  std::string status;
};
SweepRowHead sweep_row_head(const std::string& name, std::size_t line, const std::string& row);

}  // namespace tpplan
