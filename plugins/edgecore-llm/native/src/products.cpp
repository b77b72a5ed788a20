// Products of input rows with packed matrices, compiled once for each instruction set.
#include <math.h>

#include <utility>

#include "functions.h"
#include "simd.h"
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
#include "products_avx2.h"
#endif

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

constexpr int64_t kRoundedBytes = 512 * 1024;  // bytes of rounded inputs that fit into the L2 cache beside the weights

// Multiplying a single row takes as long as reading its weights, and a core reads several streams faster than one.
// Streams of adjacent tiles must be long: on Zen 4, 8 tiles at once take 0.71 of the time of 8 tiles one after the
// other with 8,192 inputs (72 KiB a tile), 0.91 with 2,048 (18 KiB), and 1.1 with 1,536 (13.5 KiB).
constexpr int64_t kStreamBytes = 16 * 1024;

// Adds the products of one block of weights and kCount rows of inputs, the groups of x from `at` on, to the totals of
// these rows.
template <class Block, int kCount>
inline void add_block(const Block &block, const RoundedRows &x, int64_t at, Floats (&totals)[kCount]) {
  constexpr int kLines = sizeof(block.lines) / kLineBytes;
  Line weights[8];
  for (int j = 0; j < kLines; ++j) {
    const Line line = load_line(block.lines[j]);
    if constexpr (Block::kBits == 4) {
      weights[j] = low_halves(line);
      weights[j + kLines] = high_halves(line);
    } else {
      weights[j] = byte_values(line);
    }
  }
  const Floats scales = load_scales(block.scales);
#pragma GCC unroll 16
  for (int r = 0; r < kCount; ++r) {
    const int8_t *values = x.values + (at + r) * kGroup;
    Sums sums = fill(x.starts[at + r]);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sums = add_products<Block::kBits>(sums, weights[j], values + 4 * j);
    totals[r] = add_scaled(totals[r], sums, scales, x.scales[at + r]);
  }
}

template <class Block>
inline void prefetch(const Block &block) {
  const char *bytes = reinterpret_cast<const char *>(&block);
  for (size_t i = 0; i < sizeof(Block); i += kLineBytes) __builtin_prefetch(bytes + i);
}

// Multiplies kCount rows of inputs by kTiles tiles of a packed matrix, of 16 outputs each: `tile` and every `step`th
// tile after it.
template <class Block, int kTiles, int kCount>
void multiply_tiles(const RoundedRows &x, int64_t row, const PackedMatrix &w, int64_t tile, int64_t step, float *y) {
  const Block *blocks = reinterpret_cast<const Block *>(w.data) + tile * w.groups;
  const RoundedRows rows = x;  // a copy, whose members the compiler keeps in registers
  const int64_t first = row * x.groups;
  Floats totals[kTiles][kCount];
  for (auto &of_tile : totals) {
    for (Floats &total : of_tile) total = zero();
  }
  for (int64_t g = 0; g < w.groups; ++g) {
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t) {
      const Block *block = blocks + t * step * w.groups + g;
      if constexpr (kCount == 1 && kBytesAhead > 0) prefetch(block[kBytesAhead / sizeof(Block)]);
      add_block(*block, rows, first + g * kCount, totals[t]);
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    const int64_t column = (tile + t * step) * kBlockOutputs;
    for (int r = 0; r < kCount; ++r) {
      store(y + (row + r) * w.outputs + column, totals[t][r], w.outputs - column);
    }
  }
}

// Multiplies a single row by tiles [begin, end), kTilesOfRow at once, and returns the first tile that is left.
template <class Block>
int64_t multiply_row(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y) {
  if constexpr (kAreTilesApart) {
    const int64_t step = (end - begin) / kTilesOfRow;
    for (int64_t t = 0; t < step; ++t) multiply_tiles<Block, kTilesOfRow, 1>(x, 0, w, begin + t, step, y);
    return begin + step * kTilesOfRow;
  }
  if (w.groups * static_cast<int64_t>(sizeof(Block)) < kStreamBytes) return begin;
  for (; begin + kTilesOfRow <= end; begin += kTilesOfRow) multiply_tiles<Block, kTilesOfRow, 1>(x, 0, w, begin, 1, y);
  return begin;
}

using TileFunction = void (*)(const RoundedRows &, int64_t, const PackedMatrix &, int64_t, int64_t, float *);

template <class Block, int... kCounts>
TileFunction tile_function(int64_t rows, std::integer_sequence<int, kCounts...>) {
  constexpr TileFunction functions[] = {multiply_tiles<Block, 1, kCounts + 1>...};
  return functions[rows - 1];
}

template <class Block>
void multiply_blocks(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y) {
  const auto counts = std::make_integer_sequence<int, kRows>();
  if (x.rows == 1) begin = multiply_row<Block>(x, w, begin, end, y);
  const int64_t fit = kRoundedBytes / (x.groups * kGroup) / kRows * kRows;
  const int64_t part = fit < kRows ? kRows : fit;
  for (int64_t first = 0; first < x.rows; first += part) {
    const int64_t last = x.rows - first < part ? x.rows : first + part;
    for (int64_t tile = begin; tile < end; ++tile) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
      if (Block::kBits == 4 && last - first > kRows) {
        multiply_many(x, first, last, w, tile, y);
        continue;
      }
#endif
      for (int64_t row = first; row < last; row += kRows) {
        const int64_t count = last - row < kRows ? last - row : kRows;
        tile_function<Block>(count, counts)(x, row, w, tile, 0, y);
      }
    }
  }
}

}  // namespace

int32_t offset(int bits) { return bits == 4 ? Block4::kOffset : kOffsetOfBytes; }

void round_rows(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out) {
  for (int64_t row = begin; row < end; ++row) {
    // The groups of a tile's input rows are stored group by group, not row by row; see RoundedRows.
    const int64_t first = row / kRows * kRows;
    const int64_t count = out.rows - first < kRows ? out.rows - first : kRows;
    for (int64_t g = 0; g < out.groups; ++g) {
      const int64_t at = first * out.groups + g * count + row - first;
      const int64_t left = inputs - g * kGroup;
      round_group(x + row * inputs + g * kGroup, left < kGroup ? left : kGroup, offset, out.values + at * kGroup,
                  out.scales + at, out.starts + at);
    }
  }
}

void multiply(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y) {
  if (w.bits == 4) {
    multiply_blocks<Block4>(x, w, begin, end, y);
  } else {
    multiply_blocks<Block8>(x, w, begin, end, y);
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm
