#include <algorithm>
#include <map>
#include <sstream>

#include "cost-model/spec_reader.h"
#include "planner/import/samples.h"

namespace tpplan {

namespace {

constexpr double kMost = 1e30;
constexpr std::int64_t kMostRanks = 1 << 24;

/// Parses one line; a message names the line of the file.
SpecDocument parse_line(const std::string& name, const std::string& line, std::size_t number) {
  try {
    return SpecDocument::parse(name, line);
  } catch (const SpecError&) {
    return SpecDocument::parse(name, std::string(number - 1, '\n') + line);
  }
}

/// Texts and numbers of an object as name and value.
void read_pairs(std::optional<ObjectReader> object, std::vector<std::pair<std::string, std::string>>& into) {
  if (!object) return;
  for (const std::string& key : object->keys()) {
    if (object->is_text(key)) into.emplace_back(key, object->text(key));
    if (object->is_number(key)) into.emplace_back(key, shortest(object->number(key, -kMost, kMost)));
  }
  object->ignore_rest();
}

/// Rows of one collective, placement, concurrency, type, mode and place.
struct CurveRows {
  SampleCurve sample;
  std::map<double, CurvePoint> points;
  std::size_t wrong = 0;
  std::size_t budget = 0;
  std::size_t first_wrong_line = 0;
};

class CommBenchFile {
 public:
  explicit CommBenchFile(const std::string& name) {
    samples_.file = name;
    samples_.tool = "comm-bench";
  }

  Samples parse(const std::string& text) {
    std::istringstream stream(text);
    std::string line;
    const bool last_complete = !text.empty() && text.back() == '\n';
    for (std::size_t number = 1; std::getline(stream, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const bool last = stream.peek() == std::istringstream::traits_type::eof();
      try {
        read_line(line, number);
      } catch (const SpecError&) {
        if (!last || last_complete) throw;
        samples_.warnings.push_back("line " + std::to_string(number) + ": cut in the middle, left out");
      }
    }
    finish();
    return std::move(samples_);
  }

 private:
  void read_line(const std::string& line, std::size_t number) {
    SpecDocument document = parse_line(samples_.file, line, number);
    ObjectReader root = document.root();
    if (root.has("end")) {
      ended_ = true;
    } else if (root.has("collective")) {
      read_collective(root, number);
    } else if (root.has("schema_version")) {
      read_header(root);
    } else {
      read_compute(root);
    }
    root.ignore_rest();
    document.finish();
  }

  void read_header(ObjectReader& root) {
    root.count("schema_version", 1, 1);
    read_pairs(root.optional_object("versions"), samples_.variables);
    read_pairs(root.optional_object("variables"), samples_.variables);
    if (root.is_text("gpu")) samples_.gpu_model = root.text("gpu");
    if (std::optional<ObjectReader> topology = root.optional_object("topology")) {
      samples_.nodes = static_cast<int>(topology->count("nodes", 1, kMostRanks, 1));
      samples_.gpus_per_node = static_cast<int>(topology->count("gpus_per_node", 1, kMostRanks, 1));
      topology->ignore_rest();
    }
    if (std::optional<ObjectReader> preflight = root.optional_object("preflight")) read_preflight(*preflight);
    if (!root.is_array("hosts")) return;
    ArrayReader hosts = root.array("hosts");
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (!hosts.is_object(i)) continue;
      ObjectReader host = hosts.object(i);
      std::optional<ArrayReader> gpus = host.optional_array("gpus");
      if (gpus && gpus->size() > 0 && samples_.gpu_model.empty()) {
        ObjectReader gpu = gpus->object(0);
        samples_.gpu_model = gpu.text("name", "");
        gpu.ignore_rest();
      }
      host.ignore_rest();
    }
  }

  /// Warnings of the checks before the run, and the rate of rank 0's network ports.
  void read_preflight(ObjectReader preflight) {
    if (std::optional<ArrayReader> warnings = preflight.optional_array("warnings")) {
      for (std::size_t i = 0; i < warnings->size(); ++i) {
        ObjectReader warning = warnings->object(i);
        if (warning.text("severity", "") == "warning") {
          samples_.warnings.push_back("when measured: " + warning.text("message", ""));
        }
        warning.ignore_rest();
      }
    }
    std::optional<ArrayReader> facts = preflight.optional_array("facts");
    if (facts && facts->size() > 0) {
      ObjectReader first = facts->object(0);
      if (std::optional<ArrayReader> ports = first.optional_array("ports")) {
        for (std::size_t i = 0; i < ports->size(); ++i) {
          ObjectReader port = ports->object(i);
          const bool active = port.text("state", "").find("ACTIVE") != std::string::npos;
          if (active) network_gbps_ += port.number("gbit_per_s", 0, kMost, 0);
          port.ignore_rest();
        }
      }
      first.ignore_rest();
    }
    preflight.ignore_rest();
  }

  void read_collective(ObjectReader& root, std::size_t number) {
    std::vector<std::string> names;
    for (const CollectiveRow& row : kCollectiveTable) names.emplace_back(row.name);
    const std::string name = root.choice("collective", names);
    CollectiveCurve curve;
    curve.collective = collective_from(name).value_or(Collective::all_reduce);
    curve.dtype = root.text("dtype", "");
    curve.mode = root.choice("mode", {"single", "batched"}, "single");
    curve.in_place = root.flag("in_place", false);
    curve.concurrent_groups = 1;
    if (root.is_flag("concurrent")) {
      curve.concurrent_groups = root.flag("concurrent") ? 2 : 1;
    } else {
      curve.concurrent_groups = static_cast<int>(std::max<std::int64_t>(1, root.count("concurrent", 0, kMostRanks, 1)));
    }
    ObjectReader placement = root.object("placement");
    curve.placement.nodes = static_cast<int>(placement.count("nodes", 1, kMostRanks));
    curve.placement.gpus_per_node = static_cast<int>(placement.count("gpus_per_node", 1, kMostRanks));
    curve.placement.stride = static_cast<int>(placement.count("stride", 0, kMostRanks, 1));
    curve.placement.stride = std::max(1, curve.placement.stride);
    placement.ignore_rest();
    const std::string group = root.text("group", "");
    CurvePoint point;
    point.size = Bytes(root.number("bytes", 0, kMost));
    point.time = Seconds(root.number("median_s", 0, kMost));
    point.low = Seconds(root.number("p5_s", 0, kMost, point.time.raw()));
    point.high = Seconds(root.number("p95_s", 0, kMost, point.time.raw()));
    const bool wrong = root.choice("check", {"ok", "wrong", "off"}, "off") == "wrong";
    const bool budget = root.text("stopped_by", "interval") == "budget";

    CurveRows& rows = rows_of(curve, group);
    ++rows.sample.rows;
    if (wrong) {
      if (rows.wrong == 0) rows.first_wrong_line = number;
      ++rows.wrong;
    } else if (point.size.raw() > 0 && point.time.raw() > 0) {
      rows.points.emplace(point.size.raw(), point);  // a size that is rechecked at the end keeps its first time
      rows.budget += budget ? 1 : 0;
    }
  }

  CurveRows& rows_of(const CollectiveCurve& curve, const std::string& group) {
    for (CurveRows& rows : curves_) {
      const CollectiveCurve& other = rows.sample.curve;
      if (other.collective == curve.collective && other.placement == curve.placement && other.mode == curve.mode &&
          other.concurrent_groups == curve.concurrent_groups && other.dtype == curve.dtype &&
          other.in_place == curve.in_place) {
        return rows;
      }
    }
    CurveRows rows;
    rows.sample.operation = std::string(row_of(curve.collective).name);
    rows.sample.collective = curve.collective;
    rows.sample.curve = curve;
    rows.sample.own_statistics = true;
    rows.sample.curve.origin = samples_.file.substr(samples_.file.find_last_of('/') + 1) + " (comm-bench, " +
                               (group.empty() ? "group" : group) + ")";
    curves_.push_back(std::move(rows));
    return curves_.back();
  }

  /// One kernel of one GPU; attention stands in two rows, one per pass.
  void read_compute(ObjectReader& root) {
    const std::string what = root.text("kind", "");
    const double seconds = root.number("median_s", 0, kMost, 0);
    if (root.text("check", "ok") == "wrong") {
      samples_.warnings.push_back("a wrong " + what + " result was left out");
      return;
    }
    if (seconds <= 0) return;
    if (what == "gemm") read_gemm(root, seconds);
    if (what == "attention") read_attention(root, seconds);
    if (what == "memory" && root.has("bytes")) {
      const Bytes bytes(root.number("bytes", 1, kMost));
      samples_.memory.push_back({root.text("name"), bytes, bytes / Seconds(seconds)});
    }
    const std::string name = root.text("name", "");
    if (what == "launch") {
      (name.find("graph") != std::string::npos ? samples_.launch_graph : samples_.launch_eager) = Seconds(seconds);
    }
    if (what == "copy" && root.has("bytes")) read_copy(name, Bytes(root.number("bytes", 1, kMost)) / Seconds(seconds));
  }

  void read_copy(const std::string& name, BytesPerSecond rate) {
    const bool up = name.find("to_device") != std::string::npos || name.find("h2d") != std::string::npos;
    const bool down = name.find("to_host") != std::string::npos || name.find("d2h") != std::string::npos;
    if (up) samples_.host_to_device = max(samples_.host_to_device, rate);
    if (down) samples_.device_to_host = max(samples_.device_to_host, rate);
  }

  void read_gemm(ObjectReader& root, double seconds) {
    GemmPoint point;
    point.m = root.number("m", 1, kMost);
    point.n = root.number("n", 1, kMost);
    point.k = root.number("k", 1, kMost);
    point.dtype = root.text("dtype", "bf16");
    point.kind = root.choice("pass", {"forward", "dgrad", "wgrad"}, "forward");
    point.rate = FlopsPerSecond(2 * point.m * point.n * point.k / seconds);
    samples_.gemms.push_back(std::move(point));
  }

  void read_attention(ObjectReader& root, double seconds) {
    AttentionPoint point;
    point.batch = static_cast<int>(root.count("batch", 1, kMostRanks));
    point.seq = static_cast<int>(root.count("seq", 1, std::int64_t{1} << 28));
    point.heads = static_cast<int>(root.count("heads", 1, kMostRanks));
    point.kv_heads = static_cast<int>(root.count("kv_heads", 1, kMostRanks, point.heads));
    point.head_dim = static_cast<int>(root.count("head_dim", 1, kMostRanks));
    point.kernel = root.text("kernel", "");
    const auto same = std::find_if(samples_.attention.begin(), samples_.attention.end(), [&](const AttentionPoint& p) {
      return p.batch == point.batch && p.seq == point.seq && p.heads == point.heads && p.kv_heads == point.kv_heads &&
             p.head_dim == point.head_dim && p.kernel == point.kernel;
    });
    AttentionPoint& target = same != samples_.attention.end() ? *same : samples_.attention.emplace_back(point);
    const bool backward = root.text("pass", "forward") == "backward";
    const double flop = causal_attention_flop(point) * (backward ? kAttentionBackwardFactor : 1);
    (backward ? target.backward : target.forward) = FlopsPerSecond(flop / seconds);
  }

  void finish() {
    for (CurveRows& rows : curves_) {
      SampleCurve& sample = rows.sample;
      for (const auto& [bytes, point] : rows.points) sample.curve.points.push_back(point);
      if (rows.wrong > 0) {
        sample.refusal = "wrong results in " + std::to_string(rows.wrong) + (rows.wrong == 1 ? " row" : " rows") +
                         ", first in line " + std::to_string(rows.first_wrong_line);
      }
      if (rows.budget > 0) {
        sample.warnings.push_back(std::to_string(rows.budget) + " of " + std::to_string(sample.rows) +
                                  " sizes stopped by the time budget before their interval was narrow enough");
      }
      if (sample.curve.placement.ranks() < 2 && sample.refusal.empty()) {
        sample.refusal = "one rank: nothing was sent over a link";
      }
      sample.network_gbps = network_gbps_;
      judge_curve(sample, nullptr);
      samples_.curves.push_back(std::move(sample));
    }
    if (!ended_) samples_.warnings.emplace_back("no closing line: the file is partial, its rows up to there are used");
  }

  Samples samples_;
  std::vector<CurveRows> curves_;
  double network_gbps_ = 0;
  bool ended_ = false;
};

}  // namespace

Samples parse_comm_bench_samples(const std::string& name, const std::string& text) {
  return CommBenchFile(name).parse(text);
}

}  // namespace tpplan
