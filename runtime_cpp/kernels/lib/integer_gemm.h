// Multiplies matrices of int8 weights (left) by matrices of int8 or int16 values (right) on all threads. Sums have 32
// bits for int8 values, 64 for int16. The right operand is copied into panels of a few columns. A panel consists of
// pairs of int16: element (k, j) is half k % 2 of pair (k / 2, j). With MVE, a panel consists of contiguous columns of
// single values instead.
#ifndef EDGECORE_KERNELS_INTEGER_GEMM_H_
#define EDGECORE_KERNELS_INTEGER_GEMM_H_

#include "lib/call.h"
#include "lib/integer_vector.h"
#include "lib/tile.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

#if defined(EDGECORE_MVE)
template <class Value>
using Packed = Value;
constexpr int64_t kIntegerRows = 4;
constexpr int64_t kIntegerPanel = 8;  // number of columns of the right operand in a packed panel
#else
template <class Value>
using Packed = int16_t;
constexpr int64_t kIntegerRows = kTileRows;
constexpr int64_t kIntegerPanel = kTileVectors * kSumLanes;  // maximum number of columns in a packed panel
// number of weights of a row that are widened to int16 at a time; must be even
constexpr int64_t kIntegerDepth = kVectorBytes >= 32 ? 256 : 64;
static_assert(kIntegerDepth <= kBlockOfProducts);
#endif

// Splits the n columns of the right operand into panels (groups of columns that are packed and multiplied together).
#if defined(EDGECORE_MVE)
struct IntegerPanels {
  int64_t columns, count;
  explicit IntegerPanels(int64_t n) : columns(n), count((n + kIntegerPanel - 1) / kIntegerPanel) {}
  int64_t begin(int64_t i) const { return i * kIntegerPanel; }
  int64_t width(int64_t) const { return kIntegerPanel; }
};
#else
using IntegerPanels = Panels<int32_t>;
#endif

// Returns the number of elements that a packed panel of k rows has in memory.
template <class Value>
constexpr int64_t packed_size(int64_t k) {
  constexpr int64_t kSize = sizeof(Packed<Value>);
  return round_up((kSize == 1 ? k : (k + 1) / 2 * 2) * kIntegerPanel, 64 / kSize);
}

// The left operand, a matrix of int8 weights. Its rows are `step` elements apart.
struct Int8Left {
  const int8_t *data;
  int64_t step;
};

#if defined(EDGECORE_MVE)
// Computes block[kIntegerRows][width], the product of m <= kIntegerRows rows of weights and a panel (packed columns).
template <class Value>
inline void multiply_weight_rows(Int8Left left, int64_t m, int64_t k, const Value *panel, int64_t width,
                                 SumOf<Value> *block) {
  const auto depth = static_cast<int32_t>(k);
  const int8_t *rows[kIntegerRows];
  for (int64_t i = 0; i < kIntegerRows; ++i) rows[i] = left.data + min_of(i, m - 1) * left.step;
  for (int64_t j = 0; j < width; ++j) mve_dot4(rows, panel + j * depth, depth, block + j, static_cast<int32_t>(width));
}

// Packs a right operand [k, columns], whose rows are `step` elements apart, as a panel (packed columns).
template <class Value>
inline void pack_rows(const Value *rows, int64_t step, int64_t k, int64_t columns, int64_t, Value *target) {
  constexpr int64_t kMaxStep = (1 << 16) / kIntegerPanel;  // mve_transpose has 16 bits for the offset of a column
  if (k < kMaxStep) {
    mve_transpose(rows, static_cast<int32_t>(step), static_cast<int32_t>(k), static_cast<int32_t>(columns), target,
                  static_cast<int32_t>(k));
    return;
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < columns; ++j) target[j * k + i] = rows[i * step + j];
  }
}

// Packs a right operand as a panel (packed columns): line(i, memory) returns its row i, and may write it to `memory`.
template <class Value, class Line>
inline void pack_lines(int64_t k, int64_t columns, int64_t, const Line &line, Value *target) {
  Value memory[kIntegerPanel];
  const auto step = static_cast<ptrdiff_t>(k);
  for (int64_t i = 0; i < k; ++i, ++target) {
    const Value *row = line(i, memory);
    Value *to = target;
    for (const Value *end = row + columns; row != end; to += step) *to = *row++;
  }
}

// Packs a right operand as a panel. The operand's columns are contiguous, and `step` elements apart.
template <class Value>
inline void pack_columns(const Value *columns, int64_t step, int64_t k, int64_t count, int64_t, Value *target) {
  const size_t bytes = static_cast<size_t>(k) * sizeof(Value);
  for (int64_t j = 0; j < count; ++j) __builtin_memcpy(target + j * k, columns + j * step, bytes);
}
#else
// Multiplies kIntegerRows rows of `left`, kIntegerDepth elements apart, by a panel (packed columns), and adds the
// product to block[kIntegerRows][kVectors * lanes]. Each row and each column has `pairs` pairs of int16.
template <int kVectors>
inline void add_integer_tile(const int16_t *left, int64_t pairs, const int16_t *panel, int32_t *block) {
  constexpr int kWidth = kVectors * kSumLanes;
  Sums sums[kIntegerRows][kVectors];
  EDGECORE_UNROLL for (int i = 0; i < kIntegerRows; ++i) {
    EDGECORE_UNROLL for (int j = 0; j < kVectors; ++j) sums[i][j] = load_vector(block + i * kWidth + j * kSumLanes);
  }
  for (const int16_t *end = left + 2 * pairs; left != end; left += 2, panel += 2 * kWidth) {
    Sums right[kVectors];
    EDGECORE_UNROLL for (int j = 0; j < kVectors; ++j) {
      __builtin_memcpy(&right[j], panel + 2 * j * kSumLanes, sizeof(Sums));
    }
    EDGECORE_UNROLL for (int i = 0; i < kIntegerRows; ++i) {
      // one pair of int16 of the left operand, repeated in all lanes
      const Sums pair = load_pair(left + i * kIntegerDepth) - Sums{};
      EDGECORE_UNROLL for (int j = 0; j < kVectors; ++j) sums[i][j] = add_products(sums[i][j], pair, right[j]);
    }
  }
  EDGECORE_UNROLL for (int i = 0; i < kIntegerRows; ++i) {
    EDGECORE_UNROLL for (int j = 0; j < kVectors; ++j) store_vector(block + i * kWidth + j * kSumLanes, sums[i][j]);
  }
}

// Computes block[kIntegerRows][width], the product of m <= kIntegerRows rows of weights and a panel of `width` columns.
template <class Value>
inline void multiply_weight_rows(Int8Left left, int64_t m, int64_t k, const int16_t *panel, int64_t width,
                                 SumOf<Value> *block) {
  int16_t wide[kIntegerRows * kIntegerDepth];
  __builtin_memset(block, 0, static_cast<size_t>(kIntegerRows * width) * sizeof(*block));
  for (int64_t k0 = 0; k0 < k; k0 += kIntegerDepth) {
    const int64_t steps = min_of(kIntegerDepth, k - k0);
    for (int64_t i = 0; i < kIntegerRows; ++i) {
      const int8_t *row = left.data + min_of(i, m - 1) * left.step + k0;
      int16_t *target = wide + i * kIntegerDepth;
      int64_t p = 0;
      for (; p + 16 <= steps; p += 16) widen_block<16>(row + p, target + p);
      for (; p + 4 <= steps; p += 4) widen_block<4>(row + p, target + p);
      for (; p < steps; ++p) target[p] = row[p];
      if (steps % 2 != 0) target[steps] = 0;
    }
    with_vectors(width / kSumLanes, [&](auto vectors) {
      if constexpr (sizeof(Value) == 1) {
        add_integer_tile<vectors.kCount>(wide, (steps + 1) / 2, panel + k0 * width, block);
      } else {
        alignas(64) int32_t tile[kIntegerRows * vectors.kCount * kSumLanes] = {};
        add_integer_tile<vectors.kCount>(wide, (steps + 1) / 2, panel + k0 * width, tile);
        for (int i = 0; i < kIntegerRows * vectors.kCount * kSumLanes; ++i) block[i] += tile[i];
      }
    });
  }
}

// Interleaves n elements of two rows to pairs, which form one row of a panel, and fills the last vector with zeros. A
// `second` that is NULL stands for a row of zeros.
template <class Value>
inline void pack_pairs(const Value *first, const Value *second, int64_t n, int16_t *target) {
  const auto pack = [](const Value *low, const Value *high, int16_t *to) {
    const Sums high_half = high != nullptr ? widen(high) << 16 : Sums{};
    store_vector(reinterpret_cast<int32_t *>(to), (widen(low) & 0xffff) | high_half);
  };
  for (; n >= kSumLanes; n -= kSumLanes, target += 2 * kSumLanes) {
    pack(first, second, target);
    first += kSumLanes;
    if (second != nullptr) second += kSumLanes;
  }
  if (n == 0) return;
  Value rest[2][kSumLanes] = {};
  for (int64_t j = 0; j < n; ++j) rest[0][j] = first[j];
  for (int64_t j = 0; j < n && second != nullptr; ++j) rest[1][j] = second[j];
  pack(rest[0], rest[1], target);
}

// Packs a right operand as a panel (packed columns): line(i, memory) returns its row i, and may write it to `memory`.
template <class Value, class Line>
inline void pack_lines(int64_t k, int64_t columns, int64_t width, const Line &line, int16_t *target) {
  Value memory[2][kIntegerPanel];
  for (int64_t i = 0; i < k; i += 2, target += 2 * width) {
    const Value *first = line(i, memory[0]);
    pack_pairs<Value>(first, i + 1 < k ? line(i + 1, memory[1]) : nullptr, columns, target);
  }
}

// Packs a right operand [k, columns], whose rows are `step` elements apart, as a panel (packed columns).
template <class Value>
inline void pack_rows(const Value *rows, int64_t step, int64_t k, int64_t columns, int64_t width, int16_t *target) {
  pack_lines<Value>(
      k, columns, width, [&](int64_t i, Value *) { return rows + i * step; }, target);
}

// Packs a right operand as a panel. The operand's columns are contiguous, and `step` elements apart.
template <class Value>
inline void pack_columns(const Value *columns, int64_t step, int64_t k, int64_t count, int64_t width, int16_t *target) {
  for (int64_t i = 0; i < k; i += 2, target += 2 * width) {
    for (int64_t j = 0; j < width; ++j) {
      const Value *pair = columns + j * step + i;
      target[2 * j] = j < count ? pair[0] : int16_t{0};
      target[2 * j + 1] = j < count && i + 1 < k ? pair[1] : int16_t{0};
    }
  }
}
#endif

// Computes `count` products of a left operand [m, k] and a right operand [k, n].
//
// left(i) returns the left operand of product i. pack(i, column, columns, width, target) packs `columns` columns of the
// right operand of product i, from `column` on, into a panel of `width` columns. finish(i, row, rows, column, columns,
// block, width) receives in `block` the sums of a `rows` x `columns` tile of result i that begins at (row, column);
// rows of `block` are `width` elements apart.
template <class Value, class Left, class Pack, class Finish>
void integer_gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, const Left &left, const Pack &pack,
                  const Finish &finish) {
  if (call.failed() || count <= 0 || m <= 0 || n <= 0) return;
  const IntegerPanels panels(n);
  const int64_t workers = call.worker_count();
  const int64_t part = packed_size<Value>(k);
  Packed<Value> *memory = call.scratch<Packed<Value>>(part * workers);
  if (memory == nullptr) return;
  // If there are too few panels for the threads, also split the rows; each task then packs its panel itself.
  const int64_t wanted = max_of(1, 4 * workers / (count * panels.count));
  const int64_t splits = workers == 1 ? 1 : min_of(wanted, max_of(1, m / 64));
  const int64_t rows_of_task = round_up((m + splits - 1) / splits, kIntegerRows);
  const int64_t grain = 65536 / (rows_of_task * k * kIntegerPanel + 1) + 1;
  call.parallel(count * panels.count * splits, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    Packed<Value> *panel = memory + worker * part;
    alignas(64) SumOf<Value> block[kIntegerRows * kIntegerPanel];
    int64_t packed = -1;  // index of the panel that is packed in `panel`
    for (int64_t task = begin; task < end; ++task) {
      const int64_t at = task / splits;
      const int64_t i = at / panels.count;
      const int64_t column = panels.begin(at % panels.count);
      const int64_t width = panels.width(at % panels.count);
      const int64_t columns = min_of(width, n - column);
      if (packed != at) pack(i, column, columns, width, panel);
      packed = at;
      const Int8Left rows = left(i);
      const int64_t first = task % splits * rows_of_task;
      for (int64_t row = first; row < min_of(m, first + rows_of_task); row += kIntegerRows) {
        const int64_t height = min_of(kIntegerRows, m - row);
        multiply_weight_rows<Value>({rows.data + row * rows.step, rows.step}, height, k, panel, width, block);
        finish(i, row, height, column, columns, block, width);
      }
    }
  });
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_GEMM_H_
