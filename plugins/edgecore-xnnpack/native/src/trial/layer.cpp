#include "trial/layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace edgecore::xnnpack::trial {

namespace {

constexpr int kNibbleZero = 8;

// Truncates a scale to bf16. This adds no error to the comparison: the reference also uses the truncated scale.
uint16_t to_bf16(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

float from_bf16(uint16_t upper) {
  const uint32_t bits = static_cast<uint32_t>(upper) << 16;
  float number;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

bool is_float(xnn_datatype type) { return type == xnn_datatype_fp32 || type == xnn_datatype_fp16; }

size_t channel_of(const Dims &dims, size_t channel_dim, size_t element) {
  for (size_t d = dims.size(); --d > channel_dim;) element /= dims[d];
  return element % dims[channel_dim];
}

// Draws random integers for a filter, and their scales: a single scale, a scale per output channel (qcint8, qcint4), or
// a scale per `block` consecutive elements (qbint4; `block` is 0 for other types).
void draw_integers(Trial *trial, const LayerTypes &types, size_t block, Weights *weights) {
  Tensor &filter = weights->filter;
  const size_t count = element_count(filter.dims);
  const bool nibbles = types.filter == xnn_datatype_qcint4 || types.filter == xnn_datatype_qbint4;
  const bool has_channels = types.filter == xnn_datatype_qcint8 || types.filter == xnn_datatype_qcint4;
  const size_t channels = filter.dims[filter.channel_dim];
  filter.scale = 0.03125f;
  for (size_t c = 0; has_channels && c < channels; ++c) {
    filter.scales.push_back(static_cast<float>(trial->uniform(0.02, 0.04)));
  }
  for (size_t b = 0; block != 0 && b < count / block; ++b) {
    filter.block_scales.push_back(to_bf16(static_cast<float>(trial->uniform(0.02, 0.04))));
  }
  filter.block = block;
  filter.zero = nibbles ? kNibbleZero : types.filter == xnn_datatype_quint8 ? trial->uniform_int(0, 2) * 127 : 0;
  const int low = nibbles ? -8 : types.filter == xnn_datatype_quint8 ? -filter.zero : -128;
  const int high = nibbles ? 7 : low + 255;
  filter.bytes.assign(nibbles ? (count + 1) / 2 : count, 0);
  for (size_t i = 0; i < count; ++i) {
    const int integer = trial->uniform_int(low, high);
    float scale = filter.scale;
    if (has_channels) scale = filter.scales[channel_of(filter.dims, filter.channel_dim, i)];
    if (block != 0) scale = from_bf16(filter.block_scales[i / block]);
    weights->filter_numbers.push_back(static_cast<double>(scale) * integer);
    if (nibbles) {
      filter.bytes[i / 2] |= static_cast<uint8_t>((integer + kNibbleZero) << (i % 2 * 4));
    } else {
      filter.bytes[i] = static_cast<uint8_t>(integer + filter.zero);
    }
  }
}

}  // namespace

bool is_int8(xnn_datatype type) { return type == xnn_datatype_qint8 || type == xnn_datatype_quint8; }

Weights draw_weights(Trial *trial, const LayerTypes &types, const Dims &dims, size_t channel_dim, size_t block,
                     const LayerScales &scales, size_t terms) {
  Weights weights;
  Tensor &filter = weights.filter;
  filter.type = types.filter;
  filter.dims = dims;
  filter.channel_dim = channel_dim;
  const size_t channels = dims[channel_dim];
  if (is_float(types.filter)) {
    // Draw small random integers for fp16: some kernels round each partial sum to fp16, which is exact below 2048.
    const bool is_fp16 = types.output == xnn_datatype_fp16;
    for (size_t i = 0; i < element_count(dims); ++i) {
      weights.filter_numbers.push_back(is_fp16 ? trial->uniform_int(-2, 2) : trial->uniform(-1, 1));
    }
    filter.set(weights.filter_numbers);
    weights.filter_numbers = filter.numbers();
  } else {
    draw_integers(trial, types, block, &weights);
  }

  Tensor &bias = weights.bias;
  bias.dims = {channels};
  if (is_int8(types.output)) {
    bias.type = types.filter == xnn_datatype_qcint8 ? xnn_datatype_qcint32 : xnn_datatype_qint32;
    bias.scale = scales.input_scale * filter.scale;
    for (float scale : filter.scales) bias.scales.push_back(scales.input_scale * scale);
    const int max_bias = static_cast<int>(100 * std::sqrt(static_cast<double>(terms)));
    std::vector<double> numbers;
    for (size_t c = 0; c < channels; ++c) numbers.push_back(trial->uniform_int(-max_bias, max_bias));
    bias.set(numbers);
    for (size_t c = 0; c < channels; ++c) {
      const float scale = filter.scales.empty() ? filter.scale : filter.scales[c];
      weights.bias_numbers.push_back(numbers[c] * static_cast<double>(scales.input_scale) * static_cast<double>(scale));
    }
    return weights;
  }
  bias.type = types.filter == xnn_datatype_fp16 ? xnn_datatype_fp16 : xnn_datatype_fp32;
  for (size_t c = 0; c < channels; ++c) weights.bias_numbers.push_back(trial->uniform_int(-16, 16));
  bias.set(weights.bias_numbers);
  return weights;
}

Tensor draw_input(Trial *trial, const LayerTypes &types, const Dims &dims, size_t batch, const LayerScales &scales) {
  Tensor input;
  input.type = types.input;
  input.dims = dims;
  const size_t count = element_count(dims);
  if (is_int8(types.input)) {
    input.scale = scales.input_scale;
    input.zero = scales.input_zero;
    for (size_t i = 0; i < count; ++i) input.bytes.push_back(static_cast<uint8_t>(trial->uniform_int(0, 255)));
    return input;
  }
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    if (!types.quantizes_input) {
      numbers[i] = types.output == xnn_datatype_fp16 ? trial->uniform_int(-2, 2) : trial->uniform(-1, 1);
      continue;
    }
    const size_t group = i / batch, at = i % batch;
    const double scale = std::ldexp(1.0, static_cast<int>(group % 5) - 8);
    const int low = batch == 1 ? -255 * static_cast<int>(group % 2) : -static_cast<int>(group * 85 % 256);
    int step = trial->uniform_int(low, low + 255);
    if (at == 0) step = batch == 1 && low == 0 ? 255 : low;
    if (at == batch - 1 && batch > 1) step = low + 255;
    numbers[i] = scale * step;
  }
  input.set(numbers);
  return input;
}

Tensor declare_output(const LayerTypes &types, const Dims &dims, const LayerScales &scales) {
  Tensor output;
  output.type = types.output;
  output.dims = dims;
  if (is_int8(types.output)) {
    output.scale = scales.input_scale * 0.03125f / scales.requantization;
    output.zero = scales.output_zero;
  }
  return output;
}

void compare_layer(Trial *trial, const std::string &shape, const LayerTypes &types, const Tensor &got,
                   std::vector<double> expected, const std::vector<double> &magnitudes, size_t terms, double low,
                   double high) {
  for (double &number : expected) number = std::clamp(number, low, high);
  if (is_int8(types.output)) {
    // Rounding to integers gives an error of up to half a step (output scale). Kernels also multiply the sum by the
    // scale in fp32, with a relative error of a few 2^-24; for a result of at most 255 steps, that is below 1e-4 steps.
    trial->compare_steps(shape, got, expected, 0.5 + 1e-4);
    return;
  }
  const bool exact = types.output == xnn_datatype_fp16 && types.filter != xnn_datatype_qcint8 &&
                     types.filter != xnn_datatype_qcint4 && types.filter != xnn_datatype_qbint4;
  std::vector<double> allowed(expected.size());
  for (size_t i = 0; i < allowed.size(); ++i) {
    // Each of about `terms` additions rounds a partial sum in fp32, by at most 2^-24 of the sum's magnitude. An fp16
    // output is rounded once more.
    const double by_sum = exact ? 0 : 0x1.0p-24 * static_cast<double>(terms + 8) * magnitudes[i];
    allowed[i] = by_sum + (types.output == xnn_datatype_fp16 ? 0x1.0p-10 * std::fabs(expected[i]) : 0);
    if (exact) allowed[i] = 0;
  }
  trial->compare(shape, got, expected, allowed);
}

uint32_t quantize_input(TestGraph *graph, const LayerTypes &types, const Tensor &input, uint32_t id,
                        size_t nonbatch_dims) {
  if (!types.quantizes_input) return id;
  Tensor rounded;
  rounded.type = xnn_datatype_qdint8;
  rounded.dims = input.dims;
  rounded.nonbatch_dims = nonbatch_dims;
  const uint32_t rounded_id = graph->internal(rounded);
  graph->node(xnn_define_unary(graph->subgraph(), xnn_unary_convert, nullptr, id, rounded_id, 0));
  return rounded_id;
}

}  // namespace edgecore::xnnpack::trial
