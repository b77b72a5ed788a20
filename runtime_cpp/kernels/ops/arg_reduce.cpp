// Operators that find the index of the max or min along a dim: argmax, argmin, max.dim, min.dim. Of equal elements, the
// first one is found. NaN counts as larger (for a min: smaller) than every number.
#include "lib/math.h"
#include "ops/reduce.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

template <class C, bool kMax>
bool is_better(C x, C best) {
  return (kMax ? x > best : x < best) || (is_nan(x) && !is_nan(best));
}

// Finds the max or min along `dim`. Writes the element to `values`, unless that tensor is absent, and its index to
// `indices`.
template <class C, bool kMax>
void find_extremum(Call &call, Tensor input, int dim, Tensor values, Tensor indices, bool keepdim) {
  Loop kept;
  kept.ndim = 0;
  kept.count = 3;
  kept.data[0] = indices.data();
  kept.data[1] = input.data();
  kept.data[2] = values.t != nullptr ? values.data() : indices.data();
  const int64_t item = item_size(input.type());
  for (int d = 0, o = 0; d < input.ndim(); ++d) {
    if (d == dim) {
      o += keepdim;
      continue;
    }
    const int64_t strides[3] = {indices.stride(o) * item_size(indices.type()), input.stride(d) * item,
                                values.t != nullptr ? values.stride(o) * item_size(values.type()) : 0};
    kept.add_dim(input.size(d), strides);
    ++o;
  }
  kept.finish();
  const int64_t count = input.ndim() == 0 ? 1 : input.size(dim);
  const int64_t step = input.ndim() == 0 ? 0 : input.stride(dim) * item;
  const Type type = input.type();
  const auto store_results = [&](char *const *data, const int64_t *strides, int64_t o, int64_t m, const C *best,
                                 const int64_t *best_index) {
    store(indices.type(), data[0] + o * strides[0], strides[0], m, best_index);
    if (values.t != nullptr) store(values.type(), data[2] + o * strides[2], strides[2], m, best);
  };
  for_each_run(call, kept, 32768 / (count + 1) + 1, [&](char *const *data, const int64_t *strides, int64_t n) {
    alignas(64) C buffer[kReduceBlock];
    alignas(64) C best[kReduceBlock];
    int64_t best_index[kReduceBlock];
    // If the reduced dim has the smallest stride, compute one output after the other. Otherwise compute a block of
    // adjacent outputs together, so that the input is read in the order of its memory.
    const bool rows = n == 1 || step < strides[1];
    for (int64_t o = 0; o < n;) {
      const char *first = data[1] + o * strides[1];
      if (rows) {
        load(type, first, step, 1, best);
        best_index[0] = 0;
        for (int64_t i = 0; i < count; i += kReduceBlock) {
          const int64_t length = count - i < kReduceBlock ? count - i : kReduceBlock;
          load(type, first + i * step, step, length, buffer);
          for (int64_t k = 0; k < length; ++k) {
            if (!is_better<C, kMax>(buffer[k], best[0])) continue;
            best[0] = buffer[k];
            best_index[0] = i + k;
          }
        }
        store_results(data, strides, o, 1, best, best_index);
        ++o;
        continue;
      }
      const int64_t m = n - o < kReduceBlock ? n - o : kReduceBlock;
      load(type, first, strides[1], m, best);
      for (int64_t k = 0; k < m; ++k) best_index[k] = 0;
      for (int64_t i = 1; i < count; ++i) {
        load(type, first + i * step, strides[1], m, buffer);
        for (int64_t k = 0; k < m; ++k) {
          const bool better = is_better<C, kMax>(buffer[k], best[k]);
          best[k] = better ? buffer[k] : best[k];
          best_index[k] = better ? i : best_index[k];
        }
      }
      store_results(data, strides, o, m, best, best_index);
      o += m;
    }
  });
}

template <bool kMax>
void find_extremum(Call &call, Tensor input, int dim, Tensor values, Tensor indices, bool keepdim) {
  if (call.failed() || indices.numel() == 0) return;
  if (!call.check(input.numel() > 0, "a reduction over no elements has no result")) return;
  with_compute(input.type(),
               [&](auto c) { find_extremum<decltype(c), kMax>(call, input, dim, values, indices, keepdim); });
}

template <bool kMax>
int32_t arg_extremum(const edgecore_call *raw, const char *op) {
  Call call(raw, op);
  Tensor self = call.tensor(0);
  const Tensor out = call.tensor(3);
  const bool flat = call.is_none(1);
  const bool keepdim = call.flag(2);
  call.check(out.type() == Type::kI64, "out must be int64");
  if (!flat) {
    const int dim = call.dim(1, self.ndim());
    const uint32_t mask = self.ndim() == 0 ? 0 : 1u << dim;
    if (call.resize(out, reduced_shape(self.shape(), mask, keepdim))) {
      find_extremum<kMax>(call, self, dim, Tensor(), out, keepdim);
    }
    return call.status();
  }
  // Without an argument `dim`, search all elements: treat them, in row-major order, as a tensor with one dim.
  const uint32_t mask = reduced_dims(call, Ints(), self.ndim());
  if (!call.resize(out, reduced_shape(self.shape(), mask, keepdim))) return call.status();
  void *data = self.data();
  if (!self.is_contiguous()) {
    data = call.scratch(self.numel() * item_size(self.type()));
    if (data == nullptr) return call.status();
    TensorView rows(data, self.type(), self.shape());
    copy_tensor(call, rows.tensor(), self);
  }
  Shape row;
  row.push(self.numel());
  TensorView view(data, self.type(), row);
  TensorView target(out.data(), out.type(), Shape());
  find_extremum<kMax>(call, view.tensor(), 0, Tensor(), target.tensor(), false);
  return call.status();
}

template <bool kMax>
int32_t extremum_of_dim(const edgecore_call *raw, const char *op) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const bool keepdim = call.flag(2);
  const Tensor values = call.tensor(3);
  const Tensor indices = call.tensor(4);
  const Shape shape = reduced_shape(self.shape(), self.ndim() == 0 ? 0 : 1u << dim, keepdim);
  call.check(indices.type() == Type::kI64, "the indices must be int64");
  if (call.check_cast(self.type(), values) && call.resize(values, shape, "values") &&
      call.resize(indices, shape, "indices")) {
    find_extremum<kMax>(call, self, dim, values, indices, keepdim);
  }
  return call.status();
}

}  // namespace

int32_t argmax_out(const edgecore_call *raw) { return arg_extremum<true>(raw, "aten::argmax.out"); }
int32_t argmin_out(const edgecore_call *raw) { return arg_extremum<false>(raw, "aten::argmin.out"); }
int32_t max_dim_max(const edgecore_call *raw) { return extremum_of_dim<true>(raw, "aten::max.dim_max"); }
int32_t min_dim_min(const edgecore_call *raw) { return extremum_of_dim<false>(raw, "aten::min.dim_min"); }

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
