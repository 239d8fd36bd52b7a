#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "cost-model/units.h"

namespace tpplan {

/// A model of PyTorch's caching allocator for GPU memory (c10/cuda/CUDACachingAllocator.cpp, default settings): what a
/// program reserves from the driver when it allocates and frees these sizes in this order.
///
/// Sizes round up to 512 bytes. Requests up to 1 MiB are cut from segments of 2 MiB, those below 10 MiB from segments
/// of 20 MiB, larger ones get a segment of their own rounded up to 2 MiB. A request takes the smallest free block that
/// holds it, of its own stream and pool (small or large), the lowest address among equals; the rest is split off when
/// it is at least 512 bytes (small pool) or more than 1 MiB (large pool). Freed blocks merge with free neighbours and
/// stay reserved: returning segments to the driver when it runs out of memory is not modelled.
class CachingAllocator {
 public:
  /// Index of a live block.
  using Block = std::size_t;

  Block allocate(Bytes size, std::size_t stream = 0);
  void release(Block block);

  /// Whole blocks in use, the rest that was not split off included: what `memory_allocated` counts.
  [[nodiscard]] Bytes allocated() const { return Bytes(static_cast<double>(allocated_)); }
  [[nodiscard]] Bytes peak_allocated() const { return Bytes(static_cast<double>(peak_allocated_)); }
  /// Sum of all segments; it never falls.
  [[nodiscard]] Bytes reserved() const { return Bytes(static_cast<double>(reserved_)); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Piece {
    std::int64_t size = 0;
    std::int64_t address = 0;
    std::size_t previous = kNone, next = kNone;  ///< neighbours in the segment
    std::size_t pool = 0;                        ///< 2 * stream, + 1 for the large pool
    bool free = false;
  };
  using FreeBlock = std::tuple<std::int64_t, std::int64_t, std::size_t>;  ///< size, address, index

  std::size_t new_piece(const Piece& piece);
  void absorb(std::size_t block, std::size_t neighbour);

  std::vector<Piece> pieces_;
  std::vector<std::size_t> unused_;  ///< indices of pieces_ that merging has emptied
  std::vector<std::set<FreeBlock>> free_;
  std::int64_t next_address_ = 0;
  std::int64_t allocated_ = 0, peak_allocated_ = 0, reserved_ = 0;
};

/// A tensor of the replayed program: allocated when made, freed when destroyed. The allocator must outlive it.
class Tensor {
 public:
  Tensor(CachingAllocator& allocator, Bytes size, std::size_t stream)
      : allocator_(allocator), block_(allocator.allocate(size, stream)) {}
  ~Tensor() { allocator_.release(block_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

 private:
  CachingAllocator& allocator_;
  CachingAllocator::Block block_;
};
/// Lives as long as something refers to it, as in Python.
using TensorRef = std::shared_ptr<const Tensor>;

}  // namespace tpplan
