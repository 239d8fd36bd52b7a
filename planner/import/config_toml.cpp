// TOML files, through toml++.
#include <toml++/toml.h>

#include <sstream>

#include "planner/import/config_file.h"

namespace tpplan {
namespace {

std::size_t place(const std::string& source, const toml::source_region& region) {
  const auto line = region.begin.line;
  const auto column = region.begin.column;
  return line == 0 ? 0 : detail::offset_at(source, line - 1, column == 0 ? 0 : column - 1);
}

std::string scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  std::ostringstream text;
  node.visit([&text](const auto& value) {
    if constexpr (toml::is_value<decltype(value)>) {
      text << value.get();
    }
  });
  return text.str();
}

void add(const std::string& prefix, const toml::table& table, const std::string& source,
         std::vector<ConfigEntry>& entries) {
  for (const auto& member : table) {
    const std::string key = prefix + std::string(member.first.str());
    const toml::node& value = member.second;
    if (const auto* below = value.as_table()) {
      add(key + ".", *below, source, entries);
      continue;
    }
    ConfigEntry entry{key, "", place(source, member.first.source()), place(source, value.source())};
    if (const auto* list = value.as_array()) {
      for (const toml::node& element : *list) {
        entry.value += (entry.value.empty() ? "" : " ") + scalar(element);
      }
    } else {
      entry.value = scalar(value);
    }
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<ConfigEntry> detail::toml_entries(const std::string& name, const std::string& source) {
  std::vector<ConfigEntry> entries;
  try {
    add("", toml::parse(source, name), source, entries);
  } catch (const toml::parse_error& error) {
    throw_syntax(name, source, place(source, error.source()), "no valid TOML: " + std::string(error.description()));
  }
  return entries;
}

}  // namespace tpplan
