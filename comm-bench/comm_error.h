#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tpplan::bench {

/// A failure of MPI, NCCL, CUDA or of another rank, worded "CALL failed on rank R (PLACE): REASON".
class CommError : public std::runtime_error {
 public:
  CommError(std::string_view call, int rank, std::string_view place, std::string_view reason)
      : std::runtime_error(std::string(call) + " failed on rank " + std::to_string(rank) + " (" + std::string(place) +
                           "): " + std::string(reason)) {}
  /// For failures that are no call's: a missing library, a rank that stopped.
  explicit CommError(const std::string& message) : std::runtime_error(message) {}
};

/// This rank stops because another one did or because it was told to; somebody else says why.
class Interrupted : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace tpplan::bench
