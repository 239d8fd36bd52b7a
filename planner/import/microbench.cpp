#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "cost-model/fit.h"
#include "cost-model/spec_reader.h"
#include "planner/import/samples.h"

namespace tpplan {

namespace {

constexpr double kMost = 1e30;
constexpr double kMostCount = 1e9;

struct DtypeRow {
  std::string_view from, to;
};
constexpr std::array<DtypeRow, 6> kDtypes{{
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"float8_e4m3fn", "fp8"},
}};

std::string short_dtype(const std::string& name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.from == name) return std::string(row.to);
  }
  return name;
}

/// Seconds under a key; nothing when it is absent or null.
std::optional<double> seconds_of(ObjectReader& reader, std::string_view key) {
  if (!reader.has(key)) {
    reader.ignore(key);
    return std::nullopt;
  }
  return reader.number(key, 1e-12, kMost);
}

/// Gathers repeated shapes, so that each stands once with its median.
class GemmList {
 public:
  void add(double m, double n, double k, const std::string& dtype, const std::string& kind, double seconds) {
    const auto [at, fresh] = times_.try_emplace({m, n, k, dtype, kind});
    if (fresh) order_.push_back(at->first);
    at->second.push_back(seconds);
  }
  [[nodiscard]] std::vector<GemmPoint> points() const {
    std::vector<GemmPoint> points;
    for (const Key& key : order_) {
      const auto& [m, n, k, dtype, kind] = key;
      const double seconds = nearest_rank(times_.at(key), 0.5);
      points.push_back({m, n, k, dtype, kind, FlopsPerSecond(2 * m * n * k / seconds)});
    }
    return points;
  }

 private:
  using Key = std::tuple<double, double, double, std::string, std::string>;
  std::map<Key, std::vector<double>> times_;
  std::vector<Key> order_;
};

struct GemmTimeKey {
  const char* key;
  const char* dtype;
  const char* kind;
};
/// Keys of a row that gives one shape in several precisions. fp8 is kept in its faster, tensor-wise scaling.
constexpr std::array<GemmTimeKey, 4> kGemmTimes{{
    {"bf16_fwd_s", "bf16", "forward"},
    {"bf16_dgrad_s", "bf16", "dgrad"},
    {"bf16_wgrad_s", "bf16", "wgrad"},
    {"fp8_tensorwise_fwd_s", "fp8", "forward"},
}};

void read_gemms(ArrayReader array, Samples& samples) {
  GemmList list;
  for (std::size_t i = 0; i < array.size(); ++i) {
    ObjectReader row = array.object(i);
    const double m = row.number("m", 1, kMostCount);
    const double n = row.number("n", 1, kMostCount);
    const double k = row.number("k", 1, kMostCount);
    if (row.has("s")) {
      list.add(m, n, k, short_dtype(row.text("dtype", "bf16")), row.text("kind", "forward"),
               row.number("s", 1e-12, kMost));
    }
    for (const GemmTimeKey& column : kGemmTimes) {
      const std::optional<double> seconds = seconds_of(row, column.key);
      if (seconds) list.add(m, n, k, column.dtype, column.kind, *seconds);
    }
    row.ignore_rest();
  }
  samples.gemms = list.points();
}

void read_attention(ArrayReader array, Samples& samples) {
  for (std::size_t i = 0; i < array.size(); ++i) {
    ObjectReader row = array.object(i);
    AttentionPoint point;
    point.batch = static_cast<int>(row.count("b", 1, 1 << 24));
    point.seq = static_cast<int>(row.count("s", 1, 1 << 28));
    point.heads = static_cast<int>(row.count("heads", 1, 1 << 20));
    point.kv_heads = static_cast<int>(row.count("kv_heads", 1, 1 << 20, point.heads));
    point.head_dim = static_cast<int>(row.count("hd", 1, 1 << 20));
    const double forward = causal_attention_flop(point);
    for (const char* const kernel : {"", "cudnn", "flash2"}) {
      const std::string prefix = *kernel == '\0' ? "" : std::string(kernel) + "_";
      const std::optional<double> fwd = seconds_of(row, prefix + "fwd_s");
      const std::optional<double> bwd = seconds_of(row, prefix + "bwd_s");
      if (!fwd) continue;
      AttentionPoint measured = point;
      measured.kernel = *kernel == '\0' ? "default" : kernel;
      measured.forward = FlopsPerSecond(forward / *fwd);
      measured.backward = FlopsPerSecond(bwd ? kAttentionBackwardFactor * forward / *bwd : 0);
      samples.attention.push_back(std::move(measured));
    }
    row.ignore_rest();
  }
}

void read_memory(ArrayReader array, Samples& samples) {
  for (std::size_t i = 0; i < array.size(); ++i) {
    ObjectReader row = array.object(i);
    const std::string kind = row.text("op");
    const double bytes = row.number("bytes", 0, kMost);
    const double seconds = row.number("s", 1e-12, kMost);
    row.ignore_rest();
    const BytesPerSecond rate(bytes / seconds);
    if (kind == "h2d_pinned") {
      samples.host_to_device = rate;
    } else if (kind == "d2h_pinned") {
      samples.device_to_host = rate;
    } else if (bytes > 0) {
      samples.memory.push_back({kind, Bytes(bytes), rate});
    } else {
      samples.warnings.push_back("mem: " + kind + " has no bytes: left out");
    }
  }
}

struct CommOperation {
  std::string_view name, operation;
  Collective collective;
  int groups;  // transfers at once
};
constexpr std::array<CommOperation, 8> kCommOperations{{
    {"all_reduce", "all_reduce", Collective::all_reduce, 1},
    {"all_gather", "all_gather", Collective::all_gather, 1},
    {"reduce_scatter", "reduce_scatter", Collective::reduce_scatter, 1},
    {"all_to_all", "alltoall", Collective::all_to_all, 1},
    {"broadcast", "broadcast", Collective::broadcast, 1},
    {"send_recv", "sendrecv", Collective::send_recv, 1},
    {"sendrecv_uni", "sendrecv", Collective::send_recv, 1},
    {"sendrecv_bi", "sendrecv", Collective::send_recv, 2},
}};

const CommOperation* comm_operation(const std::string& name) {
  for (const CommOperation& row : kCommOperations) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

void read_collectives(ArrayReader array, int world, Samples& samples) {
  std::map<std::string, std::map<double, std::vector<double>>> times;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < array.size(); ++i) {
    ObjectReader row = array.object(i);
    const std::string name = row.text("op");
    const double bytes = row.number("bytes", 1, kMost);
    const double seconds = row.number("s", 1e-12, kMost);
    row.ignore_rest();
    if (std::find(order.begin(), order.end(), name) == order.end()) order.push_back(name);
    times[name][bytes].push_back(seconds);
  }
  for (const std::string& name : order) {
    const CommOperation* const known = comm_operation(name);
    SampleCurve sample;
    sample.operation = known != nullptr ? std::string(known->operation) : name;
    CollectiveCurve& curve = sample.curve;
    curve.origin = samples.file.substr(samples.file.find_last_of('/') + 1) + " (" + name + ")";
    curve.placement = {1, known != nullptr && known->collective == Collective::send_recv ? 2 : world, 1};
    curve.mode = "batched";
    for (const auto& [bytes, repeats] : times[name]) {
      const Seconds middle(nearest_rank(repeats, 0.5));
      curve.points.push_back(
          {Bytes(bytes), middle, Seconds(nearest_rank(repeats, 0.05)), Seconds(nearest_rank(repeats, 0.95))});
      sample.rows += repeats.size();
    }
    if (known == nullptr) {
      sample.refusal = "unknown operation " + name;
    } else {
      sample.collective = known->collective;
      curve.collective = known->collective;
      curve.concurrent_groups = known->groups;
      curve.in_place = known->collective == Collective::all_reduce || known->collective == Collective::broadcast;
      judge_curve(sample, nullptr);
    }
    samples.curves.push_back(std::move(sample));
  }
}

void read_versions(ObjectReader& root, Samples& samples) {
  if (root.is_text("torch")) samples.variables.emplace_back("torch", root.text("torch"));
  if (!root.is_array("nccl")) return;
  ArrayReader parts = root.array("nccl");
  std::string version;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts.is_text(i) ? parts.text(i) : shortest(parts.number(i, 0, kMostCount));
    version += (i > 0 ? "." : "") + part;
  }
  samples.variables.emplace_back("NCCL version", version);
}

}  // namespace

Samples parse_microbenchmark(const std::string& name, std::string text) {
  Samples samples;
  samples.file = name;
  samples.tool = "microbenchmark";
  SpecDocument document = SpecDocument::parse(name, std::move(text));
  ObjectReader root = document.root();
  samples.gpu_model = root.text("gpu", "");
  const int world = static_cast<int>(root.count("world", 1, 1 << 20, 1));
  samples.nodes = 1;
  samples.gpus_per_node = world;
  read_versions(root, samples);
  if (std::optional<ArrayReader> list = root.optional_array("gemm")) read_gemms(*list, samples);
  if (std::optional<ArrayReader> list = root.optional_array("attn")) read_attention(*list, samples);
  if (std::optional<ArrayReader> list = root.optional_array("mem")) read_memory(*list, samples);
  if (std::optional<ArrayReader> list = root.optional_array("comm")) read_collectives(*list, world, samples);
  samples.launch_graph = Seconds(root.number("graph_launch_s", 0, kMost, 0));
  samples.launch_eager = Seconds(root.number("eager_launch_s", 0, kMost, 0));
  if (root.has("launch_s")) samples.launch_eager = Seconds(root.number("launch_s", 0, kMost));
  root.ignore_rest();
  document.finish();
  return samples;
}

}  // namespace tpplan
