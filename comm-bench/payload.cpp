#include "comm-bench/payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tpplan::bench {

namespace {

constexpr std::size_t kAlignment = 16;

/// splitmix64, a bijective mixer (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

void store(std::vector<std::byte>& out, Dtype dtype, std::size_t index, float value) {
  if (dtype == Dtype::fp32) {
    std::memcpy(out.data() + index * sizeof value, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = dtype == Dtype::bf16 ? to_bf16(value) : to_fp16(value);
  std::memcpy(out.data() + index * sizeof bits, &bits, sizeof bits);
}

bool made_of_blocks(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter ||
         collective == Collective::all_to_all;
}

}  // namespace

std::optional<Dtype> dtype_from(std::string_view name) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t rounding = 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((bits + rounding) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 6.103515625e-05F) {  // subnormal: a multiple of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 16777216.0F)));
  }
  std::uint32_t rest = bits & 0x7fffffffU;
  rest += 0xfffU + ((rest >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rest - (112U << 23)) >> 13));
}

float from_fp16(std::uint16_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ffU);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) return fraction > 0 ? std::nanf("") : sign * HUGE_VALF;
  return sign * std::ldexp(1024.0F + fraction, exponent - 25);
}

Extent extent_of(const Operation& operation, int ranks) {
  const std::size_t elements = operation.bytes / row_of(operation.dtype).bytes;
  const std::size_t block = elements / static_cast<std::size_t>(ranks);
  switch (operation.collective) {
    case Collective::all_gather:
      return {block, block, elements};
    case Collective::reduce_scatter:
      return {block, elements, block};
    case Collective::all_to_all:
      return {block, elements, elements};
    case Collective::all_reduce:
    case Collective::send_recv:
    case Collective::broadcast:
      break;
  }
  return {elements, elements, elements};
}

std::size_t shareable_bytes(Collective collective, std::size_t bytes, int ranks) {
  const std::size_t unit = made_of_blocks(collective) ? kAlignment * static_cast<std::size_t>(ranks) : kAlignment;
  return bytes / unit * unit;
}

bool has_in_place(Collective collective) {
  return collective != Collective::all_to_all && collective != Collective::send_recv;
}

BufferSizes buffers_of(const Operation& operation, int ranks) {
  const Extent extent = extent_of(operation, ranks);
  const std::size_t element = row_of(operation.dtype).bytes;
  if (operation.in_place) return {0, std::max(extent.send, extent.receive) * element};
  return {extent.send * element, extent.receive * element};
}

Payload::Payload(Dtype dtype, int ranks, std::uint64_t seed)
    : dtype_(dtype), ranks_(ranks), range_(std::clamp(256 / ranks, 1, 127)), seed_(seed) {}

int Payload::value(int rank, std::size_t index) const {
  const std::uint64_t key = mixed(seed_ ^ mixed(static_cast<std::uint64_t>(rank) << 32 | index));
  return static_cast<int>(key % static_cast<std::uint64_t>(2 * range_ + 1)) - range_;
}

std::vector<std::byte> Payload::tile(int rank) const {
  std::vector<std::byte> bits(kTile * row_of(dtype_).bytes);
  for (std::size_t i = 0; i < kTile; ++i) store(bits, dtype_, i, static_cast<float>(value(rank, i)));
  return bits;
}

const std::vector<std::byte>& Payload::sum_tile() {
  if (sum_.empty()) {
    sum_.resize(kTile * row_of(dtype_).bytes);
    for (std::size_t i = 0; i < kTile; ++i) {
      int total = 0;
      for (int rank = 0; rank < ranks_; ++rank) total += value(rank, i);
      store(sum_, dtype_, i, static_cast<float>(total));
    }
  }
  return sum_;
}

void write_tiled(std::span<std::byte> out, std::span<const std::byte> tile, std::size_t element_bytes,
                 std::size_t first) {
  std::size_t from = first % kTile * element_bytes;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t length = std::min(tile.size() - from, out.size() - at);
    std::memcpy(out.data() + at, tile.data() + from, length);
    at += length;
    from = 0;
  }
}

std::vector<Expectation> expected_result(const Operation& operation, int rank, int ranks) {
  const Extent extent = extent_of(operation, ranks);
  const auto own = static_cast<std::size_t>(rank);
  const int previous = (rank + ranks - 1) % ranks;
  std::vector<Expectation> expected;
  switch (operation.collective) {
    case Collective::all_reduce:
      return {{0, extent.count, 0, -1}};
    case Collective::reduce_scatter:  // block `rank` of the sum
      return {{0, extent.count, own * extent.count, -1}};
    case Collective::broadcast:
      return {{0, extent.count, 0, 0}};
    case Collective::send_recv:
      return {{0, extent.count, 0, previous}};
    case Collective::all_gather:  // block q is all of rank q's input
      for (int q = 0; q < ranks; ++q) {
        expected.push_back({static_cast<std::size_t>(q) * extent.count, extent.count, 0, q});
      }
      return expected;
    case Collective::all_to_all:  // block q is block `rank` of rank q's input
      for (int q = 0; q < ranks; ++q) {
        expected.push_back({static_cast<std::size_t>(q) * extent.count, extent.count, own * extent.count, q});
      }
      return expected;
  }
  return expected;
}

std::size_t differing(std::span<const std::byte> got, std::span<const std::byte> tile, std::size_t element_bytes,
                      std::size_t first) {
  std::size_t wrong = 0;
  std::size_t from = first % kTile * element_bytes;
  for (std::size_t at = 0; at < got.size();) {
    const std::size_t length = std::min(tile.size() - from, got.size() - at);
    if (std::memcmp(got.data() + at, tile.data() + from, length) != 0) {
      for (std::size_t i = 0; i < length; i += element_bytes) {
        if (std::memcmp(got.data() + at + i, tile.data() + from + i, element_bytes) != 0) ++wrong;
      }
    }
    at += length;
    from = 0;
  }
  return wrong;
}

int repeats_in_range(Dtype dtype, int ranks) {
  if (ranks < 2) return 1 << 20;
  // The first sum is at most 256; each further all-reduce in place multiplies it by the number of ranks.
  const double further = std::log(row_of(dtype).largest / 256) / std::log(static_cast<double>(ranks));
  return 1 + static_cast<int>(further);
}

}  // namespace tpplan::bench
