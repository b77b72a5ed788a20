// Operators that fill a tensor with numbers, or copy a tensor and convert its dtype.
#include "lib/elementwise.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

void fill_tensor(Call &call, Tensor out, Scalar value) {
  if (call.failed()) return;
  Operands operands;
  operands.push(out);
  const Loop loop = make_loop(call, out.shape(), operands);
  const int64_t size = item_size(out.type());
  for_each_run(call, loop, 65536, [&](char *const *data, const int64_t *strides, int64_t n) {
    if (strides[0] == size) return fill(out.type(), data[0], n, value);
    for (int64_t i = 0; i < n; ++i) fill(out.type(), data[0] + i * strides[0], 1, value);
  });
}

Shape shape_of(Call &call, Ints sizes) {
  Shape shape;
  if (!call.check(sizes.count <= kMaxDims, "too many dims")) return shape;
  for (int64_t d = 0; d < sizes.count; ++d) {
    call.check(sizes[d] >= 0, "a size is negative");
    shape.push(sizes[d]);
  }
  return shape;
}

Scalar number(int64_t value) {
  Scalar s;
  s.i = value;
  return s;
}

// Runs a kernel that fills its output with `value`. Argument 0 of the call is the output's shape.
int32_t filled(const edgecore_call *raw, const char *op, uint64_t out_index, Scalar value) {
  Call call(raw, op);
  const Tensor out = call.tensor(out_index);
  if (call.resize(out, shape_of(call, call.ints(0)))) fill_tensor(call, out, value);
  return call.status();
}

// Runs a kernel that copies the argument with index `source` to the output.
int32_t copied(const edgecore_call *raw, const char *op, uint64_t source, uint64_t out_index) {
  Call call(raw, op);
  const Tensor self = call.tensor(source);
  const Tensor out = call.tensor(out_index);
  if (call.resize(out, self.shape())) copy_tensor(call, out, self);
  return call.status();
}

int32_t arange(Call &call, Scalar start, Scalar end, Scalar step, Tensor out) {
  if (!call.check(step.real() != 0, "step must not be zero") ||
      !call.check((end.real() - start.real()) / step.real() >= 0, "step must have the sign of end - start") ||
      !call.check((end.real() - start.real()) / step.real() <= INT32_MAX, "the result would have too many elements")) {
    return call.status();
  }
  // Count the elements as ATen does: if `out` is int64, convert start, end and step to integers first. For other
  // integer dtypes, count with floats; only the stored values are integers.
  const bool integers = !is_floating(out.type());
  const bool count_as_integers = out.type() == Type::kI64;
  const int64_t first = start.integer();
  const int64_t stride_value = step.integer();
  if (!call.check(!count_as_integers || stride_value != 0, "step must not be zero")) return call.status();
  Shape shape;
  if (count_as_integers) {
    const int64_t sign = stride_value > 0 ? 1 : -1;
    shape.push((end.integer() - first + stride_value - sign) / stride_value);
  } else {
    shape.push(static_cast<int64_t>(__builtin_ceil((end.real() - start.real()) / step.real())));
  }
  if (!call.resize(out, shape)) return call.status();
  const int64_t stride = out.stride(0) * item_size(out.type());
  for (int64_t i = 0; i < shape.sizes[0]; ++i) {
    if (integers) {
      const int64_t value = first + i * stride_value;
      store(out.type(), out.data() + i * stride, stride, 1, &value);
    } else {
      const double value = start.real() + static_cast<double>(i) * step.real();
      store(out.type(), out.data() + i * stride, stride, 1, &value);
    }
  }
  return call.status();
}

}  // namespace

#define EDGECORE_COPY(name, op, source, out) \
  int32_t name(const edgecore_call *raw) { return copied(raw, op, source, out); }
EDGECORE_COPY(to_copy_out, "aten::_to_copy.out", 0, 3)
EDGECORE_COPY(clone_out, "aten::clone.out", 0, 2)
EDGECORE_COPY(alias_copy_out, "aten::alias_copy.out", 0, 1)
EDGECORE_COPY(detach_copy_out, "aten::detach_copy.out", 0, 1)
EDGECORE_COPY(lift_fresh_copy_out, "aten::lift_fresh_copy.out", 0, 1)
EDGECORE_COPY(h2d_copy_out, "et_copy::_h2d_copy.out", 0, 1)
EDGECORE_COPY(d2h_copy_out, "et_copy::_d2h_copy.out", 0, 1)
EDGECORE_COPY(to_dim_order_copy_out, "dim_order_ops::_to_dim_order_copy.out", 0, 3)
EDGECORE_COPY(clone_dim_order_out, "dim_order_ops::_clone_dim_order.out", 0, 3)
#undef EDGECORE_COPY

int32_t zeros_out(const edgecore_call *raw) { return filled(raw, "aten::zeros.out", 1, number(0)); }
int32_t ones_out(const edgecore_call *raw) { return filled(raw, "aten::ones.out", 1, number(1)); }

int32_t full_out(const edgecore_call *raw) {
  Call call(raw, "aten::full.out");
  const Scalar value = call.scalar(1);
  if (call.failed()) return call.status();
  return filled(raw, "aten::full.out", 2, value);
}

int32_t empty_out(const edgecore_call *raw) {
  Call call(raw, "aten::empty.out");
  call.resize(call.tensor(2), shape_of(call, call.ints(0)));
  return call.status();
}

int32_t empty_dim_order_out(const edgecore_call *raw) {
  Call call(raw, "dim_order_ops::_empty_dim_order.out");
  call.resize(call.tensor(2), shape_of(call, call.ints(0)));
  return call.status();
}

// Runs fill.Scalar or full_like, whose output has the shape of argument `self`.
static int32_t fill_like(const edgecore_call *raw, const char *op, uint64_t out_index) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const Scalar value = call.scalar(1);
  const Tensor out = call.tensor(out_index);
  if (call.resize(out, self.shape())) fill_tensor(call, out, value);
  return call.status();
}
int32_t fill_scalar_out(const edgecore_call *raw) { return fill_like(raw, "aten::fill.Scalar_out", 2); }
int32_t full_like_out(const edgecore_call *raw) { return fill_like(raw, "aten::full_like.out", 3); }

int32_t fill_tensor_out(const edgecore_call *raw) {
  Call call(raw, "aten::fill.Tensor_out");
  const Tensor self = call.tensor(0);
  const Tensor value = call.tensor(1);
  const Tensor out = call.tensor(2);
  call.check(value.ndim() == 0, "the value must have no dims");
  if (call.resize(out, self.shape())) copy_tensor(call, out, value);
  return call.status();
}

// Runs a kernel that copies argument `src` to the output. The output has the shape of `self`, to which `src`
// broadcasts.
static int32_t copy_into(const edgecore_call *raw, const char *op, uint64_t out_index) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const Tensor source = call.tensor(1);
  const Tensor out = call.tensor(out_index);
  if (call.resize(out, self.shape())) copy_tensor(call, out, source);
  return call.status();
}
int32_t copy_out(const edgecore_call *raw) { return copy_into(raw, "aten::copy.out", 3); }
int32_t copy_in_place(const edgecore_call *raw) { return copy_into(raw, "aten::copy_", 0); }

int32_t scalar_tensor_out(const edgecore_call *raw) {
  Call call(raw, "aten::scalar_tensor.out");
  const Scalar value = call.scalar(0);
  const Tensor out = call.tensor(1);
  if (call.resize(out, Shape())) fill(out.type(), out.data(), 1, value);
  return call.status();
}

int32_t arange_out(const edgecore_call *raw) {
  Call call(raw, "aten::arange.out");
  const Scalar end = call.scalar(0);
  const Tensor out = call.tensor(1);
  return call.failed() ? call.status() : arange(call, number(0), end, number(1), out);
}

int32_t arange_start_out(const edgecore_call *raw) {
  Call call(raw, "aten::arange.start_out");
  const Scalar start = call.scalar(0);
  const Scalar end = call.scalar(1);
  const Scalar step = call.scalar(2);
  const Tensor out = call.tensor(3);
  return call.failed() ? call.status() : arange(call, start, end, step, out);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
