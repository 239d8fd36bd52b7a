#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "planner/options.h"

namespace tpplan {

/// Communication that can run beside compute.
struct OverlapRow {
  std::string_view name;
  Switch TrainingSpec::*field;
};
inline constexpr std::array<OverlapRow, 5> kOverlaps{{{"dp-grad", &TrainingSpec::overlap_dp_grad},
                                                      {"dp-param", &TrainingSpec::overlap_dp_param},
                                                      {"tp", &TrainingSpec::overlap_tp},
                                                      {"pp", &TrainingSpec::overlap_pp},
                                                      {"ep", &TrainingSpec::overlap_ep}}};

inline constexpr int kAnyCount = std::numeric_limits<int>::max();

/// Reads one option value into `target`; the result says what is wrong with the text, empty when nothing is.
std::string read_count(const std::string& text, int low, int high, int& target);
/// "1,2,4", "1..8" or a mixture; "auto" leaves the target empty.
std::string read_counts(const std::string& text, int low, int high, std::vector<int>& target);
/// "3%" or "0.03", below 1.
std::string read_share(const std::string& text, double& target);
/// "1T", "300G" (or 300B), "2M", "500k", "1e24": a number of what the option counts.
std::string read_amount(const std::string& text, double low, double high, std::optional<double>& target);
/// "3.2", "3.2 s" or "3200 ms".
std::string read_seconds(const std::string& text, std::optional<Seconds>& target);
/// "1.2s..1.5s", "..10%", "90%..": seconds or shares of a step, each end may be left out.
std::string read_time_range(const std::string& text, std::optional<TimeRange>& target);
/// Names of schedules, or the file that orders the passes of one.
std::string read_schedule(const std::string& text, PlannerOptions& options);
/// "2024" or "2024-06" or "2024-06-30".
std::string read_date(const std::string& text, std::string& target);
/// "lora", "lora:rank=16:targets=q+v", "qlora:...".
std::string read_peft(const std::string& text, PlannerOptions& options);
/// Texts of Layout::recompute, checked.
std::string read_recompute(const std::string& text, std::vector<std::string>& target);

/// "tp,ep=on,dp-grad=off": switches of TrainingSpec by their names in kOverlaps.
std::string read_overlaps(const std::string& text, std::vector<OverlapChoice>& target);

/// "unknown value "bf17"; did you mean "bf16"?", with all values when none is near.
std::string unknown_choice(const std::string& word, const std::vector<std::string>& choices);
std::vector<std::string> split(std::string_view text, char separator);

/// The name column of a table.
template <class Row, std::size_t N>
std::vector<std::string> names_of(const std::array<Row, N>& table) {
  std::vector<std::string> names;
  names.reserve(N);
  for (const Row& row : table) {
    names.emplace_back(row.name);
  }
  return names;
}

/// A list of names of a table ("ring,ulysses"), or "auto" for an empty target.
template <class Enum, std::size_t N>
std::string read_names(const std::string& text, const std::array<NameRow<Enum>, N>& table, std::vector<Enum>& target) {
  target.clear();
  if (text == "auto") {
    return "";
  }
  for (const std::string& word : split(text, ',')) {
    const auto value = value_in(table, word);
    if (!value) {
      return unknown_choice(word, names_of(table));
    }
    target.push_back(*value);
  }
  return "";
}

/// One name of a table.
template <class Enum, std::size_t N>
std::string read_name(const std::string& text, const std::array<NameRow<Enum>, N>& table, Enum& target) {
  const auto value = value_in(table, text);
  if (!value) {
    return unknown_choice(text, names_of(table));
  }
  target = *value;
  return "";
}

/// Any text but an empty one.
template <std::string PlannerOptions::*field>
std::string store(PlannerOptions& options, const std::string& text) {
  options.*field = text;
  return text.empty() ? "a value is missing" : "";
}

/// A count of at least 1.
template <std::optional<int> PlannerOptions::*field>
std::string read_optional_count(PlannerOptions& options, const std::string& text) {
  int value = 0;
  std::string problem = read_count(text, 1, kAnyCount, value);
  if (problem.empty()) {
    options.*field = value;
  }
  return problem;
}

/// A flag that is there.
template <bool PlannerOptions::*field>
std::string raise(PlannerOptions& options, const std::string&) {
  options.*field = true;
  return "";
}

}  // namespace tpplan
