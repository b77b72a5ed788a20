// Matrix products of two activations, both quantized to int8 or both to int16.
#include "lib/integer_gemm.h"
#include "ops/integer_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// A batched product of a [..., m, depth] and b [..., depth, n], which have the same batch dims; the result is [..., m,
// n]. A depth is at most 2^15, so that sums of int8 products fit into 32 bits and sums of int16 products into 46 bits.
template <class Value>
struct Product {
  ZeroPointOf<Value> zero_a, zero_b;
  FactorOf<Value> factor;
  Range<Value> range;
  int64_t batch = 1;
  int64_t m = 0;
  int64_t depth = 0;
  int64_t n = 0;
  Shape shape;
  const Value *left = nullptr;
  const Value *right = nullptr;
  Value *result = nullptr;

  // Reads the product's arguments; `next` starts at the first argument after the matrices.
  Product(Call &call, Tensor a, Tensor b, Arguments<Value> &next)
      : zero_a(next.zero_point()), zero_b(next.zero_point()), factor(next.factor()), range(next.range()) {
    if (call.failed()) return;
    const int last = a.ndim() - 1;
    bool fits = last >= 1 && b.ndim() == last + 1;
    for (int dim = 0; fits && dim < last - 1; ++dim) {
      fits = a.size(dim) == b.size(dim);
      batch *= a.size(dim);
    }
    if (!call.check(fits && a.size(last) == b.size(last - 1), "the shapes of the matrices do not match") ||
        !call.check(0 < a.size(last) && a.size(last) <= 1 << 15, "a sum must have 1 to 2^15 products"))
      return;
    m = a.size(last - 1);
    depth = a.size(last);
    n = b.size(last);
    shape = a.shape();
    shape.sizes[last] = n;
  }
};

// Computes the sums of (a - a_zero_point) * (b - b_zero_point) and requantizes them. Multiplies without the zero
// points, and then corrects the products by the sums of rows and columns.
void multiply(Call &call, const Product<int8_t> &p) {
  const int64_t batch = p.batch, m = p.m, depth = p.depth, n = p.n;
  const int8_t *x = p.left, *w = p.right;
  int8_t *y = p.result;
  const int32_t zero_a = p.zero_a.zero_point;
  int32_t *row_sums = call.scratch<int32_t>(batch * (m + n));
  if (call.failed()) return;
  int32_t *column_sums = row_sums + batch * m;
  call.parallel(batch * m, 65536 / depth + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      int32_t sum = 0;
      for (const int8_t *at = x + i * depth, *stop = at + depth; at != stop; ++at) sum += *at;
      row_sums[i] = p.zero_b.zero_point * (static_cast<int32_t>(depth) * p.zero_a.zero_point - sum);
    }
  });
  call.parallel(batch, 65536 / (depth * n) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      int32_t *sums = column_sums + i * n;
      __builtin_memset(sums, 0, static_cast<size_t>(n) * sizeof(int32_t));
      for (int64_t k = 0; k < depth; ++k) {
        const int8_t *row = w + (i * depth + k) * n;
        for (ptrdiff_t j = 0; j < static_cast<ptrdiff_t>(n); ++j) sums[j] += zero_a * row[j];
      }
    }
  });
  const auto left = [&](int64_t i) { return Int8Left{x + i * m * depth, depth}; };
  const auto pack = [&](int64_t i, int64_t column, int64_t columns, int64_t width, Packed<int8_t> *target) {
    pack_rows(w + i * depth * n + column, n, depth, columns, width, target);
  };
  const auto finish = [&](int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns, const int32_t *block,
                          int64_t width) {
    int32_t sums[kIntegerPanel];
    int8_t line[kIntegerPanel];  // as long as a panel's row, because requantization writes whole vectors
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        sums[j] = j < columns ? block[r * width + j] - column_sums[i * n + column + j] : 0;
      }
      const int64_t of_result = i * m + row + r;
      requantize_row(sums, width, row_sums[of_result], p.factor, p.range, line);
      __builtin_memcpy(y + of_result * n + column, line, static_cast<size_t>(columns));
    }
  };
  integer_gemm<int8_t>(call, batch, m, n, depth, left, pack, finish);
}

constexpr int64_t kRowsOfTask = 64;

#if EDGECORE_MICROCONTROLLER
// On a microcontroller, a panel of the right operand consists of contiguous columns.
constexpr int64_t kRows = 1;

// Packs a right operand [depth, columns], whose rows are `step` elements apart, as a panel (packed columns).
void pack_panel(const int16_t *rows, int64_t step, int64_t depth, int64_t columns, int64_t, int16_t *target) {
  const auto column_step = static_cast<ptrdiff_t>(depth);
  for (auto k = static_cast<ptrdiff_t>(depth); k > 0; --k, rows += step, ++target) {
    int16_t *to = target;
    for (const int16_t *at = rows, *end = rows + columns; at != end; to += column_step) *to = *at++;
  }
}

// Returns the dot product of n int16 elements.
int64_t dot(const int16_t *a, const int16_t *b, int32_t n) {
  int64_t sum = 0;
#if defined(EDGECORE_MVE)
  __asm volatile(  // an assembly loop; lib/integer_mve.h says why not intrinsics
      "wlstp.16 lr, %[n], 2f\n"
      "1:\n"
      "vldrh.u16 q0, [%[a]], #16\n"
      "vldrh.u16 q1, [%[b]], #16\n"
      "vmlaldava.s16 %Q[sum], %R[sum], q0, q1\n"
      "letp lr, 1b\n"
      "2:\n"
      : [sum] "+r"(sum), [a] "+r"(a), [b] "+r"(b)
      : [n] "r"(n)
      : "q0", "q1", "lr", "cc", "memory");
#else
#if defined(EDGECORE_DSP)
  for (const int16_t *const end = a + n / 2 * 2; a != end; a += 2, b += 2) {
    sum = __smlald(load_pair(a), load_pair(b), sum);
  }
  n %= 2;
#endif
  for (int32_t i = 0; i < n; ++i) sum += a[i] * b[i];
#endif
  return sum;
}

// Computes sums[columns], the product of a row and a panel's columns. Not inlined, because the loop needs all
// registers.
[[gnu::noinline]] void multiply_rows(const int16_t *left, int64_t, int64_t depth, const int16_t *panel, int64_t columns,
                                     int64_t, int64_t *sums) {
  const auto n = static_cast<int32_t>(depth);
  for (const int64_t *const end = sums + columns; sums != end; panel += n) *sums++ = dot(left, panel, n);
}
#else
// A panel has pairs of int16, as for int8 values. To multiply int16 by int16, the left operand is split into 256 * high
// + low, with high in [-128, 127] and low in [0, 255]: then the code for int8 weights computes two products for each
// row, whose sums of kIntegerDepth terms fit into 32 bits.
constexpr int64_t kRows = kIntegerRows / 2;
static_assert(kIntegerDepth * 255 <= INT32_MAX >> 15, "32 bits hold the sums of a block");

// Packs a right operand [depth, columns], whose rows are `step` elements apart, as a panel: `width` packed columns.
void pack_panel(const int16_t *rows, int64_t step, int64_t depth, int64_t columns, int64_t width, int16_t *target) {
  for (int64_t k = 0; k < depth; k += 2, target += 2 * width) {
    const int16_t *first = rows + k * step;
    const int16_t *second = k + 1 < depth ? first + step : nullptr;
    for (int64_t j = 0; j < columns; ++j) {
      target[2 * j] = first[j];
      target[2 * j + 1] = second == nullptr ? int16_t{0} : second[j];
    }
    for (int64_t j = 2 * columns; j < 2 * width; ++j) target[j] = 0;
  }
}

// Computes sums[kRows][width], the product of m <= kRows rows, `step` elements apart, and a panel of `width` columns.
void multiply_rows(const int16_t *left, int64_t m, int64_t depth, const int16_t *panel, int64_t, int64_t width,
                   int64_t *sums) {
  int16_t halves[kIntegerRows * kIntegerDepth];
  alignas(64) int32_t block[kIntegerRows * kIntegerPanel];
  __builtin_memset(sums, 0, static_cast<size_t>(kRows * width) * sizeof(int64_t));
  for (int64_t k0 = 0; k0 < depth; k0 += kIntegerDepth) {
    const int64_t steps = min_of(kIntegerDepth, depth - k0);
    for (int64_t i = 0; i < kRows; ++i) {
      const int16_t *row = left + min_of(i, m - 1) * depth + k0;
      int16_t *__restrict high = halves + 2 * i * kIntegerDepth;
      int16_t *__restrict low = high + kIntegerDepth;
      for (int64_t k = 0; k < steps; ++k) {
        high[k] = static_cast<int16_t>(row[k] >> 8);
        low[k] = static_cast<int16_t>(row[k] & 255);
      }
      if (steps % 2 != 0) high[steps] = low[steps] = 0;
    }
    __builtin_memset(block, 0, sizeof(block));
    with_vectors(width / kSumLanes, [&](auto vectors) {
      add_integer_tile<vectors.kCount>(halves, (steps + 1) / 2, panel + k0 * width, block);
    });
    for (int64_t i = 0; i < kRows; ++i) {
      const int32_t *high = block + 2 * i * width;
      for (int64_t j = 0; j < width; ++j) sums[i * width + j] += high[j] * int64_t{256} + high[width + j];
    }
  }
}
#endif

// Computes the 64-bit sums of products of int16 values (a * b) and requantizes them.
void multiply(Call &call, const Product<int16_t> &p) {
  const int64_t m = p.m, depth = p.depth, n = p.n;
  const int16_t *x = p.left, *w = p.right;
  int16_t *y = p.result;
  const int64_t part = round_up((depth + 1) / 2 * 2 * kIntegerPanel, 32);
  int16_t *memory = call.scratch<int16_t>(part * call.worker_count());
  if (call.failed()) return;
  const IntegerPanels panels(n);
  const int64_t splits = (m + kRowsOfTask - 1) / kRowsOfTask;
  const int64_t grain = 65536 / (min_of(m, kRowsOfTask) * depth * kIntegerPanel) + 1;
  call.parallel(p.batch * panels.count * splits, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    int16_t *panel = memory + worker * part;
    int64_t sums[kRows * kIntegerPanel];
    int64_t packed = -1;  // index of the panel of the right operand that is packed in `panel`
    for (int64_t task = begin; task < end; ++task) {
      const int64_t at = task / splits;
      const int64_t i = at / panels.count;
      const int64_t column = panels.begin(at % panels.count);
      const int64_t width = panels.width(at % panels.count);
      const int64_t columns = min_of(width, n - column);
      if (packed != at) pack_panel(w + i * depth * n + column, n, depth, columns, width, panel);
      packed = at;
      const int64_t first = task % splits * kRowsOfTask;
      for (int64_t row = first; row < min_of(m, first + kRowsOfTask); row += kRows) {
        const int64_t height = min_of(kRows, m - row);
        multiply_rows(x + (i * m + row) * depth, height, depth, panel, columns, width, sums);
        int16_t *to = y + (i * m + row) * n + column;
        for (int64_t r = 0; r < height; ++r, to += n) {
          const int64_t *line = sums + r * width;
          for (ptrdiff_t j = 0; j < static_cast<ptrdiff_t>(columns); ++j) {
            to[j] = p.range.clamp(requantize(line[j], p.factor));
          }
        }
      }
    }
  });
}

template <class Value>
int32_t multiply(Call &call) {
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  Arguments<Value> next(call, 2);
  Product<Value> product(call, a, b, next);
  const Tensor out = next.tensor();
  if (call.failed() || !check_result<Value>(call, out) || !call.resize(out, product.shape)) return call.status();
  product.left = elements<Value>(call, a);
  product.right = elements<Value>(call, b);
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  product.result = reinterpret_cast<Value *>(result.data());
  multiply(call, product);
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t int8_matmul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_matmul.out");
  return multiply<int8_t>(call);
}
int32_t int16_matmul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_matmul.out");
  return multiply<int16_t>(call);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
