// Products of two int8 activations.
#include "lib/int8_gemm.h"
#include "ops/int8_arguments.h"
#include "ops/integer_product.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The product of a [..., m, depth] and b [..., depth, n], which have the same batch dims: the sums of
// (a - a_zero_point) * (b - b_zero_point), requantized. The zero points are left out of the products: what they add is
// computed from the sums of rows and columns.
int32_t int8_matmul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_matmul.out");
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  const int32_t zero_a = zero_point_at(call, 2);
  const int32_t zero_b = zero_point_at(call, 3);
  const Factor factor = factor_at(call, 4);
  const Int8Range range = range_at(call, 6);
  const Tensor out = call.tensor(9);
  const Product product(call, a, b);
  if (call.failed() || !check_result<int8_t>(call, out) || !call.resize(out, product.shape)) return call.status();
  const int64_t batch = product.batch, m = product.m, depth = product.depth, n = product.n;
  const int8_t *x = int8_elements(call, a);
  const int8_t *w = int8_elements(call, b);
  int32_t *row_sums = call.scratch<int32_t>(batch * (m + n));
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  auto *y = reinterpret_cast<int8_t *>(result.data());
  int32_t *column_sums = row_sums + batch * m;
  call.parallel(batch * m, 65536 / depth + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      int32_t sum = 0;
      for (const int8_t *at = x + i * depth, *stop = at + depth; at != stop; ++at) sum += *at;
      row_sums[i] = zero_b * (static_cast<int32_t>(depth) * zero_a - sum);
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
    int32_t sums[kInt8Panel];
    int8_t line[kInt8Panel];  // requantized by whole vectors
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        sums[j] = j < columns ? block[r * width + j] - column_sums[i * n + column + j] : 0;
      }
      const int64_t of_result = i * m + row + r;
      requantize_row(sums, width, row_sums[of_result], factor, range, line);
      __builtin_memcpy(y + of_result * n + column, line, static_cast<size_t>(columns));
    }
  };
  int8_gemm<int8_t>(call, batch, m, n, depth, left, pack, finish);
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
