// The micro-kernel of GEMMs and of convolutions that are not depthwise. The micro-kernel multiplies kTileRows rows of
// the left operand, which are read in place, by a panel: up to kTileVectors vectors of columns of the right operand,
// packed so that each row is contiguous. The sums stay in registers.
#ifndef EDGECORE_KERNELS_TILE_H_
#define EDGECORE_KERNELS_TILE_H_

#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Size of a tile (rows x vectors of sums). The number of vector registers limits the size, because the registers hold
// the sums, one row of the panel, and one broadcast element of the left operand: 8 * 3 + 3 + 1 = 28 of 32 registers, or
// 4 * 3 + 3 + 1 = 16 of 16. A sum in memory instead of a register would cost a load and a store per step.
//
// 64-bit Arm can multiply a vector by one element of another vector, so a vector of each row of the left operand is
// loaded for several steps. This needs 8 * 2 + 2 + 8 = 26 of 32 registers, and 1.3 instructions per multiplication of
// two vectors. A tile of 8 x 3 with a broadcast load for each element would need 1.6.
#if defined(__aarch64__)
constexpr bool kMultipliesByElement = true;
constexpr int kTileVectors = 2;
#else
constexpr bool kMultipliesByElement = false;
constexpr int kTileVectors = 3;
#endif
constexpr int kTileRows = kVectorRegisters >= 32 ? 8 : kVectorRegisters >= 16 ? 4 : 2;
template <class C>
constexpr int64_t kPanel = kTileVectors * kLanes<C>;  // maximum number of columns in a packed panel

// The result of a GEMM: element (i, j) is data[i * row_step + j * column_step].
template <class C>
struct GemmResult {
  C *data;
  int64_t row_step;
  int64_t column_step = 1;
  const C *row_bias = nullptr;     // one number for each row, added to its elements; ignored if there is a column_bias
  const C *column_bias = nullptr;  // one number for each column, added to its elements; used only if column_step is 1
  C alpha = 1;                     // factor by which the product is scaled before the bias is added
  bool add = false;                // true: add the product to the old elements of `data`, without a bias

  GemmResult at(int64_t row, int64_t column) const {
    GemmResult r = *this;
    r.data += row * row_step + column * column_step;
    if (row_bias != nullptr) r.row_bias += row;
    if (column_bias != nullptr) r.column_bias += column;
    return r;
  }
};

// Splits the n columns of the right operand into panels of whole vectors. The widths of the panels are nearly equal,
// because a narrow last panel would use few registers.
template <class C>
struct Panels {
  int64_t columns, vectors, count;
  explicit Panels(int64_t n)
      : columns(n), vectors((n + kLanes<C> - 1) / kLanes<C>), count((vectors + kTileVectors - 1) / kTileVectors) {}
  int64_t begin(int64_t i) const { return min_of(columns, vectors * i / count * kLanes<C>); }
  int64_t width(int64_t i) const { return (vectors * (i + 1) / count - vectors * i / count) * kLanes<C>; }
};

// A packed panel (some columns) of the right operand. Its rows are `step` elements apart.
template <class C>
struct Panel {
  const C *data;
  int64_t step;
};

// Calls f(Vectors<n>()), where n is the number of vectors of a panel, 1 to kTileVectors, so that f gets n as a
// compile-time constant.
template <int kNumber>
struct Vectors {
  static constexpr int kCount = kNumber;
};
template <int kMax = kTileVectors, class F>
inline void with_vectors(int64_t n, const F &f) {
  if constexpr (kMax > 1) {
    if (n < kMax) return with_vectors<kMax - 1>(n, f);
  }
  f(Vectors<kMax>());
}

// Computes block[kTileRows][kVectors * lanes], the product of kTileRows rows and a panel. Each sum has runs * k terms,
// where a run is k terms with adjacent elements. A GEMM has one run; a convolution has one run for each tap of its
// kernel, because each tap reads inputs at another address. rows[t * kTileRows + i] is the address of run t of row i, k
// elements. The panel has runs * k rows of kVectors * lanes elements.
template <class C, int kVectors>
inline void accumulate_tile(const C *const *rows, int64_t runs, int64_t k, Panel<C> panel, C *block) {
  constexpr int kWidth = kVectors * kLanes<C>;
  // Both loops that index `sums` have constant bounds and are unrolled: the compiler keeps the array in registers.
  Vector<C> sums[kTileRows][kVectors] = {};
  for (int64_t t = 0; t < runs; ++t, rows += kTileRows) {
    const C *row[kTileRows];
    for (int i = 0; i < kTileRows; ++i) row[i] = rows[i];
    int64_t rest = k;
    for (; kMultipliesByElement && rest >= kLanes<C>; rest -= kLanes<C>) {
      Vector<C> left[kTileRows];
      for (int i = 0; i < kTileRows; ++i) {
        left[i] = load_vector(row[i]);
        row[i] += kLanes<C>;
      }
      for (int l = 0; l < kLanes<C>; ++l, panel.data += panel.step) {
        Vector<C> right[kVectors];
        for (int j = 0; j < kVectors; ++j) right[j] = load_vector(panel.data + j * kLanes<C>);
        for (int i = 0; i < kTileRows; ++i) {
          for (int j = 0; j < kVectors; ++j) sums[i][j] += right[j] * left[i][l];
        }
      }
    }
    for (int64_t p = 0; p < rest; ++p, panel.data += panel.step) {
      Vector<C> right[kVectors];
      for (int j = 0; j < kVectors; ++j) right[j] = load_vector(panel.data + j * kLanes<C>);
      for (int i = 0; i < kTileRows; ++i) {
        const C left = row[i][p];
        for (int j = 0; j < kVectors; ++j) sums[i][j] += right[j] * left;
      }
    }
  }
  for (int i = 0; i < kTileRows; ++i) {
    for (int j = 0; j < kVectors; ++j) store_vector(block + i * kWidth + j * kLanes<C>, sums[i][j]);
  }
}

// Stores the first m x n elements of a block, whose rows have `width` elements, to the result: scales them by alpha,
// and adds the bias or, if result.add is true, the old value.
template <class C>
inline void finish_tile(const C *block, int64_t width, const GemmResult<C> &result, int64_t m, int64_t n) {
  // The inner loop runs along the dim of the result whose elements are adjacent in memory.
  if (result.column_step == 1) {
    for (int64_t i = 0; i < m; ++i) {
      const C *__restrict from = block + i * width;
      C *__restrict target = result.data + i * result.row_step;
      const C bias = result.row_bias != nullptr ? result.row_bias[i] : C{0};
      const C *column_bias = result.column_bias;
      if (result.add) {
        for (int64_t j = 0; j < n; ++j) target[j] += from[j] * result.alpha;
      } else if (column_bias != nullptr) {
        for (int64_t j = 0; j < n; ++j) target[j] = from[j] * result.alpha + column_bias[j];
      } else {
        for (int64_t j = 0; j < n; ++j) target[j] = from[j] * result.alpha + bias;
      }
    }
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    C *target = result.data + j * result.column_step;
    for (int64_t i = 0; i < m; ++i) {
      const C value = block[i * width + j] * result.alpha;
      C &element = target[i * result.row_step];
      element = result.add ? element + value : result.row_bias != nullptr ? value + result.row_bias[i] : value;
    }
  }
}

// Computes result[m, n], the product of m <= kTileRows rows and a panel of `width` >= n columns, a multiple of the
// vector length. `rows`, `runs` and `k` have the meaning of accumulate_tile.
template <class C>
inline void multiply_panel(const C *const *rows, int64_t runs, int64_t k, Panel<C> panel, int64_t width,
                           const GemmResult<C> &result, int64_t m, int64_t n) {
  alignas(64) C block[kTileRows * kPanel<C>];
  with_vectors(width / kLanes<C>,
               [&](auto vectors) { accumulate_tile<C, vectors.kCount>(rows, runs, k, panel, block); });
  finish_tile(block, width, result, m, n);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_TILE_H_
