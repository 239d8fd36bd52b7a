#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost-model/spec_reader.h"

namespace tpplan {

/// How two devices of a host reach each other, from near to far.
enum class Path : std::uint8_t { self, nvlink, xgmi, pix, pxb, phb, node, sys, unknown };

struct PathCell {
  Path path = Path::unknown;
  int links = 0;  ///< NVLinks of the pair
  friend bool operator==(const PathCell&, const PathCell&) = default;
};

/// What `nvidia-smi topo -m` or the link-type table of `rocm-smi --showtopo` says of one host.
struct TopologyMatrix {
  std::vector<std::string> gpus, nics;         ///< column names
  std::vector<std::vector<PathCell>> between;  ///< gpus x gpus
  std::vector<std::vector<PathCell>> to_nics;  ///< gpus x nics
  std::vector<std::size_t> missing_rows;       ///< GPUs whose row the text lacks; taken from their column
  bool rocm = false;

  /// NICs behind a PCIe switch that a GPU hangs on too.
  [[nodiscard]] std::size_t near_nics() const;
  /// The farthest path between two GPUs that no fast link joins; self when there is none.
  [[nodiscard]] Path worst_path() const;
};

/// Peer access of a host, of `nvidia-smi topo -p2p`: yes when every pair says OK.
struct PeerTable {
  std::size_t gpus = 0;
  bool all_ok = true;
  std::string refusal;  ///< first status that is not OK: "GNS"
};

/// Finds the matrix in a text as people paste it: columns separated by tabs or blanks, glued cells taken apart, rows
/// and columns cut off noted. Nothing when the text holds no such table. Problems go to `notes`, placed in `text`.
std::optional<TopologyMatrix> topology_matrix(std::string_view text, std::vector<Diagnostic>& notes);
std::optional<PeerTable> peer_table(std::string_view text);

std::string_view name_of(Path path);

}  // namespace tpplan
