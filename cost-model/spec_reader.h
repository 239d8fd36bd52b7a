#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// One problem found in an input file, placed by its offset; line and column are worked out when it is printed.
struct Diagnostic {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  std::string message;
  std::string hint;        ///< one line under the caret: what to write instead
  std::size_t offset = 0;  ///< byte offset in the source text
};

/// Every problem of one input file, rendered like a compiler does (`file:line:column: error: ...`, the line, a caret,
/// the hint), sorted by place; `what()` is the whole text.
class SpecError : public std::runtime_error {
 public:
  SpecError(const std::string& file, std::string_view source, std::vector<Diagnostic> diagnostics);
  /// For problems without a place in a file (file not found, names not known).
  explicit SpecError(const std::string& message);
  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Renders diagnostics of `source` as SpecError does (sorted by place, at most 20, no newline at the end); used for
/// warnings too.
std::string render(const std::string& file, std::string_view source, std::vector<Diagnostic> diagnostics);

/// The nearest of `candidates` within a small edit distance of `word`, for "did you mean".
std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& candidates);

namespace detail {
struct JsonNode;
struct DocumentState;
}  // namespace detail

class ArrayReader;

/// Checked reading of one JSON object. Each accessor notes a problem (wrong type, missing, out of bounds) in the
/// document and returns a harmless value, so that one run reports every problem. `close()` reports keys that nobody
/// asked for and required keys that are missing; SpecDocument::finish closes every object that was opened.
class ObjectReader {
 public:
  [[nodiscard]] bool has(std::string_view key) const;       ///< present and not null
  [[nodiscard]] bool has_null(std::string_view key) const;  ///< present with the value null
  /// Given, and no problem was noted at its value: a cross-check may rely on it.
  [[nodiscard]] bool good(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] bool is_text(std::string_view key) const;
  [[nodiscard]] bool is_number(std::string_view key) const;
  [[nodiscard]] bool is_flag(std::string_view key) const;
  [[nodiscard]] bool is_object(std::string_view key) const;
  [[nodiscard]] bool is_array(std::string_view key) const;

  std::string text(std::string_view key);                             ///< required
  std::string text(std::string_view key, std::string_view fallback);  ///< optional
  /// Required/optional text that must be one of `choices`; an unknown one is reported with the nearest.
  std::string choice(std::string_view key, const std::vector<std::string>& choices,
                     std::optional<std::string> fallback = std::nullopt);
  std::int64_t count(std::string_view key, std::int64_t low, std::int64_t high);
  std::int64_t count(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback);
  double number(std::string_view key, double low, double high);
  double number(std::string_view key, double low, double high, double fallback);
  bool flag(std::string_view key);
  bool flag(std::string_view key, bool fallback);

  Bytes bytes(std::string_view key, std::optional<Bytes> fallback = std::nullopt);
  Seconds seconds(std::string_view key, std::optional<Seconds> fallback = std::nullopt);
  BytesPerSecond bandwidth(std::string_view key, std::optional<BytesPerSecond> fallback = std::nullopt);
  FlopsPerSecond flops_per_second(std::string_view key, std::optional<FlopsPerSecond> fallback = std::nullopt);

  ObjectReader object(std::string_view key);  ///< required; an empty reader if missing (already reported)
  std::optional<ObjectReader> optional_object(std::string_view key);
  ArrayReader array(std::string_view key);  ///< required
  std::optional<ArrayReader> optional_array(std::string_view key);
  std::vector<std::int64_t> counts(std::string_view key, std::int64_t low, std::int64_t high);
  std::vector<std::string> texts(std::string_view key);

  /// Marks a key as known without reading it (free-form notes, keys of other tools).
  void ignore(std::string_view key);
  /// Marks a key as known without reading it; an unknown key may turn out to be a misspelling of it.
  void expect(std::string_view key);
  void ignore_rest();

  /// Notes a problem at the value of `key` (or at the key itself, or at the object when `key` is absent).
  void error(std::string_view key, std::string message, std::string hint = "");
  void error_at_key(std::string_view key, std::string message, std::string hint = "");
  void warning(std::string_view key, std::string message, std::string hint = "");

  /// Reports every key that no accessor asked for, with the nearest known key as a hint; a missing required key whose
  /// misspelt twin is present is reported once, at the twin.
  void close();
  /// For files of other tools: as close(), but an unknown key is reported only when it looks like a misspelling of a
  /// known key that is absent.
  void close_near_misses();

 private:
  friend class SpecDocument;
  friend class ArrayReader;
  ObjectReader(std::shared_ptr<detail::DocumentState> state, const detail::JsonNode* node, std::string path);
  std::shared_ptr<detail::DocumentState> state_;
  const detail::JsonNode* node_;
  std::string path_;  ///< "gpu.memory" style, used in messages
};

/// Checked reading of a JSON array.
class ArrayReader {
 public:
  [[nodiscard]] std::size_t size() const;
  ObjectReader object(std::size_t index);
  double number(std::size_t index, double low, double high);
  std::string text(std::size_t index);
  ArrayReader array(std::size_t index);
  [[nodiscard]] bool is_text(std::size_t index) const;
  [[nodiscard]] bool is_number(std::size_t index) const;
  [[nodiscard]] bool is_object(std::size_t index) const;
  [[nodiscard]] bool is_array(std::size_t index) const;
  void error(std::size_t index, std::string message, std::string hint = "");

 private:
  friend class ObjectReader;
  friend class SpecDocument;
  ArrayReader(std::shared_ptr<detail::DocumentState> state, const detail::JsonNode* node, std::string path);
  std::shared_ptr<detail::DocumentState> state_;
  const detail::JsonNode* node_;
  std::string path_;
};

/// One parsed JSON text. Parsing refuses bad syntax (line and column), duplicate keys, a depth over 64, a text over
/// 64 MiB, and tells an HTML page and an empty file apart from JSON. NaN and Infinity parse as a value that only
/// an accessor refuses, naming the key. A byte-order mark is skipped.
class SpecDocument {
 public:
  static SpecDocument parse(std::string name, std::string source);
  static SpecDocument load(const std::string& path);  ///< "-" is standard input

  [[nodiscard]] ObjectReader root();  ///< reports a root that is no object
  [[nodiscard]] bool root_is_array() const;
  ArrayReader root_array();
  /// From now on a number written as text ("4096") is read as the number, with a warning.
  void accept_text_numbers();
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] bool ok() const;  ///< no error noted so far
  void finish() const;            ///< closes what is open and throws SpecError when errors were noted
  /// Warnings noted so far, rendered; empty when there are none.
  [[nodiscard]] std::string warnings() const;
  [[nodiscard]] std::vector<Diagnostic> diagnostics() const;

 private:
  std::shared_ptr<detail::DocumentState> state_;
};

}  // namespace tpplan
