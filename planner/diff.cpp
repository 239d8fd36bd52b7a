#include "planner/diff.h"

#include <algorithm>
#include <cmath>

#include "cost-model/estimate.h"

namespace tpplan {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

const std::string* find(const Settings& settings, const std::string& name) {
  const auto at =
      std::find_if(settings.begin(), settings.end(), [&](const auto& entry) { return entry.first == name; });
  return at == settings.end() ? nullptr : &at->second;
}

std::string joined(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

void flatten(ObjectReader object, const std::string& path, Settings& settings);

void flatten(ArrayReader array, const std::string& path, Settings& settings) {
  std::string plain;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (array.is_object(i)) {
      flatten(array.object(i), path + "[" + std::to_string(i) + "]", settings);
      continue;
    }
    const std::string text = array.is_number(i) ? shortest(array.number(i, -1e300, 1e300)) : array.text(i);
    plain += (plain.empty() ? "" : ", ") + text;
  }
  if (!plain.empty()) {
    settings.emplace_back(path, plain);
  }
}

/// Every text, number and flag below an object under its path, in file order.
void flatten(ObjectReader object, const std::string& path, Settings& settings) {
  for (const std::string& key : object.keys()) {
    const std::string name = joined(path, key);
    if (object.is_object(key)) {
      flatten(object.object(key), name, settings);
    } else if (object.is_array(key)) {
      flatten(object.array(key), name, settings);
    } else if (object.is_text(key)) {
      settings.emplace_back(name, object.text(key));
    } else if (object.is_number(key)) {
      settings.emplace_back(name, shortest(object.number(key, -1e300, 1e300)));
    } else if (object.is_flag(key)) {
      settings.emplace_back(name, object.flag(key) ? "on" : "off");
    } else {
      object.ignore(key);
    }
  }
}

std::vector<DiffInput> differing(const Settings& a, const Settings& b) {
  std::vector<DiffInput> inputs;
  for (const auto& [name, value] : a) {
    const std::string* other = find(b, name);
    if (other == nullptr || *other != value) {
      inputs.push_back({name, value, other == nullptr ? "" : *other});
    }
  }
  for (const auto& [name, value] : b) {
    if (find(a, name) == nullptr) {
      inputs.push_back({name, "", value});
    }
  }
  return inputs;
}

/// The terms of two lists by key, in the order of the first and then the second.
std::vector<DiffTerm> paired(std::vector<DiffTerm> a, const std::vector<DiffTerm>& b) {
  for (const DiffTerm& other : b) {
    const auto at = std::find_if(a.begin(), a.end(), [&](const DiffTerm& term) { return term.key == other.key; });
    if (at != a.end()) {
      at->b = other.a;
    } else {
      a.push_back(other);
      a.back().a.reset();
      a.back().b = other.a;
    }
  }
  return a;
}

DiffSection section(std::string key, std::string title, const std::vector<DiffTerm>& a,
                    const std::vector<DiffTerm>& b) {
  DiffSection result{std::move(key), std::move(title), paired(a, b)};
  sort_terms(result);
  return result;
}

void read_terms(ObjectReader& plan, PlanFile& file) {
  ObjectReader times = plan.object("breakdown_s");
  for (const StepTermRow& row : kStepTerms) {
    file.times.push_back({std::string(row.key) + "_s", std::string(row.key), DiffUnit::seconds,
                          times.number(row.key, 0, 1e12, 0), std::nullopt});
  }
  times.ignore_rest();
  ObjectReader memory = plan.object("memory_bytes");
  for (const MemoryTermRow& row : kMemoryTerms) {
    file.memory.push_back({std::string(row.key) + "_bytes", std::string(row.key), DiffUnit::bytes,
                           memory.number(row.key, 0, 1e18, 0), std::nullopt});
  }
  struct Result {
    const char* key;
    const char* name;
    DiffUnit unit;
  };
  constexpr std::array<Result, 4> kResults{{{"step_time_s", "step time", DiffUnit::seconds},
                                            {"tokens_per_s", "tokens per second", DiffUnit::tokens},
                                            {"tokens_per_s_per_gpu", "tokens per second and GPU", DiffUnit::tokens},
                                            {"mfu", "MFU", DiffUnit::share}}};
  for (const Result& row : kResults) {
    file.results.push_back({row.key, row.name, row.unit, plan.number(row.key, 0, 1e18), std::nullopt});
  }
  file.results.push_back(
      {"memory_bytes", "device memory", DiffUnit::bytes, memory.number("total", 0, 1e18, 0), std::nullopt});
  memory.ignore_rest();
  file.step_s = *file.results.front().a;
}

std::string percent(double share) {
  const double rounded = std::round(std::abs(share) * 1000) / 10;
  return shortest(rounded) + " %";
}

std::string signed_time(double seconds) { return (seconds < 0 ? "-" : "+") + format(Seconds(std::abs(seconds))); }

}  // namespace

std::optional<double> DiffTerm::relative() const {
  return a && b && *a != 0 ? std::optional(*b / *a - 1) : std::nullopt;
}

void sort_terms(DiffSection& section) {
  const bool one_unit = std::all_of(section.terms.begin(), section.terms.end(),
                                    [&](const DiffTerm& term) { return term.unit == section.terms.front().unit; });
  const auto weight = [one_unit](const DiffTerm& term) {
    if (!term.differs()) {
      return -1.0;
    }
    return one_unit ? std::abs(term.change()) : term.relative() ? std::abs(*term.relative()) : HUGE_VAL;
  };
  std::stable_sort(section.terms.begin(), section.terms.end(),
                   [&](const DiffTerm& x, const DiffTerm& y) { return weight(x) > weight(y); });
}

PlanFile load_plan_file(const std::string& path, int rank) {
  SpecDocument document = SpecDocument::load(path);
  ObjectReader root = document.root();
  PlanFile file;
  ObjectReader inputs = root.object("inputs");
  flatten(inputs, "", file.inputs);
  ArrayReader plans = root.array("plans");
  if (root.is_array("plans") && static_cast<std::size_t>(rank) > plans.size()) {
    root.error("plans", plans.size() == 0
                            ? "no plan in this file: nothing fitted"
                            : "no plan " + std::to_string(rank) + " among " + std::to_string(plans.size()));
  } else if (plans.size() > 0) {
    ObjectReader plan = plans.object(static_cast<std::size_t>(rank - 1));
    flatten(plan.object("layout"), "layout", file.inputs);
    read_terms(plan, file);
    plan.ignore_rest();
  }
  inputs.ignore_rest();
  root.ignore_rest();
  document.finish();
  return file;
}

Difference diff_plans(const PlanFile& a, const PlanFile& b) {
  Difference difference;
  difference.kind = "plans";
  difference.inputs = differing(a.inputs, b.inputs);
  difference.sections.push_back({"result", "result", paired(a.results, b.results)});
  difference.sections.push_back(section("breakdown", "step time by what it is spent on", a.times, b.times));
  difference.sections.push_back(section("memory", "memory of the fullest GPU", a.memory, b.memory));
  const double share = b.step_s / a.step_s - 1;
  const DiffTerm& largest = difference.sections[1].terms.front();
  difference.summary = share == 0
                           ? "both steps take " + format(Seconds(a.step_s))
                           : "B's step is " + percent(share) + (share < 0 ? " shorter" : " longer") + " than A's (" +
                                 format(Seconds(b.step_s)) + " against " + format(Seconds(a.step_s)) + ")";
  if (largest.differs()) {
    difference.summary += "; the largest change is " + largest.name + " (" + signed_time(largest.change()) + ")";
  }
  return difference;
}

}  // namespace tpplan
