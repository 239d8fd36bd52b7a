#include "cost-model/allocator.h"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGranularity = 512;
constexpr std::int64_t kSmallRequest = kMiB;
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kOwnSegmentRequest = 10 * kMiB;
constexpr std::int64_t kSharedSegment = 20 * kMiB;
constexpr std::int64_t kSegmentGranularity = 2 * kMiB;

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::int64_t segment_size(std::int64_t request) {
  if (request <= kSmallRequest) {
    return kSmallSegment;
  }
  return request < kOwnSegmentRequest ? kSharedSegment : round_up(request, kSegmentGranularity);
}

}  // namespace

std::size_t CachingAllocator::new_piece(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return pieces_.size() - 1;
  }
  const auto index = unused_.back();
  unused_.pop_back();
  pieces_[index] = piece;
  return index;
}

CachingAllocator::Block CachingAllocator::allocate(Bytes size, std::size_t stream) {
  const auto wanted = static_cast<std::int64_t>(std::ceil(std::max(1.0, size.raw())));
  const std::int64_t request = round_up(wanted, kGranularity);
  const bool large = request > kSmallRequest;
  const std::size_t pool = 2 * stream + (large ? 1 : 0);
  if (free_.size() <= pool) {
    free_.resize(pool + 1);
  }
  auto& candidates = free_[pool];
  std::size_t index = kNone;
  if (const auto best = candidates.lower_bound(FreeBlock{request, -1, 0}); best != candidates.end()) {
    index = std::get<2>(*best);
    candidates.erase(best);
  } else {
    Piece segment;
    segment.size = segment_size(request);
    segment.address = next_address_;
    segment.pool = pool;
    next_address_ += segment.size;
    reserved_ += segment.size;
    index = new_piece(segment);
  }
  const std::int64_t rest = pieces_[index].size - request;
  if (large ? rest > kSmallRequest : rest >= kGranularity) {
    Piece remainder = pieces_[index];
    remainder.size = rest;
    remainder.address += request;
    remainder.previous = index;
    remainder.free = true;
    const auto next = remainder.next;
    const auto split = new_piece(remainder);
    if (next != kNone) {
      pieces_[next].previous = split;
    }
    pieces_[index].size = request;
    pieces_[index].next = split;
    candidates.emplace(rest, pieces_[split].address, split);
  }
  pieces_[index].free = false;
  allocated_ += pieces_[index].size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return index;
}

/// Joins a free neighbour to a block; the lower address wins.
void CachingAllocator::absorb(std::size_t block, std::size_t neighbour) {
  auto& into = pieces_[block];
  auto& from = pieces_[neighbour];
  free_[into.pool].erase(FreeBlock{from.size, from.address, neighbour});
  into.size += from.size;
  if (into.next == neighbour) {
    into.next = from.next;
    if (from.next != kNone) {
      pieces_[from.next].previous = block;
    }
  } else {
    into.address = from.address;
    into.previous = from.previous;
    if (from.previous != kNone) {
      pieces_[from.previous].next = block;
    }
  }
  unused_.push_back(neighbour);
}

void CachingAllocator::release(Block block) {
  allocated_ -= pieces_[block].size;
  const auto previous = pieces_[block].previous;
  const auto next = pieces_[block].next;
  if (previous != kNone && pieces_[previous].free) {
    absorb(block, previous);
  }
  if (next != kNone && pieces_[next].free) {
    absorb(block, next);
  }
  auto& piece = pieces_[block];
  piece.free = true;
  free_[piece.pool].emplace(piece.size, piece.address, block);
}

}  // namespace tpplan
