#include <algorithm>

#include "ops/convolution.h"
#include "ops/operators.h"
#include "ops/quantized.h"

namespace edgecore::vulkan {

namespace {

// Argument indices in a call of a statically quantized layer.
constexpr size_t kWeights = 3, kScales = 5, kBias = 8;

int64_t rounded_up(int64_t size, int64_t step) { return (size + step - 1) / step * step; }

// Returns `columns` zeros in place of an absent bias. The zeros are cached with the float constant in argument
// `scales`.
Tensor no_bias(const Call &call, size_t scales, int64_t columns) {
  return call.packed(
      scales, "no bias " + std::to_string(columns), rounded_up(columns, 4), [](const float *, float *) {},
      Dtype::kFloat32);
}

// Returns the bias of `columns` outputs, padded to whole vectors; zeros if the argument is absent. The zeros are cached
// with the float constant in argument `scales`.
Tensor bias_of(const Call &call, size_t index, size_t scales, int64_t columns) {
  if (call.is_none(index)) return no_bias(call, scales, columns);
  if (call.constant_shape(index).size() != 1 || call.constant_shape(index)[0] < columns) {
    call.damaged("its bias does not fit its weights");
  }
  return call.packed(
      index, "bias " + std::to_string(columns), rounded_up(columns, 4),
      [=](const float *source, float *packed) { std::copy(source, source + columns, packed); }, Dtype::kFloat32);
}

// Cuts the constant scales [groups, at least `columns`] to [groups, columns], and pads rows to whole vectors of four.
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

// The sizes of a linear layer with integer weights [n, k], and the indices of its arguments.
struct QuantizedLinear {
  int64_t k = 0, n = 0, group = 0, bits = 8;
  size_t weights = 0, scales = 0;
};

// Records the dispatches of a linear layer with integer weights. If `parameters` is not null, the input is quantized
// with these parameters. `element(source, column, i)` returns the bits of the weight [column, i].
template <typename Element>
void multiply(Call &call, const QuantizedLinear &layer, const Tensor &bias, const RowParameters *parameters,
              Element element) {
  const Tensor input = call.tensor(0);
  if (input.rank() < 1 || input.shape.back() != layer.k) call.damaged("its weights do not fit its input");
  if (!is_float(input.dtype)) call.unsupported("its input has integers");
  const int64_t k = layer.k, n = layer.n, group = layer.group, bits = layer.bits;
  const int64_t rows = row_count(call, input), per_word = 32 / bits, columns = rounded_up(n, 4);
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
  Tensor x = arranged(call, input, out.dtype, Layout::kRowMajor);
  std::vector<Tensor> read = {w, scales, bias};
  if (parameters != nullptr) {
    const Tensor differences = call.temporary(Dtype::kInt32, x.shape);
    quantize_rows(call, differences, x, *parameters, k, kLow, kHigh, true);
    read.push_back(differences);
    read.push_back(parameters->scales);
  } else {
    read.push_back(x);
  }
  const int64_t together = rows < 4 ? 1 : 4;
  const std::string shader = std::string("linear_quantized_") + name_of(out.dtype) + "_" + std::to_string(bits) +
                             (parameters == nullptr ? "_float_" : "_rows_") + std::to_string(together);
  in_order(call, out, Layout::kRowMajor, [&](const Tensor &target) {
    call.check_iterations(2 * k);
    call.dispatch_flat(shader, {target}, read, {word(rows), word(k), word(n), word(group)},
                       (rows + together - 1) / together * (columns / 4));
  });
}

// Records the dispatches of a linear layer with 4-bit weights, stored as weight + 8 in bytes [n, at least k / 2] with
// the even column in the low half. `weights`, `scales` and `group` are indices of arguments. Argument `group` is the
// number of elements that share a scale; the bias is the next argument.
void multiply_4_bits(Call &call, size_t weights, size_t scales, size_t group, const RowParameters *parameters) {
  const Shape shape = call.constant_shape(weights);
  QuantizedLinear layer;
  layer.k = call.tensor(0).rank() < 1 ? 0 : call.tensor(0).shape.back();
  layer.bits = 4;
  layer.weights = weights;
  layer.scales = scales;
  layer.group = call.integer(group);
  if (shape.size() != 2 || shape[1] < (layer.k + 1) / 2) call.damaged("its weights do not fit its input");
  if (layer.k == 0 || layer.group < 1 || layer.k % layer.group != 0) call.damaged("its groups do not fit its weights");
  layer.n = shape[0];
  const int64_t stride = shape[1];
  multiply(call, layer, bias_of(call, group + 1, scales, layer.n), parameters,
           [=](const uint8_t *source, int64_t column, int64_t i) {
             return static_cast<uint32_t>((source[column * stride + i / 2] >> (i % 2 * 4) & 15) - 8);
           });
}

// Returns the last step of a statically quantized layer: the requantization of `channels` outputs and the activation.
// The name of the activation, "relu" or "none", is the argument before the result.
Finish requantization(const Call &call, int64_t channels) {
  const std::string &name = call.text(call.last() - 1);
  if (name != "relu" && name != "none") call.unsupported("it has the activation %s", name.substr(0, 100).c_str());
  Finish finish;
  if (name == "relu") finish.low = 0;
  finish.integers =
      Requantization{scales_of(call, kScales, 1, channels), zero_point_of(call, 2), zero_point_of(call, 7),
                     float_word(scale_of(call, 1)), float_word(1.0 / scale_of(call, 6))};
  return finish;
}

}  // namespace

// Records the dispatches of a linear layer with ExecuTorch's 4-bit weights, which have a scale for each row, and store
// the even column in the high half of a byte.
void linear_int4_rows(Call &call) {
  const Shape shape = call.constant_shape(1);
  const int64_t k = call.tensor(0).rank() < 1 ? 0 : call.tensor(0).shape.back();
  if (shape.size() != 2 || k == 0 || shape[1] < (k + 1) / 2) call.damaged("its weights do not fit its input");
  QuantizedLinear layer;
  layer.n = shape[0];
  layer.k = layer.group = k;
  layer.bits = 4;
  layer.weights = 1;
  layer.scales = 2;
  multiply(call, layer, no_bias(call, 2, layer.n), nullptr,
           [stride = shape[1]](const uint8_t *source, int64_t column, int64_t i) {
             return static_cast<uint32_t>((source[column * stride + i / 2] >> ((i + 1) % 2 * 4) & 15) - 8);
           });
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
  const int64_t k = layer.k;
  multiply(call, layer, no_bias(call, 2, layer.n), nullptr,
           [=](const uint8_t *source, int64_t column, int64_t i) { return uint32_t{source[column * k + i]}; });
}

void linear_int4(Call &call) { multiply_4_bits(call, 1, 2, 3, nullptr); }

void linear_int4_dynamic(Call &call) {
  const RowParameters parameters = row_parameters(call, 1, row_count(call, call.tensor(0)));
  multiply_4_bits(call, 3, 5, 6, &parameters);
}

void convolution_int8(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weights = call.constant_shape(kWeights);
  check_integers(call, x);
  if (x.rank() != 4) call.unsupported("it has %zu dims", x.rank());
  Convolution c;
  const std::array<int64_t, 2> kernel = call.pair(9, 1), stride = call.pair(10, 1), padding = call.pair(11, 0);
  const std::array<int64_t, 2> dilation = call.pair(12, 1);
  c.groups = call.integer(13);
  const bool is_depthwise = call.name() == "et_vk.q8ta_conv2d_dw.default";
  if (weights.size() != (is_depthwise ? 3 : 2)) call.damaged("its weights have %zu dims", weights.size());
  c.batch = x.shape[0];
  c.in_channels = x.shape[1];
  c.out_channels = is_depthwise ? weights[2] : weights[0];
  if (c.groups < 1 || c.out_channels == 0 || c.out_channels % c.groups != 0 || c.in_channels % c.groups != 0) {
    call.damaged("its groups do not fit its channels");
  }
  c.in_group = c.in_channels / c.groups;
  c.out_group = c.out_channels / c.groups;
  for (size_t i = 0; i < 2; ++i) {
    c.kernel[i] = kernel[i];
    c.stride[i] = stride[i];
    c.padding[i] = padding[i];
    c.dilation[i] = dilation[i];
    c.in[i] = x.shape[2 + i];
    const int64_t room = c.in[i] + 2 * c.padding[i] - c.dilation[i] * (c.kernel[i] - 1) - 1;
    if (room < 0) call.damaged("its kernel is larger than its input");
    c.out[i] = room / c.stride[i] + 1;
  }
  const int64_t in_group = c.in_group, channels = c.out_channels, row = weights[1];
  const bool fits =
      is_depthwise ? in_group == 1 && weights[0] == kernel[0] && weights[1] == kernel[1] : row >= c.taps() * in_group;
  if (!fits) call.damaged("its weights do not fit its input");
  const Tensor out = call.output(call.last(), c.out_shape());
  check_integers(call, out);
  const Tensor in = arranged(call, x, out.dtype, Layout::kChannelsLast);
  const Tensor w = packed_integer_panels(
      call, kWeights, "convolution " + std::to_string(in_group) + " " + std::to_string(c.taps()), c.taps() * in_group,
      channels, [=](int64_t i, int64_t o) { return is_depthwise ? i * channels + o : o * row + i; });
  const Tensor bias = bias_of(call, kBias, kScales, channels);
  const Finish finish = requantization(call, channels);
  in_order(call, out, Layout::kChannelsLast, [&](const Tensor &target) {
    record(call, c, target, in, channels_last_strides(in.shape), w, bias, finish);
  });
}

void linear_int8_static(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weights = call.constant_shape(kWeights);
  check_integers(call, x);
  if (weights.size() != 2 || x.rank() < 1 || x.shape.back() != weights[1] || weights[0] == 0) {
    call.damaged("its weights do not fit its input");
  }
  const int64_t n = weights[0], k = weights[1], rows = row_count(call, x);
  Shape shape = x.shape;
  shape.back() = n;
  const Tensor out = call.output(call.last(), shape);
  check_integers(call, out);
  const Tensor in = arranged(call, x, out.dtype, Layout::kRowMajor);
  const Tensor w =
      packed_integer_panels(call, kWeights, "linear", k, n, [=](int64_t i, int64_t o) { return o * k + i; });
  const Tensor bias = bias_of(call, kBias, kScales, n);
  const Finish finish = requantization(call, n);
  in_order(call, out, Layout::kRowMajor,
           [&](const Tensor &target) { multiply(call, target, in, w, bias, rows, k, n, finish); });
}

void add_int8(Call &call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.shape != b.shape) call.unsupported("its inputs have different shapes");
  check_integers(call, a);
  check_integers(call, b);
  const Tensor out = call.output(call.last(), a.shape);
  check_integers(call, out);
  const Tensor first = arranged(call, a, out.dtype, a.layout), second = arranged(call, b, out.dtype, a.layout);
  const int64_t vectors = (a.count() + 3) / 4;
  in_order(call, out, a.layout, [&](const Tensor &target) {
    call.dispatch_flat(std::string("add_int8_") + name_of(out.dtype), {target}, {first, second},
                       {word(vectors), zero_point_of(call, 3), zero_point_of(call, 5), zero_point_of(call, 7),
                        float_word(scale_of(call, 2)), float_word(scale_of(call, 4) * call.number(8)),
                        float_word(1.0 / scale_of(call, 6))},
                       vectors);
  });
}

}  // namespace edgecore::vulkan
