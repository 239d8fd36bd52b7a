#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpplan {

/// The figures of one size in one place (out of place or in place), as the tool printed them.
struct PlaceFigures {
  double time_us = 0;           ///< microseconds per operation; of the host when the run's `cpu_time` is set
  double algbw = 0, busbw = 0;  ///< GB/s, decimal
  std::optional<double> wrong;  ///< #wrong: elements; old "error": largest deviation; nothing when not checked
  bool over_threshold = false;  ///< rccl-tests put an asterisk behind it
};

/// One row of a table of collectives.
struct BenchmarkRow {
  std::size_t line = 0;     ///< in the file, from 1; 0 for JSON
  std::int64_t size = 0;    ///< bytes, as the tool counts them
  std::int64_t count = 0;   ///< elements
  std::string type, redop;  ///< empty when the table does not tell
  std::optional<int> root;
  std::optional<PlaceFigures> out_of_place, in_place;
};

/// One GPU of a device list.
struct BenchmarkDevice {
  int rank = 0, group = 0;
  std::string host;
  int device = 0;
  std::string bus_id, model;
};

/// Something worth telling about a file, at a line (0: the whole file).
struct ImportNote {
  std::size_t line = 0;
  std::string text;
};

/// One run of a benchmark of collectives: everything that one table and its surroundings say.
struct BenchmarkRun {
  std::size_t line = 0;    ///< where it begins
  std::string program;     ///< "all_reduce_perf" when the text names it
  std::string collective;  ///< "all_reduce", "reduce", ...; empty when only the rows can tell
  std::string section;     ///< text of a separator above the rows, "2-node"
  std::vector<BenchmarkDevice> devices;
  std::vector<BenchmarkRow> rows;
  bool cpu_time = false;                ///< the time column is that of the host (-C 1): not a transfer time
  bool error_is_deviation = false;      ///< old "error"/"res" column: largest deviation instead of a count
  bool blocking = false;                ///< waits (and counts a barrier) after each operation
  bool graph = false;                   ///< replays CUDA graphs
  bool summary = false;                 ///< the closing lines are there
  bool failed = false;                  ///< the tool reported that it could not finish
  std::optional<double> average_busbw;  ///< of the closing lines
  std::optional<std::int64_t> out_of_bounds;
  std::optional<int> nranks, nnodes, local_ranks;    ///< from NCCL's own messages
  int processes_without_mpi = 0;                     ///< how many times rank 0 appeared, when more than once
  std::map<std::string, std::string> configuration;  ///< key/value pairs of the configuration line
  std::map<std::string, std::string> variables;      ///< NCCL version, algorithm, protocol, NCCL_* settings seen
  std::vector<ImportNote> warnings;                  ///< damaged rows and the like, each with its line
};

/// All runs of one file and what stood outside of them.
struct BenchmarkLog {
  std::string name;
  std::string tool;  ///< "nccl-tests", "rccl-tests", "OSU", "IMB"
  std::vector<BenchmarkRun> runs;
  std::vector<ImportNote> warnings;
  std::vector<ImportNote> failures;  ///< what the tool itself reported as errors
  std::vector<ImportNote> remarks;   ///< comment lines above the first table that are not the tool's own
  [[nodiscard]] std::size_t rows() const {
    std::size_t count = 0;
    for (const BenchmarkRun& run : runs) count += run.rows.size();
    return count;
  }
};

/// Collectives as benchmark tools spell them ("allreduce", "AllReduce", "all_reduce_perf_mpi"), in nccl-tests'
/// spelling; empty when `text` names none.
std::string benchmark_collective(const std::string& text);

/// The rows as tab-separated text with a header line: run, line, size, count, type, redop, root, then time, algbw,
/// busbw and wrong out of place and in place. Numbers as read, absent ones as "-".
std::string rows_as_tsv(const BenchmarkLog& log);

/// Splits at blanks.
std::vector<std::string> words_of(const std::string& text);

/// A whole token as a number: plain, exponents, "nan", "inf". Nothing for anything else.
std::optional<double> number_in(const std::string& token);
std::optional<std::int64_t> integer_in(const std::string& token);

}  // namespace tpplan
