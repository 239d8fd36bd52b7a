// Whole documents: parsing, loading, and the report on keys that nobody knows or that are missing.

#include <algorithm>
#include <filesystem>

#include "cost-model/document_state.h"
#include "cost-model/file_text.h"

namespace tpplan {
namespace detail {
namespace {

/// The value as a message shows it: numbers and short texts as written, lists and objects by kind.
std::string shown(const DocumentState& state, const JsonNode& node) {
  if (node.kind == Kind::object) {
    return "an object";
  }
  if (node.kind == Kind::array) {
    return "a list";
  }
  const std::string_view literal = state.literal(node);
  std::string text(literal.substr(0, 40));
  while (text.size() < literal.size() && (static_cast<unsigned char>(literal[text.size()]) & 0xC0U) == 0x80) {
    text.push_back(literal[text.size()]);
  }
  text += text.size() < literal.size() ? "..." : "";
  return node.kind == Kind::text ? "the text " + text : text;
}

/// The key that an unknown one is most likely a misspelling of. In files of other tools, which hold many keys that are
/// none of ours, only one or two wrong letters count.
std::optional<std::string> meant_key(const std::string& key, const std::vector<std::string>& absent, bool foreign) {
  std::optional<std::string> meant;
  std::size_t best = foreign ? (key.size() < 6    ? 0
                                : key.size() < 10 ? 1
                                                  : 2)
                             : (key.size() < 5   ? 1
                                : key.size() < 8 ? 2
                                                 : 3);
  ++best;
  for (const std::string& candidate : absent) {
    const std::size_t distance = edit_distance(key, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      meant = candidate;
    }
  }
  return meant;
}

}  // namespace

const JsonNode* find(const JsonNode* object, std::string_view key) {
  if (object == nullptr || object->kind != Kind::object) {
    return nullptr;
  }
  for (const JsonNode& child : object->children) {
    if (child.key == key) {
      return &child;
    }
  }
  return nullptr;
}

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string in_path(const std::string& path, std::string message) {
  if (!path.empty()) {
    message.insert(0, path + ": ");
  }
  return message;
}

void wrong_type(DocumentState& state, const JsonNode& node, const std::string& path, std::string_view expected,
                std::string hint) {
  state.error(node.offset, in_path(path, "expected " + std::string(expected) + ", got " + shown(state, node)),
              std::move(hint));
}

void close_object(DocumentState& state, const JsonNode& object, KeyUse& use, bool near_misses_only) {
  if (use.closed) {
    return;
  }
  use.closed = true;
  std::vector<std::string> absent;
  for (const std::string& key : use.known) {
    if (find(&object, key) == nullptr && use.ignored.count(key) == 0) {
      absent.push_back(key);
    }
  }
  for (const JsonNode& child : object.children) {
    if (use.rest_ignored || use.known.count(child.key) != 0) {
      continue;
    }
    const std::string message = in_path(use.path, "unknown key " + in_quotes(child.key));
    std::optional<std::string> meant = meant_key(child.key, use.missing, near_misses_only);
    if (meant) {
      use.missing.erase(std::find(use.missing.begin(), use.missing.end(), *meant));
    } else {
      meant = meant_key(child.key, absent, near_misses_only);
      if (near_misses_only && !meant) {
        continue;
      }
    }
    state.error(child.key_offset, message, meant ? "did you mean " + in_quotes(*meant) + "?" : "");
  }
  for (const std::string& key : use.missing) {
    state.error(object.offset, in_path(use.path, "missing key " + in_quotes(key)));
  }
  use.missing.clear();
}

}  // namespace detail

namespace {

using detail::DocumentState;
using detail::find;
using detail::JsonNode;
using detail::Kind;
using detail::wrong_type;

void close_all(DocumentState& state) {
  for (auto& [node, use] : state.uses) {
    if (node != nullptr) {
      close_object(state, *node, use, false);
    }
  }
}

bool has_error(const DocumentState& state) {
  return std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Diagnostic::Severity::error; }) ||
         std::any_of(state.uses.begin(), state.uses.end(),
                     [](const auto& entry) { return !entry.second.missing.empty(); });
}

}  // namespace

SpecDocument SpecDocument::parse(std::string name, std::string source) {
  SpecDocument document;
  document.state_ = std::make_shared<DocumentState>();
  DocumentState& state = *document.state_;
  state.name = std::move(name);
  state.source = std::move(source);
  if (!detail::parse_json(state.source, state.root, state.diagnostics)) {
    throw SpecError(state.name, state.source, state.diagnostics);
  }
  if (const JsonNode* index = find(&state.root, "weight_map")) {
    state.error(index->key_offset, "this is a safetensors index, not a configuration",
                "pass the config.json beside it");
    throw SpecError(state.name, state.source, state.diagnostics);
  }
  return document;
}

SpecDocument SpecDocument::load(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  if (path != "-" && !code && size > detail::kMaxJsonBytes) {
    throw SpecError(path + ": the file is larger than 64 MiB");
  }
  return parse(path == "-" ? "standard input" : path, file_text(path));
}

ObjectReader SpecDocument::root() {
  const bool object = state_->root.kind == Kind::object;
  if (!object) {
    wrong_type(*state_, state_->root, "", "an object");
  }
  return ObjectReader(state_, object ? &state_->root : nullptr, "");
}

bool SpecDocument::root_is_array() const { return state_->root.kind == Kind::array; }

ArrayReader SpecDocument::root_array() {
  if (!root_is_array()) {
    wrong_type(*state_, state_->root, "", "a list");
  }
  return ArrayReader(state_, root_is_array() ? &state_->root : nullptr, "");
}

void SpecDocument::accept_text_numbers() { state_->text_numbers_accepted = true; }

const std::string& SpecDocument::name() const { return state_->name; }

bool SpecDocument::ok() const { return !has_error(*state_); }

void SpecDocument::finish() const {
  close_all(*state_);
  if (has_error(*state_)) {
    throw SpecError(state_->name, state_->source, state_->diagnostics);
  }
}

std::string SpecDocument::warnings() const {
  std::vector<Diagnostic> warnings;
  std::copy_if(state_->diagnostics.begin(), state_->diagnostics.end(), std::back_inserter(warnings),
               [](const Diagnostic& d) { return d.severity != Diagnostic::Severity::error; });
  return render(state_->name, state_->source, warnings);
}

std::vector<Diagnostic> SpecDocument::diagnostics() const { return state_->diagnostics; }

}  // namespace tpplan
