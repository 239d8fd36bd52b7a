#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cost-model/collectives.h"

namespace tpplan::bench {

enum class Dtype : std::uint8_t { bf16, fp16, fp32 };
struct DtypeRow {
  std::string_view name;
  Dtype dtype;
  std::size_t bytes;
  std::string_view table_name;  ///< as nccl-tests prints it
  double exact_up_to;           ///< every integer up to this is a value of the type: 2^8, 2^11, 2^24
  double largest;
};
inline constexpr std::array<DtypeRow, 3> kDtypes{{
    {"bf16", Dtype::bf16, 2, "bfloat16", 256, 3.3e38},
    {"fp16", Dtype::fp16, 2, "half", 2048, 65504},
    {"fp32", Dtype::fp32, 4, "float", 16777216, 3.4e38},
}};
constexpr const DtypeRow& row_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }
std::optional<Dtype> dtype_from(std::string_view name);

/// Round-to-nearest-even conversions on bit patterns.
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t bits);
std::uint16_t to_fp16(float value);
float from_fp16(std::uint16_t bits);

/// One operation as it is run: payload size as in CollectiveRow (nccl-tests' size).
struct Operation {
  Collective collective = Collective::all_reduce;
  Dtype dtype = Dtype::bf16;
  std::size_t bytes = 0;
  bool in_place = false;
};

/// Elements of an operation on n ranks. `count` is the argument of the call: the whole vector for all-reduce, broadcast
/// and send/recv, one block for the others.
struct Extent {
  std::size_t count = 0;
  std::size_t send = 0;
  std::size_t receive = 0;
};
Extent extent_of(const Operation& operation, int ranks);

/// The largest payload not over `bytes` that n ranks can share: a multiple of 16 bytes a rank for the collectives made
/// of blocks, of 16 bytes for the others. May be 0.
std::size_t shareable_bytes(Collective collective, std::size_t bytes, int ranks);

/// Whether the collective has an in-place form (all-to-all and send/recv have none, as in nccl-tests).
bool has_in_place(Collective collective);

/// Bytes of the two buffers a rank needs to run `operation`; in place only the second is used.
struct BufferSizes {
  std::size_t send = 0;
  std::size_t receive = 0;
};
BufferSizes buffers_of(const Operation& operation, int ranks);

/// Data of the checks. Element i of rank r's input is tile(r)[i mod kTile]: integers drawn from a hash of (seed, r, i)
/// in -k..k, k = 256 / n but 1 to 127. The sum over up to 256 ranks is then exact in bf16 in any order of summation
/// (partial sums are integers of at most 256), and over up to 2,048 ranks it still is with k = 1 unless 256 of the
/// random signs agree beyond chance (six standard deviations), so results are compared bit by bit: tolerance 0. kTile
/// is prime, so that a block or chunk put in the wrong place does not agree.
inline constexpr std::size_t kTile = 65521;
inline constexpr int kMostRanksChecked = 2048;

class Payload {
 public:
  Payload(Dtype dtype, int ranks, std::uint64_t seed);
  /// Bit patterns of rank r's tile, kTile elements.
  [[nodiscard]] std::vector<std::byte> tile(int rank) const;
  /// Bit patterns of the sum of all ranks' tiles.
  [[nodiscard]] const std::vector<std::byte>& sum_tile();
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  [[nodiscard]] int value(int rank, std::size_t index) const;
  Dtype dtype_;
  int ranks_;
  int range_;
  std::uint64_t seed_;
  std::vector<std::byte> sum_;
};

/// Writes elements [first, first + count) of the sequence that repeats `tile` to `out`.
void write_tiled(std::span<std::byte> out, std::span<const std::byte> tile, std::size_t element_bytes,
                 std::size_t first);

/// One stretch of a result buffer: `count` elements from `at` on must be the repeated tile from element `first` on.
struct Expectation {
  std::size_t at = 0;
  std::size_t count = 0;
  std::size_t first = 0;
  int tile_of = 0;  ///< group rank whose tile it is; -1 for the sum
};
/// What rank `rank`'s result buffer must hold after `operation` on n ranks, as formulas of the rank. Broadcast has root
/// 0; send/recv passes to the next rank in a ring.
std::vector<Expectation> expected_result(const Operation& operation, int rank, int ranks);

/// How many elements of `got` differ from the repeated tile from element `first` on.
std::size_t differing(std::span<const std::byte> got, std::span<const std::byte> tile, std::size_t element_bytes,
                      std::size_t first);

/// How many in-place all-reduces may follow each other before the growing sums leave the type's range (each multiplies
/// by n). At least 1.
int repeats_in_range(Dtype dtype, int ranks);

}  // namespace tpplan::bench
