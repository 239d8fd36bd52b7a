#pragma once

#include <string>
#include <variant>
#include <vector>

#include "planner/export/export_request.h"

namespace tpplan {

/// One key of a configuration and its value.
struct Setting {
  std::string key;  ///< levels joined by dots
  std::variant<std::int64_t, bool, std::string> value;
  std::string comment = {};  ///< on the same line, where the format has comments
};
using Settings = std::vector<Setting>;

/// What a key of the table says of this job, in the key's unit; nothing where it says nothing.
std::optional<Setting> setting_of(const FrameworkKey& key, const ExportRequest& request);

/// Every key of the target in the table that says something and is not one of `except`, in the table's order.
Settings settings_of(const ExportRequest& request, Target target, const std::vector<JobFact>& except = {});

/// The value alone: "8", "true", and a word in `quote` ('"', or nothing for 0).
std::string value_text(const Setting& setting, char quote);

/// The settings as a file. Keys of one level stand together, at the place of the first.
std::string as_yaml(const Settings& settings);
std::string as_toml(const Settings& settings);  ///< two levels: "section.key"
std::string as_json(const Settings& settings);

}  // namespace tpplan
