// Kernel tests (trials) of NHWC convolutions: by GEMM (1x1), by indirect GEMM, depthwise, and transposed.
#include <cmath>
#include <limits>

#include "tiles.h"
#include "trial/layer.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMaxEdge = 40;  // maximum number of pixels, and of output channels, in the test each_tile

struct Window {
  uint32_t height, width, stride, dilation, padding;
  uint32_t adjustment = 0;  // transposed convolutions: additional rows and columns at the end of the output
};

// The parameters of a convolution. A depthwise convolution has `groups` input channels, and `group_outputs` output
// channels for each input channel.
struct Convolution {
  Window window;
  uint32_t groups, group_inputs, group_outputs;
  size_t batch, height, width;
  bool is_depthwise = false, is_transposed = false;

  size_t extent(uint32_t kernel) const { return (kernel - 1) * window.dilation + 1; }
  size_t output_size(size_t size, uint32_t kernel) const {
    if (is_transposed) return window.stride * (size - 1) + window.adjustment + extent(kernel) - 2 * window.padding;
    return (size + 2 * window.padding - extent(kernel)) / window.stride + 1;
  }
  bool fits() const {
    if (is_transposed) return extent(window.height) + window.stride * (height - 1) > 2 * window.padding;
    return height + 2 * window.padding >= extent(window.height) && width + 2 * window.padding >= extent(window.width);
  }
};

std::string case_text(const Convolution &c) {
  const Window &w = c.window;
  char text[200];
  std::snprintf(text, sizeof(text),
                "%s%s%ux%u, stride %u, dilation %u, padding %u, %u groups of %u -> %u channels, input %zux%zux%zu",
                c.is_depthwise ? "depthwise " : "", c.is_transposed ? "transposed " : "", w.height, w.width, w.stride,
                w.dilation, w.padding, c.groups, c.group_inputs, c.group_outputs, c.batch, c.height, c.width);
  return text;
}

// Multiplies one input pixel by the filter elements at position `tap` of the window, for all channels, and adds the
// products to `sums`, an output pixel. Adds the products' absolute values to `magnitudes`, from which compare_layer
// computes the allowed rounding error. Filters have the shape [outputs, h, w, group_inputs], or [1, h, w, outputs] if
// depthwise.
void add_tap(const Convolution &c, const double *pixel, const double *filter, uint32_t tap, double *sums,
             double *magnitudes) {
  const uint32_t taps = c.window.height * c.window.width, outputs = c.groups * c.group_outputs;
  for (uint32_t o = 0; o < outputs; ++o) {
    const double *inputs = pixel + o / c.group_outputs * c.group_inputs;
    for (uint32_t k = 0; k < c.group_inputs; ++k) {
      const size_t at = c.is_depthwise ? static_cast<size_t>(tap) * outputs + o
                                       : (static_cast<size_t>(o) * taps + tap) * c.group_inputs + k;
      const double term = inputs[k] * filter[at];
      sums[o] += term;
      magnitudes[o] += std::fabs(term);
    }
  }
}

void convolve(const Convolution &c, const std::vector<double> &input, const Weights &weights, bool has_bias,
              const Dims &output, std::vector<double> *sums, std::vector<double> *magnitudes) {
  const Window &w = c.window;
  const size_t channels = static_cast<size_t>(c.groups) * c.group_inputs, outputs = output[3];
  sums->resize(element_count(output));
  magnitudes->resize(element_count(output));
  for (size_t i = 0; i < sums->size(); ++i) {
    (*sums)[i] = has_bias ? weights.bias_numbers[i % outputs] : 0;
    (*magnitudes)[i] = std::fabs((*sums)[i]);
  }
  for (size_t b = 0; b < c.batch; ++b) {
    for (uint32_t tap = 0; tap < w.height * w.width; ++tap) {
      const size_t i = tap / w.width * w.dilation, j = tap % w.width * w.dilation;
      // An output at position o reads the input at o * stride + tap * dilation - padding. A transposed convolution has
      // the same pairs of positions, with input and output exchanged; the formula yields other_y and other_x.
      const size_t rows = c.is_transposed ? c.height : output[1], columns = c.is_transposed ? c.width : output[2];
      const size_t other_rows = c.is_transposed ? output[1] : c.height;
      const size_t other_columns = c.is_transposed ? output[2] : c.width;
      for (size_t y = 0; y < rows; ++y) {
        for (size_t x = 0; x < columns; ++x) {
          const size_t other_y = y * w.stride + i - w.padding, other_x = x * w.stride + j - w.padding;
          // Skip the padding; a negative index is a large unsigned number.
          if (other_y >= other_rows || other_x >= other_columns) continue;
          const size_t in_y = c.is_transposed ? y : other_y, in_x = c.is_transposed ? x : other_x;
          const size_t out_y = c.is_transposed ? other_y : y, out_x = c.is_transposed ? other_x : x;
          const size_t at = ((b * output[1] + out_y) * output[2] + out_x) * outputs;
          add_tap(c, input.data() + ((b * c.height + in_y) * c.width + in_x) * channels, weights.filter_numbers.data(),
                  tap, sums->data() + at, magnitudes->data() + at);
        }
      }
    }
  }
}

xnn_status define(const Convolution &c, xnn_subgraph_t graph, double limit, uint32_t x, uint32_t filter, uint32_t bias,
                  uint32_t y) {
  const Window &w = c.window;
  const uint32_t p = w.padding;
  const auto low = static_cast<float>(-limit), high = static_cast<float>(limit);
  if (c.is_depthwise) {
    return xnn_define_depthwise_convolution_2d(graph, p, p, p, p, w.height, w.width, w.stride, w.stride, w.dilation,
                                               w.dilation, c.group_outputs, c.groups, low, high, x, filter, bias, y, 0);
  }
  if (c.is_transposed) {
    return xnn_define_deconvolution_2d(graph, p, p, p, p, w.adjustment, w.adjustment, w.height, w.width, w.stride,
                                       w.stride, w.dilation, w.dilation, c.groups, c.group_inputs, c.group_outputs, low,
                                       high, x, filter, bias, y, 0);
  }
  return xnn_define_convolution_2d(graph, p, p, p, p, w.height, w.width, w.stride, w.stride, w.dilation, w.dilation,
                                   c.groups, c.group_inputs, c.group_outputs, low, high, x, filter, bias, y, 0);
}

constexpr int32_t kZeros[] = {-128, 127, 0, 5};  // zero points that the tests use for qint8; 128 is added for quint8

void run_convolution(Trial *trial, const LayerTypes &types, size_t index, const Convolution &c) {
  if (!c.fits()) return;
  const Window &w = c.window;
  const uint32_t outputs = c.groups * c.group_outputs;
  const size_t terms = static_cast<size_t>(w.height) * w.width * c.group_inputs;
  const bool has_bias = index % 4 != 3;
  const double limit = index % 5 == 2 && !is_int8(types.output) ? 2 : kInfinity;
  LayerScales scales;
  const int32_t offset = types.input == xnn_datatype_quint8 ? 128 : 0;
  scales.input_zero = kZeros[index % 4] + offset;
  scales.output_zero = kZeros[(index / 2 + 1) % 4] + offset;
  scales.requantization = 0.02f / std::sqrt(static_cast<float>(terms));

  const Dims filter_dims =
      c.is_depthwise ? Dims{1, w.height, w.width, outputs} : Dims{outputs, w.height, w.width, c.group_inputs};
  const Dims input_dims = {c.batch, c.height, c.width, static_cast<size_t>(c.groups) * c.group_inputs};
  const Dims output_dims = {c.batch, c.output_size(c.height, w.height), c.output_size(c.width, w.width), outputs};
  const Weights weights = draw_weights(trial, types, filter_dims, c.is_depthwise ? 3 : 0, 0, scales, terms);
  // Dynamically quantized convolutions have one scale per image.
  const Tensor input = draw_input(trial, types, input_dims, element_count(input_dims) / c.batch, scales);
  Tensor output = declare_output(types, output_dims, scales);

  TestGraph graph;
  const uint32_t x = graph.input(input), filter = graph.constant(weights.filter);
  const uint32_t bias = has_bias ? graph.constant(weights.bias) : XNN_INVALID_VALUE_ID;
  const uint32_t y = graph.output(output);
  graph.node(define(c, graph.subgraph(), limit, quantize_input(&graph, types, input, x, 3), filter, bias, y));
  if (!graph.build() || !graph.run({&input}, {&output}) || (index % 2 == 0 && !graph.run({&input}, {&output}))) {
    return trial->add_failure(case_text(c), graph.status());
  }
  std::vector<double> sums, magnitudes;
  convolve(c, input.numbers(), weights, has_bias, output_dims, &sums, &magnitudes);
  compare_layer(trial, case_text(c), types, output, sums, magnitudes, terms, -limit, limit);
}

struct Size {
  size_t batch, height, width;
};

// Returns the input sizes to test. Kernels compute tiles of several output pixels, so the numbers of output pixels
// should have many different remainders modulo the tile sizes.
std::vector<Size> test_sizes(Extent extent, uint32_t kernel) {
  if (extent == Extent::kShort) return {{1, kernel + 3, kernel + 4}};
  if (extent == Extent::kQuick) return {{1, kernel, kernel + 1}, {2, kernel + 4, kernel + 3}};
  std::vector<Size> sizes;
  for (size_t i = 0; i < 12; ++i) sizes.push_back({i % 3 + 1, kernel + i, kernel + i * 5 % 7});
  return sizes;
}

std::vector<uint32_t> channel_counts(Extent extent) {
  if (extent == Extent::kShort) return {5, 35};
  if (extent == Extent::kQuick) return {1, 4, 7, 16, 31, 33, 65};
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70, 97, 129};
}

void run_windows(Trial *trial, const LayerTypes &types, const std::vector<Window> &windows, bool is_depthwise,
                 bool is_transposed) {
  const std::vector<uint32_t> channels = channel_counts(trial->extent);
  size_t index = 0;
  for (const Window &window : windows) {
    for (uint32_t count : channels) {
      for (const Size &size : test_sizes(trial->extent, window.height)) {
        Convolution c = {window, 1, 1, 1, size.batch, size.height, size.width, is_depthwise, is_transposed};
        const uint32_t other = channels[(index * 5 + 2) % channels.size()];
        if (is_depthwise) {
          c.groups = count;
          c.group_outputs = index % 6 == 5 ? 2 : 1;
        } else {
          c.groups = index % 4 == 3 ? 2 : 1;
          c.group_inputs = other;
          c.group_outputs = count;
        }
        run_convolution(trial, types, index++, c);
        if (trial->outcome.unsupported) return;
      }
      if (trial->extent == Extent::kShort && index >= 2 * windows.size()) break;
    }
  }
}

// Tests 2x2 convolutions whose numbers of output pixels make the last tile of pixels have every possible size. The
// convolutions have more input channels than a kernel multiplies at a time (64 bytes). A last tile of one row is a
// special case: AMX kernels have a separate loop for it.
void run_last_tiles(Trial *trial, const LayerTypes &types) {
  const bool is_full = trial->extent == Extent::kFull;
  std::vector<uint32_t> inputs = {70};
  if (is_full) inputs = {63, 64, 65, 127, 129, 192};
  const size_t min_pixels = trial->extent == Extent::kShort ? 17 : 1, max_pixels = is_full ? 70 : 17;
  size_t index = 0;
  for (uint32_t count : inputs) {
    for (size_t width = min_pixels; width <= max_pixels; ++width) {
      run_convolution(trial, types, index++, {{2, 2, 1, 1, 0}, 1, count, 70, 1, 2, width + 1, false, false});
      if (trial->outcome.unsupported) return;
    }
  }
}

// Tests convolutions whose rows of output pixels are long enough for whole tiles, because optimized kernels share
// inputs between adjacent pixels of a row: all pixels of a tile are in one row, with padding at its ends. Depthwise
// kernels compute up to 64 pixels at a time.
void run_long_rows(Trial *trial, const LayerTypes &types, bool is_depthwise) {
  const bool is_full = trial->extent == Extent::kFull;
  std::vector<uint32_t> counts = {is_depthwise ? 33u : 6u, 64};
  if (is_full) counts = {1, 2, 3, 4, 6, 8, 12, 16, 20, 33, 64, 96, 129};
  std::vector<size_t> widths = is_depthwise ? std::vector<size_t>{65} : std::vector<size_t>{14, 24};
  if (is_full) widths = {1, 2, 7, 8, 9, 14, 16, 21, 24, 63, 64, 65, 130};
  size_t index = 0;
  const std::vector<Window> windows = {
      {3, 3, 1, 1, 1}, {3, 3, 2, 1, 1}, {7, 4, 1, 1, 2}, {5, 5, 1, 1, 2}, {3, 2, 2, 1, 1}};
  for (const Window &window : windows) {
    for (uint32_t count : counts) {
      for (size_t width : widths) {
        const size_t covered = (width - 1) * window.stride + window.width;
        const size_t padding = 2 * size_t{window.padding};
        if (covered <= padding) continue;
        Convolution c = {window, 1, count, 33, 1, window.height, covered - padding, is_depthwise, false};
        if (is_depthwise) c.groups = count, c.group_inputs = c.group_outputs = 1;
        run_convolution(trial, types, index++, c);
        if (trial->outcome.unsupported) return;
      }
    }
  }
}

void regular(Trial *trial, const LayerTypes &types) {
  run_last_tiles(trial, types);
  run_long_rows(trial, types, false);
  run_windows(trial, types, {{1, 1, 1, 1, 0}, {3, 3, 1, 1, 1}, {3, 3, 2, 1, 1}, {5, 2, 1, 2, 2}, {2, 2, 2, 1, 0}},
              false, false);
}

void depthwise(Trial *trial, const LayerTypes &types) {
  run_windows(trial, types,
              {{3, 3, 1, 1, 1},
               {3, 3, 2, 1, 1},
               {5, 5, 1, 1, 2},
               {5, 5, 2, 1, 2},
               {7, 7, 1, 1, 3},
               {7, 7, 2, 1, 3},
               {2, 2, 1, 1, 0},
               {3, 1, 1, 1, 0},
               {3, 3, 1, 2, 2},
               {4, 6, 1, 1, 2},
               {9, 9, 1, 1, 4}},
              true, false);
  run_long_rows(trial, types, true);
}

void transposed(Trial *trial, const LayerTypes &types) {
  run_windows(
      trial, types,
      {{2, 2, 2, 1, 0}, {3, 3, 2, 1, 1, 1}, {4, 4, 2, 1, 1}, {3, 3, 1, 1, 1}, {3, 2, 3, 1, 0, 1}, {3, 3, 2, 2, 1}},
      false, true);
}

// Tests 1x1 convolutions (GEMM), 3x3 convolutions in two groups (indirect GEMM), and transposed convolutions with each
// fp32 tile. The numbers of pixels and output channels are below, at and above the sizes of the tiles.
void each_tile(Trial *trial, const LayerTypes &types) {
  const size_t step = trial->extent == Extent::kFull ? 1 : trial->extent == Extent::kQuick ? 37 : 203;
  size_t index = 0;
  for (const Tile &tile : tiles()) {
    const ForcedTile forced(tile);
    for (size_t pair = 0; pair < kMaxEdge * kMaxEdge; pair += step) {
      const size_t pixels = pair / kMaxEdge + 1;
      const auto outputs = static_cast<uint32_t>(pair % kMaxEdge + 1);
      const auto inputs = static_cast<uint32_t>(pair % 9 + 1);
      run_convolution(trial, types, index++, {{1, 1, 1, 1, 0}, 1, inputs, outputs, 1, 1, pixels});
      run_convolution(trial, types, index++, {{3, 3, 1, 1, 1}, 2, inputs, outputs, 1, 1, pixels});
      run_convolution(trial, types, index++, {{2, 2, 2, 1, 0}, 1, inputs, outputs, 1, 1, pixels, false, true});
    }
  }
}

constexpr LayerTypes kF32 = {xnn_datatype_fp32, xnn_datatype_fp32, xnn_datatype_fp32, false};
// fp16 convolutions have fp32 filters: XNNPACK's subgraph supports no fp16 filters, so the delegate widens them.
constexpr LayerTypes kF16 = {xnn_datatype_fp16, xnn_datatype_fp32, xnn_datatype_fp16, false};
constexpr LayerTypes kInt8 = {xnn_datatype_qint8, xnn_datatype_qint8, xnn_datatype_qint8, false};
constexpr LayerTypes kChannels = {xnn_datatype_qint8, xnn_datatype_qcint8, xnn_datatype_qint8, false};
constexpr LayerTypes kUint8 = {xnn_datatype_quint8, xnn_datatype_quint8, xnn_datatype_quint8, false};
constexpr LayerTypes kDynamic = {xnn_datatype_fp32, xnn_datatype_qcint8, xnn_datatype_fp32, true};

template <void (*kRun)(Trial *, const LayerTypes &), const LayerTypes &kTypes>
void convolution_with(Trial *trial) {
  kRun(trial, kTypes);
}

}  // namespace

std::vector<Family> convolution_families() {
  return {
      {"convolution f32", convolution_with<regular, kF32>},
      {"convolution f32, each tile", convolution_with<each_tile, kF32>},
      {"convolution f16", convolution_with<regular, kF16>},
      {"convolution int8", convolution_with<regular, kInt8>},
      {"convolution int8, a scale per channel", convolution_with<regular, kChannels>},
      {"convolution uint8", convolution_with<regular, kUint8>},
      {"convolution dynamic int8", convolution_with<regular, kDynamic>},
      {"depthwise convolution f32", convolution_with<depthwise, kF32>},
      {"depthwise convolution f16", convolution_with<depthwise, kF16>},
      {"depthwise convolution int8", convolution_with<depthwise, kInt8>},
      {"depthwise convolution int8, a scale per channel", convolution_with<depthwise, kChannels>},
      {"depthwise convolution uint8", convolution_with<depthwise, kUint8>},
      {"transposed convolution f32", convolution_with<transposed, kF32>},
      {"transposed convolution f16", convolution_with<transposed, kF16>},
      {"transposed convolution int8", convolution_with<transposed, kInt8>},
      {"transposed convolution int8, a scale per channel", convolution_with<transposed, kChannels>},
      {"transposed convolution uint8", convolution_with<transposed, kUint8>},
      {"transposed convolution dynamic int8", convolution_with<transposed, kDynamic>},
  };
}

}  // namespace edgecore::xnnpack::trial
