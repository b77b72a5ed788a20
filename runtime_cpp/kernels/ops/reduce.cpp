// Reduction operators over dims: sum, mean, var, amax, amin, prod and any.
#include "ops/reduce.h"

#include "lib/math.h"
#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

uint32_t reduced_dims(Call &call, Ints dims, int ndim) {
  if (dims.count == 0) return (1u << ndim) - 1;
  uint32_t mask = 0;
  for (int64_t i = 0; i < dims.count; ++i) {
    const uint32_t bit = 1u << call.wrap_dim(dims[i], ndim);
    call.check((mask & bit) == 0, "a dim appears twice");
    mask |= bit;
  }
  return ndim == 0 ? 0 : mask;
}

Shape reduced_shape(const Shape &shape, uint32_t mask, bool keepdim) {
  Shape result;
  for (int d = 0; d < shape.ndim; ++d) {
    if ((mask >> d & 1) == 0) {
      result.push(shape.sizes[d]);
    } else if (keepdim) {
      result.push(1);
    }
  }
  return result;
}

Reduction::Reduction(Call &call, Tensor out, Tensor input, uint32_t mask, bool keepdim) {
  if (!call.resize(out, reduced_shape(input.shape(), mask, keepdim))) return;
  kept.ndim = reduced.ndim = 0;
  kept.count = 2;
  reduced.count = 1;
  kept.data[0] = out.data();
  kept.data[1] = input.data();
  const int64_t in_item = item_size(input.type());
  const int64_t out_item = item_size(out.type());
  int64_t min_kept = INT64_MAX;
  int64_t min_reduced = INT64_MAX;
  int out_dim = 0;
  for (int d = 0; d < input.ndim(); ++d) {
    const int64_t stride = input.stride(d) * in_item;
    const int64_t magnitude = stride < 0 ? -stride : stride;
    if ((mask >> d & 1) != 0) {
      reduced.add_dim(input.size(d), &stride);
      count *= input.size(d);
      if (input.size(d) > 1 && magnitude < min_reduced) min_reduced = magnitude;
      out_dim += keepdim;
    } else {
      const int64_t strides[2] = {out.stride(out_dim) * out_item, stride};
      kept.add_dim(input.size(d), strides);
      if (input.size(d) > 1 && magnitude < min_kept) min_kept = magnitude;
      ++out_dim;
    }
  }
  kept.finish();
  reduced.finish();
  by_columns = min_kept < min_reduced;
}

namespace {

// Each of the following structs reduces elements of type C to an accumulator: start() returns its initial value, row()
// adds n adjacent elements, column() adds one element.
//
// Sum adds chunks of 1024 elements in vectors of C, and the sums of chunks in type A. For float, A is double: the
// rounding error does not grow with the number of elements, and the loop still uses vectors of floats. Four vectors of
// partial sums hide the latency of the additions.
template <class C, class A>
struct Sum {
  using Accumulator = A;
  static constexpr int64_t kChunk = 1024;
  static A start() { return A{0}; }
  static A row(A acc, const C *x, int64_t n) {
    for (int64_t rest = n; rest > 0; rest -= kChunk, x += kChunk) acc += chunk(x, min_of(rest, kChunk));
    return acc;
  }
  static A chunk(const C *x, int64_t n) {
    constexpr int kChains = 4;
    Vector<C> sums[kChains] = {};
    int64_t i = 0;
    for (; i + kChains * kLanes<C> <= n; i += kChains * kLanes<C>) {
      for (int s = 0; s < kChains; ++s) sums[s] += load_vector(x + i + s * kLanes<C>);
    }
    for (; i + kLanes<C> <= n; i += kLanes<C>) sums[0] += load_vector(x + i);
    C lanes[kLanes<C>];
    store_vector(lanes, (sums[0] + sums[1]) + (sums[2] + sums[3]));
    A total{0};
    for (int l = 0; l < kLanes<C>; ++l) total += static_cast<A>(lanes[l]);
    for (; i < n; ++i) total += static_cast<A>(x[i]);
    return total;
  }
  static A column(A acc, C x) { return acc + static_cast<A>(x); }
};
template <class C, class A>
struct Product {
  using Accumulator = A;
  static A start() { return A{1}; }
  static A column(A acc, C x) { return acc * static_cast<A>(x); }
  static A row(A acc, const C *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc = column(acc, x[i]);
    return acc;
  }
};
template <class C>
C min_value() {
  return C(-__builtin_inf());
}
template <>
int64_t min_value() {
  return INT64_MIN;
}
template <class C>
C max_value() {
  return C(__builtin_inf());
}
template <>
int64_t max_value() {
  return INT64_MAX;
}
// Returns the min or max of `acc` and n adjacent elements. better(a, b) returns the smaller or the larger of two
// vectors (elementwise) or single elements.
template <class C, class Better>
C extremum_of_row(C acc, const C *x, int64_t n, const Better &better) {
  constexpr int kChains = 4;
  Vector<C> best[kChains];
  for (int s = 0; s < kChains; ++s) best[s] = Vector<C>{} + acc;
  int64_t i = 0;
  for (; i + kChains * kLanes<C> <= n; i += kChains * kLanes<C>) {
    for (int s = 0; s < kChains; ++s) best[s] = better(best[s], load_vector(x + i + s * kLanes<C>));
  }
  for (; i + kLanes<C> <= n; i += kLanes<C>) best[0] = better(best[0], load_vector(x + i));
  const Vector<C> all = better(better(best[0], best[1]), better(best[2], best[3]));
  C lanes[kLanes<C>];
  store_vector(lanes, all);
  for (int l = 0; l < kLanes<C>; ++l) acc = better(acc, lanes[l]);
  for (; i < n; ++i) acc = better(acc, x[i]);
  return acc;
}

// The max of elements; NaN if an element is NaN. In the lambda of row(), b != b is true for a NaN b, and the result is
// b; if only `a` is NaN, both comparisons are false, and the result is `a`. Min below works in the same way.
template <class C>
struct Max {
  using Accumulator = C;
  static C start() { return min_value<C>(); }
  static C column(C acc, C x) { return nan_max(acc, x); }
  static C row(C acc, const C *x, int64_t n) {
    return extremum_of_row(acc, x, n, [](auto a, auto b) { return ((b > a) | (b != b)) ? b : a; });
  }
};
template <class C>
struct Min {
  using Accumulator = C;
  static C start() { return max_value<C>(); }
  static C column(C acc, C x) { return nan_min(acc, x); }
  static C row(C acc, const C *x, int64_t n) {
    return extremum_of_row(acc, x, n, [](auto a, auto b) { return ((b < a) | (b != b)) ? b : a; });
  }
};
template <class C>
struct Any {
  using Accumulator = int64_t;
  static int64_t start() { return 0; }
  static int64_t column(int64_t acc, C x) { return acc | static_cast<int64_t>(x != C{0}); }
  static int64_t row(int64_t acc, const C *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc = column(acc, x[i]);
    return acc;
  }
};
template <class C>
struct All {
  using Accumulator = int64_t;
  static int64_t start() { return 1; }
  static int64_t column(int64_t acc, C x) { return acc & static_cast<int64_t>(x != C{0}); }
  static int64_t row(int64_t acc, const C *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) acc = column(acc, x[i]);
    return acc;
  }
};

// Computes m outputs of a reduction: acc[i] becomes the reduction of the input elements of output i. `input` is the
// address of the first input element of output 0; the next output's first input element is `stride` bytes further on.
// If the caller passes `prepare`, prepare(x, n, columns) transforms n loaded elements in place before they are reduced:
// if `columns` is true, x[i] is an input element of output i; otherwise all n elements belong to output 0.
struct NoPrepare {};
template <class Op, class C, class Prepare = NoPrepare>
void fold(const Reduction &r, Type type, const char *input, int64_t stride, int64_t m, typename Op::Accumulator *acc,
          const Prepare &prepare = {}) {
  constexpr bool kPlain = __is_same(Prepare, NoPrepare);
  const bool in_place = kPlain && type == storage_of(compute_for<C>());
  alignas(64) C buffer[kReduceBlock];
  const auto loaded = [&](const char *source, int64_t step, int64_t n, bool columns) {
    if (in_place && (step == sizeof(C) || n == 1)) return reinterpret_cast<const C *>(source);
    load(type, source, step, n, buffer);
    if constexpr (!kPlain) prepare(buffer, n, columns);
    return static_cast<const C *>(buffer);
  };
  for (int64_t i = 0; i < m; ++i) acc[i] = Op::start();
  for_each_reduced(r, input, [&](const char *run, int64_t step, int64_t n) {
    if (r.by_columns) {
      for (int64_t i = 0; i < n; ++i) {
        const C *__restrict x = loaded(run + i * step, stride, m, true);
        for (int64_t k = 0; k < m; ++k) acc[k] = Op::column(acc[k], x[k]);
      }
      return;
    }
    const int64_t max_length = in_place && step == sizeof(C) ? n : kReduceBlock;
    for (int64_t start = 0; start < n; start += max_length) {
      const int64_t length = min_of(max_length, n - start);
      acc[0] = Op::row(acc[0], loaded(run + start * step, step, length, false), length);
    }
  });
}

template <class Op, class C>
void reduce(Call &call, const Reduction &r, Type from, Type to, double scale) {
  using A = typename Op::Accumulator;
  for_each_output(call, r, [&](const char *input, int64_t stride, char *output, int64_t out_stride, int64_t m) {
    A acc[kReduceBlock];
    fold<Op, C>(r, from, input, stride, m, acc);
    for (int64_t i = 0; scale != 1 && i < m; ++i) acc[i] = static_cast<A>(static_cast<double>(acc[i]) * scale);
    store(to, output, out_stride, m, acc);
  });
}

struct Arguments {
  Tensor self;
  Tensor out;
  uint32_t mask;
  bool keepdim;
};

// Tests whether any element is not zero (Op is Any), or all elements are not zero (Op is All).
template <template <class> class Op>
void truth(Call &call, const Arguments &a) {
  const Reduction r(call, a.out, a.self, a.mask, a.keepdim);
  if (call.failed()) return;
  with_compute(a.self.type(),
               [&](auto c) { reduce<Op<decltype(c)>, decltype(c)>(call, r, a.self.type(), a.out.type(), 1); });
}

int32_t any(Call &call, const Arguments &a) {
  truth<Any>(call, a);
  return call.status();
}

// Computes the sum, or the mean if `mean` is true. Elements are converted to the compute type of the dtype `common`. A
// sum of booleans is true if one of the booleans is true.
void sum(Call &call, const Arguments &a, Type common, bool mean) {
  if (!call.check_cast(common, a.out)) return;
  if (common == Type::kBool) return truth<Any>(call, a);
  const Reduction r(call, a.out, a.self, a.mask, a.keepdim);
  if (call.failed()) return;
  const double scale = mean ? 1.0 / static_cast<double>(r.count) : 1.0;
  // The mean of no elements must be NaN: the scale is infinity then, and 0 * infinity is NaN.
  const Compute compute = compute_of(common);
  if (compute == Compute::kFloat) return reduce<Sum<float, double>, float>(call, r, a.self.type(), a.out.type(), scale);
  if (compute == Compute::kDouble) {
    return reduce<Sum<double, double>, double>(call, r, a.self.type(), a.out.type(), scale);
  }
  reduce<Sum<int64_t, int64_t>, int64_t>(call, r, a.self.type(), a.out.type(), scale);
}

Type requested_type(Call &call, uint64_t i, Type default_type) {
  const Type type = static_cast<Type>(call.integer_or(i, static_cast<int64_t>(default_type)));
  call.check(is_supported(type), "this kernel library does not support the argument dtype");
  return type;
}

int32_t mean(Call &call, const Arguments &a, uint64_t dtype_index) {
  const Type common = requested_type(call, dtype_index, is_floating(a.out.type()) ? a.out.type() : a.self.type());
  call.check(is_floating(common), "the mean of integers needs a floating dtype");
  sum(call, a, common, true);
  return call.status();
}

template <template <class> class Op>
int32_t extremum(Call &call, const Arguments &a) {
  if (!call.check_cast(a.self.type(), a.out)) return call.status();
  const Reduction r(call, a.out, a.self, a.mask, a.keepdim);
  call.check(r.count > 0 || a.out.numel() == 0, "a reduction over no elements has no result");
  if (call.failed()) return call.status();
  with_compute(a.self.type(),
               [&](auto c) { reduce<Op<decltype(c)>, decltype(c)>(call, r, a.self.type(), a.out.type(), 1); });
  return call.status();
}

void product(Call &call, const Arguments &a, Type common) {
  if (!call.check_cast(common, a.out)) return;
  if (common == Type::kBool) return truth<All>(call, a);
  const Reduction r(call, a.out, a.self, a.mask, a.keepdim);
  if (call.failed()) return;
  const Compute compute = compute_of(common);
  if (compute == Compute::kFloat) reduce<Product<float, double>, float>(call, r, a.self.type(), a.out.type(), 1);
  if (compute == Compute::kDouble) reduce<Product<double, double>, double>(call, r, a.self.type(), a.out.type(), 1);
  if (compute == Compute::kInt) reduce<Product<int64_t, int64_t>, int64_t>(call, r, a.self.type(), a.out.type(), 1);
}

// Computes the variance in two passes, because E[x^2] - E[x]^2 would lose precision if the mean is large.
template <class C>
void variance(Call &call, const Reduction &r, Type from, Type to, double correction) {
  const double count = static_cast<double>(r.count);
  // A divisor of 0 makes the result NaN (0 / 0). The variance of no elements is NaN even for a negative correction.
  const double divisor = r.count > 0 && count - correction > 0 ? count - correction : 0;
  for_each_output(call, r, [&](const char *input, int64_t stride, char *output, int64_t out_stride, int64_t m) {
    double acc[kReduceBlock];
    C means[kReduceBlock];
    fold<Sum<C, double>, C>(r, from, input, stride, m, acc);
    for (int64_t i = 0; i < m; ++i) means[i] = static_cast<C>(acc[i] / count);
    fold<Sum<C, double>, C>(r, from, input, stride, m, acc, [&](C *x, int64_t n, bool columns) {
      for (int64_t i = 0; i < n; ++i) {
        const C distance = x[i] - means[columns ? i : 0];
        x[i] = distance * distance;
      }
    });
    for (int64_t i = 0; i < m; ++i) acc[i] /= divisor;
    store(to, output, out_stride, m, acc);
  });
}

int32_t variance(Call &call, const Arguments &a, double correction) {
  call.check(is_floating(a.self.type()), "the variance needs a floating dtype");
  if (!call.check_cast(a.self.type(), a.out)) return call.status();
  const Reduction r(call, a.out, a.self, a.mask, a.keepdim);
  if (call.failed()) return call.status();
  with_floating_compute(a.self.type(),
                        [&](auto c) { variance<decltype(c)>(call, r, a.self.type(), a.out.type(), correction); });
  return call.status();
}

Arguments all_of(Call &call, uint64_t out_index) {
  const Tensor self = call.tensor(0);
  return {self, call.tensor(out_index), reduced_dims(call, Ints(), self.ndim()), false};
}
Arguments dims_of(Call &call, uint64_t dims_index, uint64_t keepdim_index, uint64_t out_index) {
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(out_index);
  return {self, out, reduced_dims(call, call.ints(dims_index), self.ndim()), call.flag(keepdim_index)};
}
Arguments dim_of(Call &call, uint64_t dim_index, uint64_t keepdim_index, uint64_t out_index) {
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(out_index);
  const int64_t dim = call.integer(dim_index);
  return {self, out, reduced_dims(call, {&dim, 1}, self.ndim()), call.flag(keepdim_index)};
}
Type sum_type(Tensor self) { return is_floating(self.type()) ? self.type() : Type::kI64; }

}  // namespace

int32_t sum_int_list_out(const edgecore_call *raw) {
  Call call(raw, "aten::sum.IntList_out");
  const Arguments a = dims_of(call, 1, 2, 4);
  sum(call, a, requested_type(call, 3, sum_type(a.self)), false);
  return call.status();
}

int32_t mean_out(const edgecore_call *raw) {
  Call call(raw, "aten::mean.out");
  return mean(call, dims_of(call, 1, 2, 4), 3);
}

int32_t mean_dtype_out(const edgecore_call *raw) {
  Call call(raw, "aten::mean.dtype_out");
  return mean(call, all_of(call, 2), 1);
}

int32_t amax_out(const edgecore_call *raw) {
  Call call(raw, "aten::amax.out");
  return extremum<Max>(call, dims_of(call, 1, 2, 3));
}

int32_t amin_out(const edgecore_call *raw) {
  Call call(raw, "aten::amin.out");
  return extremum<Min>(call, dims_of(call, 1, 2, 3));
}

int32_t max_unary_out(const edgecore_call *raw) {
  Call call(raw, "aten::max.unary_out");
  return extremum<Max>(call, all_of(call, 1));
}

int32_t min_unary_out(const edgecore_call *raw) {
  Call call(raw, "aten::min.unary_out");
  return extremum<Min>(call, all_of(call, 1));
}

int32_t any_all_out(const edgecore_call *raw) {
  Call call(raw, "aten::any.all_out");
  return any(call, all_of(call, 1));
}

int32_t any_dims_out(const edgecore_call *raw) {
  Call call(raw, "aten::any.dims_out");
  Arguments a = dims_of(call, 1, 2, 3);
  // an empty list of dims reduces no dim, None reduces all dims
  if (!call.is_none(1) && call.ints(1).count == 0) a.mask = 0;
  return any(call, a);
}

int32_t any_out(const edgecore_call *raw) {
  Call call(raw, "aten::any.out");
  return any(call, dim_of(call, 1, 2, 3));
}

int32_t prod_out(const edgecore_call *raw) {
  Call call(raw, "aten::prod.out");
  const Arguments a = all_of(call, 2);
  product(call, a, requested_type(call, 1, sum_type(a.self)));
  return call.status();
}

int32_t prod_int_out(const edgecore_call *raw) {
  Call call(raw, "aten::prod.int_out");
  const Arguments a = dim_of(call, 1, 2, 4);
  product(call, a, requested_type(call, 3, sum_type(a.self)));
  return call.status();
}

int32_t var_correction_out(const edgecore_call *raw) {
  Call call(raw, "aten::var.correction_out");
  return variance(call, dims_of(call, 1, 3, 4), call.is_none(2) ? 1.0 : call.real(2));
}

int32_t var_mean_correction_out(const edgecore_call *raw) {
  Call call(raw, "aten::var_mean.correction_out");
  Arguments a = dims_of(call, 1, 3, 4);
  variance(call, a, call.is_none(2) ? 1.0 : call.real(2));
  a.out = call.tensor(5);  // output 0 of the operator is the variance, output 1 the mean
  if (call.failed()) return call.status();
  sum(call, a, a.self.type(), true);
  return call.status();
}

int32_t var_out(const edgecore_call *raw) {
  Call call(raw, "aten::var.out");
  return variance(call, dims_of(call, 1, 3, 4), call.flag(2) ? 1.0 : 0.0);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
