// Operators that only rearrange elements. Each operator describes its result as a strided view of the input and copies
// the view.
#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Resizes `out` to the shape of a view and copies the view to it.
int32_t copy_view(Call &call, Tensor out, TensorView &view) {
  if (call.resize(out, view.shape)) copy_tensor(call, out, view.tensor());
  return call.status();
}

// Returns the shape of a view with `numel` elements. One of `sizes` may be -1: that size is computed from the others.
Shape infer_shape(Call &call, Ints sizes, int64_t numel) {
  Shape shape;
  if (!call.check(sizes.count <= kMaxDims, "too many dims")) return shape;
  int64_t known = 1;
  int unknown = -1;
  for (int64_t d = 0; d < sizes.count; ++d) {
    shape.push(sizes[d]);
    if (sizes[d] != -1) {
      call.check(sizes[d] >= 0, "a size is negative");
      known *= sizes[d];
    } else {
      call.check(unknown < 0, "only one size may be -1");
      unknown = static_cast<int>(d);
    }
  }
  if (unknown >= 0 && known > 0) shape.sizes[unknown] = numel / known;
  if (!call.failed() && (shape.numel() != numel || (unknown >= 0 && known == 0))) {
    call.fail(EDGECORE_INVALID_ARGUMENT, Message() << numel << " elements cannot have the shape " << shape);
  }
  return shape;
}

int64_t clamp_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index < 0 ? 0 : index > size ? size : index;
}

}  // namespace

int32_t view_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::view_copy.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(2);
  const Shape shape = infer_shape(call, call.ints(1), self.numel());
  if (!call.resize(out, shape)) return call.status();
  void *data = self.data();
  if (!self.is_contiguous()) {
    data = call.scratch(self.numel() * item_size(self.type()));
    if (data == nullptr) return call.status();
    TensorView rows(data, self.type(), self.shape());
    copy_tensor(call, rows.tensor(), self);
  }
  TensorView view(data, self.type(), shape);
  copy_tensor(call, out, view.tensor());
  return call.status();
}

// Makes the output a view of the input: the output uses the input's memory, with another shape.
int32_t et_view(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::et_view.default");
  const Tensor self = call.tensor(0);
  const Ints sizes = call.ints(1);
  const edgecore_value *slot = call.result(2);
  if (slot->tag != EDGECORE_TAG_TENSOR || slot->as.tensor == nullptr) {
    return call.fail(EDGECORE_INVALID_TYPE, Message() << "argument 2 must be a tensor");
  }
  const Tensor out = {slot->as.tensor};
  const Shape shape = infer_shape(call, sizes, self.numel());
  call.check(self.is_contiguous(), "the input must be contiguous");
  if (call.failed()) return call.status();
  out.t->dl.data = self.t->dl.data;
  out.t->dl.byte_offset = self.t->dl.byte_offset;
  out.t->capacity = self.t->capacity;
  call.resize(out, shape);
  return call.status();
}

// Collects the results of a loop in one tensor: to[index] = from, after `to` is resized to index + 1 entries. The call
// with index 0 determines the shape of an entry.
int32_t et_copy_index(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::et_copy_index.tensor");
  const Tensor to = call.tensor(0);
  const Tensor from = call.tensor(1);
  const int64_t index = call.integer(2);
  if (call.failed() ||
      !call.check(to.ndim() == from.ndim() + 1 && to.type() == from.type(),
                  "the target must have one more dim than the source, and its dtype") ||
      !call.check(index >= 0 && index < INT64_MAX, "the index is negative")) {
    return call.status();
  }
  Shape shape;
  shape.push(index + 1);
  for (int d = 0; d < from.ndim(); ++d) {
    shape.push(from.size(d));
    if (index > 0 && to.size(d + 1) != from.size(d)) {
      return call.fail(EDGECORE_INVALID_ARGUMENT,
                       Message() << "the source has shape " << from.shape() << " but the target " << to.shape());
    }
  }
  // Check that dim 0 is the outermost dim in memory, because otherwise the resize would move the earlier entries.
  for (int d = 1; d < to.ndim() && to.numel() > 0; ++d) {
    call.check(to.stride(d) <= to.stride(0), "dim 0 of the target must be the outermost in memory");
  }
  if (!call.resize(to, shape, "to")) return call.status();
  TensorView entry(to);
  entry.narrow(0, index, 1);
  entry.remove_dim(0);
  copy_tensor(call, entry.tensor(), from);
  return call.status();
}

int32_t permute_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::permute_copy.out");
  const Tensor self = call.tensor(0);
  const Ints dims = call.ints(1);
  const Tensor out = call.tensor(2);
  if (!call.check(dims.count == self.ndim(), "dims must name every dim once")) return call.status();
  TensorView view(self);
  uint32_t seen = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    const int from = call.wrap_dim(dims[d], self.ndim());
    seen |= 1u << from;
    view.shape.sizes[d] = self.size(from);
    view.strides[d] = self.stride(from);
  }
  call.check(seen + 1 == 1u << self.ndim(), "dims must name every dim once");
  return copy_view(call, out, view);
}

static int32_t transpose(Call &call, Tensor self, int a, int b, Tensor out) {
  if (call.failed()) return call.status();
  TensorView view(self);
  if (self.ndim() > 0) {
    view.shape.sizes[a] = self.size(b);
    view.strides[a] = self.stride(b);
    view.shape.sizes[b] = self.size(a);
    view.strides[b] = self.stride(a);
  }
  return copy_view(call, out, view);
}

int32_t transpose_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::transpose_copy.int_out");
  const Tensor self = call.tensor(0);
  const int a = call.dim(1, self.ndim());
  const int b = call.dim(2, self.ndim());
  return transpose(call, self, a, b, call.tensor(3));
}

int32_t t_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::t_copy.out");
  const Tensor self = call.tensor(0);
  call.check(self.ndim() <= 2, "the tensor must have at most two dims");
  return transpose(call, self, 0, self.ndim() == 2 ? 1 : 0, call.tensor(1));
}

int32_t squeeze_copy_dim_out(const edgecore_call *raw) {
  Call call(raw, "aten::squeeze_copy.dim_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  TensorView view(self);
  if (self.ndim() > 0 && self.size(dim) == 1) view.remove_dim(dim);
  return copy_view(call, call.tensor(2), view);
}

int32_t squeeze_copy_dims_out(const edgecore_call *raw) {
  Call call(raw, "aten::squeeze_copy.dims_out");
  const Tensor self = call.tensor(0);
  const Ints dims = call.ints(1);
  uint32_t mask = 0;
  for (int64_t i = 0; i < dims.count; ++i) mask |= 1u << call.wrap_dim(dims[i], self.ndim());
  TensorView view(self);
  for (int d = self.ndim() - 1; d >= 0; --d) {
    if ((mask >> d & 1) != 0 && self.size(d) == 1) view.remove_dim(d);
  }
  return copy_view(call, call.tensor(2), view);
}

int32_t unsqueeze_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::unsqueeze_copy.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim() + 1);
  TensorView view(self);
  if (call.check(self.ndim() < kMaxDims, "too many dims")) view.insert_dim(dim, 1, 0);
  return copy_view(call, call.tensor(2), view);
}

int32_t expand_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::expand_copy.out");
  const Tensor self = call.tensor(0);
  const Ints sizes = call.ints(1);
  const Tensor out = call.tensor(3);
  if (!call.check(sizes.count <= kMaxDims && sizes.count >= self.ndim(), "the new shape has fewer dims")) {
    return call.status();
  }
  TensorView view(self);
  while (view.shape.ndim < sizes.count) view.insert_dim(0, 1, 0);
  for (int d = 0; d < view.shape.ndim; ++d) {
    if (sizes[d] == -1 || sizes[d] == view.shape.sizes[d]) continue;
    if (view.shape.sizes[d] != 1 || sizes[d] < 0) {
      return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "a tensor of shape " << self.shape()
                                                            << " does not expand to size " << sizes[d] << " in dim "
                                                            << int64_t{d});
    }
    view.shape.sizes[d] = sizes[d];
    view.strides[d] = 0;
  }
  return copy_view(call, out, view);
}

int32_t slice_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::slice_copy.Tensor_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const int64_t step = call.integer(4);
  const Tensor out = call.tensor(5);
  call.check(self.ndim() > 0, "the tensor has no dims to slice");
  if (!call.check(step > 0, "step must be positive")) return call.status();
  const int64_t start = clamp_index(call.integer_or(2, 0), self.size(dim));
  const int64_t end = clamp_index(call.integer_or(3, INT64_MAX), self.size(dim));
  TensorView view(self);
  view.narrow(dim, start, end > start ? (end - start - 1) / step + 1 : 0, step);
  return copy_view(call, out, view);
}

int32_t as_strided_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::as_strided_copy.out");
  const Tensor self = call.tensor(0);
  const Ints sizes = call.ints(1);
  const Ints strides = call.ints(2);
  const int64_t offset = call.integer_or(3, 0);
  const Tensor out = call.tensor(4);
  if (!call.check(!call.failed() && sizes.count == strides.count && sizes.count <= kMaxDims,
                  "size and stride must have the same number of entries, at most 16")) {
    return call.status();
  }
  // A tensor has no gaps in memory, so the maximum offset that may be read is numel - 1 elements.
  Shape shape;
  int64_t last = offset;
  bool within = offset >= 0;
  bool empty = false;
  for (int64_t d = 0; d < sizes.count && within; ++d) {
    int64_t reach = 0;
    within = sizes[d] >= 0 && strides[d] >= 0 && !__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
             (sizes[d] == 0 || !__builtin_add_overflow(last, reach, &last));
    empty = empty || sizes[d] == 0;
    shape.push(sizes[d]);
  }
  if (!call.check(within && (empty || last < self.numel()), "size, stride and offset reach beyond the input")) {
    return call.status();
  }
  TensorView view(self.data(), self.type(), shape);
  for (int d = 0; d < shape.ndim; ++d) view.strides[d] = strides[d];
  if (!empty) view.shift(offset);
  return copy_view(call, out, view);
}

int32_t narrow_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::narrow_copy.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  int64_t start = call.integer(2);
  const int64_t length = call.integer(3);
  const Tensor out = call.tensor(4);
  if (!call.check(self.ndim() > 0, "the tensor has no dims to narrow")) return call.status();
  const int64_t size = self.size(dim);
  if (start < 0) start += size;
  if (!call.check(start >= 0 && start <= size && length >= 0 && length <= size - start, "the range is out of bounds")) {
    return call.status();
  }
  TensorView view(self);
  view.narrow(dim, start, length);
  return copy_view(call, out, view);
}

int32_t select_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::select_copy.int_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const int64_t index = call.integer(2);
  const Tensor out = call.tensor(3);
  if (!call.check(self.ndim() > 0, "the tensor has no dims to select from")) return call.status();
  const int64_t size = self.size(dim);
  if (index < -size || index >= size) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index " << index << " is out of range for size " << size);
  }
  TensorView view(self);
  view.narrow(dim, index < 0 ? index + size : index, 1);
  view.remove_dim(dim);
  return copy_view(call, out, view);
}

int32_t flip_out(const edgecore_call *raw) {
  Call call(raw, "aten::flip.out");
  const Tensor self = call.tensor(0);
  const Ints dims = call.ints(1);
  TensorView view(self);
  uint32_t seen = 0;
  for (int64_t i = 0; i < dims.count && self.numel() > 0; ++i) {
    const int d = call.wrap_dim(dims[i], self.ndim());
    if (!call.check((seen >> d & 1) == 0, "a dim appears twice")) return call.status();
    seen |= 1u << d;
    if (self.ndim() == 0) continue;
    view.shift((self.size(d) - 1) * self.stride(d));
    view.strides[d] = -self.stride(d);
  }
  return copy_view(call, call.tensor(2), view);
}

int32_t diagonal_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::diagonal_copy.out");
  const Tensor self = call.tensor(0);
  const int64_t offset = call.integer(1);
  const int a = call.dim(2, self.ndim());
  const int b = call.dim(3, self.ndim());
  const Tensor out = call.tensor(4);
  if (!call.check(self.ndim() >= 2 && a != b, "dim1 and dim2 must differ")) return call.status();
  const int64_t rows = offset < 0 ? self.size(a) + offset : self.size(a);
  const int64_t columns = offset > 0 ? self.size(b) - offset : self.size(b);
  const int64_t length = rows < columns ? rows : columns;
  TensorView view(self);
  if (length > 0) view.shift(offset > 0 ? offset * self.stride(b) : -offset * self.stride(a));
  view.remove_dim(a > b ? a : b);
  view.remove_dim(a > b ? b : a);
  view.insert_dim(view.shape.ndim, length > 0 ? length : 0, self.stride(a) + self.stride(b));
  return copy_view(call, out, view);
}

int32_t unfold_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::unfold_copy.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const int64_t size = call.integer(2);
  const int64_t step = call.integer(3);
  const Tensor out = call.tensor(4);
  TensorView view(self);
  if (self.ndim() == 0) view.insert_dim(0, 1, 1);
  if (!call.check(view.shape.ndim < kMaxDims, "too many dims") ||
      !call.check(step > 0 && size >= 0 && size <= view.shape.sizes[dim], "size or step is out of range")) {
    return call.status();
  }
  const int64_t stride = view.strides[dim];
  view.narrow(dim, 0, (view.shape.sizes[dim] - size) / step + 1, step);
  if (self.ndim() == 0) view.remove_dim(0);
  view.insert_dim(view.shape.ndim, size, stride);
  return copy_view(call, out, view);
}

int32_t split_with_sizes_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::split_with_sizes_copy.out");
  const Tensor self = call.tensor(0);
  const Ints sizes = call.ints(1);
  const int dim = call.dim(2, self.ndim());
  call.check(self.ndim() > 0, "the tensor has no dims to split");
  if (!call.check(call.tensor_count(3) == sizes.count, "the number of outputs must equal the number of sizes"))
    return call.status();
  int64_t sum = 0;
  for (int64_t i = 0; i < sizes.count; ++i) {
    call.check(sizes[i] >= 0 && sizes[i] <= self.size(dim), "a size is out of range");
    sum += sizes[i];
  }
  if (!call.check(sum == self.size(dim), "the sizes must add up to the size of the dim")) return call.status();
  int64_t start = 0;
  for (int64_t i = 0; i < sizes.count && !call.failed(); start += sizes[i++]) {
    TensorView view(self);
    view.narrow(dim, start, sizes[i]);
    copy_view(call, call.list_tensor(3, i), view);
  }
  return call.status();
}

int32_t split_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::split_copy.Tensor_out");
  const Tensor self = call.tensor(0);
  const int64_t part_size = call.integer(1);
  const int dim = call.dim(2, self.ndim());
  call.check(self.ndim() > 0, "the tensor has no dims to split");
  if (call.failed()) return call.status();
  const int64_t size = self.size(dim);
  call.check(part_size > 0 || (part_size == 0 && size == 0), "split_size must be positive");
  if (call.failed()) return call.status();
  const int64_t count = size == 0 ? 1 : (size - 1) / part_size + 1;
  if (!call.check(call.tensor_count(3) == count, "the number of outputs does not match split_size"))
    return call.status();
  for (int64_t i = 0; i < count && !call.failed(); ++i) {
    const int64_t rest = size - i * part_size;
    TensorView view(self);
    view.narrow(dim, i * part_size, rest < part_size ? rest : part_size);
    copy_view(call, call.list_tensor(3, i), view);
  }
  return call.status();
}

int32_t unbind_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::unbind_copy.int_out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  call.check(self.ndim() > 0, "the tensor has no dims to unbind");
  if (!call.check(call.failed() || call.tensor_count(2) == self.size(dim),
                  "the number of outputs must equal the size of the dim")) {
    return call.status();
  }
  for (int64_t i = 0; i < self.size(dim) && !call.failed(); ++i) {
    TensorView view(self);
    view.narrow(dim, i, 1);
    view.remove_dim(dim);
    copy_view(call, call.list_tensor(2, i), view);
  }
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
