#include "comm-bench/liveness.h"

#include <algorithm>

namespace tpplan::bench {

namespace {

constexpr std::size_t kNamed = 8;

/// "rank 1 (node07)", "ranks 1 (node07), 3 (node08) and 12 more".
std::string named(const std::vector<std::size_t>& ranks, const std::vector<std::string>& hosts) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]) + " (" + hosts[ranks[i]] + ")";
  }
  if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
  return text;
}

}  // namespace

std::optional<std::string> verdict(const std::vector<Pulse>& pulses, const std::vector<std::string>& hosts,
                                   const std::string& doing, Seconds waited, Seconds timeout) {
  std::vector<std::size_t> silent;
  std::vector<std::size_t> behind;
  long furthest = 0;
  for (const Pulse& pulse : pulses) furthest = std::max(furthest, pulse.answered ? pulse.step : 0);
  for (std::size_t rank = 0; rank < pulses.size(); ++rank) {
    if (!pulses[rank].answered) {
      silent.push_back(rank);
    } else if (pulses[rank].idle < timeout / 2) {
      return std::nullopt;
    } else if (pulses[rank].step < furthest) {
      behind.push_back(rank);
    }
  }
  const std::string since = " after " + format(waited);
  if (!silent.empty()) {
    return named(silent, hosts) + (silent.size() == 1 ? " does" : " do") + " not answer" + since +
           ": dead or hung in " + doing;
  }
  if (!behind.empty()) {
    return named(behind, hosts) + (behind.size() == 1 ? " hangs" : " hang") + since + " in " +
           pulses[behind.front()].doing + ", the others wait in " + doing;
  }
  return "no rank advances" + since + ": all ranks answer and hang in " + doing +
         " (a link or a GPU does not finish its part)";
}

std::string dead_rank(int rank, const std::string& host, const std::string& doing) {
  return "rank " + std::to_string(rank) + " (" + host + ") has ended: it died in " + doing;
}

}  // namespace tpplan::bench
