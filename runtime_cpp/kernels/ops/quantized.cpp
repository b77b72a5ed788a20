// Affine quantization: q = clamp(round(x / scale) + zero_point); dequantization: x = (q - zero_point) * scale. Scales
// and zero points are per tensor (one), per channel (one for each index of an axis) or per token (one for each row).
#include "lib/convert.h"
#include "lib/iterate.h"
#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

struct Range {
  int64_t min = 0;
  int64_t max = 0;
};

Range range_of(Call &call, uint64_t i) {
  const Range range = {call.integer(i), call.integer(i + 1)};
  call.check(range.min <= range.max, "quant_min must not be greater than quant_max");
  return range;
}

template <class C>
C round_to_even(C x) {
  return static_cast<C>(__builtin_rint(x));
}

// Converts a rounded number to an integer and clamps it. NaN fails the first comparison and becomes range.min.
template <class C>
int64_t clamped(C x, Range range) {
  const C min = static_cast<C>(range.min);
  const C max = static_cast<C>(range.max);
  return x > min ? x < max ? static_cast<int64_t>(x) : range.max : range.min;
}

// `parameters` are scales or zero points: one for each index of `axis`, or a single one if axis is -1. Returns a view
// of `parameters` that broadcasts to a tensor with ndim dims.
TensorView broadcast_along(Tensor parameters, int axis, int ndim) {
  Shape shape;
  for (int d = 0; d < ndim; ++d) shape.push(d == axis ? parameters.numel() : 1);
  return TensorView(parameters.data(), parameters.type(), shape);
}

// Row-major float64 copies of scales and zero points. If `inverse` is true, holds the reciprocals of the scales. If
// there are no zero points, holds zeros. The reciprocals of scales that are not fp64 are computed in fp32, because
// otherwise some results would differ from PyTorch's by rounding.
struct Parameters {
  double *scales = nullptr;
  double *zero_points = nullptr;
  int64_t count = 0;

  Parameters(Call &call, Tensor scale, Tensor zero_point, bool inverse) : count(call.failed() ? 0 : scale.numel()) {
    scales = call.scratch<double>(count);
    zero_points = call.scratch<double>(count);
    if (call.failed() || !call.check(zero_point.t == nullptr || zero_point.numel() == count,
                                     "there must be as many zero points as scales")) {
      return;
    }
    TensorView scale_copy(scales, Type::kF64, scale.shape());
    copy_tensor(call, scale_copy.tensor(), scale);
    __builtin_memset(zero_points, 0, static_cast<uint64_t>(count) * sizeof(double));
    if (zero_point.t != nullptr) {
      TensorView zero_copy(zero_points, Type::kF64, zero_point.shape());
      copy_tensor(call, zero_copy.tensor(), zero_point);
    }
    const bool is_fp32 = scale.type() != Type::kF64;
    for (int64_t i = 0; inverse && i < count; ++i) {
      scales[i] = is_fp32 ? static_cast<double>(1.0f / static_cast<float>(scales[i])) : 1.0 / scales[i];
    }
  }
  Parameters(Call &call, double scale, int64_t zero_point) : count(1) {
    scales = call.scratch<double>(1);
    zero_points = call.scratch<double>(1);
    if (call.failed()) return;
    *scales = scale;
    *zero_points = static_cast<double>(zero_point);
  }
};

// Resizes `out` and calls f(x, scales, zero_points, out, out_stride, n) for chunks of n elements of the input. x,
// scales and zero_points are dense arrays of C; f must store n elements to `out`, which are out_stride bytes apart.
template <class C, class F>
void affine(Call &call, Tensor out, Tensor input, const Parameters &parameters, int axis, const F &f) {
  if (call.failed() || !call.resize(out, input.shape())) return;
  Shape entries;
  entries.push(parameters.count);
  TensorView scales(parameters.scales, Type::kF64, entries);
  TensorView zero_points(parameters.zero_points, Type::kF64, entries);
  TensorView scales_along = broadcast_along(scales.tensor(), axis, input.ndim());
  TensorView zero_points_along = broadcast_along(zero_points.tensor(), axis, input.ndim());
  Operands operands(out, input);
  operands.push(scales_along.tensor());
  operands.push(zero_points_along.tensor());
  const Loop loop = make_loop(call, input.shape(), operands);
  if (call.failed()) return;
  for_each_run(call, loop, 16384, [&](char *const *data, const int64_t *strides, int64_t n) {
    C x[kChunk];
    C s[kChunk];
    C z[kChunk];
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t m = n - start < kChunk ? n - start : kChunk;
      load(input.type(), data[1] + start * strides[1], strides[1], m, x);
      load(Type::kF64, data[2] + start * strides[2], strides[2], m, s);
      load(Type::kF64, data[3] + start * strides[3], strides[3], m, z);
      f(x, s, z, data[0] + start * strides[0], strides[0], m);
    }
  });
}

// Quantizes `input`. The zero point is added before rounding if `zero_first` is true, otherwise after rounding.
template <class C>
void quantize(Call &call, Tensor out, Tensor input, const Parameters &inverse, int axis, Range range, bool zero_first) {
  affine<C>(call, out, input, inverse, axis,
            [&](const C *x, const C *s, const C *z, char *to, int64_t stride, int64_t n) {
              int64_t q[kChunk];
              for (int64_t i = 0; i < n; ++i) {
                const C scaled = x[i] * s[i];
                q[i] = clamped(zero_first ? round_to_even(scaled + z[i]) : round_to_even(scaled) + z[i], range);
              }
              store(out.type(), to, stride, n, q);
            });
}

template <class C>
void dequantize(Call &call, Tensor out, Tensor input, const Parameters &parameters, int axis) {
  affine<C>(call, out, input, parameters, axis,
            [&](const C *x, const C *s, const C *z, char *to, int64_t stride, int64_t n) {
              C y[kChunk];
              for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - z[i]) * s[i];
              store(out.type(), to, stride, n, y);
            });
}

bool check_types(Call &call, Tensor real, Tensor quantized) {
  return call.check(!call.failed() && is_floating(real.type()), "the dequantized tensor must have a floating dtype") &&
         call.check(is_integral(quantized.type()), "the quantized tensor must have an integer dtype");
}

// Returns the only element of a tensor: a scale or a zero point.
double single_value(Call &call, Tensor t) {
  double value = 1;
  if (!call.check(!call.failed() && t.numel() == 1, "scale and zero_point must have one element each")) return value;
  load(t.type(), t.data(), 0, 1, &value);
  return value;
}

// Checks that `scales` has an entry for each row of the input (a row lies along the last dim).
bool check_rows(Call &call, Tensor input, Tensor scales) {
  if (call.failed() || !call.check(input.ndim() > 0, "the input has no dims")) return false;
  const int64_t last = input.size(input.ndim() - 1);
  return call.check(scales.numel() == (last == 0 ? scales.numel() : input.numel() / last),
                    "there must be a scale for each row of the input");
}

// Sets `shape` to [rows, last dim], with all dims except the last merged: [2, 3, 4] -> [6, 4]. Fails if the tensor is
// not contiguous.
bool as_rows(Call &call, Tensor t, Shape *shape) {
  shape->push(t.size(t.ndim() - 1) == 0 ? 0 : t.numel() / t.size(t.ndim() - 1));
  shape->push(t.size(t.ndim() - 1));
  return call.check(t.is_contiguous(), "the input of a per-token operator must be contiguous");
}

// Computes a scale (at least eps) and zero point that map [min, max], extended to contain 0, to the quantized range.
void choose_qparams(float min, float max, Range range, float eps, double *scale, int64_t *zero_point) {
  min = min < 0 ? min : 0.0f;
  max = max > 0 ? max : 0.0f;
  float s = (max - min) / static_cast<float>(range.max - range.min);
  s = s > eps ? s : eps;
  *scale = s;
  const float steps = round_to_even(min / s);
  const float zero = static_cast<float>(range.min) - steps;
  *zero_point = clamped(zero, range);
}

// Sets min and max to the minimum and maximum of n elements. Ignores NaN.
void find_min_max(const float *x, int64_t n, float *min, float *max) {
  *min = __builtin_inff();
  *max = -__builtin_inff();
  for (int64_t i = 0; i < n; ++i) {
    *min = x[i] < *min ? x[i] : *min;
    *max = x[i] > *max ? x[i] : *max;
  }
}

int64_t single_zero_point(Call &call, Tensor zero_point) {
  return clamped(single_value(call, zero_point), {INT32_MIN, INT32_MAX});
}

// Returns true if both tensors are row-major, and `real` (the tensor that is not quantized) is fp32. A per-tensor
// operator then needs no loop over dims, for which a microcontroller has too little stack. Resizes `out`.
bool is_dense(Call &call, Tensor out, Tensor input, Tensor real) {
  return !call.failed() && real.type() == Type::kF32 && input.is_contiguous() && call.resize(out, input.shape()) &&
         out.is_contiguous();
}

void quantize_dense(Call &call, Tensor out, Tensor input, double inverse, int64_t zero_point, Range range) {
  const auto *x = reinterpret_cast<const float *>(input.data());
  const int64_t size = item_size(out.type());
  const auto scale = static_cast<float>(inverse);
  const auto zero = static_cast<float>(zero_point);
  call.parallel(input.numel(), 16384, [&](int64_t begin, int64_t end, int64_t) {
    int64_t q[kChunk];
    for (int64_t start = begin; start < end; start += kChunk) {
      const int64_t n = min_of(kChunk, end - start);
      for (int64_t i = 0; i < n; ++i) q[i] = clamped(round_to_even(x[start + i] * scale) + zero, range);
      store(out.type(), out.data() + start * size, size, n, q);
    }
  });
}

void dequantize_dense(Call &call, Tensor out, Tensor input, double scale, int64_t zero_point) {
  auto *y = reinterpret_cast<float *>(out.data());
  const int64_t size = item_size(input.type());
  const auto factor = static_cast<float>(scale);
  const auto zero = static_cast<float>(zero_point);
  call.parallel(input.numel(), 16384, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t start = begin; start < end; start += kChunk) {
      const int64_t n = min_of(kChunk, end - start);
      load(input.type(), input.data() + start * size, size, n, y + start);
      for (int64_t i = start; i < start + n; ++i) y[i] = (y[i] - zero) * factor;
    }
  });
}

// Runs quantize_per_tensor. The caller reads scale and zero point, because some overloads pass them as numbers and
// others as tensors. Arguments: input, scale, zero point, quant_min, quant_max, dtype, out.
int32_t quantize_per_tensor(Call &call, double scale, int64_t zero_point) {
  const Tensor input = call.tensor(0);
  const Range range = range_of(call, 3);
  const Tensor out = call.tensor(6);
  if (!check_types(call, input, out)) return call.status();
  if (is_dense(call, out, input, input)) {
    quantize_dense(call, out, input, 1.0 / scale, zero_point, range);
  } else {
    quantize<float>(call, out, input, Parameters(call, 1.0 / scale, zero_point), -1, range, false);
  }
  return call.status();
}

// Runs dequantize_per_tensor. The caller reads scale and zero point, which are numbers or tensors. Arguments: input,
// scale, zero point, quant_min, quant_max, dtype, out_dtype, out.
int32_t dequantize_per_tensor(Call &call, double scale, int64_t zero_point) {
  const Tensor input = call.tensor(0);
  const Tensor out = call.tensor(7);
  if (!check_types(call, out, input)) return call.status();
  if (is_dense(call, out, input, out)) {
    dequantize_dense(call, out, input, scale, zero_point);
  } else {
    dequantize<float>(call, out, input, Parameters(call, scale, zero_point), -1);
  }
  return call.status();
}

}  // namespace

int32_t quantize_per_tensor_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::quantize_per_tensor.out");
  return quantize_per_tensor(call, call.real(1), call.integer(2));
}

int32_t quantize_per_tensor_tensor_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::quantize_per_tensor.Tensor_out");
  const double scale = single_value(call, call.tensor(1));
  return quantize_per_tensor(call, scale, single_zero_point(call, call.tensor(2)));
}

int32_t dequantize_per_tensor_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::dequantize_per_tensor.out");
  return dequantize_per_tensor(call, call.real(1), call.integer(2));
}

int32_t dequantize_per_tensor_tensor_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::dequantize_per_tensor.Tensor_out");
  const double scale = single_value(call, call.tensor(1));
  return dequantize_per_tensor(call, scale, single_zero_point(call, call.tensor(2)));
}

int32_t quantize_per_channel_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::quantize_per_channel.out");
  const Tensor input = call.tensor(0);
  const Tensor scales = call.tensor(1);
  const Tensor zero_points = call.tensor(2);
  const int axis = call.dim(3, input.ndim());
  const Range range = range_of(call, 4);
  const Tensor out = call.tensor(7);
  if (!check_types(call, input, out) ||
      !call.check(input.ndim() > 0 && scales.numel() == input.size(axis), "there must be a scale for each channel")) {
    return call.status();
  }
  const Parameters inverse(call, scales, zero_points, true);
  with_floating_compute(scales.type(),
                        [&](auto c) { quantize<decltype(c)>(call, out, input, inverse, axis, range, false); });
  return call.status();
}

int32_t dequantize_per_channel_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::dequantize_per_channel.out");
  const Tensor input = call.tensor(0);
  const Tensor scales = call.tensor(1);
  const Tensor zero_points = call.optional_tensor(2);
  const int axis = call.dim(3, input.ndim());
  const Tensor out = call.tensor(8);
  if (!check_types(call, out, input) ||
      !call.check(input.ndim() > 0 && scales.numel() == input.size(axis), "there must be a scale for each channel")) {
    return call.status();
  }
  const Parameters parameters(call, scales, zero_points, false);
  with_floating_compute(scales.type(), [&](auto c) { dequantize<decltype(c)>(call, out, input, parameters, axis); });
  return call.status();
}

int32_t quantize_per_token_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::quantize_per_token.out");
  const Tensor input = call.tensor(0);
  const Tensor scales = call.tensor(1);
  const Tensor zero_points = call.tensor(2);
  const Range range = range_of(call, 3);
  const Tensor out = call.tensor(6);
  Shape rows;
  if (!check_types(call, input, out) || !check_rows(call, input, scales) || !call.resize(out, input.shape()) ||
      !as_rows(call, input, &rows) || !call.check(out.is_contiguous(), "out must be contiguous")) {
    return call.status();
  }
  const Parameters inverse(call, scales, zero_points, true);
  TensorView from(input.data(), input.type(), rows);
  TensorView to(out.data(), out.type(), rows);
  // Compute in double, because PyTorch's scales per token are double.
  affine<double>(call, to.tensor(), from.tensor(), inverse, 0,
                 [&](const double *x, const double *s, const double *z, char *target, int64_t stride, int64_t n) {
                   int64_t q[kChunk];
                   for (int64_t i = 0; i < n; ++i) q[i] = clamped(round_to_even(x[i] * s[i] + z[i]), range);
                   store(out.type(), target, stride, n, q);
                 });
  return call.status();
}

int32_t dequantize_per_token_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::dequantize_per_token.out");
  const Tensor input = call.tensor(0);
  const Tensor scales = call.tensor(1);
  const Tensor zero_points = call.tensor(2);
  const Tensor out = call.tensor(7);
  Shape rows;
  if (!check_types(call, out, input) || !check_rows(call, input, scales) || !call.resize(out, input.shape()) ||
      !as_rows(call, input, &rows) || !call.check(out.is_contiguous(), "out must be contiguous")) {
    return call.status();
  }
  const Parameters parameters(call, scales, zero_points, false);
  TensorView from(input.data(), input.type(), rows);
  TensorView to(out.data(), out.type(), rows);
  dequantize<double>(call, to.tensor(), from.tensor(), parameters, 0);
  return call.status();
}

int32_t choose_qparams_tensor_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::choose_qparams.Tensor_out");
  const Tensor input = call.tensor(0);
  const Range range = range_of(call, 1);
  const float eps = static_cast<float>(call.real(3));
  const Tensor scale = call.tensor(5);
  const Tensor zero_point = call.tensor(6);
  Shape shape;
  shape.push(1);
  if (!call.check(!call.failed() && input.numel() > 0, "the input is empty") ||
      !call.check(range.min < range.max, "quant_min must be less than quant_max") ||
      !call.check(is_floating(scale.type()), "scale_out must be floating") ||
      !call.check(zero_point.type() == Type::kI64, "zero_point_out must be int64") ||
      !call.resize(scale, shape, "scale_out") || !call.resize(zero_point, shape, "zero_point_out")) {
    return call.status();
  }
  const float *x = dense<float>(call, input);
  if (x == nullptr) return call.status();
  float min;
  float max;
  find_min_max(x, input.numel(), &min, &max);
  double chosen;
  int64_t zero;
  choose_qparams(min, max, range, eps, &chosen, &zero);
  store(scale.type(), scale.data(), 0, 1, &chosen);
  store(zero_point.type(), zero_point.data(), 0, 1, &zero);
  return call.status();
}

// Chooses the zero point as PyTorch does: either the min of a row becomes -128 or its max becomes 127. The sign of
// (-128 + min / scale) + (127 + max / scale) decides which.
int32_t choose_qparams_per_token_asymmetric_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::choose_qparams_per_token_asymmetric.out");
  const Tensor input = call.tensor(0);
  const Tensor scale = call.tensor(2);
  const Tensor zero_point = call.tensor(3);
  if (!call.check(!call.failed() && input.ndim() > 0 && input.size(input.ndim() - 1) > 0, "the rows are empty")) {
    return call.status();
  }
  Shape shape = input.shape();
  shape.sizes[shape.ndim - 1] = 1;
  if (!call.resize(scale, shape, "scale_out") || !call.resize(zero_point, shape, "zero_point_out")) {
    return call.status();
  }
  const float *x = dense<float>(call, input);
  const DenseOut<double> scales(call, scale);
  const DenseOut<int64_t> zero_points(call, zero_point);
  if (call.failed()) return call.status();
  const int64_t width = input.size(input.ndim() - 1);
  const Range range = {-128, 127};
  for (int64_t row = 0; row < shape.numel(); ++row) {
    float min;
    float max;
    find_min_max(x + row * width, width, &min, &max);
    min = min < 0 ? min : 0.0f;
    max = max > 0 ? max : 0.0f;
    float s = (max - min) / 255.0f;
    s = s > 1.1920929e-07f ? s : 1.1920929e-07f;
    const float low = min / s;
    const float high = max / s;
    const float zero = (-128.0f + low) + (127.0f + high) > 0 ? -128.0f - low : 127.0f - high;
    scales.data()[row] = s;
    zero_points.data()[row] = clamped(round_to_even(zero < -128.0f ? -128.0f : zero > 127.0f ? 127.0f : zero), range);
  }
  scales.finish(call);
  zero_points.finish(call);
  return call.status();
}

// Adds two quantized tensors: dequantizes both, adds them and quantizes the sum.
int32_t quantized_add_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::add.out");
  const Tensor a = call.tensor(0);
  const float a_scale = static_cast<float>(call.real(1));
  const float a_zero = static_cast<float>(call.integer(2));
  const Tensor b = call.tensor(5);
  const float b_scale = static_cast<float>(call.real(6));
  const float b_zero = static_cast<float>(call.integer(7));
  const float inverse = static_cast<float>(1.0 / call.real(10));
  const float zero = static_cast<float>(call.integer(11));
  const Range range = range_of(call, 12);
  const Tensor out = call.tensor(14);
  if (call.failed() || !call.check(is_integral(a.type()) && is_integral(b.type()) && is_integral(out.type()),
                                   "all tensors must have an integer dtype")) {
    return call.status();
  }
  const Tensor both[2] = {a, b};
  const Shape shape = broadcast(call, both, 2);
  if (call.failed() || !call.resize(out, shape)) return call.status();
  Operands operands(out, a);
  operands.push(b);
  const Loop loop = make_loop(call, shape, operands);
  if (call.failed()) return call.status();
  for_each_run(call, loop, 16384, [&](char *const *data, const int64_t *strides, int64_t n) {
    float x[kChunk];
    float y[kChunk];
    int64_t q[kChunk];
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t m = n - start < kChunk ? n - start : kChunk;
      load(a.type(), data[1] + start * strides[1], strides[1], m, x);
      load(b.type(), data[2] + start * strides[2], strides[2], m, y);
      for (int64_t i = 0; i < m; ++i) {
        const float sum = (x[i] - a_zero) * a_scale + (y[i] - b_zero) * b_scale;
        q[i] = clamped(round_to_even(sum * inverse) + zero, range);
      }
      store(out.type(), data[0] + start * strides[0], strides[0], m, q);
    }
  });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
