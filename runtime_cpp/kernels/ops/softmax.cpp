// Softmax and log-softmax along one dim. The maximum is subtracted before exp, so that exp cannot overflow. As in
// PyTorch, the result is NaN if an entry is NaN or infinity, or if all entries are -infinity.
#include "ops/softmax.h"

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kBlock = 64;  // number of adjacent columns that are computed together

// Computes the softmax or log-softmax of a row of n elements.
template <class C, bool kLog>
void row(const C *x, C *y, int64_t n) {
  const C shift = max_entry(x, n);
  if (!kLog) return softmax_row(x, y, n, shift);
  const C offset = log_of(sum_of_exp<C, false>(x, y, n, shift));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - shift - offset;
}

// Computes the softmax or log-softmax of m adjacent columns. A column has n elements, which are `step` elements apart.
template <class C, bool kLog>
void columns(const C *x, C *y, int64_t n, int64_t step, int64_t m) {
  C shift[kBlock];
  C sum[kBlock] = {};
  for (int64_t k = 0; k < m; ++k) shift[k] = x[k];
  for (int64_t i = 1; i < n; ++i) {
    for (int64_t k = 0; k < m; ++k) shift[k] = nan_max(shift[k], x[i * step + k]);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < m; ++k) {
      const C e = exp_of(x[i * step + k] - shift[k]);
      if (!kLog) y[i * step + k] = e;
      sum[k] += e;
    }
  }
  for (int64_t k = 0; k < m; ++k) sum[k] = kLog ? log_of(sum[k]) : C{1} / sum[k];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < m; ++k) {
      const int64_t index = i * step + k;
      y[index] = kLog ? x[index] - shift[k] - sum[k] : y[index] * sum[k];
    }
  }
}

template <class C, bool kLog>
void run(Call &call, Tensor self, int dim, Tensor out) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  if (call.failed() || self.numel() == 0) return;
  int64_t inner = 1;
  for (int d = dim + 1; d < self.ndim(); ++d) inner *= self.size(d);
  const int64_t n = self.ndim() == 0 ? 1 : self.size(dim);
  const int64_t outer = self.numel() / (inner * n);
  C *y = result.data();
  if (inner == 1) {
    call.parallel(outer, 8192 / n + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) row<C, kLog>(x + i * n, y + i * n, n);
    });
  } else {
    const int64_t blocks = (inner + kBlock - 1) / kBlock;
    call.parallel(outer * blocks, 8192 / (n * kBlock) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t start = i % blocks * kBlock;
        const int64_t first = i / blocks * n * inner + start;
        const int64_t m = inner - start < kBlock ? inner - start : kBlock;
        columns<C, kLog>(x + first, y + first, n, inner, m);
      }
    });
  }
  result.finish(call);
}

template <bool kLog>
int32_t softmax(const edgecore_call *raw, const char *op) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor out = call.tensor(3);
  const Type common = call.flag(2) ? Type::kF32 : self.type();  // argument 2, half_to_float, makes the output float32
  if (!call.check(is_floating(self.type()), "the input must have a floating dtype") || !call.check_cast(common, out) ||
      !call.resize(out, self.shape())) {
    return call.status();
  }
  with_floating_compute(self.type(), [&](auto c) { run<decltype(c), kLog>(call, self, dim, out); });
  return call.status();
}

}  // namespace

int32_t softmax_out(const edgecore_call *raw) { return softmax<false>(raw, "aten::_softmax.out"); }
int32_t log_softmax_out(const edgecore_call *raw) { return softmax<true>(raw, "aten::_log_softmax.out"); }

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
