// Operators that gather: each reads the elements of a tensor that an index tensor selects, after a check of each index.
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

const int64_t *positions(Call &call, Tensor index, int64_t size, bool wrap) {
  if (!call.check(index.type() == Type::kI64 || index.type() == Type::kI32, "an index must be int32 or int64")) {
    return nullptr;
  }
  const int64_t n = index.numel();
  int64_t *checked = call.scratch<int64_t>(n);
  if (checked == nullptr) return nullptr;
  TensorView copy(checked, Type::kI64, index.shape());
  copy_tensor(call, copy.tensor(), index);
  for (int64_t i = 0; i < n; ++i) {
    if (checked[i] < (wrap ? -size : 0) || checked[i] >= size) {
      call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index " << checked[i] << " is out of range for size " << size);
      return nullptr;
    }
    if (checked[i] < 0) checked[i] += size;
  }
  return checked;
}

const char *dense_bytes(Call &call, Tensor t) {
  if (call.failed() || t.is_contiguous()) return t.data();
  void *data = call.scratch(t.numel() * item_size(t.type()));
  if (data == nullptr) return nullptr;
  TensorView rows(data, t.type(), t.shape());
  copy_tensor(call, rows.tensor(), t);
  return static_cast<const char *>(data);
}

BytesOut::BytesOut(Call &call, Tensor out) : out_(out), direct_(out.is_contiguous()) {
  data_ = direct_ ? out.data() : static_cast<char *>(call.scratch(out.numel() * item_size(out.type())));
}

void BytesOut::finish(Call &call) const {
  if (direct_ || call.failed()) return;
  TensorView rows(data_, out_.type(), out_.shape());
  copy_tensor(call, out_, rows.tensor());
}

bool check_same_type(Call &call, Tensor self, Tensor out) {
  if (self.type() != out.type()) {
    call.fail(EDGECORE_INVALID_TYPE,
              Message() << "out has dtype " << out.type() << " but must have the input's, " << self.type());
  }
  return !call.failed();
}

Indexing::Indexing(Call &call, uint64_t list, Tensor self) {
  if (read(call, list, self)) combine(call, self);
}

bool Indexing::read(Call &call, uint64_t list, Tensor self) {
  const int64_t count = call.tensor_count(list);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor index = call.list_optional(list, i);
    const bool mask = index.t != nullptr && (index.type() == Type::kBool || index.type() == Type::kU8);
    const int covered = mask ? index.ndim() : 1;
    if (call.failed() || !call.check(dims_ + covered <= self.ndim() && covered > 0, "there are more indices than dims"))
      return false;
    if (mask) {
      add_mask(call, index, self);
    } else if (index.t != nullptr) {
      entries_[dims_] = {positions(call, index, self.size(dims_), true), index.shape()};
      indexed[dims_++] = true;
    } else {
      ++dims_;
    }
  }
  return !call.failed();
}

// Converts a mask over k dims of self to k lists of indices: the indices of the mask's true elements.
void Indexing::add_mask(Call &call, Tensor mask, Tensor self) {
  const int covered = mask.ndim();
  for (int c = 0; c < covered; ++c)
    call.check(mask.size(c) == self.size(dims_ + c), "a mask must have the sizes of the dims that it indexes");
  const int64_t *bits = dense<int64_t>(call, mask);
  int64_t count = 0;
  for (int64_t k = 0; bits != nullptr && k < mask.numel(); ++k) count += bits[k] != 0;
  int64_t *lists = call.scratch<int64_t>(count * covered);
  if (call.failed()) return;
  int64_t written = 0;
  for (int64_t k = 0; k < mask.numel() && written < count; ++k) {
    if (bits[k] == 0) continue;
    int64_t rest = k;
    for (int c = covered - 1; c >= 0; --c) {
      lists[c * count + written] = rest % mask.size(c);
      rest /= mask.size(c);
    }
    ++written;
  }
  call.check(written == count, "the mask changed while it was read");
  for (int c = 0; c < covered; ++c) {
    entries_[dims_].indices = lists + c * count;
    entries_[dims_].shape.push(count);
    indexed[dims_++] = true;
  }
}

bool Indexing::combine(Call &call, Tensor self) {
  int first = -1;
  int last = -1;
  int used = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    if (!indexed[d]) continue;
    first = first < 0 ? d : first;
    last = d;
    ++used;
    common.ndim = entries_[d].shape.ndim > common.ndim ? entries_[d].shape.ndim : common.ndim;
  }
  for (int d = 0; d < common.ndim; ++d) common.sizes[d] = 1;
  for (int d = 0; d < self.ndim(); ++d) {
    const Shape &entry = entries_[d].shape;
    for (int k = 0; indexed[d] && k < entry.ndim; ++k) {
      int64_t &size = common.sizes[common.ndim - entry.ndim + k];
      if (entry.sizes[k] == 1 || entry.sizes[k] == size) continue;
      if (!call.check(size == 1, "the shapes of the indices do not broadcast")) return false;
      size = entry.sizes[k];
    }
  }
  leading_dims = used > 0 && last - first + 1 == used ? first : 0;
  if (!call.check(common.ndim + self.ndim() - used <= kMaxDims, "too many dims")) return false;
  for (int d = 0; d < leading_dims; ++d) shape.push(self.size(d));
  for (int d = 0; d < common.ndim; ++d) shape.push(common.sizes[d]);
  for (int d = leading_dims; d < self.ndim(); ++d) {
    if (!indexed[d]) shape.push(self.size(d));
  }
  return true;
}

int64_t Indexing::offset(int64_t combination, const int64_t *strides) const {
  int64_t offset = 0;
  for (int d = 0; d < dims_; ++d) {
    if (!indexed[d]) continue;
    const Shape &entry = entries_[d].shape;
    int64_t rest = combination;
    int64_t position = 0;
    int64_t stride = 1;
    for (int k = common.ndim - 1; k >= 0; --k) {
      const int64_t digit = rest % common.sizes[k];
      rest /= common.sizes[k];
      const int dim = k - (common.ndim - entry.ndim);
      if (dim < 0) continue;
      if (entry.sizes[dim] != 1) position += digit * stride;
      stride *= entry.sizes[dim];
    }
    offset += entries_[d].indices[position] * strides[d];
  }
  return offset;
}

Loop Indexing::slice(const int64_t *rows, const int64_t *self, const Shape &self_shape, int64_t item) const {
  Loop slice;
  slice.ndim = 0;
  slice.count = 2;
  for (int d = 0, o = 0; d < self_shape.ndim; ++d) {
    if (d == leading_dims) o += common.ndim;
    if (indexed[d]) continue;
    const int64_t strides[2] = {rows[o] * item, self[d] * item};
    slice.add_dim(self_shape.sizes[d], strides);
    ++o;
  }
  slice.finish();
  return slice;
}

namespace {

// Computes out[o][i] = source[o][indices[i]] for o < outer and i < count. Elements have `bytes` bytes; source[o] has
// `size` elements.
void gather_blocks(Call &call, char *out, const char *source, const int64_t *indices, int64_t outer, int64_t count,
                   int64_t size, int64_t bytes) {
  if (call.failed() || bytes == 0) return;
  call.parallel(outer * count, 65536 / bytes + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const char *from = source + (i / count * size + indices[i % count]) * bytes;
      __builtin_memcpy(out + i * bytes, from, static_cast<uint64_t>(bytes));
    }
  });
}

// Computes out[i0, i1, ...] = source[i0, i1, ...] with the index along `dim` replaced by indices[i0, i1, ...].
// `indices` and `out` have the shape `shape` and are row-major.
template <class T>
void gather_items(Call &call, const Shape &shape, const T *source, const int64_t *indices,
                  const int64_t *source_strides, int dim, T *out) {
  const int last = shape.ndim - 1;
  const int64_t n = shape.sizes[last];
  const int64_t step = dim == last ? 0 : source_strides[last];
  call.parallel(shape.numel() / n, 16384 / n + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row;
      int64_t base = 0;
      for (int d = last - 1; d >= 0; --d) {
        if (d != dim) base += rest % shape.sizes[d] * source_strides[d];
        rest /= shape.sizes[d];
      }
      const int64_t *row_indices = indices + row * n;
      T *target = out + row * n;
      for (int64_t i = 0; i < n; ++i) target[i] = source[base + i * step + row_indices[i] * source_strides[dim]];
    }
  });
}

}  // namespace

int32_t embedding_out(const edgecore_call *raw) {
  Call call(raw, "aten::embedding.out");
  const Tensor weight = call.tensor(0);
  const Tensor indices = call.tensor(1);
  const Tensor out = call.tensor(5);
  if (!call.check(weight.ndim() == 2, "the weight must have two dims") ||
      !call.check(indices.ndim() < kMaxDims, "too many dims") || !check_same_type(call, weight, out)) {
    return call.status();
  }
  Shape shape = indices.shape();
  shape.push(weight.size(1));
  if (!call.resize(out, shape)) return call.status();
  const int64_t *rows = positions(call, indices, weight.size(0), false);
  const char *source = dense_bytes(call, weight);
  const BytesOut result(call, out);
  gather_blocks(call, result.data(), source, rows, 1, indices.numel(), weight.size(0),
                weight.size(1) * item_size(weight.type()));
  result.finish(call);
  return call.status();
}

int32_t index_select_out(const edgecore_call *raw) {
  Call call(raw, "aten::index_select.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Tensor out = call.tensor(3);
  if (!call.check(index.ndim() <= 1, "the index must have at most one dim") || !check_same_type(call, self, out)) {
    return call.status();
  }
  Shape shape = self.shape();
  if (self.ndim() > 0) shape.sizes[dim] = index.numel();
  call.check(self.ndim() > 0 || index.numel() == 1, "a tensor without dims has only one entry to select");
  if (!call.resize(out, shape)) return call.status();
  const int64_t size = self.ndim() > 0 ? self.size(dim) : 1;
  const int64_t *indices = positions(call, index, size, false);
  const char *source = dense_bytes(call, self);
  const BytesOut result(call, out);
  int64_t outer = 1;
  int64_t inner = item_size(self.type());
  for (int d = 0; d < self.ndim(); ++d) {
    if (d < dim) outer *= self.size(d);
    if (d > dim) inner *= self.size(d);
  }
  gather_blocks(call, result.data(), source, indices, outer, index.numel(), size, inner);
  result.finish(call);
  return call.status();
}

int32_t gather_out(const edgecore_call *raw) {
  Call call(raw, "aten::gather.out");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  const Tensor index = call.tensor(2);
  const Tensor out = call.tensor(4);
  // Return a shape in which a tensor without dims counts as having one dim of size 1.
  const auto shape_of = [](Tensor t) {
    Shape shape = t.shape();
    if (shape.ndim == 0) shape.push(1);
    return shape;
  };
  const Shape from = shape_of(self);
  const Shape shape = shape_of(index);
  bool fits = from.ndim == shape.ndim || index.numel() == 0;
  for (int d = 0; fits && index.numel() > 0 && d < shape.ndim; ++d) fits = d == dim || shape.sizes[d] <= from.sizes[d];
  if (!fits) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "index of shape " << index.shape()
                                                          << " does not fit the input of shape " << self.shape());
  }
  if (!check_same_type(call, self, out) || !call.resize(out, index.shape()) || index.numel() == 0) return call.status();
  const int64_t *indices = positions(call, index, from.sizes[dim], false);
  const char *source = dense_bytes(call, self);
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (int d = from.ndim - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= from.sizes[d];
  }
  const int64_t item = item_size(self.type());
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    gather_items(call, shape, reinterpret_cast<const T *>(source), indices, strides, dim,
                 reinterpret_cast<T *>(result.data()));
  };
  if (item == 1) run(uint8_t{});
  if (item == 2) run(uint16_t{});
  if (item == 4) run(uint32_t{});
  if (item == 8) run(uint64_t{});
  result.finish(call);
  return call.status();
}

int32_t index_tensor_out(const edgecore_call *raw) {
  Call call(raw, "aten::index.Tensor_out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(2);
  if (!check_same_type(call, self, out)) return call.status();
  const Indexing indexing(call, 1, self);
  if (call.failed() || !call.resize(out, indexing.shape) || out.numel() == 0) return call.status();

  // For each combination of indices, copy the selected slice of self to a slice of the output.
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  const int64_t item = item_size(self.type());
  TensorView target(result.data(), out.type(), indexing.shape);
  TensorView source(self);
  Loop slice = indexing.slice(target.strides, source.strides, source.shape, item);
  const int common = indexing.common.ndim;
  const int64_t step = common > 0 ? target.strides[indexing.leading_dims + common - 1] * item : 0;
  const int64_t combinations = indexing.common.numel();
  for (int64_t i = 0; i < combinations && !call.failed(); ++i) {
    slice.data[0] = result.data() + i * step;
    slice.data[1] = self.data() + indexing.offset(i, source.strides) * item;
    copy_strided(call, item, slice);
  }
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
