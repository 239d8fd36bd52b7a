// JSON files, through the tree that spec readers use: values keep their places.
#include "cost-model/json_tree.h"
#include "planner/import/config_file.h"

namespace tpplan {
namespace {

using detail::JsonNode;
using Kind = JsonNode::Kind;

std::string scalar(const JsonNode& node, std::string_view source) {
  const std::string_view literal = source.substr(node.offset, node.end - node.offset);
  if (node.kind == Kind::text) {
    return detail::decode_json_text(literal);
  }
  return node.kind == Kind::null ? "" : std::string(literal);
}

void add(const std::string& prefix, const JsonNode& object, std::string_view source,
         std::vector<ConfigEntry>& entries) {
  for (const JsonNode& member : object.children) {
    if (member.kind == Kind::object) {
      add(prefix + member.key + ".", member, source, entries);
      continue;
    }
    ConfigEntry entry{prefix + member.key, "", member.key_offset, member.offset};
    if (member.kind == Kind::array) {
      for (const JsonNode& element : member.children) {
        entry.value += (entry.value.empty() ? "" : " ") + scalar(element, source);
      }
    } else {
      entry.value = scalar(member, source);
    }
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<ConfigEntry> detail::json_entries(const std::string& name, const std::string& source) {
  JsonNode root;
  std::vector<Diagnostic> problems;
  parse_json(source, root, problems);
  if (!problems.empty()) {
    throw SpecError(name, source, problems);
  }
  std::vector<ConfigEntry> entries;
  if (root.kind != Kind::object) {
    throw_syntax(name, source, root.offset, "expected an object");
  }
  add("", root, source, entries);
  return entries;
}

}  // namespace tpplan
