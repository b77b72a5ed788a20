// The operators mm, addmm, bmm and linear.
#include "lib/convert.h"
#include "lib/gemm.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns a matrix operand for gemm(): the tensor itself if elements along one dim are adjacent, otherwise a copy.
template <class C>
Matrix<C> operand(Call &call, Tensor t) {
  const bool native = t.type() == storage_of(compute_for<C>());
  const C *data = reinterpret_cast<const C *>(t.data());
  if (native && t.stride(1) == 1 && t.stride(0) >= t.size(1)) return {data, t.stride(0), false};
  if (native && t.stride(0) == 1 && t.stride(1) >= t.size(0)) return {data, t.stride(1), true};
  return {dense<C>(call, t), t.size(1), false};
}

// Returns the output argument with which gemm() computes a @ b + term, or a @ b if `term` is absent. gemm() can add a
// vector with one element per column. A term of another shape is first broadcast to the output, to which gemm() then
// adds the product.
template <class C>
GemmOut<C> out_with_term(Call &call, C *data, const Shape &shape, int64_t columns, Tensor term) {
  if (call.failed() || term.t == nullptr) return {data, false};
  if (term.ndim() == 1 && term.size(0) == columns) {
    return {data, false, dense<C>(call, term)};
  }
  TensorView rows(data, storage_of(compute_for<C>()), shape);
  copy_tensor(call, rows.tensor(), term);
  return {data, true};
}

bool check_types(Call &call, Tensor a, Tensor b, Tensor out) {
  if (a.type() != b.type()) {
    call.fail(EDGECORE_INVALID_TYPE, Message() << "the matrices are " << a.type() << " and " << b.type());
  }
  return call.check_cast(a.type(), out);
}

bool check_inner(Call &call, Tensor a, Tensor b, int64_t inner_a, int64_t inner_b) {
  if (inner_a != inner_b) {
    call.fail(EDGECORE_INVALID_ARGUMENT,
              Message() << "shapes " << a.shape() << " and " << b.shape() << " cannot be multiplied");
  }
  return !call.failed();
}

// Checks the operands of a @ b and resizes `out` to [a.size(0), b.size(1)]. Returns false after a recorded failure.
bool resize_for_mm(Call &call, Tensor a, Tensor b, Tensor out, Shape *shape) {
  if (!call.check(a.ndim() == 2 && b.ndim() == 2, "both matrices must have two dims") ||
      !check_inner(call, a, b, a.size(1), b.size(0)) || !check_types(call, a, b, out)) {
    return false;
  }
  shape->push(a.size(0));
  shape->push(b.size(1));
  return call.resize(out, *shape);
}

}  // namespace

int32_t mm_out(const edgecore_call *raw) {
  Call call(raw, "aten::mm.out");
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  const Tensor out = call.tensor(2);
  Shape shape;
  if (!resize_for_mm(call, a, b, out, &shape)) return call.status();
  with_compute(a.type(), [&](auto c) {
    using C = decltype(c);
    const Matrix<C> left = operand<C>(call, a);
    const Matrix<C> right = operand<C>(call, b);
    const DenseOut<C> result(call, out);
    if (call.failed()) return;
    gemm<C>(call, 1, a.size(0), b.size(1), a.size(1), 1, left, 0, right, 0, {result.data(), false}, 0);
    result.finish(call);
  });
  return call.status();
}

int32_t bmm_out(const edgecore_call *raw) {
  Call call(raw, "aten::bmm.out");
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  const Tensor out = call.tensor(2);
  if (!call.check(a.ndim() == 3 && b.ndim() == 3 && a.size(0) == b.size(0),
                  "both tensors must have three dims, and the same first size") ||
      !check_inner(call, a, b, a.size(2), b.size(1)) || !check_types(call, a, b, out)) {
    return call.status();
  }
  const int64_t m = a.size(1);
  const int64_t k = a.size(2);
  const int64_t n = b.size(2);
  Shape shape;
  shape.push(a.size(0));
  shape.push(m);
  shape.push(n);
  if (!call.resize(out, shape)) return call.status();
  with_compute(a.type(), [&](auto c) {
    using C = decltype(c);
    const C *left = dense<C>(call, a);
    const C *right = dense<C>(call, b);
    const DenseOut<C> result(call, out);
    if (call.failed()) return;
    gemm<C>(call, a.size(0), m, n, k, 1, {left, k, false}, m * k, {right, n, false}, k * n, {result.data(), false},
            m * n);
    result.finish(call);
  });
  return call.status();
}

int32_t addmm_out(const edgecore_call *raw) {
  Call call(raw, "aten::addmm.out");
  const Tensor self = call.tensor(0);
  const Tensor a = call.tensor(1);
  const Tensor b = call.tensor(2);
  const Scalar beta = call.scalar(3);
  const Scalar alpha = call.scalar(4);
  const Tensor out = call.tensor(5);
  Shape shape;
  if (!resize_for_mm(call, a, b, out, &shape)) return call.status();
  with_compute(a.type(), [&](auto c) {
    using C = decltype(c);
    const Matrix<C> left = operand<C>(call, a);
    const Matrix<C> right = operand<C>(call, b);
    const DenseOut<C> result(call, out);
    if (call.failed()) return;
    const C scale = beta.as<C>();
    // Do not read self if beta is 0, so that a NaN in self does not matter.
    GemmOut<C> target = {result.data(), false};
    if (scale == C{1}) {
      target = out_with_term(call, result.data(), shape, b.size(1), self);
    } else if (scale != C{0}) {
      TensorView rows(result.data(), storage_of(compute_for<C>()), shape);
      copy_tensor(call, rows.tensor(), self);
      for (int64_t i = 0; i < out.numel(); ++i) result.data()[i] *= scale;
      target.add = true;
    }
    gemm<C>(call, 1, a.size(0), b.size(1), a.size(1), alpha.as<C>(), left, 0, right, 0, target, 0);
    result.finish(call);
  });
  return call.status();
}

int32_t linear_out(const edgecore_call *raw) {
  Call call(raw, "aten::linear.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const Tensor out = call.tensor(3);
  const bool flat = weight.ndim() == 1;  // a 1-d weight is one output feature, for which the result has no dim
  if (!call.check(input.ndim() >= 1 && (weight.ndim() == 2 || flat), "the weight must have one or two dims") ||
      !check_inner(call, input, weight, input.size(input.ndim() - 1), weight.size(weight.ndim() - 1)) ||
      !check_types(call, input, weight, out)) {
    return call.status();
  }
  const int64_t k = input.size(input.ndim() - 1);
  const int64_t n = flat ? 1 : weight.size(0);
  Shape shape = input.shape();
  const int64_t m = [&] {
    int64_t rows = 1;
    for (int d = 0; d + 1 < input.ndim(); ++d) rows *= input.size(d);
    return rows;
  }();
  --shape.ndim;
  if (!flat) shape.push(n);
  if (!call.resize(out, shape)) return call.status();
  with_compute(input.type(), [&](auto c) {
    using C = decltype(c);
    const C *left = dense<C>(call, input);
    Matrix<C> right = {nullptr, k, true};
    if (flat) {
      right.data = dense<C>(call, weight);
    } else {
      right = operand<C>(call, weight);
      right.transposed = !right.transposed;
    }
    const DenseOut<C> result(call, out);
    if (call.failed()) return;
    const GemmOut<C> target = out_with_term(call, result.data(), shape, n, bias);
    gemm<C>(call, 1, m, n, k, 1, {left, k, false}, 0, right, 0, target, 0);
    result.finish(call);
  });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
