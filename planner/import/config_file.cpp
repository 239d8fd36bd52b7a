#include "planner/import/config_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "planner/import/shell_script.h"

namespace tpplan {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

struct SuffixRow {
  std::string_view suffix;
  ConfigFormat format;
};
constexpr std::array<SuffixRow, 8> kSuffixes{{{".yaml", ConfigFormat::yaml},
                                              {".yml", ConfigFormat::yaml},
                                              {".toml", ConfigFormat::toml},
                                              {".json", ConfigFormat::json},
                                              {".sh", ConfigFormat::shell},
                                              {".slurm", ConfigFormat::shell},
                                              {".sbatch", ConfigFormat::shell},
                                              {".bash", ConfigFormat::shell}}};

std::vector<std::string_view> lines_of(std::string_view source) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    lines.push_back(source.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// What a file without a telling suffix is, by the first line that says something.
ConfigFormat format_of_content(std::string_view source) {
  for (const std::string_view whole : lines_of(source)) {
    const std::size_t begin = whole.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) {
      continue;
    }
    const std::string_view line = whole.substr(begin);
    if (line.front() == '{') {
      return ConfigFormat::json;
    }
    if (line.substr(0, 2) == "#!" || line.substr(0, 7) == "#SBATCH") {
      return ConfigFormat::shell;
    }
    if (line.front() == '#') {
      continue;
    }
    if (line.front() == '[') {
      return ConfigFormat::toml;
    }
    const std::size_t colon = line.find(':');
    const bool key = colon != std::string_view::npos && line.find_first_of(" \"'$=/-") > colon;
    return key || line.substr(0, 3) == "---" ? ConfigFormat::yaml : ConfigFormat::shell;
  }
  return ConfigFormat::shell;
}

ConfigFormat format_of(const std::string& name, std::string_view source) {
  const std::string suffix = std::filesystem::path(name).extension().string();
  for (const SuffixRow& row : kSuffixes) {
    if (row.suffix == suffix) {
      return row.format;
    }
  }
  return format_of_content(source);
}

/// Follows "${key}" and "${.sibling}"; a chain of more than a few is a circle.
void follow_references(std::vector<ConfigEntry>& entries) {
  constexpr int kLongestChain = 8;
  for (ConfigEntry& entry : entries) {
    for (int i = 0; i < kLongestChain; ++i) {
      const std::string& value = entry.value;
      if (value.size() < 4 || value.compare(0, 2, "${") != 0 || value.find('}') != value.size() - 1) {
        break;
      }
      std::string path = value.substr(2, value.size() - 3);
      if (path.front() == '.') {
        path = entry.key.substr(0, entry.key.rfind('.') == std::string::npos ? 0 : entry.key.rfind('.')) + path;
      }
      const auto target =
          std::find_if(entries.begin(), entries.end(), [&path](const ConfigEntry& other) { return other.key == path; });
      if (target == entries.end() || &*target == &entry) {
        break;
      }
      entry.value = target->value;
    }
  }
}

}  // namespace

bool ConfigFile::has(std::string_view key) const {
  return std::any_of(entries.begin(), entries.end(), [key](const ConfigEntry& entry) { return entry.key == key; });
}

bool ConfigFile::has_section(std::string_view section) const {
  return std::any_of(entries.begin(), entries.end(), [section](const ConfigEntry& entry) {
    return entry.key.size() > section.size() && entry.key[section.size()] == '.' && entry.key.rfind(section, 0) == 0;
  });
}

std::size_t ConfigFile::line_of(std::size_t offset) const {
  const auto end = source.begin() + static_cast<std::ptrdiff_t>(std::min(offset, source.size()));
  return 1 + static_cast<std::size_t>(std::count(source.begin(), end, '\n'));
}

void detail::throw_syntax(const std::string& name, const std::string& source, std::size_t offset,
                          const std::string& message) {
  Diagnostic problem;
  problem.message = message;
  problem.offset = offset;
  throw SpecError(name, source, {problem});
}

std::size_t detail::offset_at(std::string_view source, std::size_t line, std::size_t column) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < line; ++i) {
    const std::size_t end = source.find('\n', at);
    if (end == std::string_view::npos) {
      return source.size();
    }
    at = end + 1;
  }
  return std::min(at + column, source.size());
}

ConfigFile parse_config(std::string name, std::string source) {
  ConfigFile file{std::move(name), std::move(source), ConfigFormat::shell, {}};
  file.format = format_of(file.name, file.source);
  switch (file.format) {
    case ConfigFormat::yaml:
      file.entries = detail::yaml_entries(file.name, file.source);
      follow_references(file.entries);
      break;
    case ConfigFormat::toml:
      file.entries = detail::toml_entries(file.name, file.source);
      break;
    case ConfigFormat::json:
      file.entries = detail::json_entries(file.name, file.source);
      break;
    case ConfigFormat::shell:
      read_shell_script(file);
      break;
  }
  return file;
}

ConfigFile load_config(const std::string& path) {
  if (path == "-") {
    return parse_config("standard input", std::string(std::istreambuf_iterator<char>(std::cin), {}));
  }
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw SpecError(path + ": is a folder, not a file");
  }
  const auto size = std::filesystem::file_size(path, code);
  if (!code && size > kMaxBytes) {
    throw SpecError(path + ": the file is larger than 4 MiB, which no configuration is");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw SpecError("cannot open " + path + ": " + std::strerror(errno == 0 ? ENOENT : errno));
  }
  return parse_config(path, std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace tpplan
