#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tpplan {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, send_recv, broadcast };
inline constexpr std::size_t kCollectives = 6;

/// One collective operation of n ranks over S payload bytes. S is what nccl-tests prints as size: the full vector for
/// all-reduce and broadcast, the gathered (scattered) whole for all-gather (reduce-scatter), all n blocks one rank
/// sends in an all-to-all, one message for send/recv.
struct CollectiveRow {
  std::string_view name;
  Collective collective;
  /// busbw = algbw * wire_factor(n), algbw = S / t (nccl-tests doc/PERFORMANCE.md): 2(n-1)/n, (n-1)/n or 1.
  double wire_scale;  ///< 2, 1, 1, 1, 1, 1
  bool wire_ring;     ///< multiplied by (n-1)/n
  double ring_steps;  ///< latency steps of the ring as a multiple of (n-1); 0: one step
  [[nodiscard]] constexpr double wire_factor(int ranks) const {
    return wire_ring ? wire_scale * (ranks - 1) / ranks : wire_scale;
  }
  [[nodiscard]] constexpr double steps(int ranks) const { return ring_steps > 0 ? ring_steps * (ranks - 1) : 1; }
};

inline constexpr std::array<CollectiveRow, kCollectives> kCollectiveTable{{
    {"all_reduce", Collective::all_reduce, 2, true, 2},
    {"all_gather", Collective::all_gather, 1, true, 1},
    {"reduce_scatter", Collective::reduce_scatter, 1, true, 1},
    {"all_to_all", Collective::all_to_all, 1, true, 1},
    {"send_recv", Collective::send_recv, 1, false, 0},
    {"broadcast", Collective::broadcast, 1, false, 1},
}};

constexpr const CollectiveRow& row_of(Collective c) { return kCollectiveTable[static_cast<std::size_t>(c)]; }
std::optional<Collective> collective_from(std::string_view name);

}  // namespace tpplan
