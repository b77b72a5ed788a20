// Kernel tests (trials) of int8 convolutions that add another tensor in the kernel. The results must have the same bits
// as the results of a convolution followed by an addition.
#include "sums.h"

#include <limits>

#include "trial/layer.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr LayerTypes kTypes = {xnn_datatype_qint8, xnn_datatype_qcint8, xnn_datatype_qint8, false};
constexpr int32_t kZeros[] = {-128, 5, 0, 127};

struct Layer {
  uint32_t kernel, stride, padding, inputs, outputs;
  size_t batch, height, width;
};

std::string case_text(const Layer &l) {
  char text[160];
  std::snprintf(text, sizeof(text), "%ux%u, stride %u, padding %u, %u -> %u channels, input %zux%zux%zu", l.kernel,
                l.kernel, l.stride, l.padding, l.inputs, l.outputs, l.batch, l.height, l.width);
  return text;
}

// Output ranges of the convolution and of the sum, as a fused ReLU gives them. Each of the two has a finite range in a
// third of the cases; `index` is the number of the case.
struct Ranges {
  explicit Ranges(size_t index)
      : product_min(index % 3 == 1 ? 0 : -kInfinity),
        product_max(index % 6 == 1 ? 0.4f : kInfinity),
        sum_min(index % 3 == 2 ? -0.1f : -kInfinity),
        sum_max(index % 6 == 2 ? 0.7f : kInfinity) {}
  float product_min, product_max, sum_min, sum_max;
};

void run_sum(Trial *trial, size_t index, const Layer &l) {
  const size_t terms = static_cast<size_t>(l.kernel) * l.kernel * l.inputs;
  LayerScales scales;
  scales.input_zero = kZeros[index % 4];
  scales.output_zero = kZeros[(index / 2 + 1) % 4];
  scales.requantization = 0.02f;
  const Weights weights = draw_weights(trial, kTypes, {l.outputs, l.kernel, l.kernel, l.inputs}, 0, 0, scales, terms);
  const Tensor input = draw_input(trial, kTypes, {l.batch, l.height, l.width, l.inputs}, 0, scales);
  const size_t rows = (l.height + 2 * l.padding - l.kernel) / l.stride + 1;
  const size_t columns = (l.width + 2 * l.padding - l.kernel) / l.stride + 1;
  const Dims dims = {l.batch, rows, columns, l.outputs};
  const Tensor product = declare_output(kTypes, dims, scales);
  LayerScales other_scales;
  other_scales.input_zero = kZeros[(index / 3) % 4];
  other_scales.input_scale = product.scale * static_cast<float>(trial->uniform(0.3, 3));
  const Tensor other = draw_input(trial, kTypes, dims, 0, other_scales);
  const float sum_scale = product.scale * static_cast<float>(trial->uniform(0.7, 2));
  Tensor sum = quantized_tensor(xnn_datatype_qint8, dims, sum_scale, kZeros[(index / 5) % 4]);
  Tensor separate = sum;
  const Ranges ranges(index);

  const auto define = [&](TestGraph *graph, float min, float max, uint32_t x, uint32_t y) {
    const uint32_t filter = graph->constant(weights.filter), bias = graph->constant(weights.bias);
    const uint32_t p = l.padding;
    graph->node(xnn_define_convolution_2d(graph->subgraph(), p, p, p, p, l.kernel, l.kernel, l.stride, l.stride, 1, 1,
                                          1, l.inputs, l.outputs, min, max, x, filter, bias, y, 0));
  };
  TestGraph one, two;
  {
    const uint32_t x = one.input(input), added = one.input(other);
    define(&one, ranges.sum_min, ranges.sum_max, x, one.output(sum));
    Quantization quantization;
    quantization.scale = product.scale;
    quantization.zero_point = product.zero;
    one.node(add_to_convolution(one.subgraph(), added, quantization, ranges.product_min, ranges.product_max));
  }
  {
    const uint32_t x = two.input(input), added = two.input(other), y = two.internal(product);
    define(&two, ranges.product_min, ranges.product_max, x, y);
    const xnn_binary_params params = {ranges.sum_min, ranges.sum_max};
    const bool is_first = index % 2 == 0;
    two.node(xnn_define_binary(two.subgraph(), xnn_binary_add, &params, is_first ? y : added, is_first ? added : y,
                               two.output(separate), 0));
  }
  // The first run places buffers right after a guard page, the second right before one.
  for (int run = 0; run < 2; ++run) {
    if ((run == 0 && !(one.build() && two.build())) || !one.run({&input, &other}, {&sum}) ||
        !two.run({&input, &other}, {&separate})) {
      const bool is_first = one.status() != xnn_status_success;
      return trial->add_failure(case_text(l), is_first ? one.status() : two.status());
    }
    trial->compare(case_text(l), sum, separate.numbers(), std::vector<double>(element_count(dims), 0));
  }
}

std::vector<uint32_t> channel_counts(Extent extent) {
  if (extent == Extent::kShort) return {5, 35};
  std::vector<uint32_t> counts;
  for (uint32_t count = 1; count <= 40; count += extent == Extent::kQuick ? 3 : 1) counts.push_back(count);
  counts.insert(counts.end(), {64, 65, 97});
  return counts;
}

void sums(Trial *trial) {
  if (!kernel_adds(1, 8, 8)) {
    trial->outcome.unsupported = true;
    return;
  }
  const std::vector<uint32_t> counts = channel_counts(trial->extent);
  size_t index = 0;
  for (const uint32_t kernel : {1u, 3u}) {
    for (const uint32_t stride : {1u, 2u}) {
      for (uint32_t outputs : counts) {
        const uint32_t inputs = counts[(index * 7 + 3) % counts.size()];
        const Layer layer = {kernel,        stride,       kernel / 2, inputs, outputs, index % 5 == 4 ? 2u : 1u,
                             2 + index % 6, 1 + index % 7};
        if (kernel_adds(static_cast<size_t>(kernel) * kernel, inputs, outputs)) run_sum(trial, index, layer);
        ++index;
      }
    }
  }
}

}  // namespace

std::vector<Family> sum_families() { return {{"convolution and sum int8, a scale per channel", sums}}; }

}  // namespace edgecore::xnnpack::trial
