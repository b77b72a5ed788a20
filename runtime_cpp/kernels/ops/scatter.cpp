// Operators that scatter (write to the elements of a tensor that an index tensor selects), and operators whose output
// size depends on the values of the input.
#include <type_traits>

#include "lib/math.h"
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Copies self to `out`. The kernel overwrites some elements of `out` afterwards.
bool copy_self(Call &call, Tensor out, Tensor self) {
  if (!check_same_type(call, self, out) || !call.resize(out, self.shape())) return false;
  copy_tensor(call, out, self);
  return !call.failed();
}

Shape shape_of(Tensor t) {  // returns [1] for a tensor without dims, which counts as 1-d
  Shape shape = t.shape();
  if (shape.ndim == 0) shape.push(1);
  return shape;
}

template <class T>
void add_items(char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T *element = reinterpret_cast<T *>(target + i * target_stride);
    *element = static_cast<T>(*element + *reinterpret_cast<const T *>(source + i * source_stride));
  }
}

// Adds n elements at `source` to the n elements at `target`. All have dtype `type`; strides are in bytes.
void add_run(Type type, char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t n) {
  if (type == Type::kF32) return add_items<float>(target, target_stride, source, source_stride, n);
  if (type == Type::kI64) return add_items<int64_t>(target, target_stride, source, source_stride, n);
  const auto add = [&](auto zero) {
    using C = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      C a;
      C b;
      char *element = target + i * target_stride;
      load(type, element, 0, 1, &a);
      load(type, source + i * source_stride, 0, 1, &b);
      if constexpr (sizeof(C) == 8 && C(1) / C(2) == C(0)) {
        a = static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      } else {
        a += b;
      }
      store(type, element, 0, 1, &a);
    }
  };
  with_compute(type, add);
}

void copy_item(char *target, const char *source, int64_t item) {
  if (item == 4) {  // a memmove of a constant size is one instruction: use it for the most common size
    __builtin_memmove(target, source, 4);
  } else {
    __builtin_memmove(target, source, static_cast<uint64_t>(item));
  }
}

// Returns the number of elements of a computed shape. If the number is too large, records a failure and returns 0.
int64_t checked_numel(Call &call, const Shape &shape) {
  int64_t n = 1;
  for (int d = 0; d < shape.ndim; ++d) {
    if (__builtin_mul_overflow(n, shape.sizes[d], &n) || n > INT64_MAX / 16) {
      call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "shape " << shape << " has too many elements");
      return 0;
    }
  }
  return n;
}

// Calls body(target, source) for every entry of `index`. `source` is the address of the element of `source` at the
// entry's position, or NULL if there is no source. `target` is the address of the element of `out` at the same
// position, but with the entry's value as its index along `dim`.
template <class Body>
void for_each_entry(Call &call, Tensor out, Tensor index, int dim, const Tensor *source, const Body &body) {
  const Shape shape = shape_of(index);
  const Shape target = shape_of(out);
  bool fits = shape.ndim == target.ndim;
  for (int d = 0; fits && d < shape.ndim; ++d) fits = d == dim || shape.sizes[d] <= target.sizes[d];
  if (source != nullptr) {
    const Shape from = shape_of(*source);
    fits = fits && from.ndim == shape.ndim;
    for (int d = 0; fits && d < shape.ndim; ++d) fits = shape.sizes[d] <= from.sizes[d];
  }
  if (index.numel() == 0) return;
  if (!fits) {
    call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index of shape " << shape << " does not fit the input of shape "
                                                   << target << (source != nullptr ? " or the source" : ""));
    return;
  }
  const int64_t *entries = positions(call, index, target.sizes[dim], false);
  if (entries == nullptr) return;
  const int64_t item = item_size(out.type());
  const int64_t n = index.numel();
  int64_t to_strides[kMaxDims] = {};
  int64_t from_strides[kMaxDims] = {};
  for (int d = 0; d < out.ndim(); ++d) to_strides[d] = out.stride(d) * item;
  for (int d = 0; source != nullptr && d < source->ndim(); ++d) from_strides[d] = source->stride(d) * item;
  const int64_t step = to_strides[dim];
  to_strides[dim] = 0;
  char *to = out.data();
  const char *from = source == nullptr ? nullptr : source->data();
  int64_t position[kMaxDims] = {};
  for (int64_t i = 0; i < n; ++i) {
    body(to + entries[i] * step, from);
    for (int d = shape.ndim - 1; d >= 0; --d) {
      to += to_strides[d];
      if (from != nullptr) from += from_strides[d];
      if (++position[d] < shape.sizes[d]) break;
      to -= to_strides[d] * position[d];
      if (from != nullptr) from -= from_strides[d] * position[d];
      position[d] = 0;
    }
  }
}

int32_t scatter(Call &call, bool accumulate) {
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Tensor source = call.tensor(3);
  const Tensor out = call.tensor(4);
  call.check(call.failed() || source.type() == self.type(), "the source must have the input's dtype");
  if (call.failed() || !copy_self(call, out, self)) return call.status();
  const Type type = self.type();
  const int64_t item = item_size(type);
  for_each_entry(call, out, index, dim, &source, [&](char *to, const char *from) {
    if (accumulate) {
      add_run(type, to, 0, from, 0, 1);
    } else {
      copy_item(to, from, item);
    }
  });
  return call.status();
}

enum class Reduction { kSum, kMean, kProduct, kMaximum, kMinimum };

// The reductions of scatter_reduce, with the name of each in ATen.
constexpr struct {
  const char *name;
  uint64_t size;
  Reduction reduction;
} kReductions[] = {
    {"sum", 3, Reduction::kSum},      {"mean", 4, Reduction::kMean},    {"prod", 4, Reduction::kProduct},
    {"amax", 4, Reduction::kMaximum}, {"amin", 4, Reduction::kMinimum},
};

template <class C>
C combined(Reduction reduction, C a, C b) {
  if (reduction == Reduction::kMaximum) return nan_max(a, b);
  if (reduction == Reduction::kMinimum) return nan_min(a, b);
  if constexpr (std::is_same_v<C, int64_t>) {  // integer sums and products wrap
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<C>(reduction == Reduction::kProduct ? x * y : x + y);
  } else {
    return reduction == Reduction::kProduct ? a * b : a + b;
  }
}

// Returns the mean of `count` > 0 elements from their sum; for integers, rounded down.
template <class C>
C mean_of(C sum, int64_t count) {
  if constexpr (std::is_same_v<C, int64_t>) {
    return sum / count - (sum % count < 0 ? 1 : 0);
  } else {
    return sum / static_cast<C>(count);
  }
}

// Combines each entry of `source` with the element of `out` that its index selects. `out` is a copy of self. `counts`
// has the number of values combined in each element so far. An element with a count of 0 (without include_self) is
// replaced by the first entry for that element.
template <class C>
void scatter_reduce(Call &call, Tensor out, Tensor index, int dim, Tensor source, Reduction reduction,
                    int64_t *counts) {
  const Type type = out.type();
  const int64_t item = item_size(type);
  const char *first = out.data();
  for_each_entry(call, out, index, dim, &source, [&](char *to, const char *from) {
    C a;
    C b;
    load(type, to, 0, 1, &a);
    load(type, from, 0, 1, &b);
    if (counts[(to - first) / item]++ > 0) b = combined(reduction, a, b);
    store(type, to, 0, 1, &b);
  });
  if (call.failed() || reduction != Reduction::kMean) return;
  for (int64_t i = 0; i < out.numel(); ++i) {
    if (counts[i] < 2) continue;
    C sum;
    load(type, out.data() + i * item, 0, 1, &sum);
    sum = mean_of(sum, counts[i]);
    store(type, out.data() + i * item, 0, 1, &sum);
  }
}

// Writes `values` to out[indices], or adds `values` if `accumulate` is true. `out` is self, or already a copy of self.
int32_t index_put(Call &call, Tensor self, Tensor values, bool accumulate, Tensor out) {
  call.check(values.type() == self.type(), "the values must have the input's dtype");
  if (call.failed()) return call.status();
  const Indexing indexing(call, 1, self);
  const int64_t count = checked_numel(call, indexing.shape);
  const int64_t item = item_size(self.type());
  void *memory = call.failed() ? nullptr : call.scratch(count * item);
  if (memory == nullptr) return call.status();
  TensorView rows(memory, self.type(), indexing.shape);
  // PyTorch writes a single value to all positions of a mask, whatever the rank of the value's tensor is (masked_fill).
  // With other indices, export refuses a rank that is too high.
  TensorView single(values.data(), values.type(), Shape());
  copy_tensor(call, rows.tensor(), values.numel() == 1 ? single.tensor() : values);  // copy_tensor broadcasts
  if (call.failed() || count == 0) return call.status();
  TensorView target(out);
  Loop slice = indexing.slice(rows.strides, target.strides, target.shape, item);
  Loop written = slice;  // the slice's loop nest with exchanged operands: operand 0 is `out`
  for (int d = 0; d < slice.ndim; ++d) {
    written.strides[d][0] = slice.strides[d][1];
    written.strides[d][1] = slice.strides[d][0];
  }
  written.finish();
  const int common = indexing.common.ndim;
  const int64_t step = common > 0 ? rows.strides[indexing.leading_dims + common - 1] * item : 0;
  const int64_t combinations = indexing.common.numel();
  for (int64_t i = 0; i < combinations && !call.failed(); ++i) {
    written.data[0] = out.data() + indexing.offset(i, target.strides) * item;
    written.data[1] = static_cast<char *>(memory) + i * step;
    // Write combinations of indices in order, not in parallel: the last value for a repeated index must stay.
    if (!accumulate) {
      copy_strided(call, item, written);
      continue;
    }
    for_each_run(call, written, 16384, [&](char *const *data, const int64_t *strides, int64_t n) {
      add_run(self.type(), data[0], strides[0], data[1], strides[1], n);
    });
  }
  return call.status();
}

Shape broadcast_pair(Call &call, Tensor a, Tensor b) {
  const Tensor both[2] = {a, b};
  return broadcast(call, both, 2);
}

// Returns the elements of `t`, broadcast to `shape`, as bytes: 0 for false and 0.0, another number for all others.
// Returns NULL after a failure.
const uint8_t *as_bools(Call &call, Tensor t, const Shape &shape) {
  void *data = call.scratch(shape.numel());
  if (data == nullptr) return nullptr;
  TensorView rows(data, Type::kBool, shape);
  copy_tensor(call, rows.tensor(), t);
  return call.failed() ? nullptr : static_cast<const uint8_t *>(data);
}

bool check_mask(Call &call, Tensor mask) {
  return call.check(!call.failed() && mask.type() == Type::kBool, "the mask must be a bool tensor");
}

// Writes the indices of the true elements in `chosen`, a row-major array of the given shape: a row of shape.ndim
// integers for each of the first `limit`. Returns the number of rows.
int64_t write_indices(const uint8_t *chosen, const Shape &shape, int64_t limit, int64_t *row) {
  const int64_t n = shape.numel();
  int64_t count = 0;
  for (int64_t i = 0; i < n && count < limit; ++i) {
    if (chosen[i] == 0) continue;
    int64_t rest = i;
    for (int d = shape.ndim - 1; d >= 0; --d) {
      row[d] = rest % shape.sizes[d];
      rest /= shape.sizes[d];
    }
    row += shape.ndim;
    ++count;
  }
  return count;
}

}  // namespace

int32_t scatter_src_out(const edgecore_call *raw) {
  Call call(raw, "aten::scatter.src_out");
  return scatter(call, false);
}

int32_t scatter_add_out(const edgecore_call *raw) {
  Call call(raw, "aten::scatter_add.out");
  return scatter(call, true);
}

int32_t scatter_reduce_two_out(const edgecore_call *raw) {
  Call call(raw, "aten::scatter_reduce.two_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Tensor source = call.tensor(3);
  const edgecore_str name = call.string(4);
  const bool include_self = call.flag(5);
  const Tensor out = call.tensor(6);
  if (call.failed()) return call.status();
  const auto *chosen = &kReductions[0];
  const auto *end = chosen + sizeof(kReductions) / sizeof(kReductions[0]);
  while (chosen < end && (name.size != chosen->size || __builtin_memcmp(name.data, chosen->name, name.size) != 0)) {
    ++chosen;
  }
  call.check(chosen < end, "argument 'reduce' must be 'sum', 'mean', 'prod', 'amax' or 'amin'");
  call.check(call.failed() || source.type() == self.type(), "the source must have the input's dtype");
  if (call.failed() || !copy_self(call, out, self)) return call.status();
  int64_t *counts = call.scratch<int64_t>(out.numel());
  if (counts == nullptr) return call.status();
  for (int64_t i = 0; i < out.numel(); ++i) counts[i] = include_self ? 1 : 0;
  with_compute(out.type(), [&](auto zero) {
    scatter_reduce<decltype(zero)>(call, out, index, dim, source, chosen->reduction, counts);
  });
  return call.status();
}

int32_t scatter_value_out(const edgecore_call *raw) {
  Call call(raw, "aten::scatter.value_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Scalar value = call.scalar(3);
  const Tensor out = call.tensor(4);
  if (call.failed() || !copy_self(call, out, self)) return call.status();
  const int64_t item = item_size(out.type());
  char bytes[16];
  fill(out.type(), bytes, 1, value);
  for_each_entry(call, out, index, dim, nullptr, [&](char *to, const char *) { copy_item(to, bytes, item); });
  return call.status();
}

int32_t index_put_out(const edgecore_call *raw) {
  Call call(raw, "aten::index_put.out");
  const Tensor self = call.tensor(0);
  const Tensor values = call.tensor(2);
  const bool accumulate = call.flag(3);
  const Tensor out = call.tensor(4);
  if (call.failed() || !copy_self(call, out, self)) return call.status();
  return index_put(call, self, values, accumulate, out);
}

int32_t index_put_in_place(const edgecore_call *raw) {
  Call call(raw, "aten::index_put_");
  const Tensor self = call.tensor(0);
  const Tensor values = call.tensor(2);
  const bool accumulate = call.flag(3);
  if (call.failed() || !call.resize(self, self.shape(), "self")) return call.status();
  return index_put(call, self, values, accumulate, self);
}

int32_t select_scatter_out(const edgecore_call *raw) {
  Call call(raw, "aten::select_scatter.out");
  const Tensor self = call.tensor(0);
  const Tensor source = call.tensor(1);
  const int dim = call.dim(2, self.ndim());
  int64_t index = call.integer(3);
  const Tensor out = call.tensor(4);
  if (!call.check(self.ndim() > 0, "the tensor has no dims to select from")) return call.status();
  const int64_t size = self.size(dim);
  if (index < -size || index >= size) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index " << index << " is out of range for size " << size);
  }
  if (!copy_self(call, out, self)) return call.status();
  TensorView part(out);
  part.narrow(dim, index < 0 ? index + size : index, 1);
  part.remove_dim(dim);
  if (call.check_same_shape(part.shape, source.shape(), "the source")) copy_tensor(call, part.tensor(), source);
  return call.status();
}

int32_t slice_scatter_out(const edgecore_call *raw) {
  Call call(raw, "aten::slice_scatter.out");
  const Tensor self = call.tensor(0);
  const Tensor source = call.tensor(1);
  const int dim = call.dim(2, self.ndim());
  const int64_t step = call.integer(5);
  const Tensor out = call.tensor(6);
  call.check(self.ndim() > 0, "the tensor has no dims to slice");
  if (!call.check(step > 0, "step must be positive")) return call.status();
  const int64_t size = self.size(dim);
  const auto clamped = [&](int64_t i) {
    if (i < 0) i = i < -size ? 0 : i + size;
    return i > size ? size : i;
  };
  const int64_t start = clamped(call.integer_or(3, 0));
  const int64_t end = clamped(call.integer_or(4, INT64_MAX));
  if (call.failed() || !copy_self(call, out, self)) return call.status();
  TensorView part(out);
  part.narrow(dim, start, end > start ? (end - start - 1) / step + 1 : 0, step);
  if (call.check_same_shape(part.shape, source.shape(), "the source")) copy_tensor(call, part.tensor(), source);
  return call.status();
}

int32_t masked_scatter_out(const edgecore_call *raw) {
  Call call(raw, "aten::masked_scatter.out");
  const Tensor self = call.tensor(0);
  const Tensor mask = call.tensor(1);
  const Tensor source = call.tensor(2);
  const Tensor out = call.tensor(3);
  check_mask(call, mask);
  call.check(call.failed() || source.type() == self.type(), "the source must have the input's dtype");
  if (call.failed() || !check_same_type(call, self, out)) return call.status();
  const Shape shape = broadcast_pair(call, self, mask);
  if (call.failed() || !call.resize(out, shape)) return call.status();
  const uint8_t *chosen = as_bools(call, mask, shape);
  const char *from = dense_bytes(call, source);
  if (call.failed()) return call.status();
  const int64_t item = item_size(self.type());
  char *rows = static_cast<char *>(call.scratch(shape.numel() * item));
  if (rows == nullptr) return call.status();
  TensorView result(rows, self.type(), shape);
  copy_tensor(call, result.tensor(), self);
  int64_t used = 0;
  const int64_t available = source.numel();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (chosen[i] == 0) continue;
    if (used == available) {
      return call.fail(EDGECORE_INVALID_ARGUMENT,
                       Message() << "the mask has more true elements than the source's " << available);
    }
    copy_item(rows + i * item, from + used++ * item, item);
  }
  copy_tensor(call, out, result.tensor());
  return call.status();
}

int32_t masked_select_out(const edgecore_call *raw) {
  Call call(raw, "aten::masked_select.out");
  const Tensor self = call.tensor(0);
  const Tensor mask = call.tensor(1);
  const Tensor out = call.tensor(2);
  if (!check_mask(call, mask) || !check_same_type(call, self, out)) return call.status();
  const Shape shape = broadcast_pair(call, self, mask);
  const int64_t n = checked_numel(call, shape);
  const uint8_t *chosen = call.failed() ? nullptr : as_bools(call, mask, shape);
  const int64_t item = item_size(self.type());
  char *rows = chosen == nullptr ? nullptr : static_cast<char *>(call.scratch(n * item));
  if (rows == nullptr) return call.status();
  TensorView dense_self(rows, self.type(), shape);
  copy_tensor(call, dense_self.tensor(), self);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (chosen[i] != 0) copy_item(rows + count++ * item, rows + i * item, item);
  }
  Shape result;
  result.push(count);
  if (call.resize(out, result) && count > 0) __builtin_memcpy(out.data(), rows, static_cast<uint64_t>(count * item));
  return call.status();
}

int32_t nonzero_out(const edgecore_call *raw) {
  Call call(raw, "aten::nonzero.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(1);
  if (!call.check(!call.failed() && out.type() == Type::kI64, "out must be int64")) return call.status();
  const Shape shape = self.shape();
  const uint8_t *chosen = as_bools(call, self, shape);
  if (chosen == nullptr) return call.status();
  const int64_t n = self.numel();
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += chosen[i] != 0;  // in a damaged file a bool may be any byte, not only 0 or 1
  Shape result;
  result.push(count);
  result.push(shape.ndim);
  if (!call.resize(out, result)) return call.status();
  DenseOut<int64_t> rows(call, out);
  if (rows.data() != nullptr) write_indices(chosen, shape, count, rows.data());
  rows.finish(call);
  return call.status();
}

int32_t nonzero_static_out(const edgecore_call *raw) {
  Call call(raw, "aten::nonzero_static.out");
  const Tensor self = call.tensor(0);
  const int64_t size = call.integer(1);
  const int64_t fill_value = call.integer(2);
  const Tensor out = call.tensor(3);
  call.check(call.failed() || size >= 0, "size must not be negative");
  if (!call.check(!call.failed() && out.type() == Type::kI64, "out must be int64")) return call.status();
  const Shape shape = self.shape();
  Shape result;
  result.push(size);
  result.push(shape.ndim);
  if (!call.resize(out, result)) return call.status();
  const uint8_t *chosen = as_bools(call, self, shape);
  DenseOut<int64_t> rows(call, out);
  if (call.failed()) return call.status();
  const int64_t written = write_indices(chosen, shape, size, rows.data()) * shape.ndim;
  for (int64_t i = written; i < out.numel(); ++i) rows.data()[i] = fill_value;
  rows.finish(call);
  return call.status();
}

int32_t repeat_interleave_out(const edgecore_call *raw) {
  Call call(raw, "aten::repeat_interleave.Tensor_out");
  const Tensor repeats = call.tensor(0);
  const Tensor out = call.tensor(2);
  call.check(call.failed() || repeats.ndim() == 1, "repeats must have one dim");
  call.check(call.failed() || repeats.type() == Type::kI32 || repeats.type() == Type::kI64,
             "repeats must be int32 or int64");
  if (call.failed() || !check_same_type(call, repeats, out)) return call.status();
  const int64_t n = repeats.numel();
  int64_t *counts = call.scratch<int64_t>(n);
  if (counts == nullptr) return call.status();
  TensorView copy(counts, Type::kI64, repeats.shape());
  copy_tensor(call, copy.tensor(), repeats);
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!call.check(counts[i] >= 0, "repeats must not be negative")) return call.status();
    if (!call.check(!__builtin_add_overflow(total, counts[i], &total), "repeats are too large")) return call.status();
  }
  if (!call.is_none(1) && !call.check(call.integer(1) == total, "output_size must be the sum of the repeats")) {
    return call.status();
  }
  Shape result;
  result.push(total);
  if (!call.resize(out, result)) return call.status();
  DenseOut<int64_t> rows(call, out);
  int64_t *target = rows.data();
  for (int64_t i = 0; target != nullptr && i < n; ++i) {
    for (int64_t k = 0; k < counts[i]; ++k) *target++ = i;
  }
  rows.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
