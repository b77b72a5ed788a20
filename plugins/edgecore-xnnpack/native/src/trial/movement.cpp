// Kernel tests (trials) of nodes that move data. Output elements must equal the input elements bit by bit.
#include <algorithm>
#include <cstring>

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr int kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQ8 = xnn_datatype_qint8, kU8 = xnn_datatype_quint8;

size_t size_of(xnn_datatype type) { return type == xnn_datatype_fp32 ? 4 : type == xnn_datatype_fp16 ? 2 : 1; }

// Makes a tensor of random bytes.
Tensor draw(Trial *trial, xnn_datatype type, const Dims &dims) {
  Tensor tensor = fp32_tensor(dims);
  tensor.type = type;
  for (size_t i = 0; i < element_count(dims) * size_of(type); ++i) {
    tensor.bytes.push_back(static_cast<uint8_t>(trial->uniform_int(0, 255)));
  }
  return tensor;
}

Tensor declare(xnn_datatype type, const Dims &dims) {
  Tensor tensor = fp32_tensor(dims);
  tensor.type = type;
  return tensor;
}

// Compares each element i of the output with the input element at index source(i). If this index is past the end of the
// input, element i must have the bytes `fill` of a padding element.
template <typename Source>
void compare_moved(Trial *trial, const std::string &shape, const std::vector<uint8_t> &input, const Tensor &output,
                   const std::vector<uint8_t> &fill, Source source) {
  ++trial->outcome.cases;
  const size_t size = size_of(output.type), count = input.size() / size;
  for (size_t i = 0; i < element_count(output.dims); ++i) {
    const size_t from = source(i);
    const uint8_t *expected = from < count ? input.data() + from * size : fill.data();
    if (std::memcmp(output.bytes.data() + i * size, expected, size) == 0) continue;
    return trial->add_error(shape + ": element " + std::to_string(i) + " of " + shape_text(output.dims) +
                            " is not element " + std::to_string(from) + " of the input");
  }
}

bool run_graph(Trial *trial, const std::string &shape, TestGraph *graph, const std::vector<const Tensor *> &inputs,
               Tensor *output) {
  if (graph->build() && graph->run(inputs, {output}) && graph->run(inputs, {output})) return true;
  trial->add_failure(shape, graph->status());
  return false;
}

std::vector<size_t> edge_sizes(Extent extent) {
  if (extent == Extent::kShort) return {5, 35};
  if (extent == Extent::kQuick) return {1, 3, 7, 16, 33};
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
}

template <int kType>
void transpose(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t a : edge_sizes(trial->extent)) {
    for (size_t b : edge_sizes(trial->extent)) {
      for (const Dims &order :
           {Dims{1, 0, 2, 3}, Dims{0, 3, 1, 2}, Dims{0, 2, 3, 1}, Dims{3, 2, 1, 0}, Dims{2, 0, 3, 1}}) {
        const Dims dims = {2, a, b, 3};
        const Tensor input = draw(trial, type, dims);
        Tensor output = declare(type, {dims[order[0]], dims[order[1]], dims[order[2]], dims[order[3]]});
        TestGraph graph;
        const uint32_t x = graph.input(input), y = graph.output(output);
        graph.node(xnn_define_static_transpose(graph.subgraph(), 4, order.data(), x, y, 0));
        const std::string shape = shape_text(dims) + " by " + shape_text(order);
        if (!run_graph(trial, shape, &graph, {&input}, &output)) return;
        compare_moved(trial, shape, input.bytes, output, {}, [&](size_t i) {
          size_t index[4], from = 0;
          for (size_t d = 4; d-- > 0; i /= output.dims[d]) index[order[d]] = i % output.dims[d];
          for (size_t d = 0; d < 4; ++d) from = from * dims[d] + index[d];
          return from;
        });
      }
    }
  }
}

// Returns the index of the input element from which a slice or a padding copies its output element i. For padding
// (`grows`), the offsets are subtracted from the position of element i; for a slice they are added. For an element of
// the padding, returns the number of input elements.
size_t shifted(size_t i, const Dims &output_dims, const Dims &input_dims, const Dims &offset, bool grows) {
  size_t from = 0, stride = 1;
  for (size_t d = output_dims.size(); d-- > 0; i /= output_dims[d]) {
    const size_t at = grows ? i % output_dims[d] - offset[d] : i % output_dims[d] + offset[d];
    // The element is padding; a negative index is a large unsigned number.
    if (at >= input_dims[d]) return element_count(input_dims);
    from += at * stride;
    stride *= input_dims[d];
  }
  return from;
}

template <int kType>
void slice(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : edge_sizes(trial->extent)) {
    const Dims dims = {3, n + 2, n + 5}, offsets = {1, n % 3, 4}, sizes = {2, n, n + 1};
    const Tensor input = draw(trial, type, dims);
    Tensor output = declare(type, sizes);
    TestGraph graph;
    const uint32_t x = graph.input(input), y = graph.output(output);
    graph.node(xnn_define_static_slice(graph.subgraph(), 3, offsets.data(), sizes.data(), x, y, 0));
    const std::string shape = shape_text(sizes) + " of " + shape_text(dims) + " at " + shape_text(offsets);
    if (!run_graph(trial, shape, &graph, {&input}, &output)) return;
    compare_moved(trial, shape, input.bytes, output, {},
                  [&](size_t i) { return shifted(i, sizes, dims, offsets, false); });
  }
}

template <int kType>
void pad(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : edge_sizes(trial->extent)) {
    const Dims dims = {2, 3, n}, before = {0, 1, n % 4}, after = {1, 0, n % 5};
    const Dims padded = {3, 4, n + n % 4 + n % 5};
    const Tensor input = draw(trial, type, dims);
    Tensor output = declare(type, padded), fill = declare(type, {1});
    fill.set({7.0});
    TestGraph graph;
    const uint32_t x = graph.input(input), y = graph.output(output);
    graph.node(xnn_define_static_constant_pad(graph.subgraph(), before.data(), after.data(), 7.0f, x, y, 0));
    const std::string shape = shape_text(dims) + " to " + shape_text(padded);
    if (!run_graph(trial, shape, &graph, {&input}, &output)) return;
    compare_moved(trial, shape, input.bytes, output, fill.bytes,
                  [&](size_t i) { return shifted(i, padded, dims, before, true); });
  }
}

xnn_status define_concatenate(xnn_subgraph_t graph, const std::vector<uint32_t> &in, uint32_t out) {
  switch (in.size()) {
    case 2:
      return xnn_define_concatenate2(graph, 1, in[0], in[1], out, 0);
    case 3:
      return xnn_define_concatenate3(graph, 1, in[0], in[1], in[2], out, 0);
    case 4:
      return xnn_define_concatenate4(graph, 1, in[0], in[1], in[2], in[3], out, 0);
    default:
      return xnn_define_concatenate5(graph, 1, in[0], in[1], in[2], in[3], in[4], out, 0);
  }
}

template <int kType>
void concatenate(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : edge_sizes(trial->extent)) {
    for (size_t parts = 2; parts <= 5; ++parts) {
      TestGraph graph;
      std::vector<Tensor> inputs;
      std::vector<const Tensor *> pointers;
      std::vector<uint32_t> ids;
      size_t width = 0;
      for (size_t i = 0; i < parts; ++i) {
        inputs.push_back(draw(trial, type, {3, n + i}));
        width += n + i;
        ids.push_back(graph.input(inputs.back()));
      }
      for (const Tensor &input : inputs) pointers.push_back(&input);
      Tensor output = declare(type, {3, width});
      const uint32_t y = graph.output(output);
      graph.node(define_concatenate(graph.subgraph(), ids, y));
      const std::string shape = std::to_string(parts) + " parts to " + shape_text(output.dims);
      if (!run_graph(trial, shape, &graph, pointers, &output)) return;
      std::vector<uint8_t> rows;  // the expected output
      for (size_t row = 0; row < 3; ++row) {
        for (const Tensor &input : inputs) {
          const auto line = static_cast<ptrdiff_t>(input.bytes.size() / 3), at = line * static_cast<ptrdiff_t>(row);
          rows.insert(rows.end(), input.bytes.begin() + at, input.bytes.begin() + at + line);
        }
      }
      compare_moved(trial, shape, rows, output, {}, [](size_t i) { return i; });
    }
  }
}

template <int kType>
void copy_and_reshape(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : edge_sizes(trial->extent)) {
    const Tensor input = draw(trial, type, {n, 6});
    Tensor output = declare(type, {2, n, 3});
    TestGraph graph;
    const uint32_t x = graph.input(input), y = graph.output(output);
    graph.node(xnn_define_static_reshape(graph.subgraph(), 3, output.dims.data(), x, y, 0));
    if (!run_graph(trial, shape_text(input.dims), &graph, {&input}, &output)) return;
    compare_moved(trial, shape_text(input.dims), input.bytes, output, {}, [](size_t i) { return i; });
  }
}

template <int kType>
void move_data(Trial *trial) {
  slice<kType>(trial);
  pad<kType>(trial);
  concatenate<kType>(trial);
  copy_and_reshape<kType>(trial);
}

}  // namespace

std::vector<Family> movement_families() {
  return {
      {"transpose f32", transpose<kF32>},
      {"transpose f16", transpose<kF16>},
      {"transpose int8", transpose<kQ8>},
      {"slice, pad, concatenate, reshape f32", move_data<kF32>},
      {"slice, pad, concatenate, reshape f16", move_data<kF16>},
      {"slice, pad, concatenate, reshape int8", move_data<kQ8>},
      {"slice, pad, concatenate, reshape uint8", move_data<kU8>},
  };
}

}  // namespace edgecore::xnnpack::trial
