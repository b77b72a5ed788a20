// Distances between the rows of matrices: cdist and pdist.
#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns the p-norm of the difference of two rows of n numbers; for p = 0, the number of entries that differ.
template <class C>
C distance(const C *a, const C *b, int64_t n, double p) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = __builtin_fabs(static_cast<double>(a[i] - b[i]));
    if (p == 0) {
      sum += d != 0 ? 1 : 0;
    } else if (p == 1) {
      sum += d;
    } else if (p == 2) {
      sum += d * d;
    } else if (p == __builtin_inf()) {
      sum = d > sum || d != d ? d : sum;
    } else {
      sum += __builtin_pow(d, p);
    }
  }
  if (p == 2) return static_cast<C>(__builtin_sqrt(sum));
  return static_cast<C>(p == 0 || p == 1 || p == __builtin_inf() ? sum : __builtin_pow(sum, 1 / p));
}

// Returns the index of the matrix (last two dims) of `t` that batch entry `batch` of the output uses. `shape` is the
// output's shape. The other dims of `t`, its batch dims, broadcast to the batch dims of `shape`.
int64_t matrix_of(int64_t batch, const Shape &shape, Tensor t) {
  int64_t matrix = 0;
  int64_t stride = 1;
  for (int d = shape.ndim - 3; d >= 0; --d) {
    const int64_t i = batch % shape.sizes[d];
    batch /= shape.sizes[d];
    const int dim = d - (shape.ndim - t.ndim());
    if (dim < 0) continue;
    if (t.size(dim) != 1) matrix += i * stride;
    stride *= t.size(dim);
  }
  return matrix;
}

// Computes the distance of every row of x1 to every row of x2 (cdist).
template <class C>
void cross_distances(Call &call, Tensor x1, Tensor x2, Tensor out, double p) {
  const C *a = dense<C>(call, x1);
  const C *b = dense<C>(call, x2);
  const DenseOut<C> result(call, out);
  if (call.failed() || out.numel() == 0) return;
  const Shape shape = out.shape();
  const int64_t rows = shape.sizes[shape.ndim - 2];
  const int64_t columns = shape.sizes[shape.ndim - 1];
  const int64_t n = x1.size(x1.ndim() - 1);
  call.parallel(out.numel() / columns, 16384 / (columns * (n + 1)) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const C *row = a + (matrix_of(i / rows, shape, x1) * rows + i % rows) * n;
      const C *others = b + matrix_of(i / rows, shape, x2) * columns * n;
      for (int64_t j = 0; j < columns; ++j) result.data()[i * columns + j] = distance(row, others + j * n, n, p);
    }
  });
  result.finish(call);
}

// Computes the distances of all pairs of rows i < j of one matrix (pdist).
template <class C>
void pair_distances(Call &call, Tensor self, Tensor out, double p) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  if (call.failed()) return;
  const int64_t n = self.size(1);
  C *to = result.data();
  for (int64_t i = 0; i < self.size(0); ++i) {
    for (int64_t j = i + 1; j < self.size(0); ++j) *to++ = distance(x + i * n, x + j * n, n, p);
  }
  result.finish(call);
}

}  // namespace

int32_t cdist_forward_out(const edgecore_call *raw) {
  Call call(raw, "aten::_cdist_forward.out");
  const Tensor x1 = call.tensor(0);
  const Tensor x2 = call.tensor(1);
  const double p = call.real(2);
  const Tensor out = call.tensor(4);
  if (!call.check(
          !call.failed() && x1.ndim() >= 2 && x2.ndim() >= 2 && x1.size(x1.ndim() - 1) == x2.size(x2.ndim() - 1),
          "the inputs must be matrices whose rows have the same length") ||
      !call.check(is_floating(x1.type()) && x1.type() == x2.type(), "the inputs must have the same floating dtype") ||
      !call.check(p >= 0, "p must not be negative") || !call.check_cast(x1.type(), out)) {
    return call.status();
  }
  Shape shape;
  const int ndim = x1.ndim() > x2.ndim() ? x1.ndim() : x2.ndim();
  for (int d = 0; d < ndim - 2; ++d) {
    const int a = d - (ndim - x1.ndim());
    const int b = d - (ndim - x2.ndim());
    const int64_t size1 = a < 0 ? 1 : x1.size(a);
    const int64_t size2 = b < 0 ? 1 : x2.size(b);
    if (!call.check(size1 == size2 || size1 == 1 || size2 == 1, "the leading dims do not broadcast")) {
      return call.status();
    }
    shape.push(size1 == 1 ? size2 : size1);
  }
  shape.push(x1.size(x1.ndim() - 2));
  shape.push(x2.size(x2.ndim() - 2));
  if (!call.resize(out, shape)) return call.status();
  with_floating_compute(x1.type(), [&](auto c) { cross_distances<decltype(c)>(call, x1, x2, out, p); });
  return call.status();
}

int32_t pdist_forward_out(const edgecore_call *raw) {
  Call call(raw, "aten::_pdist_forward.out");
  const Tensor self = call.tensor(0);
  const double p = call.real(1);
  const Tensor out = call.tensor(2);
  if (!call.check(!call.failed() && self.ndim() == 2 && is_floating(self.type()),
                  "the input must be a floating matrix") ||
      !call.check(p >= 0, "p must not be negative") || !call.check_cast(self.type(), out)) {
    return call.status();
  }
  const int64_t rows = self.size(0);
  Shape shape;
  int64_t twice;
  if (!call.check(!__builtin_mul_overflow(rows, rows - 1, &twice), "the input has too many rows")) return call.status();
  shape.push(rows > 0 ? twice / 2 : 0);
  if (!call.resize(out, shape)) return call.status();
  with_floating_compute(self.type(), [&](auto c) { pair_distances<decltype(c)>(call, self, out, p); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
