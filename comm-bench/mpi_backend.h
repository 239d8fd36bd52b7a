#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm-bench/mpi_session.h"
#include "comm-bench/payload.h"

namespace tpplan::bench {

/// Collectives of host memory through MPI, in their non-blocking form (MPI_Iallreduce and so on, tested until done), so
/// that a rank that never comes cannot hang the others. bf16 and fp16 sums are a reduction operation of this program.
/// Times are those of the host's monotonic clock.
class MpiBackend {
 public:
  MpiBackend();
  ~MpiBackend();
  MpiBackend(MpiBackend&&) noexcept;
  MpiBackend& operator=(MpiBackend&&) noexcept;

  static constexpr const char* kName = "mpi";
  static constexpr const char* kTiming = "host clock around a non-blocking MPI collective tested until done";

  /// Allocates the two buffers once, for the largest operation of the run.
  void reserve(BufferSizes sizes);
  /// Bytes that the buffers may have on this rank; `ranks_on_host` share the memory.
  [[nodiscard]] static double memory_available(int ranks_on_host);
  /// Collective over `members`; returns the number by which operations name these ranks.
  int open_channel(const Communicator& members);
  /// Fills the input with this rank's data.
  void prepare(const Operation& operation, int channel, const Payload& payload);
  /// Runs the operation `count` times back to back; seconds for one.
  double run(const Operation& operation, int channel, int count);
  /// Prepares, runs once, and counts the elements that are not what the formula of ranks says.
  std::size_t wrong_elements(const Operation& operation, int channel, Payload& payload);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan::bench
