// Kernel tests (trials) of NHWC poolings, global averages, and resizing by interpolation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "padding.h"
#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQ8 = xnn_datatype_qint8, kU8 = xnn_datatype_quint8;

struct Window {
  uint32_t height, width, stride, dilation, padding;
};

std::vector<size_t> channel_counts(Extent extent) {
  if (extent == Extent::kShort) return {35};
  if (extent == Extent::kQuick) return {1, 4, 7, 16, 33};
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 129};
}

Tensor draw(Trial *trial, xnn_datatype type, const Dims &dims, int zero = 3) {
  Tensor tensor = fp32_tensor(dims);
  tensor.type = type;
  if (type == xnn_datatype_qint8 || type == xnn_datatype_quint8) {
    tensor.scale = 0.0625f;
    tensor.zero = zero + (type == xnn_datatype_quint8 ? 128 : 0);
  }
  tensor.set(trial->uniforms(element_count(dims), -9, 9));
  return tensor;
}

bool is_int8(xnn_datatype type) { return type == xnn_datatype_qint8 || type == xnn_datatype_quint8; }

void compare_averages(Trial *trial, const std::string &shape, const Tensor &output, const std::vector<double> &expected,
                      size_t terms) {
  if (is_int8(output.type)) return trial->compare_steps(shape, output, expected, 0.5 + 1e-3);
  const double unit = output.type == xnn_datatype_fp16 ? 0x1.0p-11 : 0x1.0p-24;
  trial->compare(shape, output, expected,
                 std::vector<double>(expected.size(), unit * 9 * static_cast<double>(terms + 4)));
}

enum class Kind { kMax, kAverage, kArgMax };

// Calls visit(position in the window, index into the image) for each element of a window that is not in the padding.
template <typename Visit>
void visit_window(const Dims &image, const Window &w, size_t batch, size_t y, size_t x, size_t channel, Visit visit) {
  for (uint32_t tap = 0; tap < w.height * w.width; ++tap) {
    const size_t row = y * w.stride + tap / w.width * w.dilation - w.padding;
    const size_t column = x * w.stride + tap % w.width * w.dilation - w.padding;
    // Skip the padding; a negative index is a large unsigned number.
    if (row >= image[1] || column >= image[2]) continue;
    visit(tap, ((batch * image[1] + row) * image[2] + column) * image[3] + channel);
  }
}

void run_pooling(Trial *trial, Kind kind, xnn_datatype type, const Window &w, const Dims &dims) {
  const size_t rows = (dims[1] + 2 * w.padding - (w.height - 1) * w.dilation - 1) / w.stride + 1;
  const size_t columns = (dims[2] + 2 * w.padding - (w.width - 1) * w.dilation - 1) / w.stride + 1;
  const Tensor input = draw(trial, type, dims);
  Tensor output = input, indices = fp32_tensor({dims[0], rows, columns, dims[3]});
  output.dims = indices.dims;
  output.bytes.clear();
  indices.type = xnn_datatype_int32;
  const double limit = kind != Kind::kArgMax && dims[3] % 3 == 1 && !is_int8(type) ? 5 : kInfinity;

  TestGraph graph;
  const uint32_t x = graph.input(input), p = w.padding;
  const uint32_t y = graph.output(output, kind == Kind::kMax && w.height * w.width > kMaxPoolFirstPass);
  const auto low = static_cast<float>(-limit), high = static_cast<float>(limit);
  std::vector<Tensor *> outputs = {&output};
  if (kind == Kind::kMax) {
    graph.node(xnn_define_max_pooling_2d(graph.subgraph(), p, p, p, p, w.height, w.width, w.stride, w.stride,
                                         w.dilation, w.dilation, low, high, x, y, 0));
  } else if (kind == Kind::kAverage) {
    graph.node(xnn_define_average_pooling_2d(graph.subgraph(), p, p, p, p, w.height, w.width, w.stride, w.stride, low,
                                             high, x, y, 0));
  } else {
    const uint32_t z = graph.output(indices);
    outputs.push_back(&indices);
    graph.node(xnn_define_argmax_pooling_2d(graph.subgraph(), p, p, p, p, w.height, w.width, x, y, z, 0));
  }
  char shape[120];
  std::snprintf(shape, sizeof(shape), "%ux%u, stride %u, dilation %u, padding %u, input %s", w.height, w.width,
                w.stride, w.dilation, w.padding, shape_text(dims).c_str());
  if (!graph.build() || !graph.run({&input}, outputs) || !graph.run({&input}, outputs)) {
    return trial->add_failure(shape, graph.status());
  }

  const std::vector<double> numbers = input.numbers();
  std::vector<double> expected, positions;
  for (size_t i = 0; i < element_count(output.dims); ++i) {
    const size_t channel = i % dims[3], column = i / dims[3] % columns, row = i / dims[3] / columns % rows;
    double max = -kInfinity, sum = 0, count = 0;
    uint32_t position = 0;
    visit_window(dims, w, i / dims[3] / columns / rows, row, column, channel, [&](uint32_t tap, size_t at) {
      // Count positions column by column, as XNNPACK's argmax numbers the positions of a window.
      if (numbers[at] > max) position = tap % w.width * w.height + tap / w.width, max = numbers[at];
      sum += numbers[at];
      count += 1;
    });
    expected.push_back(std::clamp(kind == Kind::kAverage ? sum / count : max, -limit, limit));
    positions.push_back(position);
  }
  if (kind == Kind::kAverage) {
    compare_averages(trial, shape, output, expected, static_cast<size_t>(w.height) * w.width);
  } else {
    trial->compare(shape, output, expected, std::vector<double>(expected.size(), 0));
  }
  if (kind == Kind::kArgMax) {
    trial->compare(std::string(shape) + ", indices", indices, positions, std::vector<double>(positions.size(), 0));
  }
}

template <Kind kKind, int kType>
void pooling(Trial *trial) {
  std::vector<Window> windows = {{2, 2, 2, 1, 0}, {3, 3, 1, 1, 1}, {3, 3, 2, 1, 1}, {5, 4, 2, 1, 1},
                                 {3, 1, 1, 1, 0}, {7, 7, 1, 1, 0}, {2, 3, 1, 1, 0}, {9, 9, 3, 1, 4}};
  if (kKind == Kind::kMax) windows.push_back({3, 3, 1, 2, 1});
  if (kKind == Kind::kArgMax) windows = {{2, 2, 2, 1, 0}, {3, 3, 3, 1, 0}, {5, 5, 5, 1, 0}};
  for (const Window &w : windows) {
    for (size_t channels : channel_counts(trial->extent)) {
      const size_t height = w.height + channels % 4, width = std::max<size_t>(w.width, 3) + channels % 3;
      run_pooling(trial, kKind, static_cast<xnn_datatype>(kType), w,
                  {channels % 2 + 1, std::max<size_t>(height, (w.height - 1) * w.dilation + 1),
                   std::max<size_t>(width, (w.width - 1) * w.dilation + 1), channels});
      if (trial->outcome.unsupported) return;
    }
  }
}

// Tests averages over height and width: of few pixels, and of more pixels than a kernel processes in one pass.
template <int kType>
void global_average(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t channels : channel_counts(trial->extent)) {
    for (size_t side : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{13}}) {
      for (int zero : {-128, 127, 5}) {
        const Tensor input = draw(trial, type, {2, side, side + 1, channels}, zero);
        Tensor output = input;
        output.dims = {2, 1, 1, channels};
        output.bytes.clear();
        if (is_int8(type)) output.scale = zero == 5 ? 0.0625f * 0.25f : 0.05f;
        if (zero == 127) output.zero -= 60;
        TestGraph graph;
        const uint32_t x = graph.input(input), y = graph.output(output);
        const size_t axes[] = {1, 2};
        graph.node(xnn_define_static_reduce(graph.subgraph(), xnn_reduce_mean, 2, axes, x, y, XNN_FLAG_KEEP_DIMS));
        const std::string shape = shape_text(input.dims) + ", zero point " + std::to_string(zero);
        if (!graph.build() || !graph.run({&input}, {&output}) || !graph.run({&input}, {&output})) {
          return trial->add_failure(shape, graph.status());
        }
        const size_t pixels = side * (side + 1);
        std::vector<double> sums(2 * channels);
        const std::vector<double> numbers = input.numbers();
        for (size_t i = 0; i < numbers.size(); ++i) {
          sums[i / channels / pixels * channels + i % channels] += numbers[i] / static_cast<double>(pixels);
        }
        compare_averages(trial, shape, output, sums, pixels);
        if (!is_int8(type)) break;
      }
    }
  }
}

// Tests resizing with aligned corners (the centers of the corner pixels of input and output coincide), and without (the
// corners of the two whole images coincide).
template <int kType>
void resize(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  size_t index = 0;
  for (size_t channels : channel_counts(trial->extent)) {
    for (const Dims &sizes : {Dims{3, 4, 7, 5}, Dims{5, 2, 2, 9}, Dims{2, 2, 4, 4}, Dims{6, 7, 6, 7}}) {
      const bool corners = index++ % 2 == 0;
      const Tensor input = draw(trial, type, {2, sizes[0], sizes[1], channels});
      Tensor output = input;
      output.dims = {2, sizes[2], sizes[3], channels};
      output.bytes.clear();
      TestGraph graph;
      const uint32_t x = graph.input(input), y = graph.output(output);
      graph.node(xnn_define_static_resize_bilinear_2d(graph.subgraph(), sizes[2], sizes[3], x, y,
                                                      corners ? XNN_FLAG_ALIGN_CORNERS : 0));
      const std::string shape =
          shape_text(input.dims) + " to " + shape_text(output.dims) + (corners ? ", corners aligned" : "");
      if (!graph.build() || !graph.run({&input}, {&output}) || !graph.run({&input}, {&output})) {
        return trial->add_failure(shape, graph.status());
      }
      const auto position = [&](size_t at, size_t from, size_t to) {
        const auto in = static_cast<double>(from), out = static_cast<double>(to);
        const double coordinate =
            corners ? static_cast<double>(at) * (in - 1) / (out - 1) : (static_cast<double>(at) + 0.5) * in / out - 0.5;
        return std::clamp(coordinate, 0.0, in - 1);
      };
      const std::vector<double> numbers = input.numbers();
      std::vector<double> expected;
      for (size_t i = 0; i < element_count(output.dims); ++i) {
        const double row = position(i / channels / sizes[3] % sizes[2], sizes[0], sizes[2]);
        const double column = position(i / channels % sizes[3], sizes[1], sizes[3]);
        const auto pixel = [&](double r, double c) {
          const size_t batch = i / channels / sizes[3] / sizes[2];
          const auto pixel_row = static_cast<size_t>(std::min(r, static_cast<double>(sizes[0] - 1)));
          const auto pixel_column = static_cast<size_t>(std::min(c, static_cast<double>(sizes[1] - 1)));
          return numbers[((batch * sizes[0] + pixel_row) * sizes[1] + pixel_column) * channels + i % channels];
        };
        const double top = std::floor(row), left = std::floor(column), down = row - top, right = column - left;
        expected.push_back((1 - down) * ((1 - right) * pixel(top, left) + right * pixel(top, left + 1)) +
                           down * ((1 - right) * pixel(top + 1, left) + right * pixel(top + 1, left + 1)));
      }
      // Allow for int8 the error of fixed-point weights with 11 fractional bits: up to 2^-10 of 255 steps.
      if (is_int8(type)) {
        trial->compare_steps(shape, output, expected, 0.5 + 255 * 0x1.0p-10);
      } else {
        const double unit = type == xnn_datatype_fp16 ? 0x1.0p-9 : 0x1.0p-21;
        trial->compare(shape, output, expected, std::vector<double>(expected.size(), 9 * unit));
      }
    }
  }
}

}  // namespace

std::vector<Family> pooling_families() {
  return {
      {"max pooling f32", pooling<Kind::kMax, kF32>},
      {"max pooling f16", pooling<Kind::kMax, kF16>},
      {"max pooling int8", pooling<Kind::kMax, kQ8>},
      {"max pooling uint8", pooling<Kind::kMax, kU8>},
      {"average pooling f32", pooling<Kind::kAverage, kF32>},
      {"average pooling f16", pooling<Kind::kAverage, kF16>},
      {"argmax pooling f32", pooling<Kind::kArgMax, kF32>},
      {"global average f32", global_average<kF32>},
      {"global average f16", global_average<kF16>},
      {"global average int8", global_average<kQ8>},
      {"global average uint8", global_average<kU8>},
      {"resize f32", resize<kF32>},
      {"resize f16", resize<kF16>},
      {"resize int8", resize<kQ8>},
      {"resize uint8", resize<kU8>},
  };
}

}  // namespace edgecore::xnnpack::trial
