#include "comm-bench/payload.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>

using namespace tpplan::bench;
using tpplan::Collective;

namespace {

float element(const std::vector<std::byte>& bits, Dtype dtype, std::size_t index) {
  if (dtype == Dtype::fp32) {
    float value = 0;
    std::memcpy(&value, bits.data() + 4 * index, 4);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bits.data() + 2 * index, 2);
  return dtype == Dtype::bf16 ? from_bf16(half) : from_fp16(half);
}

}  // namespace

TEST_CASE("bf16 keeps 8 significant bits and rounds to even") {
  CHECK(to_bf16(1.0F) == 0x3f80);
  CHECK(from_bf16(to_bf16(256.0F)) == 256.0F);
  // 257 lies between 256 and 258: the tie goes to the even fraction, 256; 259 to 260.
  CHECK(from_bf16(to_bf16(257.0F)) == 256.0F);
  CHECK(from_bf16(to_bf16(259.0F)) == 260.0F);
  CHECK(std::isnan(from_bf16(to_bf16(std::nanf("")))));
}

TEST_CASE("fp16 conversions agree for every bit pattern") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = from_fp16(pattern);
    if (std::isnan(value)) continue;
    REQUIRE(to_fp16(value) == pattern);
  }
  CHECK(from_fp16(0x3c00) == 1.0F);
  CHECK(from_fp16(to_fp16(2049.0F)) == 2048.0F);  // 11 significant bits, tie to even
  CHECK(std::isinf(from_fp16(to_fp16(65520.0F))));
}

TEST_CASE("extents follow the sizes of nccl-tests") {
  // 4 ranks, 1024 bytes of bf16 are 512 elements, 128 a rank where blocks are made.
  const auto extent = [](Collective collective) { return extent_of({collective, Dtype::bf16, 1024, false}, 4); };
  CHECK(extent(Collective::all_reduce).count == 512);
  CHECK(extent(Collective::all_gather).count == 128);
  CHECK(extent(Collective::all_gather).send == 128);
  CHECK(extent(Collective::all_gather).receive == 512);
  CHECK(extent(Collective::reduce_scatter).send == 512);
  CHECK(extent(Collective::reduce_scatter).receive == 128);
  CHECK(extent(Collective::all_to_all).count == 128);
  CHECK(extent(Collective::all_to_all).send == 512);
  CHECK(extent(Collective::send_recv).count == 512);
}

TEST_CASE("blocks are rounded down to sixteen bytes a rank") {
  CHECK(shareable_bytes(Collective::all_gather, 1024, 3) == 1008);  // 21 * 48
  CHECK(shareable_bytes(Collective::all_reduce, 1000, 3) == 992);
  CHECK(shareable_bytes(Collective::all_to_all, 1024, 128) == 0);
}

TEST_CASE("no rank allocates more than its part") {
  const std::size_t two_gib = std::size_t{2} << 30;
  // All-gather of 2 GiB over 8 ranks: 256 MiB go out, 2 GiB come in; in place one buffer is enough.
  const BufferSizes gather = buffers_of({Collective::all_gather, Dtype::bf16, two_gib, false}, 8);
  CHECK(gather.send == two_gib / 8);
  CHECK(gather.receive == two_gib);
  const BufferSizes in_place = buffers_of({Collective::reduce_scatter, Dtype::bf16, two_gib, true}, 8);
  CHECK(in_place.send == 0);
  CHECK(in_place.receive == two_gib);
}

TEST_CASE("sums of the inputs are exact in every type") {
  for (const DtypeRow& row : kDtypes) {
    CAPTURE(std::string(row.name));
    for (const int ranks : {1, 2, 3, 8, 100, 256}) {
      CAPTURE(ranks);
      Payload payload(row.dtype, ranks, 7);
      std::vector<std::vector<std::byte>> tiles;
      for (int rank = 0; rank < ranks; ++rank) tiles.push_back(payload.tile(rank));
      const std::vector<std::byte>& sum = payload.sum_tile();
      bool varied = false;
      for (std::size_t i = 0; i < 2000; ++i) {
        float total = 0;
        for (const auto& tile : tiles) total += element(tile, row.dtype, i);
        REQUIRE(std::abs(total) <= 256);
        REQUIRE(element(sum, row.dtype, i) == total);
        varied = varied || total != 0;
      }
      CHECK(varied);
    }
  }
}

TEST_CASE("ranks and seeds have different data") {
  const Payload payload(Dtype::fp32, 4, 1);
  CHECK(payload.tile(0) != payload.tile(1));
  CHECK(payload.tile(0) != Payload(Dtype::fp32, 4, 2).tile(0));
}

TEST_CASE("the tiled check sees a single wrong element and a shifted block") {
  const Payload payload(Dtype::bf16, 2, 3);
  const std::vector<std::byte> tile = payload.tile(0);
  std::vector<std::byte> buffer(2 * (3 * kTile + 17));  // over three tiles, not a multiple
  write_tiled(buffer, tile, 2, 1000);
  CHECK(differing(buffer, tile, 2, 1000) == 0);
  buffer[2 * (2 * kTile)] ^= std::byte{1};
  CHECK(differing(buffer, tile, 2, 1000) == 1);
  CHECK(differing(buffer, tile, 2, 1001) > kTile);
}

TEST_CASE("expected results are formulas of the rank") {
  // 3 ranks, 96 elements of fp32, blocks of 32.
  const auto of = [](Collective collective, int rank) {
    return expected_result({collective, Dtype::fp32, 384, false}, rank, 3);
  };
  CHECK(of(Collective::all_reduce, 1).front().tile_of == -1);
  CHECK(of(Collective::reduce_scatter, 2).front().first == 64);
  CHECK(of(Collective::broadcast, 2).front().tile_of == 0);
  CHECK(of(Collective::send_recv, 0).front().tile_of == 2);
  const auto gathered = of(Collective::all_gather, 1);
  REQUIRE(gathered.size() == 3);
  CHECK(gathered[2].at == 64);
  CHECK(gathered[2].tile_of == 2);
  CHECK(gathered[2].first == 0);
  const auto exchanged = of(Collective::all_to_all, 1);
  CHECK(exchanged[2].at == 64);
  CHECK(exchanged[2].first == 32);
}

TEST_CASE("growing sums are refreshed before they overflow") {
  // fp16 of 8 ranks: 256, 2048, 16384, then 131072 is too large: 3 operations.
  CHECK(repeats_in_range(Dtype::fp16, 8) == 3);
  // 2 ranks: 256 to 32768 are 8 operations.
  CHECK(repeats_in_range(Dtype::fp16, 2) == 8);
  CHECK(repeats_in_range(Dtype::bf16, 2) > 100);
}
