#include "cost-model/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tpplan {

namespace {

struct SourceRow {
  Source source;
  std::string_view name;
};
constexpr std::array<SourceRow, 5> kSources{{
    {Source::assumed, "assumed"},
    {Source::vendor, "vendor"},
    {Source::measured, "measured"},
    {Source::fitted, "fitted"},
    {Source::extrapolated, "extrapolated"},
}};

constexpr double kMost = 1e30;  // bound of every measured quantity
constexpr std::int64_t kMostRanks = 1 << 24;

Seconds log_log_between(const CurvePoint& left, const CurvePoint& right, Bytes size) {
  const double share = std::log(size / left.size) / std::log(right.size / left.size);
  return left.time * std::pow(right.time / left.time, share);
}

/// Whether training runs the collective in place: gradients are reduced where they lie, shards gathered elsewhere.
bool usual_place_is_in(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::broadcast;
}

Placement read_placement(ObjectReader reader) {
  Placement placement;
  placement.nodes = static_cast<int>(reader.count("nodes", 1, kMostRanks));
  placement.gpus_per_node = static_cast<int>(reader.count("gpus_per_node", 1, kMostRanks));
  placement.stride = static_cast<int>(reader.count("stride", 1, kMostRanks, 1));
  reader.close();
  return placement;
}

std::vector<CurvePiece> read_pieces(ArrayReader array) {
  std::vector<CurvePiece> pieces;
  for (std::size_t i = 0; i < array.size(); ++i) {
    ObjectReader reader = array.object(i);
    CurvePiece piece;
    piece.up_to = Bytes(reader.number("up_to_bytes", 0, kMost));
    piece.latency = Seconds(reader.number("latency_s", 0, kMost));
    piece.bandwidth = BytesPerSecond(reader.number("bandwidth_bytes_per_s", 0, kMost));
    if (!pieces.empty() && piece.up_to <= pieces.back().up_to) {
      reader.error("up_to_bytes", "pieces must ascend", "order them by up_to_bytes");
    }
    reader.close();
    pieces.push_back(piece);
  }
  return pieces;
}

/// Columns of equal length: bytes and time_s, and low_s and high_s where the spread is known.
std::vector<CurvePoint> read_points(ObjectReader reader) {
  ArrayReader sizes = reader.array("bytes");
  ArrayReader times = reader.array("time_s");
  const std::optional<ArrayReader> low = reader.optional_array("low_s");
  const std::optional<ArrayReader> high = reader.optional_array("high_s");
  const std::size_t count = sizes.size();
  if (times.size() != count || (low && low->size() != count) || (high && high->size() != count)) {
    reader.error("time_s", "the columns of points must be equally long", "one time_s, low_s and high_s per size");
    reader.ignore_rest();
    return {};
  }
  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < count; ++i) {
    CurvePoint point;
    point.size = Bytes(sizes.number(i, 1, kMost));
    point.time = Seconds(times.number(i, 1e-12, kMost));
    point.low = low ? Seconds(ArrayReader(*low).number(i, 0, kMost)) : point.time;
    point.high = high ? Seconds(ArrayReader(*high).number(i, 0, kMost)) : point.time;
    if (!points.empty() && point.size <= points.back().size) {
      sizes.error(i, "sizes must ascend", "order the points by size and keep one of each");
    }
    points.push_back(point);
  }
  reader.close();
  return points;
}

CollectiveCurve read_curve(ObjectReader reader) {
  CollectiveCurve curve;
  std::vector<std::string> names;
  for (const CollectiveRow& row : kCollectiveTable) names.emplace_back(row.name);
  const std::string name = reader.choice("collective", names);
  curve.collective = collective_from(name).value_or(Collective::all_reduce);
  curve.placement = read_placement(reader.object("placement"));
  curve.concurrent_groups = static_cast<int>(reader.count("concurrent_groups", 1, kMostRanks, 1));
  curve.dtype = reader.text("dtype", "");
  curve.in_place = reader.flag("in_place", false);
  curve.mode = reader.choice("mode", {"single", "batched"}, "batched");
  const std::string source = reader.choice("source", {"assumed", "vendor", "measured", "fitted"}, "measured");
  for (const SourceRow& row : kSources) {
    if (row.name == source) curve.source = row.source;
  }
  curve.origin = reader.text("origin", "");
  reader.ignore("valid_bytes");  // repeats the first and the last point
  curve.residual_median = reader.number("residual_median", 0, kMost, 0);
  curve.residual_p90 = reader.number("residual_p90", 0, kMost, 0);
  if (std::optional<ArrayReader> pieces = reader.optional_array("pieces")) curve.pieces = read_pieces(*pieces);
  if (std::optional<ObjectReader> points = reader.optional_object("points")) curve.points = read_points(*points);
  if (curve.pieces.empty() && curve.points.empty()) {
    reader.error("", "the curve of " + name + " has neither pieces nor points");
  }
  reader.close();
  return curve;
}

GemmPoint read_gemm(ObjectReader reader) {
  GemmPoint point;
  point.m = reader.number("m", 1, kMost);
  point.n = reader.number("n", 1, kMost);
  point.k = reader.number("k", 1, kMost);
  point.dtype = reader.text("dtype");
  point.kind = reader.choice("kind", {"forward", "dgrad", "wgrad"}, "forward");
  point.rate = FlopsPerSecond(reader.number("flop_per_s", 1, kMost));
  reader.close();
  return point;
}

AttentionPoint read_attention(ObjectReader reader) {
  AttentionPoint point;
  point.seq = static_cast<int>(reader.count("seq", 1, kMostRanks));
  point.batch = static_cast<int>(reader.count("batch", 1, kMostRanks));
  point.heads = static_cast<int>(reader.count("heads", 1, kMostRanks));
  point.kv_heads = static_cast<int>(reader.count("kv_heads", 1, kMostRanks, point.heads));
  point.head_dim = static_cast<int>(reader.count("head_dim", 1, kMostRanks));
  point.kernel = reader.text("kernel", "");
  point.forward = FlopsPerSecond(reader.number("forward_flop_per_s", 0, kMost, 0));
  point.backward = FlopsPerSecond(reader.number("backward_flop_per_s", 0, kMost, 0));
  reader.close();
  return point;
}

MemoryPoint read_memory(ObjectReader reader) {
  MemoryPoint point;
  point.kind = reader.text("kind");
  point.size = Bytes(reader.number("bytes", 0, kMost));
  point.rate = BytesPerSecond(reader.number("bytes_per_s", 1, kMost));
  reader.close();
  return point;
}

/// Reads a list when it is there, element by element.
template <typename Point, typename Read>
void read_list(ObjectReader& root, std::string_view key, std::vector<Point>& into, Read read) {
  std::optional<ArrayReader> array = root.optional_array(key);
  if (!array) return;
  for (std::size_t i = 0; i < array->size(); ++i) into.push_back(read(array->object(i)));
}

Calibration read_calibration(SpecDocument document) {
  Calibration calibration;
  ObjectReader root = document.root();
  root.count("schema_version", 1, 1);
  calibration.name = root.text("name", "");
  calibration.gpu = root.text("gpu", "");
  calibration.nodes = static_cast<int>(root.count("nodes", 1, kMostRanks, 1));
  calibration.gpus_per_node = static_cast<int>(root.count("gpus_per_node", 1, kMostRanks, 1));
  calibration.origin = root.text("origin", "");
  if (std::optional<ObjectReader> variables = root.optional_object("variables")) {
    for (const std::string& key : variables->keys()) calibration.variables.emplace_back(key, variables->text(key));
  }
  if (root.has("warnings")) calibration.warnings = root.texts("warnings");
  calibration.launch_graph = Seconds(root.number("launch_graph_s", 0, kMost, 0));
  calibration.launch_eager = Seconds(root.number("launch_eager_s", 0, kMost, 0));
  calibration.host_to_device = BytesPerSecond(root.number("host_to_device_bytes_per_s", 0, kMost, 0));
  calibration.device_to_host = BytesPerSecond(root.number("device_to_host_bytes_per_s", 0, kMost, 0));
  read_list(root, "curves", calibration.curves, read_curve);
  read_list(root, "gemms", calibration.gemms, read_gemm);
  read_list(root, "attention", calibration.attention, read_attention);
  read_list(root, "memory", calibration.memory, read_memory);
  root.close();
  document.finish();
  return calibration;
}

}  // namespace

std::string_view name_of(Source source) {
  for (const SourceRow& row : kSources) {
    if (row.source == source) return row.name;
  }
  return "assumed";
}

const CurvePiece& piece_at(const std::vector<CurvePiece>& pieces, Bytes size) {
  for (const CurvePiece& piece : pieces) {
    if (size <= piece.up_to) return piece;
  }
  return pieces.back();
}

Seconds time_of(const std::vector<CurvePiece>& pieces, double wire_factor, Bytes size) {
  if (pieces.empty()) return Seconds(0);
  const CurvePiece& piece = piece_at(pieces, size);
  if (piece.bandwidth.raw() <= 0) return piece.latency;
  return piece.latency + wire_factor * size / piece.bandwidth;
}

Seconds CollectiveCurve::time(Bytes size) const {
  const double wire = row_of(collective).wire_factor(placement.ranks());
  if (points.empty()) return time_of(pieces, wire, size);
  const CurvePoint& first = points.front();
  const CurvePoint& last = points.back();
  if (size <= first.size) {
    const Seconds at_first = time_of(pieces, wire, first.size);
    if (at_first.raw() <= 0) return first.time;
    return min(first.time, first.time * (time_of(pieces, wire, size) / at_first));
  }
  if (size >= last.size) {
    const bool slope_known = !pieces.empty() && pieces.back().bandwidth.raw() > 0;
    return slope_known ? last.time + wire * (size - last.size) / pieces.back().bandwidth : last.time;
  }
  const auto right = std::upper_bound(points.begin(), points.end(), size,
                                      [](Bytes value, const CurvePoint& point) { return value < point.size; });
  return log_log_between(*(right - 1), *right, size);
}

bool more_usual(const CollectiveCurve& a, const CollectiveCurve& b) {
  if (a.in_place != b.in_place) return a.in_place == usual_place_is_in(a.collective);
  return a.points.size() > b.points.size();
}

const CollectiveCurve* Calibration::find(Collective collective, Placement placement, int concurrent_groups) const {
  const CollectiveCurve* best = nullptr;
  for (const CollectiveCurve& curve : curves) {
    const bool matches =
        curve.collective == collective && curve.placement == placement && curve.concurrent_groups == concurrent_groups;
    if (matches && (best == nullptr || more_usual(curve, *best))) best = &curve;
  }
  return best;
}

Calibration load_calibration(const std::string& path) { return read_calibration(SpecDocument::load(path)); }

Calibration parse_calibration(std::string name, std::string source) {
  return read_calibration(SpecDocument::parse(std::move(name), std::move(source)));
}

}  // namespace tpplan
