// Operators that work along one dim: cumsum, topk, tril, glu, unique_consecutive.
#include <algorithm>

#include "lib/math.h"
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// A row-major tensor as [outer, size, inner]: `size` is the size of one dim; the dims before that dim are merged to
// `outer`, the dims after it to `inner`.
struct DimSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  DimSplit(const Shape &shape, int dim) {
    for (int d = 0; d < shape.ndim; ++d) (d < dim ? outer : d == dim ? size : inner) *= shape.sizes[d];
  }
};

template <class C>
void cumulative_sum(Call &call, Tensor self, Tensor out, int dim) {
  const DimSplit split(self.shape(), dim);
  const C *in = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  if (call.failed() || out.numel() == 0) return;
  call.parallel(split.outer, 32768 / (split.size * split.inner) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t o = begin; o < end; ++o) {
      const C *x = in + o * split.size * split.inner;
      C *y = result.data() + o * split.size * split.inner;
      for (int64_t i = 0; i < split.inner; ++i) {
        // Sum floats in double, and integers in uint64_t, which wraps.
        std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, double> sum = 0;
        for (int64_t k = 0; k < split.size; ++k) {
          sum += static_cast<decltype(sum)>(x[k * split.inner + i]);
          y[k * split.inner + i] = static_cast<C>(sum);
        }
      }
    }
  });
  result.finish(call);
}

template <class C>
struct Candidate {
  C value;
  int64_t index;
};

// The order of topk candidates: NaN is larger than every number; of equal values the lower index comes first.
template <class C, bool kLargest>
struct Before {
  static bool is_nan(C x) { return !(x == x); }
  bool operator()(const Candidate<C> &a, const Candidate<C> &b) const {
    const bool greater = (is_nan(a.value) && !is_nan(b.value)) || a.value > b.value;
    const bool less = (is_nan(b.value) && !is_nan(a.value)) || a.value < b.value;
    if (greater == less) return a.index < b.index;
    return kLargest ? greater : less;
  }
};

template <class C>
void top_k(Call &call, Tensor self, int dim, int64_t k, bool largest, Tensor values, Tensor indices) {
  const DimSplit split(self.shape(), dim);
  const C *in = dense<C>(call, self);
  const DenseOut<C> top(call, values);
  const DenseOut<int64_t> top_indices(call, indices);
  const int64_t workers = call.worker_count();
  Candidate<C> *memory = call.scratch<Candidate<C>>(split.size * workers);
  if (call.failed() || k == 0) return;
  call.parallel(split.outer * split.inner, 8192 / split.size + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    Candidate<C> *row = memory + worker * split.size;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r / split.inner;
      const int64_t i = r % split.inner;
      for (int64_t j = 0; j < split.size; ++j) row[j] = {in[(o * split.size + j) * split.inner + i], j};
      if (largest) {
        std::partial_sort(row, row + k, row + split.size, Before<C, true>());
      } else {
        std::partial_sort(row, row + k, row + split.size, Before<C, false>());
      }
      for (int64_t j = 0; j < k; ++j) {
        top.data()[(o * k + j) * split.inner + i] = row[j].value;
        top_indices.data()[(o * k + j) * split.inner + i] = row[j].index;
      }
    }
  });
  top.finish(call);
  top_indices.finish(call);
}

// Computes glu: out = a * sigmoid(b), where a and b are the two halves of the input along `dim`.
template <class C>
void gate(Call &call, Tensor self, Tensor out, int dim) {
  const DimSplit split(self.shape(), dim);
  const C *in = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  if (call.failed() || out.numel() == 0) return;
  const int64_t half = split.size / 2 * split.inner;
  call.parallel(split.outer, 16384 / half + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t o = begin; o < end; ++o) {
      const C *a = in + 2 * o * half;
      C *y = result.data() + o * half;
      for (int64_t i = 0; i < half; ++i) y[i] = a[i] / (C(1) + exp_of(-a[half + i]));
    }
  });
  result.finish(call);
}

// The slices along a dim of a row-major tensor.
template <class C>
struct Slices {
  const C *data;
  DimSplit split;

  // NaN equals no number, so slices with NaN are never equal.
  bool equal(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < split.outer; ++o) {
      const C *rows = data + o * split.size * split.inner;
      for (int64_t i = 0; i < split.inner; ++i) {
        if (!(rows[a * split.inner + i] == rows[b * split.inner + i])) return false;
      }
    }
    return true;
  }
};

// The outputs of unique_consecutive. `inverse` and `counts` become empty tensors if they are not wanted.
struct UniqueOut {
  Tensor values;
  Tensor inverse;
  Tensor counts;
  bool wants_inverse;
  bool wants_counts;
};

// Keeps the first of each run of equal slices along `dim`. `shape` is the shape of the input, `inverse_shape` the shape
// of `inverse`, if it is wanted.
template <class C>
void unique_runs(Call &call, Tensor self, Shape shape, int dim, Shape inverse_shape, const UniqueOut &out) {
  const DimSplit split(shape, dim);
  const Slices<C> slices = {dense<C>(call, self), split};
  int64_t *starts = call.scratch<int64_t>(split.size);
  if (call.failed()) return;
  int64_t count = 0;
  for (int64_t k = 0; k < split.size; ++k) {
    if (k == 0 || !slices.equal(k - 1, k)) starts[count++] = k;
  }
  Shape counts_shape;
  counts_shape.push(out.wants_counts ? count : 0);
  if (!out.wants_inverse) {
    inverse_shape = Shape();
    inverse_shape.push(0);
  }
  shape.sizes[dim] = count;
  if (!call.resize(out.values, shape, "out0") || !call.resize(out.inverse, inverse_shape, "out1") ||
      !call.resize(out.counts, counts_shape, "out2")) {
    return;
  }
  const DenseOut<C> values(call, out.values);
  const DenseOut<int64_t> inverse(call, out.inverse);
  const DenseOut<int64_t> counts(call, out.counts);
  if (call.failed()) return;
  C *to = values.data();
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t k = 0; k < count; ++k) {
      const C *from = slices.data + (o * split.size + starts[k]) * split.inner;
      for (int64_t i = 0; i < split.inner; ++i) *to++ = from[i];
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    const int64_t end = k + 1 < count ? starts[k + 1] : split.size;
    for (int64_t j = starts[k]; out.wants_inverse && j < end; ++j) inverse.data()[j] = k;
    if (out.wants_counts) counts.data()[k] = end - starts[k];
  }
  values.finish(call);
  inverse.finish(call);
  counts.finish(call);
}

}  // namespace

int32_t cumsum_out(const edgecore_call *raw) {
  Call call(raw, "aten::cumsum.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor out = call.tensor(3);
  if (call.failed() || !call.resize(out, self.shape())) return call.status();
  with_compute(out.type(), [&](auto c) { cumulative_sum<decltype(c)>(call, self, out, dim); });
  return call.status();
}

int32_t topk_values(const edgecore_call *raw) {
  Call call(raw, "aten::topk.values");
  const Tensor self = call.tensor(0);
  int64_t k = call.integer(1);
  const int dim = call.dim(2, self.ndim());
  const bool largest = call.flag(3);
  const Tensor values = call.tensor(5);
  const Tensor indices = call.tensor(6);
  if (call.failed() || !check_same_type(call, self, values) ||
      !call.check(indices.type() == Type::kI64, "indices must be int64")) {
    return call.status();
  }
  Shape shape = self.shape();
  const int64_t size = shape.ndim > 0 ? shape.sizes[dim] : 1;
  if (k < 0 || k > size) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "k is " << k << " but the dim has " << size << " entries");
  }
  if (shape.ndim > 0) {
    shape.sizes[dim] = k;
  } else {
    k = 1;  // an input without dims has results with one entry, even for k = 0
  }
  if (!call.resize(values, shape, "values") || !call.resize(indices, shape, "indices")) return call.status();
  if (values.numel() == 0) return call.status();
  with_compute(self.type(), [&](auto c) { top_k<decltype(c)>(call, self, dim, k, largest, values, indices); });
  return call.status();
}

int32_t tril_out(const edgecore_call *raw) {
  Call call(raw, "aten::tril.out");
  const Tensor self = call.tensor(0);
  const int64_t diagonal = call.integer(1);
  const Tensor out = call.tensor(2);
  if (!call.check(!call.failed() && self.ndim() >= 2, "the input must have at least two dims") ||
      !check_same_type(call, self, out) || !call.resize(out, self.shape()) || out.numel() == 0) {
    return call.status();
  }
  const char *in = dense_bytes(call, self);
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  const int64_t rows = self.size(self.ndim() - 2);
  const int64_t columns = self.size(self.ndim() - 1);
  const int64_t item = item_size(self.type());
  for (int64_t r = 0; r < out.numel() / columns; ++r) {
    int64_t kept;  // number of entries copied from the start of the row; the other entries become 0
    if (__builtin_add_overflow(r % rows + 1, diagonal, &kept)) kept = INT64_MAX;
    kept = kept < 0 ? 0 : kept > columns ? columns : kept;
    char *to = result.data() + r * columns * item;
    __builtin_memcpy(to, in + r * columns * item, static_cast<uint64_t>(kept * item));
    __builtin_memset(to + kept * item, 0, static_cast<uint64_t>((columns - kept) * item));
  }
  result.finish(call);
  return call.status();
}

int32_t glu_out(const edgecore_call *raw) {
  Call call(raw, "aten::glu.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor out = call.tensor(2);
  if (!call.check(!call.failed() && self.ndim() > 0, "the input must have at least one dim") ||
      !call.check(is_floating(self.type()), "the input must be floating") ||
      !call.check(self.size(dim) % 2 == 0, "the halved dim must have an even size") ||
      !call.check_cast(self.type(), out)) {
    return call.status();
  }
  Shape shape = self.shape();
  shape.sizes[dim] /= 2;
  if (!call.resize(out, shape)) return call.status();
  with_floating_compute(self.type(), [&](auto c) { gate<decltype(c)>(call, self, out, dim); });
  return call.status();
}

int32_t unique_consecutive_out(const edgecore_call *raw) {
  Call call(raw, "aten::unique_consecutive.out");
  const Tensor self = call.tensor(0);
  const bool is_flat = call.is_none(3);
  const bool return_inverse = call.flag(1);
  const bool return_counts = call.flag(2);
  const int dim = is_flat ? 0 : call.dim(3, self.ndim());
  // With a dim, ATen computes all outputs for tensors on the CPU, and programs have memory for them.
  const UniqueOut out = {call.tensor(4), call.tensor(5), call.tensor(6), return_inverse || !is_flat,
                         return_counts || !is_flat};
  if (call.failed() || !check_same_type(call, self, out.values) ||
      !call.check(out.inverse.type() == Type::kI64 && out.counts.type() == Type::kI64,
                  "the inverse indices and the counts must be int64") ||
      !call.check(is_flat || self.ndim() > 0, "the input has no dims")) {
    return call.status();
  }
  Shape shape = self.shape();
  Shape inverse_shape = shape;
  if (is_flat) {
    shape = Shape();
    shape.push(self.numel());
  } else {
    inverse_shape = Shape();
    inverse_shape.push(shape.sizes[dim]);
    if (!call.check(shape.numel() > 0 || shape.sizes[dim] == 0, "another dim than the dim of the slices is empty")) {
      return call.status();
    }
  }
  with_compute(self.type(), [&](auto c) { unique_runs<decltype(c)>(call, self, shape, dim, inverse_shape, out); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
