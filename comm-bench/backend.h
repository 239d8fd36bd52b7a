#pragma once

#include <variant>

#include "comm-bench/mpi_backend.h"
#include "comm-bench/nccl_backend.h"

namespace tpplan::bench {

/// The two have the same operations; see MpiBackend for what each does.
using Backend = std::variant<MpiBackend, NcclBackend>;

inline const char* name_of(const Backend& backend) {
  return std::visit([](const auto& b) { return b.kName; }, backend);
}
inline const char* timing_of(const Backend& backend) {
  return std::visit([](const auto& b) { return b.kTiming; }, backend);
}

}  // namespace tpplan::bench
