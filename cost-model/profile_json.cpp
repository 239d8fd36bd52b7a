#include <cstdio>
#include <nlohmann/json.hpp>

#include "cost-model/profile.h"
#include "cost-model/units.h"

namespace tpplan {
namespace {

using Json = nlohmann::ordered_json;

/// A value of a profile file: fitted numbers carry four significant digits, no more than their intervals support.
Json number(double value, bool fitted = false) {
  char text[32];
  std::snprintf(text, sizeof text, fitted ? "%.4g" : "%.9g", value);
  return Json::parse(text);
}

const FrameworkProfile::Bounds* bounds_of(const std::vector<FrameworkProfile::Bounds>& rows, std::string_view key) {
  for (const auto& row : rows) {
    if (row.key == key) {
      return &row;
    }
  }
  return nullptr;
}

Json constant(const FrameworkProfile& profile, const ProfileScalarRow& row, ConstantSource source) {
  const bool fitted = source == ConstantSource::fitted;
  Json entry;
  entry["value"] = number(profile.*row.field, fitted);
  entry["source"] = name_of(source);
  if (const auto* bounds = bounds_of(profile.free_constants, row.key)) {
    entry["bounds"] = {number(bounds->low), number(bounds->high)};
  }
  if (const auto* interval = bounds_of(profile.intervals, row.key)) {
    entry["interval"] = {number(interval->low, true), number(interval->high, true)};
  }
  for (const auto& [key, cite] : profile.cites) {
    if (key == row.key) {
      entry["cite"] = cite;
    }
  }
  return entry;
}

}  // namespace

std::string to_json(const FrameworkProfile& profile) {
  Json root;
  root["name"] = profile.name;
  root["framework"] = name_of(profile.framework);
  if (!profile.program.empty()) {
    root["program"] = profile.program;
  }
  root["since"] = profile.since;
  if (!profile.architectures.empty()) {
    root["architectures"] = profile.architectures;
  }
  if (!profile.dispatchers.empty()) {
    root["dispatchers"] = profile.dispatchers;
  }
  if (profile.only_by_date) {
    root["only_by_date"] = true;
  }
  if (profile.compiled >= 0) {
    root["compiled"] = profile.compiled == 1;
  }
  root["inventory"] = profile.inventory;
  root["activations"] = profile.activation_list;
  if (!profile.selective_op_list.empty()) {
    root["selective_op_activations"] = profile.selective_op_list;
  }
  Json constants = Json::object();
  for (const auto& row : profile_scalars()) {
    for (const auto& [key, source] : profile.sources) {
      if (key == row.key) {
        constants[key] = constant(profile, row, source);
      }
    }
  }
  root["constants"] = constants;
  Json interval;
  interval["step"] = number(profile.step_error, true);
  interval["memory"] = number(profile.memory_error, true);
  interval["from_residuals"] = profile.step_error_known > 0;
  interval["memory_from_residuals"] = profile.memory_error_known > 0;
  if (!profile.interval_note.empty()) {
    interval["note"] = profile.interval_note;
  }
  root["interval"] = interval;
  if (!profile.fitted_on.empty()) {
    root["fitted_on"] = profile.fitted_on;
  }
  root["citations"] = profile.citations;
  return root.dump(1) + "\n";
}

}  // namespace tpplan
