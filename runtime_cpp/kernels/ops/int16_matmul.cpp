// Products of two int16 activations, with sums of 64 bits.
#include "lib/int8_gemm.h"
#include "ops/int8_arguments.h"
#include "ops/integer_product.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kRowsOfTask = 64;

#if EDGECORE_MICROCONTROLLER
// A panel has columns, one after the other.
constexpr int64_t kRows = 1;

// Packs a right operand [depth, columns] whose rows are `step` elements apart.
void pack_panel(const int16_t *rows, int64_t step, int64_t depth, int64_t columns, int64_t, int16_t *target) {
  const auto column_step = static_cast<ptrdiff_t>(depth);
  for (auto k = static_cast<ptrdiff_t>(depth); k > 0; --k, rows += step, ++target) {
    int16_t *to = target;
    for (const int16_t *at = rows, *end = rows + columns; at != end; to += column_step) *to = *at++;
  }
}

// Returns the sum of the products of n elements.
int64_t dot(const int16_t *a, const int16_t *b, int32_t n) {
  int64_t sum = 0;
#if defined(EDGECORE_MVE)
  __asm volatile(  // see lib/int8_mve.h
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

// Computes sums[columns], the product of a row and the columns of a panel. Its loop needs the registers of a function
// of its own.
[[gnu::noinline]] void multiply_rows(const int16_t *left, int64_t, int64_t depth, const int16_t *panel, int64_t columns,
                                     int64_t, int64_t *sums) {
  const auto n = static_cast<int32_t>(depth);
  for (const int64_t *const end = sums + columns; sums != end; panel += n) *sums++ = dot(left, panel, n);
}
#else
// A panel has pairs of int16, as for int8. The tile of int8 computes two products for each row: the left operand is 256
// * high + low, with halves in [-128, 127] and [0, 255], and 32 bits hold the sum of kInt8Depth products of a half and
// an int16.
constexpr int64_t kRows = kInt8Rows / 2;
static_assert(kInt8Depth * 255 <= INT32_MAX >> 15, "32 bits hold the sums of a block");

// Packs a right operand [depth, columns] whose rows are `step` elements apart.
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
  int16_t halves[kInt8Rows * kInt8Depth];
  alignas(64) int32_t block[kInt8Rows * kInt8Panel];
  __builtin_memset(sums, 0, static_cast<size_t>(kRows * width) * sizeof(int64_t));
  for (int64_t k0 = 0; k0 < depth; k0 += kInt8Depth) {
    const int64_t steps = min_of(kInt8Depth, depth - k0);
    for (int64_t i = 0; i < kRows; ++i) {
      const int16_t *row = left + min_of(i, m - 1) * depth + k0;
      int16_t *__restrict high = halves + 2 * i * kInt8Depth;
      int16_t *__restrict low = high + kInt8Depth;
      for (int64_t k = 0; k < steps; ++k) {
        high[k] = static_cast<int16_t>(row[k] >> 8);
        low[k] = static_cast<int16_t>(row[k] & 255);
      }
      if (steps % 2 != 0) high[steps] = low[steps] = 0;
    }
    __builtin_memset(block, 0, sizeof(block));
    with_vectors(width / kSumLanes, [&](auto vectors) {
      add_int8_tile<vectors.kCount>(halves, (steps + 1) / 2, panel + k0 * width, block);
    });
    for (int64_t i = 0; i < kRows; ++i) {
      const int32_t *high = block + 2 * i * width;
      for (int64_t j = 0; j < width; ++j) sums[i * width + j] += high[j] * int64_t{256} + high[width + j];
    }
  }
}
#endif

}  // namespace

int32_t int16_matmul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_matmul.out");
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  const WideFactor factor = wide_factor_at(call, 2);
  const Int16Limits limits = limits_at(call, 4);
  const Tensor out = call.tensor(6);
  const Product product(call, a, b);
  if (call.failed() || !check_result<int16_t>(call, out) || !call.resize(out, product.shape)) return call.status();
  const int64_t m = product.m, depth = product.depth, n = product.n;
  const int16_t *x = int16_elements(call, a);
  const int16_t *w = int16_elements(call, b);
  const int64_t part = round_up((depth + 1) / 2 * 2 * kInt8Panel, 32);
  int16_t *memory = call.scratch<int16_t>(part * call.worker_count());
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  auto *y = reinterpret_cast<int16_t *>(result.data());
  const Int8Panels panels(n);
  const int64_t splits = (m + kRowsOfTask - 1) / kRowsOfTask;
  const int64_t grain = 65536 / (min_of(m, kRowsOfTask) * depth * kInt8Panel) + 1;
  call.parallel(product.batch * panels.count * splits, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    int16_t *panel = memory + worker * part;
    int64_t sums[kRows * kInt8Panel];
    int64_t packed = -1;  // the panel that is in `panel`
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
            to[j] = limits.clamp(requantize(line[j], factor));
          }
        }
      }
    }
  });
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
