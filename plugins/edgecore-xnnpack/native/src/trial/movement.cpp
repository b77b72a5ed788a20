// Nodes that move data: every bit arrives, and nothing else.
#include <algorithm>
#include <cstring>

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr int kF32 = xnn_datatype_fp32, kF16 = xnn_datatype_fp16, kQ8 = xnn_datatype_qint8, kU8 = xnn_datatype_quint8;

size_t SizeOf(xnn_datatype type) { return type == xnn_datatype_fp32 ? 4 : type == xnn_datatype_fp16 ? 2 : 1; }

// Any bytes.
Tensor Draw(Trial *trial, xnn_datatype type, const Dims &dims) {
  Tensor tensor = Float32(dims);
  tensor.type = type;
  for (size_t i = 0; i < Count(dims) * SizeOf(type); ++i) {
    tensor.bytes.push_back(static_cast<uint8_t>(trial->Whole(0, 255)));
  }
  return tensor;
}

Tensor Declare(xnn_datatype type, const Dims &dims) {
  Tensor tensor = Float32(dims);
  tensor.type = type;
  return tensor;
}

// `source` gives for each element of the output the one of the input that it is, or one past them for `fill`.
template <typename Source>
void CompareMoved(Trial *trial, const std::string &shape, const std::vector<uint8_t> &input, const Tensor &output,
                  const std::vector<uint8_t> &fill, Source source) {
  ++trial->outcome.cases;
  const size_t size = SizeOf(output.type), count = input.size() / size;
  for (size_t i = 0; i < Count(output.dims); ++i) {
    const size_t from = source(i);
    const uint8_t *expected = from < count ? input.data() + from * size : fill.data();
    if (std::memcmp(output.bytes.data() + i * size, expected, size) == 0) continue;
    return trial->Wrong(shape + ": element " + std::to_string(i) + " of " + Text(output.dims) + " is not element " +
                        std::to_string(from) + " of the input");
  }
}

bool RunNet(Trial *trial, const std::string &shape, Net *net, const std::vector<const Tensor *> &inputs,
            Tensor *output) {
  if (net->Build() && net->Run(inputs, {output}) && net->Run(inputs, {output})) return true;
  trial->Refused(shape, net->status());
  return false;
}

std::vector<size_t> Edges(Extent extent) {
  if (extent == Extent::kShort) return {5, 35};
  if (extent == Extent::kQuick) return {1, 3, 7, 16, 33};
  return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
}

template <int kType>
void Transpose(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t a : Edges(trial->extent)) {
    for (size_t b : Edges(trial->extent)) {
      for (const Dims &order :
           {Dims{1, 0, 2, 3}, Dims{0, 3, 1, 2}, Dims{0, 2, 3, 1}, Dims{3, 2, 1, 0}, Dims{2, 0, 3, 1}}) {
        const Dims dims = {2, a, b, 3};
        const Tensor input = Draw(trial, type, dims);
        Tensor output = Declare(type, {dims[order[0]], dims[order[1]], dims[order[2]], dims[order[3]]});
        Net net;
        const uint32_t x = net.Input(input), y = net.Output(output);
        net.Node(xnn_define_static_transpose(net.subgraph(), 4, order.data(), x, y, 0));
        const std::string shape = Text(dims) + " by " + Text(order);
        if (!RunNet(trial, shape, &net, {&input}, &output)) return;
        CompareMoved(trial, shape, input.bytes, output, {}, [&](size_t i) {
          size_t index[4], from = 0;
          for (size_t d = 4; d-- > 0; i /= output.dims[d]) index[order[d]] = i % output.dims[d];
          for (size_t d = 0; d < 4; ++d) from = from * dims[d] + index[d];
          return from;
        });
      }
    }
  }
}

// The index into `dims` of element i of `whole`, moved by `offset`; past the end outside.
size_t Shifted(size_t i, const Dims &whole, const Dims &dims, const Dims &offset, bool grows) {
  size_t from = 0, stride = 1;
  for (size_t d = whole.size(); d-- > 0; i /= whole[d]) {
    const size_t at = grows ? i % whole[d] - offset[d] : i % whole[d] + offset[d];
    if (at >= dims[d]) return Count(dims);  // wraps around below 0
    from += at * stride;
    stride *= dims[d];
  }
  return from;
}

template <int kType>
void Slice(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : Edges(trial->extent)) {
    const Dims dims = {3, n + 2, n + 5}, offsets = {1, n % 3, 4}, sizes = {2, n, n + 1};
    const Tensor input = Draw(trial, type, dims);
    Tensor output = Declare(type, sizes);
    Net net;
    const uint32_t x = net.Input(input), y = net.Output(output);
    net.Node(xnn_define_static_slice(net.subgraph(), 3, offsets.data(), sizes.data(), x, y, 0));
    const std::string shape = Text(sizes) + " of " + Text(dims) + " at " + Text(offsets);
    if (!RunNet(trial, shape, &net, {&input}, &output)) return;
    CompareMoved(trial, shape, input.bytes, output, {},
                 [&](size_t i) { return Shifted(i, sizes, dims, offsets, false); });
  }
}

template <int kType>
void Pad(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : Edges(trial->extent)) {
    const Dims dims = {2, 3, n}, before = {0, 1, n % 4}, after = {1, 0, n % 5};
    const Dims whole = {3, 4, n + n % 4 + n % 5};
    const Tensor input = Draw(trial, type, dims);
    Tensor output = Declare(type, whole), fill = Declare(type, {1});
    fill.Set({7.0});
    Net net;
    const uint32_t x = net.Input(input), y = net.Output(output);
    net.Node(xnn_define_static_constant_pad(net.subgraph(), before.data(), after.data(), 7.0f, x, y, 0));
    const std::string shape = Text(dims) + " to " + Text(whole);
    if (!RunNet(trial, shape, &net, {&input}, &output)) return;
    CompareMoved(trial, shape, input.bytes, output, fill.bytes,
                 [&](size_t i) { return Shifted(i, whole, dims, before, true); });
  }
}

xnn_status DefineConcatenate(xnn_subgraph_t graph, const std::vector<uint32_t> &in, uint32_t out) {
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
void Concatenate(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : Edges(trial->extent)) {
    for (size_t parts = 2; parts <= 5; ++parts) {
      Net net;
      std::vector<Tensor> inputs;
      std::vector<const Tensor *> pointers;
      std::vector<uint32_t> ids;
      size_t width = 0;
      for (size_t i = 0; i < parts; ++i) {
        inputs.push_back(Draw(trial, type, {3, n + i}));
        width += n + i;
        ids.push_back(net.Input(inputs.back()));
      }
      for (const Tensor &input : inputs) pointers.push_back(&input);
      Tensor output = Declare(type, {3, width});
      const uint32_t y = net.Output(output);
      net.Node(DefineConcatenate(net.subgraph(), ids, y));
      const std::string shape = std::to_string(parts) + " parts to " + Text(output.dims);
      if (!RunNet(trial, shape, &net, pointers, &output)) return;
      std::vector<uint8_t> rows;  // what it should be
      for (size_t row = 0; row < 3; ++row) {
        for (const Tensor &input : inputs) {
          const auto line = static_cast<ptrdiff_t>(input.bytes.size() / 3), at = line * static_cast<ptrdiff_t>(row);
          rows.insert(rows.end(), input.bytes.begin() + at, input.bytes.begin() + at + line);
        }
      }
      CompareMoved(trial, shape, rows, output, {}, [](size_t i) { return i; });
    }
  }
}

template <int kType>
void CopyAndReshape(Trial *trial) {
  const auto type = static_cast<xnn_datatype>(kType);
  for (size_t n : Edges(trial->extent)) {
    const Tensor input = Draw(trial, type, {n, 6});
    Tensor output = Declare(type, {2, n, 3});
    Net net;
    const uint32_t x = net.Input(input), y = net.Output(output);
    net.Node(xnn_define_static_reshape(net.subgraph(), 3, output.dims.data(), x, y, 0));
    if (!RunNet(trial, Text(input.dims), &net, {&input}, &output)) return;
    CompareMoved(trial, Text(input.dims), input.bytes, output, {}, [](size_t i) { return i; });
  }
}

template <int kType>
void Move(Trial *trial) {
  Slice<kType>(trial);
  Pad<kType>(trial);
  Concatenate<kType>(trial);
  CopyAndReshape<kType>(trial);
}

}  // namespace

std::vector<Family> MovementFamilies() {
  return {
      {"transpose f32", Transpose<kF32>},
      {"transpose f16", Transpose<kF16>},
      {"transpose int8", Transpose<kQ8>},
      {"slice, pad, concatenate, reshape f32", Move<kF32>},
      {"slice, pad, concatenate, reshape f16", Move<kF16>},
      {"slice, pad, concatenate, reshape int8", Move<kQ8>},
      {"slice, pad, concatenate, reshape uint8", Move<kU8>},
  };
}

}  // namespace edgecore::xnnpack::trial
