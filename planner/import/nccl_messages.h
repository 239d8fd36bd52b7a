#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/import/benchmark_run.h"

namespace tpplan {

/// What NCCL's own messages (NCCL_DEBUG=INFO and its TUNING subsystem) tell about a run: version, communicator shape,
/// settings, network, transports between GPUs, algorithm and protocol chosen per size.
class NcclMessages {
 public:
  void read(std::size_t line, const std::string& message);
  /// Moves what was read since the last call into a run's variables and rank counts.
  void describe(BenchmarkRun& run);
  /// Warnings that NCCL printed, each once.
  [[nodiscard]] const std::vector<ImportNote>& warnings() const { return warnings_; }

 private:
  void read_choice(const std::string& message);
  void read_transport(const std::string& message);

  struct Choice {
    double bytes = 0;
    std::string algorithm, protocol;
  };
  std::map<std::string, std::string> variables_;
  std::optional<int> nranks_, nnodes_, local_ranks_;
  std::map<std::string, int> transports_;
  std::optional<Choice> largest_;
  std::vector<ImportNote> warnings_;
};

}  // namespace tpplan
