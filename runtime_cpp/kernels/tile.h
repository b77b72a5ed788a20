// The register tile of every matrix product: a few rows of the left operand, read where they are, times a packed panel
// of a few vectors of the right one.
#ifndef EDGECORE_KERNELS_TILE_H_
#define EDGECORE_KERNELS_TILE_H_

#include "vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Accumulators, the panel's vectors and one broadcast fit the registers.
constexpr int kTileRows = kVectorRegisters >= 32 ? 8 : 4;
constexpr int kTileVectors = 3;
template <class C>
constexpr int64_t kPanel = kTileVectors * kLanes<C>;  // most columns of a panel

// Where a product goes: element (i, j) at data[i * row_step + j * column_step].
template <class C>
struct Result {
  C *data;
  int64_t row_step;
  int64_t column_step = 1;
  const C *row_bias = nullptr;     // added, one for each row
  const C *column_bias = nullptr;  // added, one for each column
  C alpha = 1;
  bool add = false;  // to what is there

  Result at(int64_t row, int64_t column) const {
    Result r = *this;
    r.data += row * row_step + column * column_step;
    if (row_bias != nullptr) r.row_bias += row;
    if (column_bias != nullptr) r.column_bias += column;
    return r;
  }
};

// The panels that n columns are cut into, as equal as whole vectors allow.
template <class C>
struct Panels {
  int64_t columns, vectors, count;
  explicit Panels(int64_t n)
      : columns(n), vectors((n + kLanes<C> - 1) / kLanes<C>), count((vectors + kTileVectors - 1) / kTileVectors) {}
  int64_t begin(int64_t i) const { return min_of(columns, vectors * i / count * kLanes<C>); }
  int64_t width(int64_t i) const { return (vectors * (i + 1) / count - vectors * i / count) * kLanes<C>; }
};

// result[kTileRows, kVectors * lanes] (of which m x n exist) from `runs` runs of k products: run t of row i is
// rows[t * kTileRows + i][0..k), and `panel` is [runs * k, kVectors * lanes].
template <class C, int kVectors>
inline void multiply_tile(const C *const *rows, int64_t runs, int64_t k, const C *panel, const Result<C> &result,
                          int64_t m, int64_t n) {
  constexpr int kWidth = kVectors * kLanes<C>;
  Vector<C> sums[kTileRows][kVectors] = {};
  for (int64_t t = 0; t < runs; ++t, rows += kTileRows) {
    const C *row[kTileRows];
    for (int i = 0; i < kTileRows; ++i) row[i] = rows[i];
    for (int64_t p = 0; p < k; ++p, panel += kWidth) {
      Vector<C> right[kVectors];
      for (int j = 0; j < kVectors; ++j) right[j] = load_vector(panel + j * kLanes<C>);
      for (int i = 0; i < kTileRows; ++i) {
        const C left = row[i][p];
        for (int j = 0; j < kVectors; ++j) sums[i][j] += right[j] * left;
      }
    }
  }
  if (result.alpha != C{1}) {
    for (int i = 0; i < kTileRows; ++i) {
      for (int j = 0; j < kVectors; ++j) sums[i][j] *= result.alpha;
    }
  }
  const bool whole = m == kTileRows && n == kWidth && result.column_step == 1;
  if (whole) {
    for (int i = 0; i < kTileRows; ++i) {
      C *target = result.data + i * result.row_step;
      const C bias = result.row_bias != nullptr ? result.row_bias[i] : C{0};
      for (int j = 0; j < kVectors; ++j) {
        Vector<C> value = sums[i][j] + bias;
        if (result.column_bias != nullptr) value += load_vector(result.column_bias + j * kLanes<C>);
        if (result.add) value += load_vector(target + j * kLanes<C>);
        store_vector(target + j * kLanes<C>, value);
      }
    }
    return;
  }
  C block[kTileRows][kWidth];
  for (int i = 0; i < kTileRows; ++i) {
    const C bias = result.row_bias != nullptr && i < m ? result.row_bias[i] : C{0};
    for (int j = 0; j < kVectors; ++j) store_vector(&block[i][j * kLanes<C>], sums[i][j] + bias);
  }
  // The inner loop goes along the step of one element, if there is one.
  if (result.column_step == 1) {
    for (int64_t i = 0; i < m; ++i) {
      C *target = result.data + i * result.row_step;
      for (int64_t j = 0; j < n; ++j) {
        C value = block[i][j];
        if (result.column_bias != nullptr) value += result.column_bias[j];
        target[j] = result.add ? target[j] + value : value;
      }
    }
  } else {
    for (int64_t j = 0; j < n; ++j) {
      C *target = result.data + j * result.column_step;
      const C bias = result.column_bias != nullptr ? result.column_bias[j] : C{0};
      for (int64_t i = 0; i < m; ++i) {
        C &to = target[i * result.row_step];
        to = result.add ? to + block[i][j] + bias : block[i][j] + bias;
      }
    }
  }
}

// The same for a panel of `width` columns, a multiple of the lanes.
template <class C>
inline void multiply_panel(const C *const *rows, int64_t runs, int64_t k, const C *panel, int64_t width,
                           const Result<C> &result, int64_t m, int64_t n) {
  static_assert(kTileVectors == 3, "one case each");
  if (width == 3 * kLanes<C>) {
    multiply_tile<C, 3>(rows, runs, k, panel, result, m, n);
  } else if (width == 2 * kLanes<C>) {
    multiply_tile<C, 2>(rows, runs, k, panel, result, m, n);
  } else {
    multiply_tile<C, 1>(rows, runs, k, panel, result, m, n);
  }
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_TILE_H_
