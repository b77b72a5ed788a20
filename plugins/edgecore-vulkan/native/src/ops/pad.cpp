// Records the shader dispatches of padding, flips and pixel shuffles.
#include "ops/operators.h"
#include "ops/push.h"
#include "ops/rows.h"

namespace edgecore::vulkan {

namespace {

// A dim of a result with padding before and after the elements of the input.
struct PaddedDim {
  int64_t size, in_size, in_stride, before;

  bool is_padded() const { return before != 0 || size != in_size; }
};

}  // namespace

// constant_pad_nd: (input, [before and after for each dim, the last dim first], number).
void pad(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> padding = call.integers(1);
  if (padding.size() % 2 != 0 || padding.size() > 2 * x.rank())
    call.damaged("it has %zu sizes of padding", padding.size());
  Shape shape = x.shape;
  std::vector<int64_t> before(x.rank());
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const size_t dim = x.rank() - 1 - i;
    for (const size_t side : {2 * i, 2 * i + 1}) {
      if (padding[side] < -INT32_MAX || padding[side] > INT32_MAX) call.damaged("its padding is out of range");
      shape[dim] += padding[side];
    }
    before[dim] = padding[2 * i];
    if (shape[dim] < 0) call.damaged("it crops more than its input has");
  }
  const Tensor out = call.output(call.last(), shape);
  if (out.dtype != x.dtype) call.unsupported("its result is of %s", name_of(out.dtype));
  const Shape strides = x.strides();
  std::vector<PaddedDim> dims;
  for (const uint32_t dim : dims_in_memory(out.rank(), out.layout)) {
    const PaddedDim inner = {shape[dim], x.shape[dim], strides[dim], before[dim]};
    if (inner.size == 1 && !inner.is_padded()) continue;
    PaddedDim *outer = dims.empty() ? nullptr : &dims.back();
    if (outer != nullptr && !inner.is_padded() && outer->in_stride == inner.size * inner.in_stride) {
      *outer = {outer->size * inner.size, outer->in_size * inner.size, inner.in_stride, outer->before * inner.size};
    } else {
      dims.push_back(inner);
    }
  }
  std::vector<uint32_t> push(3 + 4 * kMaxRank);
  push[0] = static_cast<uint32_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    push[1 + i] = static_cast<uint32_t>(dims[i].size);
    push[1 + kMaxRank + i] = static_cast<uint32_t>(dims[i].in_size);
    push[1 + 2 * kMaxRank + i] = static_cast<uint32_t>(dims[i].in_stride);
    push[1 + 3 * kMaxRank + i] = static_cast<uint32_t>(dims[i].before);
  }
  push[1 + 4 * kMaxRank] = static_cast<uint32_t>(out.count());
  const double number = call.is_none(2) ? 0 : call.number(2);
  if (!is_float(x.dtype) && !(number >= INT32_MIN && number <= INT32_MAX)) call.damaged("its number is out of range");
  push[2 + 4 * kMaxRank] = is_float(x.dtype) ? bits_of(number) : static_cast<uint32_t>(static_cast<int32_t>(number));
  call.dispatch_flat(std::string("pad_") + name_of(out.dtype), {out}, {x}, std::move(push), out.count());
}

// flip: (input, dims).
void flip(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<bool> is_flipped = named_dims(call, call.integers(1), x.rank());
  Shape strides = x.strides();
  int64_t offset = 0;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!is_flipped[i]) continue;
    offset += (x.shape[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  const Tensor out = call.output(call.last(), x.shape);
  call.copy_strided(x, strides, offset, out, out.strides(), 0, x.shape);
}

// pixel_shuffle: (input, factor).
void pixel_shuffle(Call &call) {
  const Tensor x = call.tensor(0);
  const int64_t factor = call.integer(1), channels = x.size(3);
  if (x.rank() < 3) call.damaged("its input has %zu dims", x.rank());
  if (factor < 1 || factor > INT16_MAX || channels % (factor * factor) != 0) {
    call.damaged("its channels do not fit its factor");
  }
  Shape shape = x.shape;
  const size_t c = x.rank() - 3, h = c + 1, w = c + 2;
  shape[c] = channels / (factor * factor);
  shape[h] *= factor;
  shape[w] *= factor;
  const Tensor out = call.output(call.last(), shape);
  const Shape from = x.strides(), to = out.strides();
  int64_t batch = 1;
  for (size_t i = 0; i < c; ++i) batch *= shape[i];
  const int64_t from_batch = c == 0 ? 0 : from[c - 1], to_batch = c == 0 ? 0 : to[c - 1];
  call.copy_strided(x, {from_batch, from[c] * factor * factor, from[c] * factor, from[c], from[h], from[w]}, 0, out,
                    {to_batch, to[c], to[h], to[w], to[h] * factor, to[w] * factor}, 0,
                    {batch, shape[c], factor, factor, x.shape[h], x.shape[w]});
}

}  // namespace edgecore::vulkan
