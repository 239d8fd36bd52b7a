#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cost-model/simulate.h"

namespace tpplan {

/// What a stage consists of: layers, between embedding and head where it holds them.
enum class PieceKind : std::uint8_t { embedding, dense, moe, head };

/// The streams a piece of a stage goes through in one pass, one after another.
struct PiecePart {
  StreamKind stream = StreamKind::compute;
  std::uint16_t name = 0;  ///< index into the names given to build()
  double seconds = 0;
};

/// Parts of every kind of piece and pass: the operations of layer_operations() in their order, backward in reverse,
/// neighbours on one stream joined. Each stream's sum is that of PassCosts, which scales what profiles expose of a kind
/// of traffic; recomputation stands first in a backward pass, host time that the GPU waits for last.
class PieceParts {
 public:
  /// Names that `names` lacks are added to it. Without what launches take longer than the work when `launched`, for
  /// they are operations of their own then.
  void build(const Job& job, const LayerKey& key, const LayerCosts& costs, bool launched,
             std::vector<std::string>& names);
  [[nodiscard]] const std::vector<PiecePart>& of(PieceKind piece, PassKind pass) const {
    return parts_[static_cast<std::size_t>(piece)][static_cast<std::size_t>(pass)];
  }

 private:
  std::array<std::array<std::vector<PiecePart>, kPassKinds.size()>, 4> parts_;
};

/// Seconds of one piece in a pass.
double piece_time(const LayerCosts& costs, PieceKind piece, PassKind pass);
/// Seconds that the host launches it, and those of piece_time() by which launching takes longer than the work. The
/// gradient of the input is launched with that of the weights.
double piece_launch_time(const LayerCosts& costs, PieceKind piece, PassKind pass);
double piece_starved_time(const LayerCosts& costs, PieceKind piece, PassKind pass);

}  // namespace tpplan
