// Fully connected layers and batched matrix products.
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

bool ReadFullyConnected(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::FullyConnected *>(table);
  node->input_count = 3;
  node->in[0] = t->input1_id();
  node->in[1] = t->filter_id();
  node->in[2] = t->bias_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

bool ReadMatrixMultiply(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Binary *>(table);
  node->input_count = 2;
  node->in[0] = t->input1_id();
  node->in[1] = t->input2_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

struct Types {
  Type input, filter, bias, output;
};

constexpr Types kTypes[] = {
    {Type::kFp32, Type::kFp32, Type::kFp32, Type::kFp32},
    {Type::kFp16, Type::kFp32, Type::kFp32, Type::kFp16},
    {Type::kFp16, Type::kFp16, Type::kFp16, Type::kFp16},
    {Type::kFp32, Type::kQcint8, Type::kFp32, Type::kFp32},
    {Type::kFp32, Type::kQcint4, Type::kFp32, Type::kFp32},
    {Type::kQdint8, Type::kQcint8, Type::kFp32, Type::kFp32},
    {Type::kQdint8, Type::kQcint4, Type::kFp32, Type::kFp32},
    {Type::kQdint8, Type::kQbint4, Type::kFp32, Type::kFp32},
    {Type::kQdint8, Type::kQcint8, Type::kFp32, Type::kFp16},
    {Type::kQdint8, Type::kQcint4, Type::kFp32, Type::kFp16},
    {Type::kQdint8, Type::kQbint4, Type::kFp32, Type::kFp16},
    {Type::kQint8, Type::kQint8, Type::kQint32, Type::kQint8},
    {Type::kQint8, Type::kQcint8, Type::kQcint32, Type::kQint8},
    {Type::kQuint8, Type::kQuint8, Type::kQint32, Type::kQuint8},
};

bool Transposed(const Node &node) { return (node.flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0; }

bool CheckFullyConnected(const Graph &graph, const Node &node, Failure *failure) {
  const Value &filter = In(graph, node, 1);
  const bool has_bias = node.in[2] != kNone;
  bool known = false;
  for (const Types &types : kTypes) {
    known |= types.input == In(graph, node, 0).type && types.filter == filter.type &&
             types.output == Out(graph, node).type && (!has_bias || In(graph, node, 2).type == types.bias);
  }
  if (!known) {
    return Refuse(node, failure, "no kernel for input %s, filter %s, bias %s, output %s",
                  TypeName(In(graph, node, 0).type), TypeName(filter.type),
                  has_bias ? TypeName(In(graph, node, 2).type) : "none", TypeName(Out(graph, node).type));
  }
  if (filter.role == Role::kConstant) {
    if (has_bias && In(graph, node, 2).role != Role::kConstant) {
      return Refuse(node, failure, "the filter is a constant, so the bias must be one");
    }
  } else if (filter.type != Type::kFp32 || In(graph, node, 0).type != Type::kFp32) {
    return Refuse(node, failure, "only an fp32 filter may be computed at run time");
  }
  if (filter.shape.rank != 2) return Refuse(node, failure, "the filter is %s, not a matrix", Text(filter.shape));

  const Quantization &q = filter.quantization;
  const uint32_t channel_dim = Transposed(node) ? 1 : 0;
  const bool four_bits = filter.type == Type::kQcint4 || filter.type == Type::kQbint4;
  if ((q.scales != nullptr || q.group_scales != nullptr) && q.channel_dim != channel_dim) {
    return Refuse(node, failure, "the filter's scales belong to dim %u instead of %u", q.channel_dim, channel_dim);
  }
  if (four_bits && Transposed(node)) return Refuse(node, failure, "a 4-bit filter must be [outputs, inputs]");
  return OutputRange(node, failure) && FilterScales(graph, node, filter.shape[channel_dim], failure) &&
         RowParameters(graph, node, 1, failure);
}

bool InferFullyConnected(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  const Shape &filter = shapes[node.in[1]];
  if (filter.rank != 2) return Refuse(node, failure, "the filter is %s, not a matrix", Text(filter));
  const uint64_t outputs = filter[Transposed(node) ? 1 : 0];
  const uint64_t inputs = filter[Transposed(node) ? 0 : 1];
  if (input.rank == 0 || input.back(0) != inputs) {
    return Refuse(node, failure, "input %s and filter %s do not fit", Text(input), Text(filter));
  }
  if (node.in[2] != kNone) {
    const Shape &bias = shapes[node.in[2]];
    if (Elements(bias) != outputs || bias.rank == 0 || bias.back(0) != outputs) {
      return Refuse(node, failure, "the bias is %s for %llu outputs", Text(bias),
                    static_cast<unsigned long long>(outputs));
    }
  }
  Shape output = input;
  output[input.rank - 1] = outputs;
  shapes[node.out[0]] = output;
  return true;
}

bool CheckMatrixMultiply(const Graph &graph, const Node &node, Failure *failure) {
  const Value &a = In(graph, node, 0);
  const Value &b = In(graph, node, 1);
  const Type output = Out(graph, node).type;
  if (IsFloat(a.type) && a.type == b.type && a.type == output) return true;
  if (a.type == Type::kQdint8 && b.type == Type::kQcint8 && output == Type::kFp32) {
    if (b.role != Role::kConstant) return Refuse(node, failure, "a qcint8 operand must be a constant");
    if (b.shape.rank != 2 || b.quantization.channel_dim != (Transposed(node) ? 0u : 1u)) {
      return Refuse(node, failure, "a qcint8 operand must be a matrix with a scale per output");
    }
    return RowParameters(graph, node, 1, failure);
  }
  return Refuse(node, failure, "no kernel for %s x %s -> %s", TypeName(a.type), TypeName(b.type), TypeName(output));
}

bool InferMatrixMultiply(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  Shape a = shapes[node.in[0]];
  Shape b = shapes[node.in[1]];
  if (a.rank < 2 || b.rank < 2) return Refuse(node, failure, "operands %s and %s must be matrices", Text(a), Text(b));
  const uint64_t rows = a.back(1);
  const uint64_t columns = Transposed(node) ? b.back(1) : b.back(0);
  if (a.back(0) != (Transposed(node) ? b.back(0) : b.back(1))) {
    return Refuse(node, failure, "%s and %s do not fit", Text(a), Text(b));
  }
  Shape output;
  a.dim[a.rank - 2] = a.dim[a.rank - 1] = b.dim[b.rank - 2] = b.dim[b.rank - 1] = 1;
  if (!Broadcast(a, b, &output)) {
    return Refuse(node, failure, "batches %s and %s do not broadcast", Text(a), Text(b));
  }
  output[output.rank - 2] = rows;
  output[output.rank - 1] = columns;
  shapes[node.out[0]] = output;
  return true;
}

xnn_status DefineFullyConnected(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_fully_connected(subgraph, node.min, node.max, ids[node.in[0]], ids[node.in[1]],
                                    node.in[2] == kNone ? XNN_INVALID_VALUE_ID : ids[node.in[2]], ids[node.out[0]],
                                    node.flags);
}

xnn_status DefineMatrixMultiply(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_batch_matrix_multiply(subgraph, ids[node.in[0]], ids[node.in[1]], ids[node.out[0]], node.flags);
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_FullyConnected, "FullyConnected", XNN_FLAG_TRANSPOSE_WEIGHTS, 0, 0, 0b100, ReadFullyConnected,
     CheckFullyConnected, InferFullyConnected, DefineFullyConnected},
    {wire::NodeUnion_BatchMatrixMultiply, "BatchMatrixMultiply", XNN_FLAG_TRANSPOSE_B, 0, 0, 0, ReadMatrixMultiply,
     CheckMatrixMultiply, InferMatrixMultiply, DefineMatrixMultiply},
};

}  // namespace

KindList MatrixKinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
