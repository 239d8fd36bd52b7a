#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost-model/json_tree.h"

namespace tpplan::detail {

using Kind = JsonNode::Kind;

/// What was asked of one object so far.
struct KeyUse {
  std::set<std::string, std::less<>> known;
  std::set<std::string, std::less<>> ignored;  ///< known, but nothing that an unknown key could be meant for
  std::vector<std::string> missing;            ///< required keys that are absent, reported when the object is closed
  std::string path;
  bool rest_ignored = false;
  bool closed = false;
};

inline constexpr std::size_t kMaxNoted = 1000;  ///< problems kept of one file; more say nothing new

/// One document while it is read: shared by its readers.
struct DocumentState {
  std::string name;
  std::string source;
  JsonNode root;
  std::vector<Diagnostic> diagnostics;
  std::map<const JsonNode*, KeyUse> uses;
  bool text_numbers_accepted = false;

  /// Keeps a problem once, however often its key is read.
  void note(Diagnostic::Severity severity, std::size_t offset, std::string message, std::string hint) {
    const auto same_severity = std::count_if(diagnostics.begin(), diagnostics.end(),
                                             [&](const Diagnostic& d) { return d.severity == severity; });
    const bool known = std::any_of(diagnostics.begin(), diagnostics.end(),
                                   [&](const Diagnostic& d) { return d.offset == offset && d.message == message; });
    if (!known && static_cast<std::size_t>(same_severity) < kMaxNoted) {
      diagnostics.push_back({severity, std::move(message), std::move(hint), offset});
    }
  }
  void error(std::size_t offset, std::string message, std::string hint = "") {
    note(Diagnostic::Severity::error, offset, std::move(message), std::move(hint));
  }
  [[nodiscard]] std::string_view literal(const JsonNode& node) const {
    return std::string_view(source).substr(node.offset, node.end - node.offset);
  }
  [[nodiscard]] std::string text(const JsonNode& node) const { return decode_json_text(literal(node)); }
};

/// The member of an object, null included; nothing for a missing key or a null object.
const JsonNode* find(const JsonNode* object, std::string_view key);

/// Insertions, deletions, replacements and swaps of neighbours between two words, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

std::string in_quotes(std::string_view text);

/// Puts the place of a value ("gpu.memory") before a message.
std::string in_path(const std::string& path, std::string message);

/// Notes "expected a number, got ..." at the value.
void wrong_type(DocumentState& state, const JsonNode& node, const std::string& path, std::string_view expected,
                std::string hint = "");

/// Reports unknown keys (all, or only likely misspellings of known ones that are absent) and what is missing.
void close_object(DocumentState& state, const JsonNode& object, KeyUse& use, bool near_misses_only);

}  // namespace tpplan::detail
