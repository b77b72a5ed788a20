#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/operators.h"
#include "ops/quantized.h"

namespace edgecore::vulkan {

uint32_t float_word(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto number = static_cast<float>(std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

double scale_of(const Call &call, size_t index) {
  const double scale = call.number(index);
  if (!(scale > 0) || !std::isfinite(scale)) call.damaged("argument %zu is no scale", index);
  return scale;
}

uint32_t zero_point_of(const Call &call, size_t index) {
  const int64_t zero = call.integer(index);
  if (zero < kLow || zero > kHigh) call.damaged("argument %zu is no zero point", index);
  return word(zero);
}

Tensor arranged(const Call &call, const Tensor &x, Dtype dtype, Layout layout) {
  const Tensor wanted{dtype, layout, x.shape, x.storage};
  if (x.dtype == dtype && x.same_order(wanted)) return wanted;
  if (layout == Layout::kRowMajor) {
    const Tensor copy = call.temporary(dtype, x.shape);
    call.copy(x, copy);
    return copy;
  }
  // Make a channels-last copy as a row-major tensor with permuted dims: both have the same bytes in memory.
  const std::vector<uint32_t> order = dims_in_memory(x.rank(), layout);
  Shape shape(x.rank());
  for (size_t i = 0; i < order.size(); ++i) shape[i] = x.shape[order[i]];
  Tensor copy = call.temporary(dtype, shape);
  copy = {dtype, layout, x.shape, copy.storage};
  call.copy(x, copy);
  return copy;
}

void check_integers(const Call &call, const Tensor &tensor) {
  if (is_float(tensor.dtype)) call.unsupported("a tensor has floating-point numbers");
}

int64_t row_count(const Call &call, const Tensor &x) {
  if (x.rank() == 0) call.damaged("its input has no dims");
  return x.shape.back() == 0 ? 0 : x.count() / x.shape.back();
}

RowParameters row_parameters(const Call &call, size_t index, int64_t rows) {
  const Tensor scales = call.tensor(index), zeros = call.tensor(index + 1);
  if (scales.count() != rows || zeros.count() != rows) call.damaged("its scales or zero points do not fit its input");
  if (!is_float(scales.dtype) || is_float(zeros.dtype))
    call.unsupported("its scales are integers, or its zero points not");
  return {arranged(call, scales, Dtype::kFloat32, Layout::kRowMajor),
          arranged(call, zeros, Dtype::kInt32, Layout::kRowMajor)};
}

void quantize_rows(const Call &call, const Tensor &out, const Tensor &x, const RowParameters &parameters, int64_t inner,
                   double low, double high, bool is_difference) {
  call.dispatch_flat(
      std::string("quantize_") + name_of(x.dtype) + "_many_i32", {out}, {x, parameters.scales, parameters.zeros},
      {word(x.count()), word(inner), float_word(low), float_word(high), 0, is_difference ? 1u : 0u, 0}, x.count());
}

namespace {

constexpr double kFloatEps = 1.1920928955078125e-7;

void check_range(const Call &call, size_t first) {
  if (call.integer(first) < kLow || call.integer(first + 1) > kHigh || call.integer(first) > call.integer(first + 1)) {
    call.unsupported("its integers have more than 8 bits");
  }
}

// Dequantizes the first argument. Element i of the row-major input has the scale and zero point number (i / inner) %
// channels.
void dequantize_channels(const Call &call, const RowParameters &parameters, int64_t inner, int64_t channels) {
  const Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  check_integers(call, x);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  const Tensor ordered = arranged(call, x, x.dtype, Layout::kRowMajor);
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    call.dispatch_flat(std::string("dequantize_") + name_of(out.dtype) + "_many_i32", {target},
                       {ordered, parameters.scales, parameters.zeros},
                       {word(x.count()), word(inner), word(channels), 0, 0}, x.count());
  });
}

void choose_scales(const Call &call, const Tensor &scales, const Tensor &zeros, const Tensor &x, int64_t rows,
                   int64_t width, double low, double high, double eps) {
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
  const Tensor ordered = arranged(call, x, x.dtype, Layout::kRowMajor);
  call.dispatch_flat(std::string("choose_scale_") + name_of(x.dtype), {scales, zeros}, {ordered},
                     {word(rows), word(width), float_word(low), float_word(high), float_word(eps)}, rows * 64);
}

// Chooses a scale and a zero point for each row of the first argument, and writes them as the call's two results.
void choose(Call &call, int64_t rows, int64_t width, const Shape &shape, double low, double high, double eps) {
  const size_t results = call.last();
  if (call.list_size(results) != 2) call.damaged("it has no scale and zero point");
  const Tensor scales = call.output_of_list(results, 0, shape), zeros = call.output_of_list(results, 1, shape);
  if (!is_float(scales.dtype) || zeros.dtype != Dtype::kInt32) call.damaged("its results have other dtypes");
  const Tensor target = scales.dtype == Dtype::kFloat32 ? scales : call.temporary(Dtype::kFloat32, scales.shape);
  choose_scales(call, target, zeros, call.tensor(0), rows, width, low, high, eps);
  if (scales.dtype != Dtype::kFloat32)
    call.copy({Dtype::kFloat32, scales.layout, scales.shape, target.storage}, scales);
}

}  // namespace

void quantize_per_tensor(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 3);
  const Tensor out = call.output(call.last(), x.shape);
  if (!is_float(x.dtype) || is_float(out.dtype)) call.unsupported("its input has integers, or its result not");
  const double low = static_cast<double>(call.integer(3)), high = static_cast<double>(call.integer(4));
  in_order(call, out, x.layout, [&](const Tensor &target) {
    const int64_t vectors = (x.count() + 3) / 4;
    call.dispatch_flat(std::string("quantize_") + name_of(x.dtype) + "_one_" + name_of(out.dtype), {target}, {x},
                       {word(vectors), 1, float_word(low), float_word(high), zero_point_of(call, 2), 0,
                        float_word(1.0 / scale_of(call, 1))},
                       vectors);
  });
}

void dequantize_per_tensor(Call &call) {
  const Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  check_integers(call, x);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  in_order(call, out, x.layout, [&](const Tensor &target) {
    const int64_t vectors = (x.count() + 3) / 4;
    call.dispatch_flat(std::string("dequantize_") + name_of(out.dtype) + "_one_" + name_of(x.dtype), {target}, {x},
                       {word(vectors), 1, 1, zero_point_of(call, 2), float_word(scale_of(call, 1))}, vectors);
  });
}

void quantize_per_token(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 3);
  const Tensor out = call.output(call.last(), x.shape);
  if (!is_float(x.dtype) || is_float(out.dtype)) call.unsupported("its input has integers, or its result not");
  const Tensor ordered = arranged(call, x, x.dtype, Layout::kRowMajor);
  const RowParameters parameters = row_parameters(call, 1, row_count(call, x));
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    quantize_rows(call, target, ordered, parameters, x.shape.back(), static_cast<double>(call.integer(3)),
                  static_cast<double>(call.integer(4)), false);
  });
}

void dequantize_per_token(Call &call) {
  const int64_t rows = row_count(call, call.tensor(0));
  dequantize_channels(call, row_parameters(call, 1, rows), call.tensor(0).shape.back(), rows);
}

void dequantize_per_channel(Call &call) {
  const Tensor x = call.tensor(0);
  const size_t axis = call.dim(3, x.rank());
  int64_t inner = 1;
  for (size_t i = axis + 1; i < x.rank(); ++i) inner *= x.shape[i];
  if (call.is_none(2)) call.unsupported("it has no zero points");
  dequantize_channels(call, row_parameters(call, 1, x.shape[axis]), inner, x.shape[axis]);
}

// Dequantizes blocks of elements. Each block has a scale and a zero point, and is a row or an equal part of a row.
void dequantize_affine(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> block = call.integers(1);
  bool is_row = x.rank() >= 1 && block.size() == x.rank() && block.back() >= 1 && x.shape.back() % block.back() == 0;
  for (size_t i = 0; is_row && i + 1 < block.size(); ++i) is_row = block[i] == 1;
  if (!is_row || call.is_none(3)) call.unsupported("its blocks are no parts of rows, or it has no zero points");
  const int64_t blocks = x.count() / block.back();
  dequantize_channels(call, row_parameters(call, 2, blocks), block.back(), blocks);
}

void choose_qparams(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 1);
  choose(call, 1, x.count(), {1}, static_cast<double>(call.integer(1)), static_cast<double>(call.integer(2)),
         call.number(3));
}

void choose_qparams_per_token(Call &call) {
  const Tensor x = call.tensor(0);
  const int64_t rows = row_count(call, x);
  Shape shape = x.shape;
  shape.back() = 1;
  choose(call, rows, x.shape.back(), shape, kLow, kHigh, kFloatEps);
}

void choose_qparams_affine(Call &call) {
  const Tensor x = call.tensor(0);
  const int64_t rows = row_count(call, x);
  const std::vector<int64_t> block = call.integers(2);
  bool is_row = block.size() == x.rank() && block.back() == x.shape.back();
  for (size_t i = 0; is_row && i + 1 < block.size(); ++i) is_row = block[i] == 1;
  if (!is_row || call.text(1) != "ASYMMETRIC") call.unsupported("its blocks are no rows, or its ranges symmetric");
  const bool has_range = !call.is_none(4) && !call.is_none(5);
  if (has_range) check_range(call, 4);
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (call.integer(9) != 0) shape.push_back(1);
  choose(call, rows, x.shape.back(), shape, has_range ? static_cast<double>(call.integer(4)) : kLow,
         has_range ? static_cast<double>(call.integer(5)) : kHigh, call.is_none(6) ? kFloatEps : call.number(6));
}

}  // namespace edgecore::vulkan
