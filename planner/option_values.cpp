#include "planner/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cost-model/peft.h"

namespace tpplan {
namespace {

/// Longest run of values that a range may stand for.
constexpr int kLongestRange = 65536;

/// A number beyond those of a long long becomes the nearest of them, which is out of every option's bounds.
bool whole_number(std::string_view text, long long& target) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), target);
  if (failure == std::errc::result_out_of_range) {
    using Limits = std::numeric_limits<long long>;
    target = text.front() == '-' ? Limits::min() : Limits::max();
  } else if (failure != std::errc()) {
    return false;
  }
  return end == text.data() + text.size();
}

std::string bounds(int low, int high) {
  return high == std::numeric_limits<int>::max() ? "at least " + std::to_string(low)
                                                 : "from " + std::to_string(low) + " to " + std::to_string(high);
}

bool decimal_number(const std::string& text, double& target) {
  char* end = nullptr;
  target = std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size() && std::isfinite(target);
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::string unknown_choice(const std::string& word, const std::vector<std::string>& choices) {
  std::string problem = word.empty() ? "a value is missing" : "unknown value \"" + word + "\"";
  if (const auto near = nearest_name(word, choices); near && !word.empty()) {
    return problem + "; did you mean \"" + *near + "\"?";
  }
  problem += "; expected ";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    problem += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  return problem;
}

std::string read_count(const std::string& text, int low, int high, int& target) {
  long long value = 0;
  if (!whole_number(text, value)) {
    return "\"" + text + "\" is not a whole number";
  }
  if (value < low || value > high) {
    return text + " is out of bounds; expected a whole number " + bounds(low, high);
  }
  target = static_cast<int>(value);
  return "";
}

std::string read_counts(const std::string& text, int low, int high, std::vector<int>& target) {
  target.clear();
  if (text == "auto") {
    return "";
  }
  const std::string expected = "expected a list such as 1,2,4, a range such as 1..8, or auto";
  for (const std::string& part : split(text, ',')) {
    const std::size_t dots = part.find("..");
    long long first = 0;
    long long last = 0;
    if (!whole_number(part.substr(0, dots), first)) {
      return "\"" + text + "\": " + expected;
    }
    last = first;
    if (dots != std::string::npos && !whole_number(part.substr(dots + 2), last)) {
      return "\"" + text + "\": " + expected;
    }
    if (first < low || last > high) {
      return part + " is out of bounds; expected whole numbers " + bounds(low, high);
    }
    if (last < first) {
      return "the range " + part + " is empty; write " + std::to_string(last) + ".." + std::to_string(first);
    }
    if (last - first >= kLongestRange) {
      return "the range " + part + " has more than " + std::to_string(kLongestRange) + " values";
    }
    for (long long value = first; value <= last; ++value) {
      target.push_back(static_cast<int>(value));
    }
  }
  std::sort(target.begin(), target.end());
  target.erase(std::unique(target.begin(), target.end()), target.end());
  return "";
}

std::string read_share(const std::string& text, double& target) {
  const bool percent = !text.empty() && text.back() == '%';
  double value = 0;
  if (!decimal_number(percent ? text.substr(0, text.size() - 1) : text, value)) {
    return "\"" + text + "\" is no share; write it as 3% or 0.03";
  }
  if (percent) {
    value /= 100;
  } else if (value >= 1) {
    return text + " is ambiguous; write " + text + "% or a fraction below 1";
  }
  if (value < 0 || value >= 1) {
    return text + " is out of bounds; expected 0% up to 99%";
  }
  target = value;
  return "";
}

std::string read_amount(const std::string& text, double low, double high, std::optional<double>& target) {
  constexpr std::array<std::pair<char, double>, 5> kSuffixes{
      {{'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'B', 1e9}, {'T', 1e12}}};
  double factor = 1;
  std::string digits = text;
  for (const auto& [suffix, value] : kSuffixes) {
    if (!digits.empty() && digits.back() == suffix) {
      digits.pop_back();
      factor = value;
      break;
    }
  }
  double value = 0;
  if (!decimal_number(digits, value)) {
    return "\"" + text + "\" is no amount; write it as 300G, 1T, 2.5M or 1e24";
  }
  value *= factor;
  if (value < low || value > high) {
    return text + " is out of bounds; expected " + shortest(low) + " up to " + shortest(high);
  }
  target = value;
  return "";
}

std::string read_seconds(const std::string& text, std::optional<Seconds>& target) {
  double value = 0;
  if (!decimal_number(text, value)) {
    UnitError error;
    const auto parsed = parse_quantity(text, Dimension::seconds, error);
    if (!parsed) {
      return "\"" + text + "\": " + error.message + (error.hint.empty() ? "" : "; " + error.hint);
    }
    value = *parsed;
  }
  if (value <= 0) {
    return "\"" + text + "\" is out of bounds; expected a time above zero";
  }
  target = Seconds(value);
  return "";
}

std::string read_time_range(const std::string& text, std::optional<TimeRange>& target) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    return "\"" + text + "\" is no range; write 0.2s..0.5s, ..10% or 90%..";
  }
  TimeRange range;
  const auto read_end = [](const std::string& end, double& value, bool& share) -> std::string {
    if (end.empty()) {
      return "";
    }
    share = end.back() == '%';
    if (share) {
      return decimal_number(end.substr(0, end.size() - 1), value) && (value /= 100) <= 1 && value >= 0
                 ? ""
                 : "\"" + end + "\" is no share from 0% to 100%";
    }
    std::optional<Seconds> time;
    std::string problem = end == "0" ? "" : read_seconds(end, time);
    value = time.value_or(Seconds(0)).raw();
    return problem;
  };
  std::string problem = read_end(text.substr(0, dots), range.from, range.from_share);
  if (problem.empty()) {
    problem = read_end(text.substr(dots + 2), range.to, range.to_share);
  }
  if (problem.empty() && range.from_share == range.to_share && range.from >= range.to) {
    problem = "\"" + text + "\" ends before it starts";
  }
  target = range;
  return problem;
}

std::string read_schedule(const std::string& text, PlannerOptions& options) {
  const bool named = text.find_first_of("./") == std::string::npos;
  if (std::error_code unreadable; !named || std::filesystem::exists(text, unreadable)) {
    if (!value_in(kScheduleNames, text)) {
      options.schedule_file = text;
      return "";
    }
  }
  return read_names(text, kScheduleNames, options.space.schedules);
}

std::string read_date(const std::string& text, std::string& target) {
  const std::vector<std::string> parts = split(text, '-');
  constexpr std::array<std::size_t, 3> kDigits{4, 2, 2};
  constexpr std::array<int, 3> kHighest{2100, 12, 31};
  constexpr std::array<int, 3> kLowest{2000, 1, 1};
  bool valid = parts.size() <= kDigits.size();
  for (std::size_t i = 0; valid && i < parts.size(); ++i) {
    long long number = 0;
    valid = parts[i].size() == kDigits[i] && whole_number(parts[i], number) && number >= kLowest[i] &&
            number <= kHighest[i];
  }
  if (!valid) {
    return "\"" + text + "\" is no date; write 2024, 2024-06 or 2024-06-30";
  }
  target = text;
  return "";
}

std::string read_recompute(const std::string& text, std::vector<std::string>& target) {
  target.clear();
  if (text == "auto") {
    return "";
  }
  for (const std::string& word : split(text, ',')) {
    Layout layout;
    if (!set_recompute(layout, word)) {
      const std::string kind = word.substr(0, word.find(':'));
      if (kind == "selective") {
        return "\"" + word + "\": expected selective:op or modules joined by +: core_attn, mlp, norm, moe_act, " +
               "mla_up_proj, moe, shared_experts";
      }
      if (kind == "full") {
        return "\"" + word + "\": expected full or full:N with N layers per stage";
      }
      return unknown_choice(word, {"none", "selective", "full"});
    }
    target.push_back(word);
  }
  return "";
}

std::string read_overlaps(const std::string& text, std::vector<OverlapChoice>& target) {
  target.clear();
  for (const std::string& word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string state = equals == std::string::npos ? "on" : word.substr(equals + 1);
    const auto* row = std::find_if(kOverlaps.begin(), kOverlaps.end(), [&](const auto& r) { return r.name == name; });
    if (row == kOverlaps.end()) {
      return unknown_choice(name, names_of(kOverlaps));
    }
    if (state != "on" && state != "off") {
      return name + ": " + unknown_choice(state, {"on", "off"});
    }
    target.push_back({row->field, state == "on" ? Switch::on : Switch::off});
  }
  return "";
}

std::string read_peft(const std::string& text, PlannerOptions& options) {
  const std::vector<std::string> parts = split(text, ':');
  options.peft = value_in(kPeftNames, parts[0]);
  if (!options.peft) {
    std::vector<std::string> methods;
    for (const auto& row : kPeftNames) {
      methods.emplace_back(row.name);
    }
    return unknown_choice(parts[0], methods);
  }
  if (parts.size() > 1 && (options.peft == PeftMethod::adapter || options.peft == PeftMethod::adapter_v2)) {
    return "\"" + parts[1] + "\": " + parts[0] + " has no rank and no targets";
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string key = parts[i].substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
    if (key == "rank") {
      if (const std::string problem = read_count(value, 1, 65536, options.peft_rank); !problem.empty()) {
        return "rank: " + problem;
      }
    } else if (key == "targets" && !value.empty()) {
      options.peft_targets = split(value, '+');
      if (const auto problems = adapter_targets(options.peft_targets).problems; !problems.empty()) {
        return problems.front();
      }
    } else {
      return "\"" + parts[i] + "\": expected rank=N or targets=all (modules joined by +)";
    }
  }
  return "";
}

}  // namespace tpplan
