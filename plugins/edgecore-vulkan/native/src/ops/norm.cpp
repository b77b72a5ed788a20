// Records the shader dispatches of layer, group and RMS norms.
#include <algorithm>

#include "ops/operators.h"
#include "ops/push.h"
#include "ops/rows.h"

namespace edgecore::vulkan {

namespace {

// The weights or biases of a norm. If there are none, `is_present` is false, and `tensor` is an arbitrary tensor,
// because the shader's binding needs one.
struct Affine {
  bool is_present = false;
  Tensor tensor;
};

Affine affine_of(const Call &call, size_t index, const Tensor &x, int64_t elements) {
  if (call.is_none(index)) return {false, x};
  const Tensor tensor = call.tensor(index);
  if (tensor.count() != elements) call.damaged("argument %zu does not fit its input", index);
  return {true, in_form(call, tensor, x.dtype, Layout::kRowMajor)};
}

Tensor normalized(const Call &call, const Tensor &x, const Tensor &out) {
  if (!is_float(x.dtype) || x.dtype != out.dtype) {
    call.unsupported("it has an input of %s and a result of %s", name_of(x.dtype), name_of(out.dtype));
  }
  return in_form(call, x, out.dtype, out.layout);
}

void dispatch_norm(const Call &call, const char *kind, std::vector<Tensor> written, const Tensor &x,
                   const Affine &weight, const Affine &bias, const Rows &rows, double epsilon, int64_t groups = 0,
                   int64_t group_channels = 0) {
  const RowVectors vectors = group_channels % 4 == 0 || groups == 0 ? vectors_of(rows, true, false) : RowVectors::kNone;
  const int64_t steps = vectors == RowVectors::kTerms ? group_channels / 4 : group_channels;
  dispatch_rows(call, "norm", kind, std::move(written), {x, weight.tensor, bias.tensor}, rows, vectors,
                {bits_of(epsilon), bits_of(1 / static_cast<double>(rows.terms)), static_cast<uint32_t>(groups),
                 static_cast<uint32_t>(std::max<int64_t>(steps, 1))},
                {weight.is_present ? 1u : 0u, bias.is_present ? 1u : 0u});
}

// Tensors for means and inverse standard deviations. `results` have the dtypes that the call declares; the shader
// writes to `written`, which have the dtype of its input.
struct Statistics {
  Tensor results[2], written[2];
};

Statistics statistics(const Call &call, const Shape &shape, Dtype dtype) {
  Statistics made;
  for (size_t i = 0; i < 2; ++i) {
    const Tensor result = call.output_of_list(call.last(), 1 + i, shape);
    const bool fits = result.dtype == dtype && result.same_order(Tensor{dtype, Layout::kRowMajor, shape, 0});
    made.results[i] = result;
    made.written[i] = fits ? result : call.temporary(dtype, shape);
  }
  return made;
}

void copy_statistics(const Call &call, const Statistics &made) {
  for (size_t i = 0; i < 2; ++i) {
    if (made.written[i].storage != made.results[i].storage) call.copy(made.written[i], made.results[i]);
  }
}

}  // namespace

// layer_norm: (input, normalized shape, weight or none, bias or none, epsilon).
void layer_norm(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape sizes = call.integers(1);
  if (sizes.size() > x.rank() || !std::equal(sizes.rbegin(), sizes.rend(), x.shape.rbegin())) {
    call.damaged("its normalized shape does not fit its input");
  }
  const int64_t terms = vulkan::count(sizes);
  const Tensor out = call.output_of_list(call.last(), 0, x.shape), source = normalized(call, x, out);
  const Affine weight = affine_of(call, 2, source, terms), bias = affine_of(call, 3, source, terms);
  const size_t outer = x.rank() - sizes.size();
  Shape shape = x.shape;
  std::fill(shape.begin() + static_cast<std::ptrdiff_t>(outer), shape.end(), 1);
  const Statistics made = statistics(call, shape, x.dtype);
  const Shape strides = source.strides();
  std::vector<Dim> kept, reduced;
  for (size_t i = 0; i < x.rank(); ++i) (i < outer ? kept : reduced).push_back({x.shape[i], strides[i]});
  dispatch_norm(call, "layer", {out, made.written[0], made.written[1]}, source, weight, bias,
                rows_of(call, kept, reduced), call.number(4));
  copy_statistics(call, made);
}

// group_norm: (input, weight or none, bias or none, N, C, HxW, groups, epsilon).
void group_norm(Call &call) {
  const Tensor x = call.tensor(0);
  if (x.rank() < 2) call.damaged("its input has %zu dims", x.rank());
  const int64_t batch = x.shape[0], channels = x.shape[1], groups = call.integer(6);
  if (groups < 1 || channels % groups != 0)
    call.damaged("its %lld channels are not in %lld groups", static_cast<long long>(channels),
                 static_cast<long long>(groups));
  const Tensor out = call.output_of_list(call.last(), 0, x.shape), source = normalized(call, x, out);
  const Affine weight = affine_of(call, 1, source, channels), bias = affine_of(call, 2, source, channels);
  const Statistics made = statistics(call, {batch, groups}, x.dtype);
  const Shape strides = source.strides();
  const int64_t group_channels = channels / groups;
  std::vector<Dim> reduced;
  for (size_t i = 2; i < x.rank(); ++i) reduced.push_back({x.shape[i], strides[i]});
  reduced.push_back({group_channels, strides[1]});
  const Rows rows = rows_of(call, {{batch, strides[0]}, {groups, group_channels * strides[1]}}, reduced);
  dispatch_norm(call, "group", {out, made.written[0], made.written[1]}, source, weight, bias, rows, call.number(7),
                groups, group_channels);
  copy_statistics(call, made);
}

// rms_norm: (input, weight or none, epsilon).
void rms_norm(Call &call) {
  const Tensor x = call.tensor(0);
  if (x.rank() == 0) call.damaged("its input has no dims");
  const Tensor out = call.output(call.last(), x.shape), source = normalized(call, x, out);
  std::vector<bool> is_reduced(x.rank());
  is_reduced.back() = true;
  dispatch_norm(call, "rms", {out}, source, affine_of(call, 1, source, x.shape.back()), {false, source},
                rows_over(call, source, is_reduced, out), call.number(2));
}

}  // namespace edgecore::vulkan
