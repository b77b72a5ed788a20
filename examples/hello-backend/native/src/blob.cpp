#include "blob.h"

#include <cstring>

namespace edgecore::hello {
namespace {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;

constexpr char kMagic[8] = {'H', 'E', 'L', 'L', 'O', 0, 0, 0};

Constant read_constant(ByteReader &reader, uint32_t index) {
  Constant constant;
  constant.shape.rank = reader.u32();
  if (constant.shape.rank > kMaxRank) damaged("the rank of constant %u", index);
  uint64_t elements = 1;
  for (uint32_t d = 0; d < constant.shape.rank; ++d) {
    const uint32_t size = reader.u32();
    constant.shape.sizes[d] = size;
    // A constant with more elements than bytes left is damaged. This check also prevents an overflow of `elements`.
    if (size != 0 && elements > reader.left() / size) damaged("the shape of constant %u", index);
    elements *= size;
  }
  const uint8_t *data = reader.take(elements * sizeof(float));
  constant.data.resize(elements);
  if (elements != 0) std::memcpy(constant.data.data(), data, elements * sizeof(float));
  return constant;
}

}  // namespace

Graph read_blob(edgecore_bytes blob) {
  ByteReader reader(blob);
  reader.header({kMagic, sizeof(kMagic)}, kVersion, "edgecore-hello");
  const uint32_t inputs = reader.count(4), constants = reader.count(4), nodes = reader.count(16);
  const uint32_t outputs = reader.count(4);

  Graph graph;
  for (uint32_t i = 0; i < inputs; ++i) {
    graph.input_ranks.push_back(reader.u32());
    if (graph.input_ranks.back() > kMaxRank) damaged("the rank of input %u", i);
  }
  for (uint32_t i = 0; i < constants; ++i) graph.constants.push_back(read_constant(reader, i));
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t op = reader.u32(), clamp = reader.u32(), first = reader.u32(), second = reader.u32();
    const uint32_t known = graph.first_node() + i;
    if (op > static_cast<uint32_t>(Op::kRelu) || clamp > 1) damaged("the operator of node %u", i);
    if (first >= known || second >= known) damaged("the operands of node %u", i);
    graph.nodes.push_back({static_cast<Op>(op), clamp == 1, {first, second}});
  }
  std::vector<bool> written(nodes);
  for (uint32_t i = 0; i < outputs; ++i) {
    const uint32_t value = reader.u32();
    if (value < graph.first_node() || value - graph.first_node() >= nodes) damaged("the value of output %u", i);
    if (written[value - graph.first_node()]) damaged("output %u, whose value is an output before", i);
    written[value - graph.first_node()] = true;
    graph.outputs.push_back(value);
  }
  reader.finish();
  return graph;
}

}  // namespace edgecore::hello
