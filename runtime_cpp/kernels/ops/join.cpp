// Operators that copy one or several tensors to parts of the output (cat, pad, repeat, roll, stack, pixel_shuffle).
#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

int32_t cat_out(const edgecore_call *raw) {
  Call call(raw, "aten::cat.out");
  const int64_t count = call.tensor_count(0);
  const Tensor out = call.tensor(2);
  if (!call.check(count > 0, "there is nothing to concatenate")) return call.status();
  // Skip tensors of shape [0], whatever the shapes of the other tensors are, as ATen does for compatibility.
  const auto skipped = [](Tensor t) { return t.ndim() == 1 && t.size(0) == 0; };
  Tensor first = call.list_tensor(0, 0);
  Type common = Type::kNone;
  for (int64_t i = count - 1; i >= 0; --i) {
    const Tensor t = call.list_tensor(0, i);
    common = promote(common, t.type());
    if (!skipped(t)) first = t;
  }
  if (!call.check_cast(common, out)) return call.status();
  if (skipped(first)) {  // all tensors are skipped, and ATen then ignores the argument dim
    call.resize(out, first.shape());
    return call.status();
  }
  const int dim = call.dim(1, first.ndim());
  call.check(first.ndim() > 0, "tensors without dims cannot be concatenated");
  if (call.failed()) return call.status();
  Shape shape = first.shape();
  shape.sizes[dim] = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor t = call.list_tensor(0, i);
    if (call.failed() || skipped(t)) continue;
    Shape expected = first.shape();
    if (t.ndim() == first.ndim()) expected.sizes[dim] = t.size(dim);
    if (!call.check_same_shape(expected, t.shape(), "a tensor of the list")) return call.status();
    shape.sizes[dim] += t.size(dim);
  }
  if (!call.resize(out, shape)) return call.status();
  int64_t start = 0;
  for (int64_t i = 0; i < count && !call.failed(); ++i) {
    const Tensor t = call.list_tensor(0, i);
    if (skipped(t)) continue;
    TensorView part(out);
    part.narrow(dim, start, t.size(dim));
    copy_tensor(call, part.tensor(), t);
    start += t.size(dim);
  }
  return call.status();
}

int32_t stack_out(const edgecore_call *raw) {
  Call call(raw, "aten::stack.out");
  const int64_t count = call.tensor_count(0);
  const Tensor out = call.tensor(2);
  if (!call.check(count > 0, "there is nothing to stack")) return call.status();
  const Tensor first = call.list_tensor(0, 0);
  if (!call.check(first.ndim() < kMaxDims, "too many dims")) return call.status();
  const int dim = call.dim(1, first.ndim() + 1);
  Type common = Type::kNone;
  for (int64_t i = 0; i < count && !call.failed(); ++i) {
    const Tensor t = call.list_tensor(0, i);
    common = promote(common, t.type());
    call.check_same_shape(first.shape(), t.shape(), "a tensor of the list");
  }
  if (!call.check_cast(common, out)) return call.status();
  TensorView stacked(first);
  stacked.insert_dim(dim, count, 0);
  if (!call.resize(out, stacked.shape)) return call.status();
  for (int64_t i = 0; i < count && !call.failed(); ++i) {
    TensorView part(out);
    part.narrow(dim, i, 1);
    part.remove_dim(dim);
    copy_tensor(call, part.tensor(), call.list_tensor(0, i));
  }
  return call.status();
}

int32_t constant_pad_nd_out(const edgecore_call *raw) {
  Call call(raw, "aten::constant_pad_nd.out");
  const Tensor self = call.tensor(0);
  const Ints pad = call.ints(1);
  const Scalar value = call.scalar(2);
  const Tensor out = call.tensor(3);
  if (!call.check(pad.count % 2 == 0 && pad.count / 2 <= self.ndim(),
                  "pad must have two entries for each padded dim, and at most two per dim") ||
      !call.check_cast(self.type(), out)) {
    return call.status();
  }
  Shape shape = self.shape();
  for (int64_t i = 0; i < pad.count / 2; ++i) {
    int64_t &size = shape.sizes[self.ndim() - 1 - i];
    size += pad[2 * i] + pad[2 * i + 1];
    if (!call.check(size >= 0, "pad makes a size negative")) return call.status();
  }
  if (!call.resize(out, shape)) return call.status();
  fill(out.type(), out.data(), out.numel(), value);  // works for any dim order, because `out` has no gaps
  TensorView from(self);
  TensorView to(out);
  for (int64_t i = 0; i < pad.count / 2; ++i) {
    const int d = static_cast<int>(self.ndim() - 1 - i);
    const int64_t before = pad[2 * i];
    const int64_t after = pad[2 * i + 1];
    const int64_t crop = before < 0 ? -before : 0;
    const int64_t length = self.size(d) - crop - (after < 0 ? -after : 0);
    if (length <= 0) return call.status();
    from.narrow(d, crop, length);
    to.narrow(d, before > 0 ? before : 0, length);
  }
  copy_tensor(call, to.tensor(), from.tensor());
  return call.status();
}

static bool check_at_most(Call &call, int64_t count, int64_t most, const char *what) {
  if (count > most) {
    call.fail(EDGECORE_NOT_SUPPORTED, Message() << what << " is " << count << "; at most " << most << " are supported");
  }
  return !call.failed();
}

int32_t repeat_out(const edgecore_call *raw) {
  Call call(raw, "aten::repeat.out");
  const Tensor self = call.tensor(0);
  const Ints repeats = call.ints(1);
  const Tensor out = call.tensor(2);
  if (!call.check(repeats.count >= self.ndim(), "repeats must have an entry for each dim") ||
      !check_at_most(call, repeats.count, kMaxDims / 2, "the number of repeats")) {
    return call.status();
  }
  TensorView view(self);
  while (view.shape.ndim < repeats.count) view.insert_dim(0, 1, 0);
  Shape shape;
  for (int d = 0; d < view.shape.ndim; ++d) {
    if (!call.check(repeats[d] >= 0 && repeats[d] <= INT32_MAX, "a repeat is out of range")) return call.status();
    shape.push(view.shape.sizes[d] * repeats[d]);
  }
  if (!call.check(self.type() == out.type(), "out must have the input's dtype") || !call.resize(out, shape)) {
    return call.status();
  }
  // Make two dims of the loop for each dim of the output: one counts the repetitions (with stride 0 in the input), the
  // other counts the entries of the input.
  const int64_t item = item_size(self.type());
  Loop loop;
  loop.ndim = 0;
  loop.count = 2;
  loop.data[0] = out.data();
  loop.data[1] = self.data();
  for (int d = 0; d < shape.ndim; ++d) {
    const int64_t repetition[2] = {view.shape.sizes[d] * out.stride(d) * item, 0};
    const int64_t entry[2] = {out.stride(d) * item, view.strides[d] * item};
    loop.add_dim(repeats[d], repetition);
    loop.add_dim(view.shape.sizes[d], entry);
  }
  loop.finish();
  copy_strided(call, item, loop);
  return call.status();
}

int32_t roll_out(const edgecore_call *raw) {
  Call call(raw, "aten::roll.out");
  const Tensor self = call.tensor(0);
  const Ints shifts = call.ints(1);
  const Ints dims = call.ints(2);
  const Tensor out = call.tensor(3);
  const bool flat = dims.count == 0;
  if (!call.check(flat ? shifts.count == 1 : shifts.count == dims.count,
                  "shifts and dims must have the same number of entries") ||
      !call.check(self.type() == out.type(), "out must have the input's dtype") || !call.resize(out, self.shape()) ||
      self.numel() == 0) {
    return call.status();
  }
  if (flat) {
    const int64_t n = self.numel();
    const int64_t item = item_size(self.type());
    TensorView rows(self.is_contiguous() ? self.data() : call.scratch(n * item), self.type(), self.shape());
    TensorView rolled(out.is_contiguous() ? out.data() : call.scratch(n * item), self.type(), self.shape());
    if (call.failed()) return call.status();
    if (!self.is_contiguous()) copy_tensor(call, rows.tensor(), self);
    const int64_t shift = ((shifts[0] % n) + n) % n;
    const char *source = rows.tensor().data();
    char *target = rolled.tensor().data();
    __builtin_memcpy(target + shift * item, source, static_cast<uint64_t>((n - shift) * item));
    __builtin_memcpy(target, source + (n - shift) * item, static_cast<uint64_t>(shift * item));
    if (!out.is_contiguous()) copy_tensor(call, out, rolled.tensor());
    return call.status();
  }
  int64_t shift[kMaxDims] = {};
  for (int64_t i = 0; i < dims.count; ++i) {
    const int d = call.wrap_dim(dims[i], self.ndim());
    if (self.ndim() > 0) shift[d] = (shift[d] + shifts[i] % self.size(d) + self.size(d)) % self.size(d);
  }
  int rolled[kMaxDims];
  int count = 0;
  for (int d = 0; d < self.ndim(); ++d) {
    if (shift[d] != 0) rolled[count++] = d;
  }
  // Along each rolled dim, one part of the input moves up and the other wraps around. Copy each combination of parts.
  for (uint32_t block = 0; block < 1u << count && !call.failed(); ++block) {
    TensorView from(self);
    TensorView to(out);
    for (int i = 0; i < count; ++i) {
      const int d = rolled[i];
      const int64_t moved = self.size(d) - shift[d];
      const bool wraps = (block >> i & 1) != 0;
      from.narrow(d, wraps ? moved : 0, wraps ? shift[d] : moved);
      to.narrow(d, wraps ? 0 : shift[d], wraps ? shift[d] : moved);
    }
    copy_tensor(call, to.tensor(), from.tensor());
  }
  return call.status();
}

// Runs pixel_shuffle (`forward`) or pixel_unshuffle: views input and output as [.., C, r, r, H, W], and copies one view
// to the other.
static int32_t shuffle(Call &call, bool forward) {
  const Tensor self = call.tensor(0);
  const int64_t r = call.integer(1);
  const Tensor out = call.tensor(2);
  if (!call.check(self.ndim() >= 3, "the tensor must have at least 3 dims") ||
      !check_at_most(call, self.ndim(), kMaxDims - 2, "the number of dims") ||
      !call.check(r > 0 && r <= INT32_MAX, "the factor is out of range")) {
    return call.status();
  }
  const int c = self.ndim() - 3;
  Shape shape = self.shape();
  const int64_t square = r * r;
  const bool fits = forward ? shape.sizes[c] % square == 0 : shape.sizes[c + 1] % r == 0 && shape.sizes[c + 2] % r == 0;
  if (!call.check(fits, "the factor must divide the shape")) return call.status();
  shape.sizes[c] = forward ? shape.sizes[c] / square : shape.sizes[c] * square;
  shape.sizes[c + 1] = forward ? shape.sizes[c + 1] * r : shape.sizes[c + 1] / r;
  shape.sizes[c + 2] = forward ? shape.sizes[c + 2] * r : shape.sizes[c + 2] / r;
  if (!call.check(self.type() == out.type(), "out must have the input's dtype") || !call.resize(out, shape)) {
    return call.status();
  }
  const Tensor wide = forward ? out : self;  // the tensor of shape [.., C, H r, W r]
  const Tensor deep = forward ? self : out;  // the tensor of shape [.., C r r, H, W]
  TensorView a(wide);
  TensorView b(deep);
  a.shape.sizes[c + 1] = wide.size(c + 1) / r;
  a.shape.sizes[c + 2] = wide.size(c + 2) / r;
  a.strides[c + 1] = wide.stride(c + 1) * r;
  a.strides[c + 2] = wide.stride(c + 2) * r;
  a.insert_dim(c + 1, r, wide.stride(c + 2));
  a.insert_dim(c + 1, r, wide.stride(c + 1));
  b.shape.sizes[c] = deep.size(c) / square;
  b.strides[c] = deep.stride(c) * square;
  b.insert_dim(c + 1, r, deep.stride(c));
  b.insert_dim(c + 1, r, deep.stride(c) * r);
  if (forward) {
    copy_tensor(call, a.tensor(), b.tensor());
  } else {
    copy_tensor(call, b.tensor(), a.tensor());
  }
  return call.status();
}

int32_t pixel_shuffle_out(const edgecore_call *raw) {
  Call call(raw, "aten::pixel_shuffle.out");
  return shuffle(call, true);
}

int32_t pixel_unshuffle_out(const edgecore_call *raw) {
  Call call(raw, "aten::pixel_unshuffle.out");
  return shuffle(call, false);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
