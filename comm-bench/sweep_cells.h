#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "comm-bench/groups.h"
#include "comm-bench/payload.h"
#include "comm-bench/schedule.h"

namespace tpplan::bench {

/// Payloads to measure: every power of two from the least to the most, both included, and between 32 KiB and 16 MiB,
/// where libraries switch protocol and algorithm, one more half-way (1.5 times the power).
std::vector<std::size_t> payload_sizes(std::size_t least, std::size_t most);

/// One operation on one set of groups.
struct Cell {
  Operation operation;
  std::size_t set = 0;
};

struct Cells {
  std::vector<Cell> cells;
  std::vector<CellSize> sizes;  ///< the same, as the schedule sees them
};

/// All combinations, sizes rounded to what the group can share; sizes that become equal or 0 are left out, in-place
/// forms are added where they exist.
Cells make_cells(const std::vector<Collective>& collectives, const std::vector<Dtype>& dtypes,
                 const std::vector<std::size_t>& sizes, const std::vector<GroupSet>& sets);

/// The buffers that the largest of the cells need.
BufferSizes largest_buffers(const Cells& cells, const std::vector<GroupSet>& sets);

/// "64 KiB", "1.5 MiB", "100 B".
std::string size_text(std::size_t bytes);

/// "all_reduce of 64 KiB bf16 in place (world, 4 ranks)".
std::string described(const Cell& cell, const GroupSet& set);

}  // namespace tpplan::bench
