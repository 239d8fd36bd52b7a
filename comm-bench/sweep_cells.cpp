#include "comm-bench/sweep_cells.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace tpplan::bench {

namespace {
constexpr std::size_t kDenseFrom = std::size_t{32} << 10;
constexpr std::size_t kDenseTo = std::size_t{16} << 20;
}  // namespace

std::vector<std::size_t> payload_sizes(std::size_t least, std::size_t most) {
  std::set<std::size_t> sizes{least, most};
  for (std::size_t power = 1; power <= most; power *= 2) {
    if (power >= least) sizes.insert(power);
    const std::size_t between = power + power / 2;
    if (power >= kDenseFrom && power < kDenseTo && between >= least && between <= most) sizes.insert(between);
  }
  return {sizes.begin(), sizes.end()};
}

Cells make_cells(const std::vector<Collective>& collectives, const std::vector<Dtype>& dtypes,
                 const std::vector<std::size_t>& sizes, const std::vector<GroupSet>& sets) {
  Cells result;
  std::size_t series = 0;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const int ranks = static_cast<int>(sets[set].members.front().size());
    for (const Collective collective : collectives) {
      for (const Dtype dtype : dtypes) {
        for (const bool in_place : {false, true}) {
          if (in_place && !has_in_place(collective)) continue;
          std::size_t last = 0;
          for (const std::size_t size : sizes) {
            const std::size_t bytes = shareable_bytes(collective, size, ranks);
            if (bytes == last) continue;
            last = bytes;
            result.cells.push_back({{collective, dtype, bytes, in_place}, set});
            result.sizes.push_back({series, Bytes(static_cast<double>(bytes))});
          }
          ++series;
        }
      }
    }
  }
  return result;
}

BufferSizes largest_buffers(const Cells& cells, const std::vector<GroupSet>& sets) {
  BufferSizes largest;
  for (const Cell& cell : cells.cells) {
    const BufferSizes needed = buffers_of(cell.operation, static_cast<int>(sets[cell.set].members.front().size()));
    largest.send = std::max(largest.send, needed.send);
    largest.receive = std::max(largest.receive, needed.receive);
  }
  return largest;
}

std::string size_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", value, kUnits[unit]);
  return text;
}

std::string described(const Cell& cell, const GroupSet& set) {
  const Operation& operation = cell.operation;
  std::string text = std::string(row_of(operation.collective).name) + " of " + size_text(operation.bytes) + " " +
                     std::string(row_of(operation.dtype).name) + (operation.in_place ? " in place" : "") + " (" +
                     set.name + ", " + std::to_string(set.members.front().size()) + " ranks";
  if (set.concurrent > 1) text += " x " + std::to_string(set.concurrent) + " groups";
  return text + ")";
}

}  // namespace tpplan::bench
