#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost-model/collectives.h"
#include "cost-model/spec_reader.h"
#include "cost-model/units.h"

namespace tpplan {

/// Where a number comes from.
enum class Source : std::uint8_t { assumed, vendor, measured, fitted, extrapolated };
std::string_view name_of(Source source);

/// Which GPUs a group joins: `gpus_per_node` of them on each of `nodes` hosts, `stride` apart in rank order.
/// A group with one GPU per node is never read from a whole-node curve.
struct Placement {
  int nodes = 1;
  int gpus_per_node = 1;
  int stride = 1;
  friend auto operator<=>(const Placement&, const Placement&) = default;
  [[nodiscard]] int ranks() const { return nodes * gpus_per_node; }
};

/// t(S) = latency + wire_factor * S / bandwidth for S <= up_to: bandwidth is a bus bandwidth.
struct CurvePiece {
  Bytes up_to;
  Seconds latency;
  BytesPerSecond bandwidth;
};

/// The piece that holds `size`: the last one beyond all. `pieces` must not be empty.
const CurvePiece& piece_at(const std::vector<CurvePiece>& pieces, Bytes size);

/// The time that pieces alone give: t = latency + wire_factor * S / bandwidth of the piece that holds `size`.
Seconds time_of(const std::vector<CurvePiece>& pieces, double wire_factor, Bytes size);

/// A measured time of one size.
struct CurvePoint {
  Bytes size;
  Seconds time;
  Seconds low, high;  ///< p5 and p95 of the samples; equal to time when unknown
};

/// One measured collective: time against size for one group placement and one number of groups running at once.
struct CollectiveCurve {
  Collective collective = Collective::all_reduce;
  Placement placement;
  int concurrent_groups = 1;
  std::string dtype;
  bool in_place = false;
  std::string mode;                ///< "single" or "batched"
  std::vector<CurvePiece> pieces;  ///< ascending up_to, at most 8
  std::vector<CurvePoint> points;  ///< measured, ascending size
  double residual_median = 0;      ///< of the fit on its own points, relative
  double residual_p90 = 0;
  Source source = Source::measured;
  std::string origin;  ///< file, command, date
  /// Time of a payload of `size`: log-log interpolation inside the measured range. Outside it the pieces go on from the
  /// nearest point: the first piece's line below (never more than the first point), the last slope above.
  [[nodiscard]] Seconds time(Bytes size) const;
};

/// Of two curves of one collective, placement and concurrency, whether training resembles `a` more: measured in the
/// place that training uses (all-reduce and broadcast in place, the others out of place), else at more sizes.
bool more_usual(const CollectiveCurve& a, const CollectiveCurve& b);

/// A measured matrix product: m x n x k, in FLOP/s reached. `kind`: forward, dgrad, wgrad.
struct GemmPoint {
  double m = 0, n = 0, k = 0;
  std::string dtype, kind;
  FlopsPerSecond rate;
};
struct AttentionPoint {
  int seq = 0, batch = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string kernel;                ///< "cudnn", "flash2"
  FlopsPerSecond forward, backward;  ///< causal FLOP counted once
};
/// A memory-bound kernel: useful bytes per second by kind ("copy", "add", "norm_forward", "adam", ...).
struct MemoryPoint {
  std::string kind;
  Bytes size;
  BytesPerSecond rate;
};

/// What was measured on one machine; read and written as NAME.calibration.json.
struct Calibration {
  std::string name;
  std::string gpu;  ///< catalogue id
  int nodes = 1, gpus_per_node = 1;
  std::vector<CollectiveCurve> curves;
  std::vector<GemmPoint> gemms;
  std::vector<AttentionPoint> attention;
  std::vector<MemoryPoint> memory;
  Seconds launch_graph, launch_eager;  ///< per kernel, 0 unknown
  BytesPerSecond host_to_device, device_to_host;
  std::vector<std::pair<std::string, std::string>> variables;  ///< NCCL_* and versions in force, recorded
  std::vector<std::string> warnings;
  std::string origin;
  [[nodiscard]] bool empty() const { return curves.empty() && gemms.empty() && attention.empty() && memory.empty(); }
  /// The curve measured for exactly this collective, placement and concurrency, or nullptr. Of several the
  /// more_usual().
  [[nodiscard]] const CollectiveCurve* find(Collective collective, Placement placement, int concurrent_groups) const;
};

Calibration load_calibration(const std::string& path);
Calibration parse_calibration(std::string name, std::string source);
/// Writes the JSON text of a calibration, deterministic.
std::string to_json(const Calibration& calibration);

}  // namespace tpplan
