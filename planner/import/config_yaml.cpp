// YAML files, through yaml-cpp.
#include <yaml-cpp/yaml.h>

#include "planner/import/config_file.h"

namespace tpplan {
namespace {

constexpr int kMaxDepth = 64;

struct Walk {
  const std::string& name;
  const std::string& source;
  std::vector<ConfigEntry>& entries;

  [[nodiscard]] static std::size_t place(const YAML::Node& node) {
    const int at = node.Mark().pos;
    return at < 0 ? 0 : static_cast<std::size_t>(at);
  }

  void add(const std::string& key, std::size_t key_at, const YAML::Node& value, int depth) const {
    if (depth > kMaxDepth) {
      detail::throw_syntax(name, source, key_at, "more than 64 levels, or an anchor that holds itself");
    }
    if (value.IsMap()) {
      map(key + ".", value, depth + 1);
      return;
    }
    ConfigEntry entry{key, "", key_at, place(value)};
    if (value.IsScalar()) {
      entry.value = value.Scalar();
    } else if (value.IsSequence()) {
      std::size_t index = 0;
      bool plain = true;
      for (const YAML::Node& element : value) {
        if (element.IsScalar()) {
          entry.value += (entry.value.empty() ? "" : " ") + element.Scalar();
        } else {
          plain = false;
          add(key + "." + std::to_string(index), key_at, element, depth + 1);
        }
        ++index;
      }
      if (!plain) {
        return;
      }
    }
    entries.push_back(std::move(entry));
  }

  void map(const std::string& prefix, const YAML::Node& node, int depth) const {
    for (const auto& member : node) {
      if (member.first.IsScalar()) {
        add(prefix + member.first.Scalar(), place(member.first), member.second, depth);
      }
    }
  }
};

}  // namespace

std::vector<ConfigEntry> detail::yaml_entries(const std::string& name, const std::string& source) {
  std::vector<ConfigEntry> entries;
  try {
    const YAML::Node root = YAML::Load(source);
    if (!root.IsMap()) {
      throw_syntax(name, source, 0, "expected keys with values, as in \"parallelism:\"");
    }
    Walk{name, source, entries}.map("", root, 0);
  } catch (const YAML::Exception& error) {
    const int at = error.mark.pos;
    throw_syntax(name, source, at < 0 ? 0 : static_cast<std::size_t>(at), "no valid YAML: " + error.msg);
  }
  return entries;
}

}  // namespace tpplan
