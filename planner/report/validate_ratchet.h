#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/report/validate_report.h"

namespace tpplan {

/// Median errors that a change must not worsen, of one group.
struct RatchetRow {
  std::optional<double> step, memory;
  std::optional<double> left_out_step, left_out_memory;  ///< each model of the group left out in turn
  std::optional<double> unseen_step, unseen_memory;      ///< the whole group left out
};

/// tests/data/ratchet.json: what the shipped profiles reached on the recorded runs.
struct Ratchet {
  std::map<std::string, RatchetRow> groups;
  /// Share of left-out runs (each model in turn) inside their 80 % interval.
  std::optional<double> left_out_coverage_step, left_out_coverage_memory;
  [[nodiscard]] double mean_step() const;  ///< mean of the groups' medians
  [[nodiscard]] double mean_memory() const;
};

Ratchet load_ratchet(const std::string& path);
std::string to_json(const Ratchet& ratchet);

/// The medians of present reports, in the left-out columns those of `errors` where there are any.
Ratchet ratchet_of(const std::vector<GroupReport>& groups);
void add_left_out(Ratchet& ratchet, const std::map<std::string, LeftOutStats>& by_model,
                  const std::map<std::string, LeftOutStats>& by_group);

/// One line for each way `now` is worse than `then`: a group's median risen by more than 0.3 points, or the mean of
/// medians risen at all (beyond rounding). Groups that `then` does not know are not compared.
std::vector<std::string> regressions(const Ratchet& then, const Ratchet& now);

/// The left-out medians as the reports show them.
std::map<std::string, LeftOutStats> left_out_of(const Ratchet& ratchet);

}  // namespace tpplan
