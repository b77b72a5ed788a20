// The blob of the device for tests: reads and checks it, and computes its nodes.
//
// The blob, which edgecore_device/compiler.py writes, has numbers of 32 bits. Values are numbered: inputs, constants,
// mutable buffers, then the result of each node.
//
//     header:   magic "DEVICE\0\0"; version; numbers of inputs, constants, buffers, nodes and outputs
//     input:    dtype (0: float32, 1: int64), rank
//     constant: dtype, rank, sizes, elements
//     buffer:   length of the name, name, rank, sizes, value of the new content; its initial values are named data
//     node:     operator, three operands (operators with fewer repeat the last)
//     output:   value, the result of a node
#ifndef EDGECORE_TESTS_DEVICE_GRAPH_H_
#define EDGECORE_TESTS_DEVICE_GRAPH_H_

#include "device.h"

namespace device {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;

constexpr uint32_t kVersion = 1, kMaxRank = 4;
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

enum class Op : uint32_t { kAdd, kMul, kMatmul, kPutRows };

struct Type {
  uint32_t dtype = 0;  // 0: float32, 1: int64
  std::vector<int64_t> shape;

  uint64_t bytes() const {
    uint64_t bytes = dtype == 0 ? 4 : 8;
    for (const int64_t size : shape) {
      if (size != 0 && bytes > kMaxBytes / static_cast<uint64_t>(size)) {
        fail(EDGECORE_NOT_SUPPORTED, "a tensor is too large");
      }
      bytes *= static_cast<uint64_t>(size);
    }
    return bytes;
  }
};

struct Buffer {
  std::string name;
  Type type;
  uint32_t update;
};

struct Node {
  Op op;
  uint32_t operands[3];
};

struct Graph {
  std::vector<Type> inputs;  // without sizes, which may change: `shape` has the rank
  std::vector<Type> constants;
  std::vector<std::unique_ptr<Memory>> data;  // of the constants
  std::vector<Buffer> buffers;
  std::vector<Node> nodes;
  std::vector<uint32_t> outputs;

  size_t first_buffer() const { return inputs.size() + constants.size(); }
  size_t first_node() const { return first_buffer() + buffers.size(); }
};

inline Type read_type(ByteReader &reader, bool has_sizes, uint32_t dtype) {
  Type type{dtype, std::vector<int64_t>(reader.u32())};
  if (dtype > 1 || type.shape.size() > kMaxRank) damaged("a dtype or rank");
  for (size_t d = 0; has_sizes && d < type.shape.size(); ++d) type.shape[d] = reader.u32();
  return type;
}

inline Graph read_graph(edgecore_bytes blob, Queue &queue) {
  ByteReader reader(blob);
  reader.header({"DEVICE\0\0", 8}, kVersion, "edgecore-device");
  const uint32_t inputs = reader.count(8), constants = reader.count(8), buffers = reader.count(12);
  const uint32_t nodes = reader.count(16), outputs = reader.count(4);
  Graph graph;
  for (uint32_t i = 0; i < inputs; ++i) graph.inputs.push_back(read_type(reader, false, reader.u32()));
  for (uint32_t i = 0; i < constants; ++i) {
    graph.constants.push_back(read_type(reader, true, reader.u32()));
    const uint64_t bytes = graph.constants.back().bytes();
    const uint8_t *data = reader.take(bytes);
    graph.data.push_back(std::make_unique<Memory>(bytes));
    queue.write(*graph.data.back(), data, bytes);
  }
  for (uint32_t i = 0; i < buffers; ++i) {
    Buffer buffer;
    buffer.name = reader.text();
    buffer.type = read_type(reader, true, 0);
    buffer.update = reader.u32();
    if (buffer.update >= inputs + constants + buffers + nodes) damaged("the new content of buffer %u", i);
    graph.buffers.push_back(std::move(buffer));
  }
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t op = reader.u32();
    Node node{static_cast<Op>(op), {reader.u32(), reader.u32(), reader.u32()}};
    if (op > static_cast<uint32_t>(Op::kPutRows)) damaged("the operator of node %u", i);
    for (const uint32_t operand : node.operands) {
      if (operand >= graph.first_node() + i) damaged("an operand of node %u", i);
    }
    graph.nodes.push_back(node);
  }
  for (uint32_t i = 0; i < outputs; ++i) {
    graph.outputs.push_back(reader.u32());
    if (graph.outputs.back() < graph.first_node() || graph.outputs.back() >= graph.first_node() + nodes) {
      damaged("output %u", i);
    }
    for (uint32_t before = 0; before < i; ++before) {
      if (graph.outputs[before] == graph.outputs[i]) damaged("output %u, which is an output before", i);
    }
  }
  reader.finish();
  return graph;
}

// Returns the type of a node's result. Throws if the types of its operands do not fit.
inline Type result_of(const Node &node, const std::vector<Type> &types) {
  const Type &a = types[node.operands[0]], &b = types[node.operands[1]], &c = types[node.operands[2]];
  bool fits = a.dtype == 0;
  Type result = a;
  switch (node.op) {
    case Op::kAdd:
    case Op::kMul:
      fits = fits && b.dtype == 0 && a.shape == b.shape;
      break;
    case Op::kMatmul:
      fits = fits && b.dtype == 0 && a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0];
      if (fits) result.shape = {a.shape[0], b.shape[1]};
      break;
    case Op::kPutRows:
      fits = fits && b.dtype == 1 && c.dtype == 0 && a.shape.size() == 2 && b.shape.size() == 1 &&
             c.shape == std::vector<int64_t>({b.shape[0], a.shape[1]});
      break;
  }
  if (!fits) fail(EDGECORE_INVALID_ARGUMENT, "the operands of a node have other dtypes or shapes");
  return result;
}

// Computes a node. Returns an error message, or NULL.
inline const char *compute(const Node &node, const std::vector<Type> &types, const std::vector<char *> &values,
                           char *result) {
  const auto *a = reinterpret_cast<const float *>(values[node.operands[0]]);
  const auto *b = reinterpret_cast<const float *>(values[node.operands[1]]);
  auto *out = reinterpret_cast<float *>(result);
  const Type &left = types[node.operands[0]], &right = types[node.operands[1]];
  const size_t count = static_cast<size_t>(left.bytes() / sizeof(float));
  switch (node.op) {
    case Op::kAdd:
      for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
      return nullptr;
    case Op::kMul:
      for (size_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
      return nullptr;
    case Op::kMatmul: {
      const int64_t rows = left.shape[0], inner = left.shape[1], columns = right.shape[1];
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          float sum = 0;
          for (int64_t k = 0; k < inner; ++k) sum += a[row * inner + k] * b[k * columns + column];
          out[row * columns + column] = sum;
        }
      }
      return nullptr;
    }
    case Op::kPutRows: {
      const auto *rows = reinterpret_cast<const int64_t *>(b);
      const char *source = values[node.operands[2]];
      const size_t width = static_cast<size_t>(left.shape[1]) * sizeof(float);
      if (count != 0) std::memcpy(out, a, count * sizeof(float));
      for (int64_t i = 0; i < right.shape[0]; ++i) {
        const int64_t row = rows[i] < 0 ? rows[i] + left.shape[0] : rows[i];
        if (row < 0 || row >= left.shape[0]) return "an index is out of range";
        std::memcpy(result + static_cast<size_t>(row) * width, source + static_cast<size_t>(i) * width, width);
      }
      return nullptr;
    }
  }
  return nullptr;
}

}  // namespace device

#endif  // EDGECORE_TESTS_DEVICE_GRAPH_H_
