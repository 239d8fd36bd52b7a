#include "cost-model/spec_reader.h"

#include <algorithm>
#include <cmath>

#include "cost-model/document_state.h"

namespace tpplan {

namespace {

using detail::close_object;
using detail::DocumentState;
using detail::find;
using detail::in_path;
using detail::in_quotes;
using detail::JsonNode;
using detail::KeyUse;
using detail::Kind;
using detail::wrong_type;

const JsonNode* find_given(const JsonNode* object, std::string_view key) {
  const JsonNode* node = find(object, key);
  return node != nullptr && node->kind != Kind::null ? node : nullptr;
}

bool is_kind(const JsonNode* object, std::string_view key, Kind kind) {
  const JsonNode* node = find(object, key);
  return node != nullptr && node->kind == kind;
}

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

/// A number that a bound check accepts, used where the file has none.
double harmless(double low, double high) { return std::min(std::max(low, std::min(1.0, high)), high); }

/// The finite number of a node; a text that holds one counts when the document says so, with a warning.
std::optional<double> number_of(DocumentState& state, const JsonNode& node, const std::string& path,
                                std::string_view expected) {
  if (node.kind == Kind::number) {
    return detail::decode_json_number(state.literal(node));
  }
  if (node.kind == Kind::not_finite) {
    wrong_type(state, node, path, expected, "not a finite number");
    return std::nullopt;
  }
  if (node.kind == Kind::text) {
    const std::string text = state.text(node);
    JsonNode inner;
    std::vector<Diagnostic> problems;
    if (detail::parse_json(text, inner, problems) && inner.kind == Kind::number) {
      if (state.text_numbers_accepted) {
        state.note(Diagnostic::Severity::warning, node.offset, in_path(path, "number written as text"),
                   "read as " + text);
        return detail::decode_json_number(text);
      }
      wrong_type(state, node, path, expected, "write " + text + " without quotes");
      return std::nullopt;
    }
  }
  wrong_type(state, node, path, expected);
  return std::nullopt;
}

std::string plain(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<long long>(value));
  }
  return shortest(value);
}

double bounded_number(DocumentState& state, const JsonNode& node, const std::string& path, double low, double high,
                      bool whole) {
  const std::string_view expected = whole ? "a whole number" : "a number";
  const std::optional<double> value = number_of(state, node, path, expected);
  if (!value) {
    return harmless(low, high);
  }
  if (whole && *value != std::floor(*value)) {
    wrong_type(state, node, path, expected);
    return harmless(low, high);
  }
  if (*value < low) {
    const std::string bound = whole && low == 1 ? "must be positive" : "must be at least " + plain(low);
    state.error(node.offset, in_path(path, bound + ", got " + plain(*value)));
    return harmless(low, high);
  }
  if (*value > high) {
    state.error(node.offset, in_path(path, "must be at most " + plain(high) + ", got " + plain(*value)));
    return harmless(low, high);
  }
  return *value;
}

struct QuantityNames {
  Dimension dimension;
  std::string_view expected;
  std::string_view example_unit;
};

constexpr QuantityNames kSize = {Dimension::bytes, "a size", "GiB"};
constexpr QuantityNames kTime = {Dimension::seconds, "a time", "us"};
constexpr QuantityNames kBandwidth = {Dimension::bytes_per_second, "a bandwidth", "GB/s"};
constexpr QuantityNames kComputeRate = {Dimension::flops_per_second, "a compute rate", "TFLOP/s"};

std::optional<double> quantity_of(DocumentState& state, const JsonNode& node, const std::string& path,
                                  const QuantityNames& names) {
  const std::string unit(names.example_unit);
  if (node.kind == Kind::number) {
    state.error(node.offset, in_path(path, std::string(names.expected) + " needs a unit"),
                "write \"" + std::string(state.literal(node)) + " " + unit + "\"");
    return std::nullopt;
  }
  if (node.kind != Kind::text) {
    wrong_type(state, node, path, names.expected, "write a text like \"1 " + unit + "\"");
    return std::nullopt;
  }
  UnitError error;
  const std::optional<double> value = parse_quantity(state.text(node), names.dimension, error);
  if (!value) {
    state.error(node.offset, in_path(path, error.message), error.hint);
  }
  return value;
}

KeyUse& use_of(DocumentState& state, const JsonNode* node, const std::string& path) {
  KeyUse& use = state.uses[node];
  use.path = path;
  return use;
}

void expect_key(KeyUse& use, std::string_view key) {
  use.known.emplace(key);
  if (const auto place = use.ignored.find(key); place != use.ignored.end()) {
    use.ignored.erase(place);
  }
}

/// The node of a key that must be there; its absence is noted and reported when the object is closed.
const JsonNode* require(DocumentState& state, const JsonNode* object, const std::string& path, std::string_view key) {
  if (object == nullptr) {
    return nullptr;
  }
  KeyUse& use = use_of(state, object, path);
  expect_key(use, key);
  const JsonNode* node = find(object, key);
  if (node == nullptr) {
    if (std::find(use.missing.begin(), use.missing.end(), key) == use.missing.end()) {
      use.missing.emplace_back(key);
    }
  } else if (node->kind == Kind::null) {
    state.error(node->offset, in_path(join_path(path, key), "must not be null"));
    return nullptr;
  }
  return node;
}

const JsonNode* look(DocumentState& state, const JsonNode* object, const std::string& path, std::string_view key) {
  if (object == nullptr) {
    return nullptr;
  }
  expect_key(use_of(state, object, path), key);
  return find_given(object, key);
}

/// Required when there is no fallback.
const JsonNode* seek(DocumentState& state, const JsonNode* object, const std::string& path, std::string_view key,
                     bool optional) {
  return optional ? look(state, object, path, key) : require(state, object, path, key);
}

template <typename T>
T quantity(DocumentState& state, const JsonNode* object, const std::string& path, std::string_view key,
           std::optional<T> fallback, const QuantityNames& names) {
  const JsonNode* node = seek(state, object, path, key, fallback.has_value());
  const std::optional<double> value =
      node == nullptr ? std::nullopt : quantity_of(state, *node, join_path(path, key), names);
  return value ? T(*value) : fallback.value_or(T(1));
}

const JsonNode* element(const JsonNode* array, std::size_t index) {
  return array != nullptr && index < array->children.size() ? &array->children[index] : nullptr;
}

std::string element_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

bool element_is(const JsonNode* array, std::size_t index, Kind kind) {
  const JsonNode* node = element(array, index);
  return node != nullptr && node->kind == kind;
}

}  // namespace

ObjectReader::ObjectReader(std::shared_ptr<detail::DocumentState> state, const detail::JsonNode* node, std::string path)
    : state_(std::move(state)), node_(node), path_(std::move(path)) {
  if (node_ != nullptr) {
    use_of(*state_, node_, path_);
  }
}

bool ObjectReader::has(std::string_view key) const { return find_given(node_, key) != nullptr; }
bool ObjectReader::good(std::string_view key) const {
  const JsonNode* node = find_given(node_, key);
  return node != nullptr &&
         std::none_of(state_->diagnostics.begin(), state_->diagnostics.end(), [&](const Diagnostic& problem) {
           return problem.offset == node->offset && problem.severity == Diagnostic::Severity::error;
         });
}

bool ObjectReader::has_null(std::string_view key) const { return is_kind(node_, key, Kind::null); }
bool ObjectReader::is_text(std::string_view key) const { return is_kind(node_, key, Kind::text); }
bool ObjectReader::is_number(std::string_view key) const {
  return is_kind(node_, key, Kind::number) || is_kind(node_, key, Kind::not_finite);
}
bool ObjectReader::is_flag(std::string_view key) const { return is_kind(node_, key, Kind::boolean); }
bool ObjectReader::is_object(std::string_view key) const { return is_kind(node_, key, Kind::object); }
bool ObjectReader::is_array(std::string_view key) const { return is_kind(node_, key, Kind::array); }

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> result;
  if (node_ != nullptr) {
    for (const JsonNode& child : node_->children) {
      result.push_back(child.key);
    }
  }
  return result;
}

std::string ObjectReader::text(std::string_view key) {
  const JsonNode* node = require(*state_, node_, path_, key);
  if (node != nullptr && node->kind != Kind::text) {
    wrong_type(*state_, *node, join_path(path_, key), "a text");
    return "";
  }
  return node == nullptr ? "" : state_->text(*node);
}

std::string ObjectReader::text(std::string_view key, std::string_view fallback) {
  return look(*state_, node_, path_, key) == nullptr ? std::string(fallback) : text(key);
}

std::string ObjectReader::choice(std::string_view key, const std::vector<std::string>& choices,
                                 std::optional<std::string> fallback) {
  std::string harmless_choice = fallback ? *fallback : choices.empty() ? std::string() : choices.front();
  const JsonNode* node = seek(*state_, node_, path_, key, fallback.has_value());
  if (node == nullptr) {
    return harmless_choice;
  }
  if (node->kind != Kind::text) {
    wrong_type(*state_, *node, join_path(path_, key), "a text");
    return harmless_choice;
  }
  std::string value = state_->text(*node);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
    return value;
  }
  std::string hint;
  if (const std::optional<std::string> meant = nearest_name(value, choices)) {
    hint = "did you mean " + in_quotes(*meant) + "?";
  } else {
    for (const std::string& name : choices) {
      hint += (hint.empty() ? "one of " : ", ") + name;
    }
  }
  state_->error(node->offset, in_path(join_path(path_, key), "unknown value " + in_quotes(value)), hint);
  return harmless_choice;
}

std::int64_t ObjectReader::count(std::string_view key, std::int64_t low, std::int64_t high) {
  const JsonNode* node = require(*state_, node_, path_, key);
  const auto lowest = static_cast<double>(low);
  const auto highest = static_cast<double>(high);
  return static_cast<std::int64_t>(node == nullptr
                                       ? harmless(lowest, highest)
                                       : bounded_number(*state_, *node, join_path(path_, key), lowest, highest, true));
}

std::int64_t ObjectReader::count(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback) {
  return look(*state_, node_, path_, key) == nullptr ? fallback : count(key, low, high);
}

double ObjectReader::number(std::string_view key, double low, double high) {
  const JsonNode* node = require(*state_, node_, path_, key);
  return node == nullptr ? harmless(low, high)
                         : bounded_number(*state_, *node, join_path(path_, key), low, high, false);
}

double ObjectReader::number(std::string_view key, double low, double high, double fallback) {
  return look(*state_, node_, path_, key) == nullptr ? fallback : number(key, low, high);
}

bool ObjectReader::flag(std::string_view key) {
  const JsonNode* node = require(*state_, node_, path_, key);
  if (node != nullptr && node->kind != Kind::boolean) {
    wrong_type(*state_, *node, join_path(path_, key), "true or false");
    return false;
  }
  return node != nullptr && state_->literal(*node) == "true";
}

bool ObjectReader::flag(std::string_view key, bool fallback) {
  return look(*state_, node_, path_, key) == nullptr ? fallback : flag(key);
}

Bytes ObjectReader::bytes(std::string_view key, std::optional<Bytes> fallback) {
  return quantity(*state_, node_, path_, key, fallback, kSize);
}

Seconds ObjectReader::seconds(std::string_view key, std::optional<Seconds> fallback) {
  return quantity(*state_, node_, path_, key, fallback, kTime);
}

BytesPerSecond ObjectReader::bandwidth(std::string_view key, std::optional<BytesPerSecond> fallback) {
  return quantity(*state_, node_, path_, key, fallback, kBandwidth);
}

FlopsPerSecond ObjectReader::flops_per_second(std::string_view key, std::optional<FlopsPerSecond> fallback) {
  return quantity(*state_, node_, path_, key, fallback, kComputeRate);
}

ObjectReader ObjectReader::object(std::string_view key) {
  const JsonNode* node = require(*state_, node_, path_, key);
  if (node != nullptr && node->kind != Kind::object) {
    wrong_type(*state_, *node, join_path(path_, key), "an object");
    node = nullptr;
  }
  return ObjectReader(state_, node, join_path(path_, key));
}

std::optional<ObjectReader> ObjectReader::optional_object(std::string_view key) {
  if (look(*state_, node_, path_, key) == nullptr) {
    return std::nullopt;
  }
  ObjectReader reader = object(key);
  return reader.node_ == nullptr ? std::nullopt : std::optional<ObjectReader>(std::move(reader));
}

ArrayReader ObjectReader::array(std::string_view key) {
  const JsonNode* node = require(*state_, node_, path_, key);
  if (node != nullptr && node->kind != Kind::array) {
    wrong_type(*state_, *node, join_path(path_, key), "a list");
    node = nullptr;
  }
  return ArrayReader(state_, node, join_path(path_, key));
}

std::optional<ArrayReader> ObjectReader::optional_array(std::string_view key) {
  if (look(*state_, node_, path_, key) == nullptr) {
    return std::nullopt;
  }
  ArrayReader reader = array(key);
  return reader.node_ == nullptr ? std::nullopt : std::optional<ArrayReader>(std::move(reader));
}

std::vector<std::int64_t> ObjectReader::counts(std::string_view key, std::int64_t low, std::int64_t high) {
  const ArrayReader list = array(key);
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    result.push_back(static_cast<std::int64_t>(
        bounded_number(*state_, list.node_->children[i], element_path(join_path(path_, key), i),
                       static_cast<double>(low), static_cast<double>(high), true)));
  }
  return result;
}

std::vector<std::string> ObjectReader::texts(std::string_view key) {
  ArrayReader list = array(key);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    result.push_back(list.text(i));
  }
  return result;
}

void ObjectReader::ignore(std::string_view key) {
  if (node_ != nullptr && use_of(*state_, node_, path_).known.emplace(key).second) {
    use_of(*state_, node_, path_).ignored.emplace(key);
  }
}

void ObjectReader::expect(std::string_view key) {
  if (node_ != nullptr) {
    expect_key(use_of(*state_, node_, path_), key);
  }
}

void ObjectReader::ignore_rest() {
  if (node_ != nullptr) {
    use_of(*state_, node_, path_).rest_ignored = true;
  }
}

void ObjectReader::error(std::string_view key, std::string message, std::string hint) {
  if (node_ != nullptr) {
    const JsonNode* node = find(node_, key);
    state_->error(node == nullptr ? node_->offset : node->offset,
                  in_path(node == nullptr ? path_ : join_path(path_, key), std::move(message)), std::move(hint));
  }
}

void ObjectReader::error_at_key(std::string_view key, std::string message, std::string hint) {
  if (node_ != nullptr) {
    const JsonNode* node = find(node_, key);
    state_->error(node == nullptr ? node_->offset : node->key_offset, in_path(path_, std::move(message)),
                  std::move(hint));
  }
}

void ObjectReader::warning(std::string_view key, std::string message, std::string hint) {
  if (node_ != nullptr) {
    const JsonNode* node = find(node_, key);
    state_->note(Diagnostic::Severity::warning, node == nullptr ? node_->offset : node->offset,
                 in_path(node == nullptr ? path_ : join_path(path_, key), std::move(message)), std::move(hint));
  }
}

void ObjectReader::close() {
  if (node_ != nullptr) {
    close_object(*state_, *node_, use_of(*state_, node_, path_), false);
  }
}

void ObjectReader::close_near_misses() {
  if (node_ != nullptr) {
    close_object(*state_, *node_, use_of(*state_, node_, path_), true);
  }
}

ArrayReader::ArrayReader(std::shared_ptr<detail::DocumentState> state, const detail::JsonNode* node, std::string path)
    : state_(std::move(state)), node_(node), path_(std::move(path)) {}

std::size_t ArrayReader::size() const { return node_ == nullptr ? 0 : node_->children.size(); }
bool ArrayReader::is_text(std::size_t index) const { return element_is(node_, index, Kind::text); }
bool ArrayReader::is_object(std::size_t index) const { return element_is(node_, index, Kind::object); }
bool ArrayReader::is_array(std::size_t index) const { return element_is(node_, index, Kind::array); }
bool ArrayReader::is_number(std::size_t index) const {
  return element_is(node_, index, Kind::number) || element_is(node_, index, Kind::not_finite);
}

ObjectReader ArrayReader::object(std::size_t index) {
  const JsonNode* node = element(node_, index);
  if (node != nullptr && node->kind != Kind::object) {
    wrong_type(*state_, *node, element_path(path_, index), "an object");
    node = nullptr;
  }
  return ObjectReader(state_, node, element_path(path_, index));
}

double ArrayReader::number(std::size_t index, double low, double high) {
  const JsonNode* node = element(node_, index);
  return node == nullptr ? harmless(low, high)
                         : bounded_number(*state_, *node, element_path(path_, index), low, high, false);
}

std::string ArrayReader::text(std::size_t index) {
  const JsonNode* node = element(node_, index);
  if (node != nullptr && node->kind != Kind::text) {
    wrong_type(*state_, *node, element_path(path_, index), "a text");
    node = nullptr;
  }
  return node == nullptr ? "" : state_->text(*node);
}

ArrayReader ArrayReader::array(std::size_t index) {
  const JsonNode* node = element(node_, index);
  if (node != nullptr && node->kind != Kind::array) {
    wrong_type(*state_, *node, element_path(path_, index), "a list");
    node = nullptr;
  }
  return ArrayReader(state_, node, element_path(path_, index));
}

void ArrayReader::error(std::size_t index, std::string message, std::string hint) {
  if (const JsonNode* node = element(node_, index)) {
    state_->error(node->offset, in_path(element_path(path_, index), std::move(message)), std::move(hint));
  }
}

}  // namespace tpplan
