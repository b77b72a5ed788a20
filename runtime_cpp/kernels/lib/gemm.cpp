#include "lib/gemm.h"

#include "lib/packed_gemm.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Packs n columns of a right operand as a panel of `width` columns, whose rows are contiguous. The operand is stored
// transposed: its columns are rows of `source`, `ld` elements apart. Works on 16 elements of each column at a time, so
// that reads and writes touch only a few cache lines.
template <class C>
Panel<C> pack_columns(const C *source, int64_t ld, int64_t depth, int64_t n, int64_t width, C *target) {
  constexpr int64_t kSide = 16;
  for (int64_t p0 = 0; p0 < depth; p0 += kSide) {
    const int64_t p1 = min_of(depth, p0 + kSide);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = p0; p < p1; ++p) target[p * width + j] = source[j * ld + p];
    }
    for (int64_t p = p0; n < width && p < p1; ++p) {
      for (int64_t j = n; j < width; ++j) target[p * width + j] = 0;
    }
  }
  return {target, width};
}

// Computes a dot product of n elements. Uses four vectors of partial sums, because with a single one each addition
// would wait for the result of the previous one.
template <class C>
C dot(const C *a, const C *b, int64_t n) {
  constexpr int64_t kChains = 4;
  Vector<C> sums[kChains] = {};
  int64_t i = 0;
  for (; i + kChains * kLanes<C> <= n; i += kChains * kLanes<C>) {
    for (int64_t s = 0; s < kChains; ++s) {
      sums[s] += load_vector(a + i + s * kLanes<C>) * load_vector(b + i + s * kLanes<C>);
    }
  }
  const Vector<C> total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  C sum{0};
  for (int l = 0; l < kLanes<C>; ++l) sum += total[l];
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Multiplies one row `a` by a transposed matrix: c[j] is the dot product of `a` and row j of `right`. `right` is not
// packed: each of its elements is used only once, so packing would cost more memory traffic than the product itself.
template <class C>
void row_times_rows(Call &call, int64_t n, int64_t k, C alpha, const C *a, const C *right, int64_t ld, GemmOut<C> c) {
  call.parallel(n, 32768 / (k + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t j = begin; j < end; ++j) {
      const C value = alpha * dot(a, right + j * ld, k);
      c.data[j] = c.add ? c.data[j] + value : c.bias != nullptr ? c.bias[j] + value : value;
    }
  });
}

// Adds kSteps scaled rows of `right` to c: c[j] += factors[s] * right[s * ld + j] for each row s and j in [begin, end).
template <class C, int kSteps>
void add_rows(int64_t begin, int64_t end, const C *factors, const C *right, int64_t ld, C *c) {
  int64_t j = begin;
  for (; j + kLanes<C> <= end; j += kLanes<C>) {
    Vector<C> sum = load_vector(c + j);
    for (int s = 0; s < kSteps; ++s) sum += load_vector(right + s * ld + j) * factors[s];
    store_vector(c + j, sum);
  }
  for (; j < end; ++j) {
    for (int s = 0; s < kSteps; ++s) c[j] += right[s * ld + j] * factors[s];
  }
}

// Multiplies one row `a` by a matrix: c is the sum of the rows of `right`, scaled by the elements of `a`, so that
// `right` is read in the order of its memory. Four rows are added at a time, to load and store c less often.
template <class C>
void row_times_columns(Call &call, int64_t n, int64_t k, C alpha, const C *a, const C *right, int64_t ld,
                       GemmOut<C> c) {
  call.parallel(n, 32768 / (k + 1) + 64, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t j = begin; !c.add && j < end; ++j) c.data[j] = c.bias != nullptr ? c.bias[j] : C{0};
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const C factors[4] = {alpha * a[p], alpha * a[p + 1], alpha * a[p + 2], alpha * a[p + 3]};
      add_rows<C, 4>(begin, end, factors, right + p * ld, ld, c.data);
    }
    for (; p < k; ++p) {
      const C factor = alpha * a[p];
      add_rows<C, 1>(begin, end, &factor, right + p * ld, ld, c.data);
    }
  });
}

// A transposed right operand is packed if there are at least kManyRows rows and at most kShortSum terms per sum.
// Otherwise the result is written by columns. A product 64 x 64 x 256 took 1.27 times as long as in PyTorch if written
// by columns, and 0.97 times as long if packed (AMD Zen 3, one thread).
constexpr int64_t kManyRows = 16;
constexpr int64_t kShortSum = 128;

}  // namespace

template <class C>
bool gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, int64_t a_step, Matrix<C> b,
          int64_t b_step, GemmOut<C> c, int64_t c_step) {
  if (call.failed() || count <= 0 || m <= 0 || n <= 0) return !call.failed();
  // copy a transposed left operand (which is rare), because the micro-kernel reads the rows of the left operand in
  // place
  if (a.transposed) {
    C *copy = call.scratch<C>(count * m * k);
    if (copy == nullptr) return false;
    call.parallel(count * m, 16384 / (k + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t p = 0; p < k; ++p) copy[i * k + p] = a.data[i / m * a_step + p * a.ld + i % m];
      }
    });
    a = {copy, k, false};
    a_step = m * k;
  }
  if (m == 1 && count == 1) {
    const auto multiply_row = b.transposed ? &row_times_rows<C> : &row_times_columns<C>;
    multiply_row(call, n, k, alpha, a.data, b.data, b.ld, c);
    return true;
  }
  // Compute c = a b^T as c^T = b a^T: the rows of b are the left operand, and c is written by columns. Then b, the
  // weight of a linear layer, is read in place, and only a, which is usually smaller, is packed.
  if (b.transposed && (m < kManyRows || k > kShortSum)) {
    packed_gemm<C>(
        call, count, n, m, k,
        [&](int64_t i) {
          const GemmResult<C> result = {c.data + i * c_step, 1, n, c.bias, nullptr, alpha, c.add};
          return GemmOperands<C>{b.data + i * b_step, b.ld, result};
        },
        [&](int64_t i, int64_t k0, int64_t depth, int64_t column, int64_t columns, int64_t width, C *target) {
          return pack_columns(a.data + i * a_step + column * a.ld + k0, a.ld, depth, columns, width, target);
        });
    return !call.failed();
  }
  packed_gemm<C>(
      call, count, m, n, k,
      [&](int64_t i) {
        const GemmResult<C> result = {c.data + i * c_step, n, 1, nullptr, c.bias, alpha, c.add};
        return GemmOperands<C>{a.data + i * a_step, a.ld, result};
      },
      [&](int64_t i, int64_t k0, int64_t depth, int64_t column, int64_t columns, int64_t width, C *target) {
        if (b.transposed) {
          return pack_columns(b.data + i * b_step + column * b.ld + k0, b.ld, depth, columns, width, target);
        }
        const C *source = b.data + i * b_step + k0 * b.ld + column;
        return pack_rows(source, b.ld, depth, columns, width, m <= kTileRows, target);
      });
  return !call.failed();
}

#define EDGECORE_INSTANTIATE(C)                                                                                \
  template bool gemm<C>(Call &, int64_t, int64_t, int64_t, int64_t, C, Matrix<C>, int64_t, Matrix<C>, int64_t, \
                        GemmOut<C>, int64_t);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
