#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/units.h"

namespace tpplan::bench {

/// What one rank answered when it was asked whether it lives.
struct Pulse {
  bool answered = false;
  long step = 0;      ///< operations begun so far; equal on ranks that are together
  Seconds idle;       ///< since it last began or finished an operation
  std::string doing;  ///< "all_reduce of 64 KiB (world)"
};

/// Whom to name when nothing moves: the ranks that do not answer, else the ranks behind the others, else the operation
/// all ranks are stuck in. Nothing when some rank advanced less than `timeout` / 2 ago, so that a slow but moving job
/// is left alone. `doing` is what the asking rank waits in.
std::optional<std::string> verdict(const std::vector<Pulse>& pulses, const std::vector<std::string>& hosts,
                                   const std::string& doing, Seconds waited, Seconds timeout);

/// The line for a rank whose process has ended.
std::string dead_rank(int rank, const std::string& host, const std::string& doing);

}  // namespace tpplan::bench
