#include "planner/report/validate_ratchet.h"

#include <array>
#include <cmath>

#include "planner/report/json_writer.h"

namespace tpplan {
namespace {

constexpr double kAllowedRise = 0.003;
constexpr double kRounding = 5e-6;  // the file holds five decimals

struct RatchetField {
  std::string_view key;
  std::optional<double> RatchetRow::*field;
};
constexpr std::array<RatchetField, 6> kFields{{
    {"step", &RatchetRow::step},
    {"memory", &RatchetRow::memory},
    {"left_out_step", &RatchetRow::left_out_step},
    {"left_out_memory", &RatchetRow::left_out_memory},
    {"unseen_step", &RatchetRow::unseen_step},
    {"unseen_memory", &RatchetRow::unseen_memory},
}};

double mean_of(const Ratchet& ratchet, std::optional<double> RatchetRow::*field) {
  double sum = 0;
  int count = 0;
  for (const auto& [name, row] : ratchet.groups) {
    if (row.*field) {
      sum += *(row.*field);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

double rounded(double value) { return std::round(value * 1e5) / 1e5; }

std::optional<double> median_if_any(const ErrorStats& stats) {
  return stats.n > 0 ? std::optional<double>(stats.median) : std::nullopt;
}

/// Means over the groups that both know.
std::pair<double, double> common_means(const Ratchet& then, const Ratchet& now,
                                       std::optional<double> RatchetRow::*field) {
  Ratchet a, b;
  for (const auto& [name, row] : now.groups) {
    const auto old = then.groups.find(name);
    if (old != then.groups.end() && row.*field && old->second.*field) {
      a.groups[name] = old->second;
      b.groups[name] = row;
    }
  }
  return {mean_of(a, field), mean_of(b, field)};
}

}  // namespace

double Ratchet::mean_step() const { return mean_of(*this, &RatchetRow::step); }
double Ratchet::mean_memory() const { return mean_of(*this, &RatchetRow::memory); }

Ratchet load_ratchet(const std::string& path) {
  auto document = SpecDocument::load(path);
  auto root = document.root();
  root.ignore("schema_version");
  root.ignore("mean_of_medians");
  Ratchet ratchet;
  if (auto coverage = root.optional_object("left_out_coverage80")) {
    ratchet.left_out_coverage_step = coverage->number("step", 0, 1);
    ratchet.left_out_coverage_memory = coverage->number("memory", 0, 1);
    coverage->close();
  }
  auto groups = root.array("groups");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto in = groups.object(i);
    auto& row = ratchet.groups[in.text("group")];
    for (const auto& field : kFields) {
      if (in.has(field.key)) {
        row.*field.field = in.number(field.key, 0, 1e6);
      }
    }
    in.close();
  }
  root.close();
  document.finish();
  return ratchet;
}

std::string to_json(const Ratchet& ratchet) {
  JsonWriter json;
  json.begin_object();
  json.field("schema_version", 1);
  json.key("mean_of_medians").begin_line_object();
  json.field("step", rounded(ratchet.mean_step())).field("memory", rounded(ratchet.mean_memory()));
  json.end_object();
  if (ratchet.left_out_coverage_step && ratchet.left_out_coverage_memory) {
    json.key("left_out_coverage80").begin_line_object();
    json.field("step", rounded(*ratchet.left_out_coverage_step));
    json.field("memory", rounded(*ratchet.left_out_coverage_memory));
    json.end_object();
  }
  json.key("groups").begin_array();
  for (const auto& [name, row] : ratchet.groups) {
    json.begin_line_object();
    json.field("group", name);
    for (const auto& field : kFields) {
      if (row.*field.field) {
        json.field(field.key, rounded(*(row.*field.field)));
      }
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text();
}

Ratchet ratchet_of(const std::vector<GroupReport>& groups) {
  Ratchet ratchet;
  for (const auto& group : groups) {
    if (group.group == "all runs" || (group.step.n == 0 && group.memory.n == 0)) {
      continue;
    }
    auto& row = ratchet.groups[group.group];
    row.step = median_if_any(group.step);
    row.memory = median_if_any(group.memory);
  }
  return ratchet;
}

void add_left_out(Ratchet& ratchet, const std::map<std::string, LeftOutStats>& by_model,
                  const std::map<std::string, LeftOutStats>& by_group) {
  for (auto& [name, row] : ratchet.groups) {
    if (const auto found = by_model.find(name); found != by_model.end()) {
      row.left_out_step = median_if_any(found->second.step);
      row.left_out_memory = median_if_any(found->second.memory);
    }
    if (const auto found = by_group.find(name); found != by_group.end()) {
      row.unseen_step = median_if_any(found->second.step);
      row.unseen_memory = median_if_any(found->second.memory);
    }
  }
}

std::vector<std::string> regressions(const Ratchet& then, const Ratchet& now) {
  std::vector<std::string> lines;
  const std::array<RatchetField, 2> compared{{kFields[0], kFields[1]}};
  for (const auto& field : compared) {
    const std::string kind(field.key);
    for (const auto& [name, row] : now.groups) {
      const auto old = then.groups.find(name);
      if (old == then.groups.end() || !(row.*field.field) || !(old->second.*field.field)) {
        continue;
      }
      const double before = *(old->second.*field.field);
      const double after = *(row.*field.field);
      if (after > before + kAllowedRise + kRounding) {
        lines.push_back(name + ": " + kind + " median " + percent_text(before) + " % before, " + percent_text(after) +
                        " % now");
      }
    }
    const auto [before, after] = common_means(then, now, field.field);
    if (after > before + kRounding) {
      lines.push_back("mean of " + kind + " medians " + percent_text(before) + " % before, " + percent_text(after) +
                      " % now");
    }
  }
  return lines;
}

std::map<std::string, LeftOutStats> left_out_of(const Ratchet& ratchet) {
  std::map<std::string, LeftOutStats> stats;
  for (const auto& [name, row] : ratchet.groups) {
    auto& out = stats[name];
    if (row.left_out_step) {
      out.step.n = 1;
      out.step.median = *row.left_out_step;
    }
    if (row.left_out_memory) {
      out.memory.n = 1;
      out.memory.median = *row.left_out_memory;
    }
  }
  return stats;
}

}  // namespace tpplan
