#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost-model/calibration.h"
#include "planner/import/benchmark_run.h"

namespace tpplan {

/// One measured curve on its way into a calibration, with what is to be said about it.
struct SampleCurve {
  std::string operation;                 ///< as nccl-tests names it; some are no collective of a training step
  std::optional<Collective> collective;  ///< nothing for those (reduce, gather, scatter)
  CollectiveCurve curve;                 ///< points in ascending size; not fitted yet
  std::size_t rows = 0;                  ///< rows of the table that belong to it
  std::vector<std::string> warnings;
  std::string refusal;          ///< why it cannot be used, empty when it can
  bool own_statistics = false;  ///< every point rests on many samples of its own: noise is told, not refused
  double network_gbps = 0;      ///< rate of the network adapters of one node as its log tells, Gbit/s; 0 unknown
};

/// Everything that one file of measurements holds.
struct Samples {
  std::string file;
  std::string tool;                  ///< "nccl-tests", "comm-bench", ...
  std::string gpu_model;             ///< as the driver prints it, empty when the file does not tell
  int nodes = 0, gpus_per_node = 0;  ///< of the machine, 0 when the file does not tell
  std::vector<SampleCurve> curves;
  std::vector<GemmPoint> gemms;
  std::vector<AttentionPoint> attention;
  std::vector<MemoryPoint> memory;
  Seconds launch_graph, launch_eager;
  BytesPerSecond host_to_device, device_to_host;
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> warnings;
  std::optional<BenchmarkLog> log;  ///< the rows as read, when the tool prints tables
};

/// What the user adds to what a file tells.
struct ImportOptions {
  std::string collective;    ///< for tables that do not name it, empty: find out
  std::optional<int> ranks;  ///< ranks of one group
  std::optional<int> nodes;
};

/// Reads a file of measurements of any known kind: comm-bench samples, nccl-tests or rccl-tests text, JSON or CSV, OSU
/// and IMB tables, lists of a GPU microbenchmark. Throws SpecError when it is none of them, naming the line and what
/// was expected.
Samples read_samples(const std::string& path, const ImportOptions& options);
Samples parse_samples(const std::string& name, std::string text, const ImportOptions& options);

/// Curves of a log of nccl-tests or one that reads alike: finds the collective, the ranks and their placement, checks
/// every identity that the rows must fulfil and groups them by type, operation and place.
Samples samples_of_log(BenchmarkLog log, const ImportOptions& options);

/// Samples of comm-bench (JSON Lines); a file without its closing line is partial, a cut last line is dropped.
Samples parse_comm_bench_samples(const std::string& name, const std::string& text);

/// Lists "comm", "gemm", "attn" and "mem" of a microbenchmark of one GPU or one node.
Samples parse_microbenchmark(const std::string& name, std::string text);

/// OSU and IMB latency tables.
BenchmarkLog parse_osu(std::string name, std::string_view text);

/// Operations of causal attention forward, the masked half not counted: two products of heads x seq^2/2 x head_dim.
/// Backward counts 2.5 times as many (FlashAttention-2, section 4.1: five products for two).
inline constexpr double kAttentionBackwardFactor = 2.5;
inline double causal_attention_flop(const AttentionPoint& point) {
  const double seq = point.seq;
  return 2.0 * point.batch * point.heads * seq * seq * point.head_dim;
}

/// Leaves out points that are slower than everything around them, and refuses a curve that is unstable, has one size or
/// collapses at large sizes. `twin` is the same table's other place, nullptr when there is none.
void judge_curve(SampleCurve& sample, const std::vector<CurvePoint>* twin);

}  // namespace tpplan
