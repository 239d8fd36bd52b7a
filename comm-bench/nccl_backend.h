#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm-bench/mpi_session.h"
#include "comm-bench/payload.h"

namespace tpplan::bench {

/// Collectives of GPU memory through NCCL, one GPU per rank. Every repetition starts with a 4-byte all-reduce on the
/// same stream, which lets all GPUs begin within microseconds of each other and hides the launch; it is not timed.
/// Times are those of CUDA events around the collective. All-to-all and send/recv are grouped ncclSend and ncclRecv.
class NcclBackend {
 public:
  /// Why this rank cannot use NCCL: built without its headers, a library or the driver missing, no GPU. Nothing when it
  /// can. Asks the CUDA runtime for devices, because NCCL itself answers without one.
  static std::optional<std::string> why_not();

  /// Uses GPU `local_rank` of those visible, counted round. Throws CommError.
  NcclBackend(const Communicator& world, int local_rank);
  ~NcclBackend();
  NcclBackend(NcclBackend&&) noexcept;
  NcclBackend& operator=(NcclBackend&&) noexcept;

  static constexpr const char* kName = "nccl";
  static constexpr const char* kTiming =
      "CUDA events around the collective, after an untimed 4-byte all-reduce that aligns the ranks";

  void reserve(BufferSizes sizes);
  /// Bytes that the buffers may have on this rank's GPU.
  [[nodiscard]] double memory_available(int ranks_on_host) const;
  int open_channel(const Communicator& members);
  void prepare(const Operation& operation, int channel, const Payload& payload);
  double run(const Operation& operation, int channel, int count);
  std::size_t wrong_elements(const Operation& operation, int channel, Payload& payload);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan::bench
