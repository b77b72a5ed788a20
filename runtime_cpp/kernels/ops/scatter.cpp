// Operators that write at positions given by a tensor, and those whose output's size depends on their input's values.
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// out = self, before some of it is written over.
bool start_from(Call &call, Tensor out, Tensor self) {
  if (!check_same_type(call, self, out) || !call.resize(out, self.shape())) return false;
  copy_tensor(call, out, self);
  return !call.failed();
}

Shape lifted(Tensor t) {  // tensors without dims count as having one
  Shape shape = t.shape();
  if (shape.ndim == 0) shape.push(1);
  return shape;
}

template <class T>
void add_items(char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T *at = reinterpret_cast<T *>(target + i * target_stride);
    *at = static_cast<T>(*at + *reinterpret_cast<const T *>(source + i * source_stride));
  }
}

// Adds n elements of `type` at `source` to those at `target`; strides in bytes.
void add_run(Type type, char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t n) {
  if (type == Type::kF32) return add_items<float>(target, target_stride, source, source_stride, n);
  if (type == Type::kI64) return add_items<int64_t>(target, target_stride, source, source_stride, n);
  const auto add = [&](auto zero) {
    using C = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      C a;
      C b;
      char *at = target + i * target_stride;
      load(type, at, 0, 1, &a);
      load(type, source + i * source_stride, 0, 1, &b);
      if constexpr (sizeof(C) == 8 && C(1) / C(2) == C(0)) {
        a = static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      } else {
        a += b;
      }
      store(type, at, 0, 1, &a);
    }
  };
  const Compute compute = compute_of(type);
  if (compute == Compute::kFloat) add(float{});
  if (compute == Compute::kDouble) add(double{});
  if (compute == Compute::kInt) add(int64_t{});
}

void copy_item(char *target, const char *source, int64_t item) {
  if (item == 4) {  // the size most tensors have, as one instruction
    __builtin_memmove(target, source, 4);
  } else {
    __builtin_memmove(target, source, static_cast<uint64_t>(item));
  }
}

// Elements of a shape that no memory was planned for; 0 after a failure.
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

// Calls body(target, source) for every entry of `index`: the element of `out` at its position, but for `dim`, where the
// entry says; and the element of `source` at its position (NULL without a source).
template <class Body>
void for_each_entry(Call &call, Tensor out, Tensor index, int dim, const Tensor *source, const Body &body) {
  const Shape shape = lifted(index);
  const Shape target = lifted(out);
  bool fits = shape.ndim == target.ndim;
  for (int d = 0; fits && d < shape.ndim; ++d) fits = d == dim || shape.sizes[d] <= target.sizes[d];
  if (source != nullptr) {
    const Shape given = lifted(*source);
    fits = fits && given.ndim == shape.ndim;
    for (int d = 0; fits && d < shape.ndim; ++d) fits = shape.sizes[d] <= given.sizes[d];
  }
  if (index.numel() == 0) return;
  if (!fits) {
    call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index of shape " << shape << " does not fit the input of shape "
                                                   << target << (source != nullptr ? " or the source" : ""));
    return;
  }
  const int64_t *where = positions(call, index, target.sizes[dim], false);
  if (where == nullptr) return;
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
  int64_t at[kMaxDims] = {};
  for (int64_t i = 0; i < n; ++i) {
    body(to + where[i] * step, from);
    for (int d = shape.ndim - 1; d >= 0; --d) {
      to += to_strides[d];
      if (from != nullptr) from += from_strides[d];
      if (++at[d] < shape.sizes[d]) break;
      to -= to_strides[d] * at[d];
      if (from != nullptr) from -= from_strides[d] * at[d];
      at[d] = 0;
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
  if (call.failed() || !start_from(call, out, self)) return call.status();
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

// Values of self[indices] are replaced in `out`, which holds self, or added to.
int32_t put(Call &call, Tensor self, Tensor values, bool accumulate, Tensor out) {
  call.check(values.type() == self.type(), "the values must have the input's dtype");
  if (call.failed()) return call.status();
  const Indexing indexing(call, 1, self);
  const int64_t count = checked_numel(call, indexing.shape);
  const int64_t item = item_size(self.type());
  void *memory = call.failed() ? nullptr : call.scratch(count * item);
  if (memory == nullptr) return call.status();
  TensorOn rows(memory, self.type(), indexing.shape);
  copy_tensor(call, rows.tensor(), values);  // broadcasts
  if (call.failed() || count == 0) return call.status();
  TensorOn target(out);
  Loop slice = indexing.slice(rows.strides, target.strides, target.shape, item);
  Loop written = slice;  // operand 0 is where it goes
  for (int d = 0; d < slice.ndim; ++d) {
    written.strides[d][0] = slice.strides[d][1];
    written.strides[d][1] = slice.strides[d][0];
  }
  written.finish();
  const int common = indexing.common.ndim;
  const int64_t step = common > 0 ? rows.strides[indexing.place + common - 1] * item : 0;
  const int64_t combinations = indexing.common.numel();
  for (int64_t i = 0; i < combinations && !call.failed(); ++i) {
    written.data[0] = out.data() + indexing.offset(i, target.strides) * item;
    written.data[1] = static_cast<char *>(memory) + i * step;
    // One combination after the other: indices may repeat, and the last value stays.
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

Shape broadcast_two(Call &call, Tensor a, Tensor b) {
  const Tensor both[2] = {a, b};
  return broadcast(call, both, 2);
}

// The elements of `t`, broadcast to `shape`, as bytes 0 and 1. NULL after a failure.
const uint8_t *bits(Call &call, Tensor t, const Shape &shape) {
  void *data = call.scratch(shape.numel());
  if (data == nullptr) return nullptr;
  TensorOn rows(data, Type::kBool, shape);
  copy_tensor(call, rows.tensor(), t);
  return call.failed() ? nullptr : static_cast<const uint8_t *>(data);
}

bool check_mask(Call &call, Tensor mask) {
  return call.check(!call.failed() && mask.type() == Type::kBool, "the mask must be a bool tensor");
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

int32_t scatter_value_out(const edgecore_call *raw) {
  Call call(raw, "aten::scatter.value_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Scalar value = call.scalar(3);
  const Tensor out = call.tensor(4);
  if (call.failed() || !start_from(call, out, self)) return call.status();
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
  if (call.failed() || !start_from(call, out, self)) return call.status();
  return put(call, self, values, accumulate, out);
}

int32_t index_put_in_place(const edgecore_call *raw) {
  Call call(raw, "aten::index_put_");
  const Tensor self = call.tensor(0);
  const Tensor values = call.tensor(2);
  const bool accumulate = call.flag(3);
  if (call.failed() || !call.resize(self, self.shape(), "self")) return call.status();
  return put(call, self, values, accumulate, self);
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
  if (!start_from(call, out, self)) return call.status();
  TensorOn part(out);
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
  if (call.failed() || !start_from(call, out, self)) return call.status();
  TensorOn part(out);
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
  const Shape shape = broadcast_two(call, self, mask);
  if (call.failed() || !call.resize(out, shape)) return call.status();
  const uint8_t *chosen = bits(call, mask, shape);
  const char *from = dense_bytes(call, source);
  if (call.failed()) return call.status();
  const int64_t item = item_size(self.type());
  char *rows = static_cast<char *>(call.scratch(shape.numel() * item));
  if (rows == nullptr) return call.status();
  TensorOn result(rows, self.type(), shape);
  copy_tensor(call, result.tensor(), self);
  int64_t taken = 0;
  const int64_t available = source.numel();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (chosen[i] == 0) continue;
    if (taken == available) {
      return call.fail(EDGECORE_INVALID_ARGUMENT,
                       Message() << "the mask has more true elements than the source's " << available);
    }
    copy_item(rows + i * item, from + taken++ * item, item);
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
  const Shape shape = broadcast_two(call, self, mask);
  const int64_t n = checked_numel(call, shape);
  const uint8_t *chosen = call.failed() ? nullptr : bits(call, mask, shape);
  const int64_t item = item_size(self.type());
  char *rows = chosen == nullptr ? nullptr : static_cast<char *>(call.scratch(n * item));
  if (rows == nullptr) return call.status();
  TensorOn dense_self(rows, self.type(), shape);
  copy_tensor(call, dense_self.tensor(), self);
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (chosen[i] != 0) copy_item(rows + found++ * item, rows + i * item, item);
  }
  Shape result;
  result.push(found);
  if (call.resize(out, result) && found > 0) __builtin_memcpy(out.data(), rows, static_cast<uint64_t>(found * item));
  return call.status();
}

int32_t nonzero_out(const edgecore_call *raw) {
  Call call(raw, "aten::nonzero.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(1);
  if (!call.check(!call.failed() && out.type() == Type::kI64, "out must be int64")) return call.status();
  const Shape shape = self.shape();
  const int64_t n = self.numel();
  const uint8_t *chosen = bits(call, self, shape);
  if (chosen == nullptr) return call.status();
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) found += chosen[i] != 0;  // a file's bools may be any byte
  Shape result;
  result.push(found);
  result.push(shape.ndim);
  if (!call.resize(out, result)) return call.status();
  DenseOut<int64_t> rows(call, out);
  int64_t *at = rows.data();
  for (int64_t i = 0; at != nullptr && i < n; ++i) {
    if (chosen[i] == 0) continue;
    int64_t rest = i;
    for (int d = shape.ndim - 1; d >= 0; --d) {
      at[d] = rest % shape.sizes[d];
      rest /= shape.sizes[d];
    }
    at += shape.ndim;
  }
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
  TensorOn copy(counts, Type::kI64, repeats.shape());
  copy_tensor(call, copy.tensor(), repeats);
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!call.check(counts[i] >= 0, "repeats must not be negative")) return call.status();
    if (!call.check(!__builtin_add_overflow(total, counts[i], &total), "repeats are too large")) return call.status();
  }
  if (!call.is_none(1) && !call.check(call.integer(1) == total, "output_size is not the sum of the repeats")) {
    return call.status();
  }
  Shape result;
  result.push(total);
  if (!call.resize(out, result)) return call.status();
  DenseOut<int64_t> rows(call, out);
  int64_t *at = rows.data();
  for (int64_t i = 0; at != nullptr && i < n; ++i) {
    for (int64_t k = 0; k < counts[i]; ++k) *at++ = i;
  }
  rows.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
