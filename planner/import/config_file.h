#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/spec_reader.h"

namespace tpplan {

/// One setting of a configuration as it stands in its file.
struct ConfigEntry {
  std::string key;    ///< levels joined by dots ("parallelism.tp", also of "--parallelism.tp"), flags with "-" for "_";
                      ///< options of what starts the program after "launcher ", those of Slurm after "sbatch "
  std::string value;  ///< elements of a list joined by blanks; empty for a flag alone and for null
  std::size_t key_at = 0, value_at = 0;  ///< byte offsets in the file
};

enum class ConfigFormat : std::uint8_t { shell, yaml, toml, json };

/// A configuration file of a training job, flattened.
struct ConfigFile {
  std::string name;
  std::string source;
  ConfigFormat format = ConfigFormat::shell;
  std::vector<ConfigEntry> entries;        ///< in the order of the file
  std::vector<std::string> remarks = {};   ///< what the reader could not follow, in words
  std::vector<std::string> programs = {};  ///< of a script: the words in front of the first flag ("pretrain_gpt.py")

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool has_section(std::string_view name) const;  ///< a key "name.something"
  [[nodiscard]] std::size_t line_of(std::size_t offset) const;  ///< counted from 1
};

/// Reads a shell script or list of flags, YAML, TOML or JSON, told apart by the file's suffix, else by its first
/// characters. A reference "${key}" of YAML to another key is followed. Throws SpecError where the syntax is wrong.
ConfigFile parse_config(std::string name, std::string source);
/// The same of a file; "-" is standard input.
ConfigFile load_config(const std::string& path);

namespace detail {
// The formats, a file each. They throw SpecError with the place of a syntax error.
std::vector<ConfigEntry> yaml_entries(const std::string& name, const std::string& source);
std::vector<ConfigEntry> toml_entries(const std::string& name, const std::string& source);
std::vector<ConfigEntry> json_entries(const std::string& name, const std::string& source);

/// The error of one place.
[[noreturn]] void throw_syntax(const std::string& name, const std::string& source, std::size_t offset,
                               const std::string& message);
/// Byte offset of a line and column, both counted from 0.
std::size_t offset_at(std::string_view source, std::size_t line, std::size_t column);
}  // namespace detail

}  // namespace tpplan
