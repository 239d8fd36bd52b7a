#include <cmath>
#include <cstdio>

#include "cost-model/calibration.h"

namespace tpplan {

namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// One JSON object on one line, keys in the order they are added.
class LineObject {
 public:
  LineObject& raw(std::string_view key, const std::string& json) {
    text_ += (text_.empty() ? "" : ", ") + quoted(key) + ": " + json;
    return *this;
  }
  LineObject& text(std::string_view key, std::string_view value) { return raw(key, quoted(value)); }
  LineObject& number(std::string_view key, double value) { return raw(key, shortest(value)); }
  [[nodiscard]] std::string json() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

/// A size in bytes: whole numbers with all their digits, which nine would not hold beyond 1 GB.
std::string byte_count(Bytes size) {
  const double value = size.raw();
  if (value == std::floor(value) && std::abs(value) < 9e15) return std::to_string(static_cast<long long>(value));
  return shortest(value);
}

template <typename Items, typename Write>
std::string line_array(const Items& items, Write write) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + write(item);
  return "[" + text + "]";
}

/// An array with one element per line, indented.
template <typename Items, typename Write>
std::string tall_array(const Items& items, const std::string& indent, Write write) {
  if (items.empty()) return "[]";
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "\n" : ",\n") + indent + "  " + write(item);
  return "[" + text + "\n" + indent + "]";
}

std::string points_json(const std::vector<CurvePoint>& points) {
  LineObject object;
  const auto column = [&](auto field) {
    return line_array(points, [&](const CurvePoint& point) { return shortest(field(point)); });
  };
  object.raw("bytes", line_array(points, [](const CurvePoint& point) { return byte_count(point.size); }));
  object.raw("time_s", column([](const CurvePoint& p) { return p.time.raw(); }));
  bool spread = false;
  for (const CurvePoint& point : points) spread = spread || point.low != point.time || point.high != point.time;
  if (spread) {
    object.raw("low_s", column([](const CurvePoint& p) { return p.low.raw(); }));
    object.raw("high_s", column([](const CurvePoint& p) { return p.high.raw(); }));
  }
  return object.json();
}

std::string piece_json(const CurvePiece& piece) {
  return LineObject()
      .raw("up_to_bytes", byte_count(piece.up_to))
      .number("latency_s", piece.latency.raw())
      .number("bandwidth_bytes_per_s", piece.bandwidth.raw())
      .json();
}

std::string curve_json(const CollectiveCurve& curve) {
  const std::string placement = LineObject()
                                    .number("nodes", curve.placement.nodes)
                                    .number("gpus_per_node", curve.placement.gpus_per_node)
                                    .number("stride", curve.placement.stride)
                                    .json();
  const std::string indent = "      ";
  std::string text = "{\n" + indent + "\"collective\": " + quoted(row_of(curve.collective).name);
  const auto add = [&](std::string_view key, const std::string& json) {
    text += ",\n" + indent + quoted(key) + ": " + json;
  };
  add("placement", placement);
  add("concurrent_groups", std::to_string(curve.concurrent_groups));
  add("dtype", quoted(curve.dtype));
  add("in_place", curve.in_place ? "true" : "false");
  add("mode", quoted(curve.mode.empty() ? "batched" : curve.mode));
  add("source", quoted(name_of(curve.source)));
  add("origin", quoted(curve.origin));
  if (!curve.points.empty()) {
    add("valid_bytes", "[" + byte_count(curve.points.front().size) + ", " + byte_count(curve.points.back().size) + "]");
  }
  add("residual_median", shortest(curve.residual_median));
  add("residual_p90", shortest(curve.residual_p90));
  add("pieces", tall_array(curve.pieces, indent, piece_json));
  add("points", points_json(curve.points));
  return text + "\n    }";
}

std::string gemm_json(const GemmPoint& point) {
  return LineObject()
      .number("m", point.m)
      .number("n", point.n)
      .number("k", point.k)
      .text("dtype", point.dtype)
      .text("kind", point.kind)
      .number("flop_per_s", point.rate.raw())
      .json();
}

std::string attention_json(const AttentionPoint& point) {
  return LineObject()
      .number("seq", point.seq)
      .number("batch", point.batch)
      .number("heads", point.heads)
      .number("kv_heads", point.kv_heads)
      .number("head_dim", point.head_dim)
      .text("kernel", point.kernel)
      .number("forward_flop_per_s", point.forward.raw())
      .number("backward_flop_per_s", point.backward.raw())
      .json();
}

std::string memory_json(const MemoryPoint& point) {
  return LineObject()
      .text("kind", point.kind)
      .raw("bytes", byte_count(point.size))
      .number("bytes_per_s", point.rate.raw())
      .json();
}

}  // namespace

std::string to_json(const Calibration& calibration) {
  std::string text = "{\n  \"schema_version\": 1";
  const auto add = [&](std::string_view key, const std::string& json) { text += ",\n  " + quoted(key) + ": " + json; };
  add("name", quoted(calibration.name));
  add("gpu", quoted(calibration.gpu));
  add("nodes", std::to_string(calibration.nodes));
  add("gpus_per_node", std::to_string(calibration.gpus_per_node));
  add("origin", quoted(calibration.origin));
  LineObject variables;
  for (const auto& [key, value] : calibration.variables) variables.text(key, value);
  add("variables", variables.json());
  add("warnings", tall_array(calibration.warnings, "  ", [](const std::string& warning) { return quoted(warning); }));
  const auto add_known = [&](std::string_view key, double value) {
    if (value > 0) add(key, shortest(value));
  };
  add_known("launch_graph_s", calibration.launch_graph.raw());
  add_known("launch_eager_s", calibration.launch_eager.raw());
  add_known("host_to_device_bytes_per_s", calibration.host_to_device.raw());
  add_known("device_to_host_bytes_per_s", calibration.device_to_host.raw());
  add("curves", tall_array(calibration.curves, "  ", curve_json));
  add("gemms", tall_array(calibration.gemms, "  ", gemm_json));
  add("attention", tall_array(calibration.attention, "  ", attention_json));
  add("memory", tall_array(calibration.memory, "  ", memory_json));
  return text + "\n}\n";
}

}  // namespace tpplan
