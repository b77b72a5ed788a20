// Kernel tests (trials) of fully connected layers and batched matmuls.
#include <cmath>
#include <limits>

#include "tiles.h"
#include "trial/layer.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr size_t kMaxRows = 70;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Numbers of inputs and outputs of the layers to test: near the sizes of XNNPACK's tiles (1, 2, 4, .. 64 columns or
// inputs), near sums of these sizes, and one larger.
constexpr size_t kEdges[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 129};

struct Layer {
  size_t inputs, outputs;
};

std::vector<Layer> layer_cases(Extent extent) {
  std::vector<Layer> layers;
  const size_t count = std::size(kEdges);
  for (size_t i = 0; i < count; ++i) {
    if (extent == Extent::kFull) {
      for (size_t inputs : kEdges) layers.push_back({inputs, kEdges[i]});
    } else if (extent == Extent::kQuick) {
      layers.push_back({kEdges[i * 7 % count], kEdges[i]});
    }
  }
  if (extent == Extent::kShort) return {{64, 65}, {35, 17}};
  // Add a layer whose weights are larger than half of the L2 cache of many processors.
  if (extent == Extent::kFull) layers.push_back({520, 1030});
  return layers;
}

std::vector<size_t> row_counts(Extent extent, size_t layer) {
  std::vector<size_t> rows;
  for (size_t m = kMaxRows; m > 0; --m) {
    const bool is_included = m <= 17 || extent == Extent::kFull || (extent == Extent::kQuick && layer % 4 == 0);
    if (is_included) rows.push_back(m);
  }
  return rows;
}

struct MatmulResult {
  std::vector<double> sums, magnitudes;  // magnitudes: for each sum, the sum of its products' absolute values
};

// Multiplies `a` [rows, inputs] by the matrix `b`, which may have arbitrary strides, and adds `bias` unless it is null.
MatmulResult matmul(const double *a, const double *b, size_t rows, size_t inputs, size_t columns, size_t input_stride,
                    size_t column_stride, const double *bias) {
  MatmulResult result;
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < columns; ++n) {
      double sum = bias == nullptr ? 0 : bias[n], magnitude = std::fabs(sum);
      for (size_t k = 0; k < inputs; ++k) {
        const double term = a[m * inputs + k] * b[k * input_stride + n * column_stride];
        sum += term;
        magnitude += std::fabs(term);
      }
      result.sums.push_back(sum);
      result.magnitudes.push_back(magnitude);
    }
  }
  return result;
}

std::string case_text(size_t rows, const Layer &layer, const char *more) {
  return std::to_string(rows) + " rows, " + std::to_string(layer.inputs) + " inputs, " + std::to_string(layer.outputs) +
         " outputs" + more;
}

void first_rows(const Tensor &all, size_t rows, Tensor *some) {
  some->bytes.assign(all.bytes.begin(),
                     all.bytes.begin() + static_cast<ptrdiff_t>(all.bytes.size() / all.dims[0] * rows));
  some->dims[0] = rows;
}

// Tests a linear layer with different numbers of rows, from 70 down to 1, in one XNNPACK runtime, as the delegate does
// when shapes change. `index` selects the variant: transposed weights, no bias, an output range.
void run_layer(Trial *trial, const LayerTypes &types, size_t index, Layer layer, bool is_dynamic,
               const LayerScales &scales) {
  size_t block = 0;
  if (types.filter == xnn_datatype_qbint4) {
    layer.inputs = (layer.inputs + 31) / 32 * 32;
    block = layer.inputs % 64 == 0 && index % 2 == 0 ? 64 : 32;
  }
  const bool nibbles = types.filter == xnn_datatype_qcint4 || types.filter == xnn_datatype_qbint4;
  if (nibbles) layer.inputs += layer.inputs % 2;
  const bool transposed = !nibbles && index % 3 == 1;
  // Test layers with float inputs and integer weights without a bias: XNNPACK's kernels would also multiply the bias by
  // the weights' scale, and the delegate's compiler never gives such layers a bias.
  const bool scales_bias = types.input == types.output && !types.quantizes_input && types.filter != types.input &&
                           types.filter != xnn_datatype_fp32 && !is_int8(types.output);
  const bool has_bias = index % 4 != 3 && !scales_bias;
  const bool clamps = index % 5 == 2 && !is_int8(types.output);
  const Dims dims = transposed ? Dims{layer.inputs, layer.outputs} : Dims{layer.outputs, layer.inputs};
  const Weights weights = draw_weights(trial, types, dims, transposed ? 1 : 0, block, scales, layer.inputs);
  const Tensor input = draw_input(trial, types, {kMaxRows, layer.inputs}, layer.inputs, scales);
  Tensor output = declare_output(types, {kMaxRows, layer.outputs}, scales);

  TestGraph graph;
  const uint32_t x = graph.input(input);
  const uint32_t filter = is_dynamic ? graph.input(weights.filter) : graph.constant(weights.filter);
  uint32_t bias = XNN_INVALID_VALUE_ID;
  if (has_bias) bias = is_dynamic ? graph.input(weights.bias) : graph.constant(weights.bias);
  const uint32_t y = graph.output(output);
  const double limit = clamps ? 4 : kInfinity;
  graph.node(xnn_define_fully_connected(graph.subgraph(), static_cast<float>(-limit), static_cast<float>(limit),
                                        quantize_input(&graph, types, input, x, 1), filter, bias, y,
                                        transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0));
  if (!graph.build()) return trial->add_failure(case_text(kMaxRows, layer, ""), graph.status());

  const MatmulResult result = matmul(input.numbers().data(), weights.filter_numbers.data(), kMaxRows, layer.inputs,
                                     layer.outputs, transposed ? layer.outputs : 1, transposed ? 1 : layer.inputs,
                                     has_bias ? weights.bias_numbers.data() : nullptr);
  Tensor some = input;
  for (size_t rows : row_counts(trial->extent, index)) {
    first_rows(input, rows, &some);
    std::vector<const Tensor *> inputs = {&some};
    if (is_dynamic) inputs.push_back(&weights.filter);
    if (is_dynamic && has_bias) inputs.push_back(&weights.bias);
    const std::string shape = case_text(rows, layer, transposed ? ", transposed weights" : "");
    if (!graph.run(inputs, {&output})) return trial->add_failure(shape, graph.status());
    const auto count = static_cast<ptrdiff_t>(rows * layer.outputs);
    const std::vector<double> sums(result.sums.begin(), result.sums.begin() + count);
    compare_layer(trial, shape, types, output, sums, result.magnitudes, layer.inputs, -limit, limit);
  }
}

constexpr int32_t kZeros[] = {-128, 127, 0, 5};  // zero points that the tests use for qint8; 128 is added for quint8

LayerScales scales_of(const LayerTypes &types, size_t index, size_t inputs) {
  LayerScales scales;
  const int32_t offset = types.input == xnn_datatype_quint8 ? 128 : 0;
  scales.input_zero = kZeros[index % 4] + offset;
  scales.output_zero = kZeros[(index / 2 + 1) % 4] + offset;
  scales.requantization = 0.02f / std::sqrt(static_cast<float>(inputs));
  return scales;
}

void run_layers(Trial *trial, const LayerTypes &types, bool is_dynamic) {
  size_t index = 0;
  for (const Layer &layer : layer_cases(trial->extent)) {
    run_layer(trial, types, index, layer, is_dynamic, scales_of(types, index, layer.inputs));
    if (trial->outcome.unsupported) return;
    ++index;
  }
}

// Tests linear layers with each fp32 tile, with numbers of outputs below, at and above the tiles' numbers of columns.
void each_tile(Trial *trial) {
  constexpr LayerTypes kTypes = {xnn_datatype_fp32, xnn_datatype_fp32, xnn_datatype_fp32, false};
  const size_t step = trial->extent == Extent::kFull ? 1 : trial->extent == Extent::kQuick ? 7 : 31;
  size_t index = 0;
  for (const Tile &tile : tiles()) {
    const ForcedTile forced(tile);
    for (size_t outputs = 1; outputs <= kMaxRows; outputs += step) {
      run_layer(trial, kTypes, index, {index % 9 + 1, outputs}, false, {});
      ++index;
    }
  }
}

// Tests layers at the limits of the requantization scale (input scale * filter scale / output scale), which XNNPACK
// accepts from 2^-32 to below 2^8, and checks that XNNPACK refuses 2^8.
void run_scales(Trial *trial, const LayerTypes &types) {
  const Layer layer = {19, 21};
  for (float ratio : {0x1.0p-32f, 0x1.0p-20f, 255.0f}) {
    LayerScales scales = scales_of(types, 3, layer.inputs);
    scales.requantization = ratio;
    LayerTypes plain = types;
    if (types.filter == xnn_datatype_qcint8) plain.filter = xnn_datatype_qint8;  // one scale, which is exact
    run_layer(trial, plain, 3, layer, false, scales);
  }
  LayerScales scales;
  scales.requantization = 256;
  LayerTypes plain = types;
  if (types.filter == xnn_datatype_qcint8) plain.filter = xnn_datatype_qint8;
  const Weights weights = draw_weights(trial, plain, {3, 3}, 0, 0, scales, 3);
  TestGraph graph;
  const Tensor input = draw_input(trial, plain, {2, 3}, 3, scales);
  const uint32_t x = graph.input(input), filter = graph.constant(weights.filter);
  const uint32_t y = graph.output(declare_output(plain, {2, 3}, scales));
  graph.node(xnn_define_fully_connected(graph.subgraph(), -INFINITY, INFINITY, x, filter, XNN_INVALID_VALUE_ID, y, 0));
  if (graph.build()) trial->add_error("a requantization scale of 256 is not refused");
}

// Tests a batched matmul: [batch, m, k] x [batch, k, n]. The second operand may be transposed; if the first is
// quantized dynamically, the second is a constant matrix.
void run_batch(Trial *trial, const LayerTypes &types, size_t index, const Layer &layer) {
  const bool transposed = index % 2 == 1, is_constant = types.quantizes_input;
  const size_t batch = index % 3 + 1, m = index * 11 % 37 + 1;
  Dims dims = transposed ? Dims{layer.outputs, layer.inputs} : Dims{layer.inputs, layer.outputs};
  if (!is_constant) dims.insert(dims.begin(), batch);
  const size_t channel_dim = is_constant ? (transposed ? 0 : 1) : dims.size() - 1;
  const Weights weights = draw_weights(trial, types, dims, channel_dim, 0, {}, layer.inputs);
  const Tensor input = draw_input(trial, types, {batch, m, layer.inputs}, layer.inputs, {});
  Tensor output = declare_output(types, {batch, m, layer.outputs}, {});

  TestGraph graph;
  const uint32_t a = graph.input(input);
  const uint32_t b = is_constant ? graph.constant(weights.filter) : graph.input(weights.filter);
  const uint32_t y = graph.output(output);
  graph.node(xnn_define_batch_matrix_multiply(graph.subgraph(), quantize_input(&graph, types, input, a, 1), b, y,
                                              transposed ? XNN_FLAG_TRANSPOSE_B : 0));
  const std::string shape =
      std::to_string(batch) + " batches, " + case_text(m, layer, transposed ? ", transposed" : "");
  if (!graph.build()) return trial->add_failure(shape, graph.status());
  std::vector<const Tensor *> inputs = {&input};
  if (!is_constant) inputs.push_back(&weights.filter);
  if (!graph.run(inputs, {&output})) return trial->add_failure(shape, graph.status());

  MatmulResult all;
  const std::vector<double> numbers = input.numbers();
  for (size_t i = 0; i < batch; ++i) {
    const double *right = weights.filter_numbers.data() + (is_constant ? 0 : i * layer.inputs * layer.outputs);
    const MatmulResult of_batch = matmul(numbers.data() + i * m * layer.inputs, right, m, layer.inputs, layer.outputs,
                                         transposed ? 1 : layer.outputs, transposed ? layer.inputs : 1, nullptr);
    all.sums.insert(all.sums.end(), of_batch.sums.begin(), of_batch.sums.end());
    all.magnitudes.insert(all.magnitudes.end(), of_batch.magnitudes.begin(), of_batch.magnitudes.end());
  }
  compare_layer(trial, shape, types, output, all.sums, all.magnitudes, layer.inputs, -kInfinity, kInfinity);
}

void run_batches(Trial *trial, const LayerTypes &types) {
  size_t index = 0;
  for (const Layer &layer : layer_cases(trial->extent)) {
    run_batch(trial, types, index++, layer);
    if (trial->outcome.unsupported) return;
  }
}

constexpr xnn_datatype kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQ8 = xnn_datatype_qint8;
constexpr xnn_datatype kC8 = xnn_datatype_qcint8, kC4 = xnn_datatype_qcint4, kB4 = xnn_datatype_qbint4;
constexpr xnn_datatype kU8 = xnn_datatype_quint8;

template <int kInput, int kFilter, int kOutput, bool kQuantizes, bool kDynamic = false>
void layered(Trial *trial) {
  const LayerTypes types = {static_cast<xnn_datatype>(kInput), static_cast<xnn_datatype>(kFilter),
                            static_cast<xnn_datatype>(kOutput), kQuantizes};
  run_layers(trial, types, kDynamic);
  if (is_int8(types.output)) run_scales(trial, types);
}

template <int kInput, int kFilter, int kOutput, bool kQuantizes>
void batched(Trial *trial) {
  run_batches(trial, {static_cast<xnn_datatype>(kInput), static_cast<xnn_datatype>(kFilter),
                      static_cast<xnn_datatype>(kOutput), kQuantizes});
}

}  // namespace

std::vector<Family> matrix_families() {
  return {
      {"linear f32", layered<kF32, kF32, kF32, false>},
      {"linear f32, each tile", each_tile},
      {"linear f32, computed weights", layered<kF32, kF32, kF32, false, true>},
      {"linear f32 x int8", layered<kF32, kC8, kF32, false>},
      {"linear f32 x int4", layered<kF32, kC4, kF32, false>},
      {"linear f16", layered<kF16, kF16, kF16, false>},
      {"linear f16, f32 weights", layered<kF16, kF32, kF16, false>},
      {"linear dynamic int8 -> f32", layered<kF32, kC8, kF32, true>},
      {"linear dynamic int8 x int4 -> f32", layered<kF32, kC4, kF32, true>},
      {"linear dynamic int8 x int4 in blocks -> f32", layered<kF32, kB4, kF32, true>},
      {"linear dynamic int8 -> f16", layered<kF16, kC8, kF16, true>},
      {"linear dynamic int8 x int4 -> f16", layered<kF16, kC4, kF16, true>},
      {"linear dynamic int8 x int4 in blocks -> f16", layered<kF16, kB4, kF16, true>},
      {"linear int8", layered<kQ8, kQ8, kQ8, false>},
      {"linear int8, a scale per channel", layered<kQ8, kC8, kQ8, false>},
      {"linear uint8", layered<kU8, kU8, kU8, false>},
      {"batched matmul f32", batched<kF32, kF32, kF32, false>},
      {"batched matmul f16", batched<kF16, kF16, kF16, false>},
      {"batched matmul dynamic int8", batched<kF32, kC8, kF32, true>},
  };
}

}  // namespace edgecore::xnnpack::trial
