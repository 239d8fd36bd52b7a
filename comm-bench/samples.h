#pragma once

#include <string>
#include <vector>

#include "comm-bench/compute.h"
#include "comm-bench/groups.h"
#include "comm-bench/preflight.h"
#include "comm-bench/sweep.h"

namespace tpplan::bench {

inline constexpr int kSampleSchemaVersion = 1;

/// What the first line of a sample file says.
struct SampleHeader {
  std::vector<std::string> command;
  std::string started;  ///< UTC, 2026-01-31T12:00:00Z
  std::string backend, backend_reason, timing, mode;
  double budget_s = 0;
  Topology topology;
  std::vector<RankFacts> facts;
  std::vector<PreflightWarning> warnings;
  std::vector<std::string> notes;
};

/// What the last line says.
struct SampleEnd {
  SweepOutcome sweep;
  ComputeOutcome compute;
  double seconds = 0;
};

/// Replaces host names by node0, node1, ..., and removes what identifies machines and people: GPU serial identifiers,
/// the path of the output file, values of variables that name hosts, files or addresses.
SampleHeader anonymous(SampleHeader header);

/// One line of JSON each, without the newline.
std::string to_json(const SampleHeader& header);
std::string to_json(const SampleRow& row);
std::string to_json(const ComputeRow& row);
std::string to_json(const SampleEnd& end);
/// The JSON array that facts_from_json reads.
std::string to_json(const std::vector<RankFacts>& facts);

/// A JSON Lines file that is readable up to its last complete line at any time: a line is one write followed by fsync.
class SampleFile {
 public:
  /// Creates or empties the file. Throws CommError when it cannot.
  explicit SampleFile(const std::string& path);
  ~SampleFile();
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  void write_line(const std::string& json);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace tpplan::bench
