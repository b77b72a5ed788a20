#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

constexpr double kLow = -128, kHigh = 127;
constexpr double kFloatEps = 1.1920928955078125e-7;

uint32_t bits_of(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto number = static_cast<float>(std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }
int64_t rounded_up(int64_t size, int64_t step) { return (size + step - 1) / step * step; }

double positive(const Call &call, size_t index) {
  const double scale = call.number(index);
  if (!(scale > 0) || !std::isfinite(scale)) call.damaged("argument %zu is no scale", index);
  return scale;
}

// Returns a zero point of 8-bit integers.
uint32_t zero_point(const Call &call, size_t index) {
  const int64_t zero = call.integer(index);
  if (zero < kLow || zero > kHigh) call.damaged("argument %zu is no zero point", index);
  return word(zero);
}

// Returns `x`, or a copy in another dtype or order.
Tensor converted(const Call &call, const Tensor &x, Dtype dtype, Layout layout) {
  const Tensor wanted{dtype, layout, x.shape, x.storage};
  if (x.dtype == dtype && x.same_order(wanted)) return wanted;
  if (layout == Layout::kRowMajor) {
    const Tensor copy = call.temporary(dtype, x.shape);
    call.copy(x, copy);
    return copy;
  }
  // A channels-last tensor lies in memory as a row-major one with the dims in another order.
  const std::vector<uint32_t> order = dims_in_memory(x.rank(), layout);
  Shape shape(x.rank());
  for (size_t i = 0; i < order.size(); ++i) shape[i] = x.shape[order[i]];
  Tensor copy = call.temporary(dtype, shape);
  copy = {dtype, layout, x.shape, copy.storage};
  call.copy(x, copy);
  return copy;
}

// Writes `make`'s result in the order that it computes in, and copies it to the declared result if that has another
// one.
template <typename Make>
void in_order(const Call &call, const Tensor &out, Layout layout, Make make) {
  const Tensor wanted{out.dtype, layout, out.shape, out.storage};
  if (out.same_order(wanted)) return make(wanted);
  const std::vector<uint32_t> order = dims_in_memory(out.rank(), layout);
  Shape shape(out.rank());
  for (size_t i = 0; i < order.size(); ++i) shape[i] = out.shape[order[i]];
  const Tensor ordered{out.dtype, layout, out.shape, call.temporary(out.dtype, shape).storage};
  make(ordered);
  call.copy(ordered, out);
}

void check_range(const Call &call, size_t first) {
  if (call.integer(first) < kLow || call.integer(first + 1) > kHigh || call.integer(first) > call.integer(first + 1)) {
    call.unsupported("its integers have more than 8 bits");
  }
}

// The scales and zero points of rows: scales in fp32, zero points as they are, each in row-major order.
struct Parameters {
  Tensor scales, zeros;
};

Parameters parameters_of(const Call &call, size_t index, int64_t rows) {
  const Tensor scales = call.tensor(index), zeros = call.tensor(index + 1);
  if (scales.count() != rows || zeros.count() != rows) call.damaged("its scales or zero points do not fit its input");
  if (!is_float(scales.dtype) || is_float(zeros.dtype))
    call.unsupported("its scales are integers, or its zero points not");
  return {converted(call, scales, Dtype::kFloat32, Layout::kRowMajor),
          converted(call, zeros, Dtype::kInt32, Layout::kRowMajor)};
}

// Returns the number of rows of a tensor that its last dim makes.
int64_t rows_of(const Call &call, const Tensor &x) {
  if (x.rank() == 0) call.damaged("its input has no dims");
  return x.shape.back() == 0 ? 0 : x.count() / x.shape.back();
}

void quantize_rows(const Call &call, const Tensor &out, const Tensor &x, const Parameters &given, int64_t inner,
                   double low, double high, bool is_difference) {
  call.dispatch_flat(std::string("quantize_") + name_of(x.dtype) + "_many", {out}, {x, given.scales, given.zeros},
                     {word(x.count()), word(inner), bits_of(low), bits_of(high), 0, is_difference ? 1u : 0u, 0},
                     x.count());
}

void choose_scales(const Call &call, const Tensor &scales, const Tensor &zeros, const Tensor &x, int64_t rows,
                   int64_t width, double low, double high, double eps) {
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
  const Tensor ordered = converted(call, x, x.dtype, Layout::kRowMajor);
  call.dispatch_flat(std::string("choose_scale_") + name_of(x.dtype), {scales, zeros}, {ordered},
                     {word(rows), word(width), bits_of(low), bits_of(high), bits_of(eps)}, rows * 64);
}

// Chooses the parameters of rows, and writes them as the declared results.
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

// The bias of `columns` results in whole vectors; zeros if the argument is absent. `scales` is a constant of floats.
Tensor bias_of(const Call &call, size_t index, size_t scales, int64_t columns) {
  const bool none = call.is_none(index);
  if (!none && (call.constant_shape(index).size() != 1 || call.constant_shape(index)[0] < columns)) {
    call.damaged("its bias does not fit its weights");
  }
  return call.packed(
      none ? scales : index, (none ? "no bias " : "bias ") + std::to_string(columns), rounded_up(columns, 4),
      [=](const float *source, float *packed) {
        if (!none) std::copy(source, source + columns, packed);
      },
      Dtype::kFloat32);
}

// Returns scales [groups, columns or more] in rows of whole vectors.
Tensor scales_of(const Call &call, size_t index, int64_t groups, int64_t columns) {
  const Shape shape = call.constant_shape(index);
  const int64_t stride = shape.empty() ? 1 : shape.back();
  if (stride < columns || count(shape) != groups * stride) call.damaged("its scales do not fit its weights");
  const int64_t target = rounded_up(columns, 4);
  return call.packed(
      index, "scales " + std::to_string(groups) + " " + std::to_string(columns), groups * target,
      [=](const float *source, float *packed) {
        for (int64_t g = 0; g < groups; ++g) {
          std::copy(source + g * stride, source + g * stride + columns, packed + g * target);
        }
      },
      Dtype::kFloat32);
}

// A linear layer with integer weights [n, k].
struct QuantizedLinear {
  int64_t k = 0, n = 0, group = 0, bits = 8;
  size_t weights = 0, scales = 0;
};

// Records a linear layer, whose input has the parameters `given` if it is not null. `element` returns the bits of a
// weight.
template <typename Element>
void multiply(Call &call, const QuantizedLinear &layer, const Tensor &bias, const Parameters *given, Element element) {
  const Tensor input = call.tensor(0);
  if (input.rank() < 1 || input.shape.back() != layer.k) call.damaged("its weights do not fit its input");
  if (!is_float(input.dtype)) call.unsupported("its input has integers");
  const int64_t k = layer.k, n = layer.n, group = layer.group, bits = layer.bits;
  const int64_t rows = rows_of(call, input), per_word = 32 / bits, columns = rounded_up(n, 4);
  const int64_t groups = k / group, words = (group + per_word - 1) / per_word;
  Shape shape = input.shape;
  shape.back() = n;
  const Tensor out = call.output(call.last(), shape);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  const Tensor w = call.packed_words(
      layer.weights, "linear " + std::to_string(bits) + " " + std::to_string(k) + " " + std::to_string(group),
      groups * words * columns, [=](const uint8_t *source, uint32_t *packed) {
        const uint32_t mask = (1u << bits) - 1;
        for (int64_t column = 0; column < n; ++column) {
          for (int64_t i = 0; i < k; ++i) {
            const int64_t in_group = i % group, at = (i / group * words + in_group / per_word) * columns + column;
            packed[at] |= (element(source, column, i) & mask) << (in_group % per_word * bits);
          }
        }
      });
  const Tensor scales = scales_of(call, layer.scales, groups, n);
  Tensor x = converted(call, input, out.dtype, Layout::kRowMajor);
  std::vector<Tensor> read = {w, scales, bias};
  if (given != nullptr) {
    const Tensor differences = call.temporary(Dtype::kInt32, x.shape);
    quantize_rows(call, differences, x, *given, k, kLow, kHigh, true);
    read.push_back(differences);
    read.push_back(given->scales);
  } else {
    read.push_back(x);
  }
  const int64_t together = rows < 4 ? 1 : 4;
  const std::string shader = std::string("linear_quantized_") + name_of(out.dtype) + "_" + std::to_string(bits) +
                             (given == nullptr ? "_float_" : "_rows_") + std::to_string(together);
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    call.dispatch_flat(shader, {target}, read, {word(rows), word(k), word(n), word(group)},
                       (rows + together - 1) / together * (columns / 4));
  });
}

// Reads weights of 4 bits: bytes [n, k / 2 or more], the element of the even column in the low half, each plus 8.
// The bias follows the length of a group among the arguments.
void multiply_4_bits(Call &call, size_t weights, size_t scales, size_t group, const Parameters *given) {
  const Shape shape = call.constant_shape(weights);
  QuantizedLinear layer;
  layer.k = call.tensor(0).rank() < 1 ? 0 : call.tensor(0).shape.back();
  layer.bits = 4;
  layer.weights = weights;
  layer.scales = scales;
  layer.group = call.integer(group);
  if (shape.size() != 2 || shape[1] < (layer.k + 1) / 2) call.damaged("its weights do not fit its input");
  if (layer.group < 1 || layer.k % layer.group != 0) call.damaged("its groups do not fit its weights");
  layer.n = shape[0];
  const int64_t stride = shape[1];
  multiply(call, layer, bias_of(call, group + 1, scales, layer.n), given,
           [=](const uint8_t *source, int64_t column, int64_t i) {
             return static_cast<uint32_t>((source[column * stride + i / 2] >> (i % 2 * 4) & 15) - 8);
           });
}

// The sizes of a convolution of 8-bit integers.
struct Window {
  int64_t height = 1, width = 1, in_group = 0, channels = 0, groups = 1;
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
};

// Records a convolution of channels-last images. `place` returns the place of a weight in the constant.
template <typename Place>
void convolve(Call &call, const Window &window, const Tensor &in, const Tensor &out, const Shape &images,
              const Shape &results, bool has_relu, Place place) {
  constexpr size_t kWeights = 3, kScales = 5, kBias = 8;
  const int64_t channels = window.channels, in_group = window.in_group, columns = rounded_up(channels, 4);
  const int64_t taps = window.height * window.width;
  const Tensor w = call.packed_words(kWeights, "convolution " + std::to_string(in_group) + " " + std::to_string(taps),
                                     taps * in_group * columns / 4, [=](const uint8_t *source, uint32_t *packed) {
                                       for (int64_t o = 0; o < channels; ++o) {
                                         for (int64_t t = 0; t < taps; ++t) {
                                           for (int64_t c = 0; c < in_group; ++c) {
                                             const int64_t at = (t * in_group + c) * columns + o;
                                             packed[at / 4] |= uint32_t{source[place(o, t, c)]} << (at % 4 * 8);
                                           }
                                         }
                                       }
                                     });
  const Tensor scales = scales_of(call, kScales, 1, channels), bias = bias_of(call, kBias, kScales, channels);
  const double limit = has_relu ? 0 : -std::numeric_limits<float>::infinity();
  call.dispatch_flat(std::string("convolution_int8_i32_") + (window.groups == 1 ? "one" : "many"), {out},
                     {in, w, scales, bias},
                     {word(images[0]),
                      word(images[1]),
                      word(images[2]),
                      word(images[3]),
                      word(results[1]),
                      word(results[2]),
                      word(channels),
                      word(window.height),
                      word(window.width),
                      word(window.stride[0]),
                      word(window.stride[1]),
                      word(window.padding[0]),
                      word(window.padding[1]),
                      word(window.dilation[0]),
                      word(window.dilation[1]),
                      word(in_group),
                      word(channels / window.groups),
                      zero_point(call, 2),
                      zero_point(call, 7),
                      bits_of(positive(call, 1)),
                      bits_of(1.0 / positive(call, 6)),
                      bits_of(limit)},
                     results[0] * results[1] * results[2] * (columns / 4));
}

// Returns whether the last argument before the result names a relu.
bool has_relu(const Call &call) {
  const std::string &name = call.text(call.last() - 1);
  if (name != "relu" && name != "none") call.unsupported("it has the activation %s", name.substr(0, 100).c_str());
  return name == "relu";
}

void pair(const Call &call, size_t index, int64_t min, int64_t (&out)[2]) {
  const std::vector<int64_t> given = call.integers(index);
  if (given.empty() || given.size() > 2) call.damaged("argument %zu has %zu numbers", index, given.size());
  for (size_t i = 0; i < 2; ++i) {
    out[i] = given[given.size() == 1 ? 0 : i];
    if (out[i] < min || out[i] > INT16_MAX) call.damaged("argument %zu is out of range", index);
  }
}

void check_integers(const Call &call, const Tensor &tensor) {
  if (tensor.dtype != Dtype::kInt32) call.unsupported("a tensor has floating-point numbers");
}

}  // namespace

void quantize_per_tensor(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 3);
  const Tensor out = call.output(call.last(), x.shape);
  if (!is_float(x.dtype) || is_float(out.dtype)) call.unsupported("its input has integers, or its result not");
  const double low = static_cast<double>(call.integer(3)), high = static_cast<double>(call.integer(4));
  in_order(call, out, x.layout, [&](const Tensor &target) {
    call.dispatch_flat(
        std::string("quantize_") + name_of(x.dtype) + "_one", {target}, {x},
        {word(x.count()), 1, bits_of(low), bits_of(high), zero_point(call, 2), 0, bits_of(1.0 / positive(call, 1))},
        x.count());
  });
}

void dequantize_per_tensor(Call &call) {
  const Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  check_integers(call, x);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  in_order(call, out, x.layout, [&](const Tensor &target) {
    call.dispatch_flat(std::string("dequantize_") + name_of(out.dtype) + "_one", {target}, {x},
                       {word(x.count()), 1, zero_point(call, 2), bits_of(positive(call, 1))}, x.count());
  });
}

void quantize_per_token(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 3);
  const Tensor out = call.output(call.last(), x.shape);
  if (!is_float(x.dtype) || is_float(out.dtype)) call.unsupported("its input has integers, or its result not");
  const Tensor ordered = converted(call, x, x.dtype, Layout::kRowMajor);
  const Parameters given = parameters_of(call, 1, rows_of(call, x));
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    quantize_rows(call, target, ordered, given, x.shape.back(), static_cast<double>(call.integer(3)),
                  static_cast<double>(call.integer(4)), false);
  });
}

void dequantize_per_token(Call &call) {
  const Tensor x = call.tensor(0);
  const Tensor out = call.output(call.last(), x.shape);
  check_integers(call, x);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  const Tensor ordered = converted(call, x, x.dtype, Layout::kRowMajor);
  const Parameters given = parameters_of(call, 1, rows_of(call, x));
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    call.dispatch_flat(std::string("dequantize_") + name_of(out.dtype) + "_many", {target},
                       {ordered, given.scales, given.zeros}, {word(x.count()), word(x.shape.back()), 0, 0}, x.count());
  });
}

void choose_qparams(Call &call) {
  const Tensor x = call.tensor(0);
  check_range(call, 1);
  choose(call, 1, x.count(), {1}, static_cast<double>(call.integer(1)), static_cast<double>(call.integer(2)),
         call.number(3));
}

void choose_qparams_per_token(Call &call) {
  const Tensor x = call.tensor(0);
  const int64_t rows = rows_of(call, x);
  Shape shape = x.shape;
  shape.back() = 1;
  choose(call, rows, x.shape.back(), shape, kLow, kHigh, kFloatEps);
}

void choose_qparams_affine(Call &call) {
  const Tensor x = call.tensor(0);
  const int64_t rows = rows_of(call, x);
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

void linear_int8(Call &call) {
  const Shape shape = call.constant_shape(1);
  if (shape.size() != 2) call.damaged("its weights have %zu dims", shape.size());
  QuantizedLinear layer;
  layer.n = shape[0];
  layer.k = layer.group = shape[1];
  layer.weights = 1;
  layer.scales = 2;
  if (layer.k == 0) call.damaged("its weights have no columns");
  const Tensor none = call.packed(
      2, "no bias " + std::to_string(layer.n), rounded_up(layer.n, 4), [](const float *, float *) {}, Dtype::kFloat32);
  const int64_t k = layer.k;
  multiply(call, layer, none, nullptr,
           [=](const uint8_t *source, int64_t column, int64_t i) { return uint32_t{source[column * k + i]}; });
}

void linear_int4(Call &call) { multiply_4_bits(call, 1, 2, 3, nullptr); }

void linear_int4_dynamic(Call &call) {
  const Parameters given = parameters_of(call, 1, rows_of(call, call.tensor(0)));
  multiply_4_bits(call, 3, 5, 6, &given);
}

void convolution_int8(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weights = call.constant_shape(3);
  check_integers(call, x);
  if (x.rank() != 4) call.unsupported("it has %zu dims", x.rank());
  Window window;
  int64_t kernel[2];
  pair(call, 9, 1, kernel);
  pair(call, 10, 1, window.stride);
  pair(call, 11, 0, window.padding);
  pair(call, 12, 1, window.dilation);
  window.height = kernel[0];
  window.width = kernel[1];
  window.groups = call.integer(13);
  const bool is_depthwise = call.name() == "et_vk.q8ta_conv2d_dw.default";
  if (weights.size() != (is_depthwise ? 3 : 2)) call.damaged("its weights have %zu dims", weights.size());
  window.channels = is_depthwise ? weights[2] : weights[0];
  if (window.groups < 1 || window.channels == 0 || window.channels % window.groups != 0 ||
      x.shape[1] % window.groups != 0) {
    call.damaged("its groups do not fit its channels");
  }
  window.in_group = x.shape[1] / window.groups;
  const int64_t taps = window.height * window.width, in_group = window.in_group, channels = window.channels;
  const bool fits = is_depthwise ? in_group == 1 && weights[0] == kernel[0] && weights[1] == kernel[1]
                                 : weights[1] >= taps * in_group;
  if (!fits) call.damaged("its weights do not fit its input");
  Shape shape = {x.shape[0], channels, 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = x.shape[2 + i] + 2 * window.padding[i] - window.dilation[i] * (kernel[i] - 1) - 1;
    if (room < 0) call.damaged("its kernel is larger than its input");
    shape[2 + i] = room / window.stride[i] + 1;
  }
  const Tensor out = call.output(call.last(), shape);
  check_integers(call, out);
  const Tensor in = converted(call, x, Dtype::kInt32, Layout::kChannelsLast);
  const int64_t stride = weights[1];
  const bool relu = has_relu(call);
  in_order(call, out, Layout::kChannelsLast, [&](const Tensor &target) {
    convolve(call, window, in, target, {x.shape[0], x.shape[2], x.shape[3], x.shape[1]}, {shape[0], shape[2], shape[3]},
             relu, [=](int64_t o, int64_t t, int64_t c) {
               return is_depthwise ? t * channels + o : o * stride + t * in_group + c;
             });
  });
}

// A linear layer is a convolution of one line of pixels, of which each is a row.
void linear_int8_static(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weights = call.constant_shape(3);
  check_integers(call, x);
  if (weights.size() != 2 || x.rank() < 1 || x.shape.back() != weights[1] || weights[0] == 0) {
    call.damaged("its weights do not fit its input");
  }
  Window window;
  window.channels = weights[0];
  window.in_group = weights[1];
  Shape shape = x.shape;
  shape.back() = window.channels;
  const Tensor out = call.output(call.last(), shape);
  check_integers(call, out);
  const int64_t rows = rows_of(call, x), stride = weights[1];
  const Tensor in = converted(call, x, Dtype::kInt32, Layout::kRowMajor);
  const bool relu = has_relu(call);
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    convolve(call, window, in, target, {1, 1, rows, stride}, {1, 1, rows}, relu,
             [=](int64_t o, int64_t, int64_t c) { return o * stride + c; });
  });
}

void add_int8(Call &call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.shape != b.shape) call.unsupported("its inputs have different shapes");
  check_integers(call, a);
  check_integers(call, b);
  const Tensor out = call.output(call.last(), a.shape);
  check_integers(call, out);
  const Tensor second = converted(call, b, Dtype::kInt32, a.layout);
  in_order(call, out, a.layout, [&](const Tensor &target) {
    call.dispatch_flat(
        "add_int8_i32", {target}, {a, second},
        {word(a.count()), zero_point(call, 3), zero_point(call, 5), zero_point(call, 7), bits_of(positive(call, 2)),
         bits_of(positive(call, 4) * call.number(8)), bits_of(1.0 / positive(call, 6))},
        a.count());
  });
}

}  // namespace edgecore::vulkan
