#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/spec_reader.h"

namespace tpplan::detail {

/// One JSON value with its place in the source text, so that a problem found later can point at it.
/// Numbers and texts are kept as the bytes [offset, end) of the source and decoded when asked for.
struct JsonNode {
  /// `not_finite` is a bare NaN, Infinity, -Infinity, or a number beyond double range: no JSON, but Python writes it.
  enum class Kind : std::uint8_t { null, boolean, number, not_finite, text, array, object };
  Kind kind = Kind::null;
  std::uint32_t offset = 0;
  std::uint32_t end = 0;
  std::uint32_t key_offset = 0;    ///< of the key, when the value is a member of an object
  std::string key;                 ///< decoded
  std::vector<JsonNode> children;  ///< elements of an array, members of an object in file order
};

inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxJsonValues = 4'000'000;

/// Parses a whole JSON text (RFC 8259; a byte-order mark is skipped). Problems go to `diagnostics`: at most one of
/// syntax, after which the tree is unusable (returns false), and one for each repeated key.
bool parse_json(std::string_view source, JsonNode& root, std::vector<Diagnostic>& diagnostics);

/// The text that a JSON string literal (with its quotes, already checked) stands for.
std::string decode_json_text(std::string_view literal);

/// Length of the well-formed UTF-8 sequence at `at`, or 0 (overlong forms, surrogates and cut sequences included).
std::size_t utf8_length(std::string_view text, std::size_t at);

/// The value of a checked JSON number literal.
double decode_json_number(std::string_view literal);

}  // namespace tpplan::detail
