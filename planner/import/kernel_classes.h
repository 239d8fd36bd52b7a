#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost-model/collectives.h"

namespace tpplan {

/// What a GPU kernel does, as far as its name tells.
enum class KernelClass : std::uint8_t { gemm, attention, norm, elementwise, optimizer, copy, communication, unknown };
struct KernelClassRow {
  std::string_view key;   ///< in JSON
  std::string_view name;  ///< in tables
  KernelClass value;
};
inline constexpr std::array<KernelClassRow, 8> kKernelClasses{{
    {"gemm", "matrix products", KernelClass::gemm},
    {"attention", "attention", KernelClass::attention},
    {"norm", "norms", KernelClass::norm},
    {"elementwise", "other elementwise, loss, embedding", KernelClass::elementwise},
    {"optimizer", "optimizer and gradient norm", KernelClass::optimizer},
    {"copy", "copies and fills", KernelClass::copy},
    {"communication", "communication", KernelClass::communication},
    {"unknown", "unknown kernels", KernelClass::unknown},
}};

/// Kinds of communication kernels.
enum class CommunicationKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_recv,
  broadcast,
  other
};
inline constexpr std::array<std::string_view, 7> kCommunicationNames{
    {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send/recv", "broadcast", "other collectives"}};

/// By the first entry of a table of name parts that the name holds, small and capital letters alike.
KernelClass class_of_kernel(std::string_view name);
CommunicationKind communication_of_kernel(std::string_view name);

}  // namespace tpplan
