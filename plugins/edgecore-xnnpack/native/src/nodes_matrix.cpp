// Reads, checks and defines in XNNPACK the nodes for fully connected layers and batched matmuls (nodes.h).
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

void read_fully_connected(const void *table, Node *node) {
  const auto *t = static_cast<const wire::FullyConnected *>(table);
  node->input_count = 3;
  node->in[0] = t->input1_id();
  node->in[1] = t->filter_id();
  node->in[2] = t->bias_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

void read_matrix_multiply(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Binary *>(table);
  node->input_count = 2;
  node->in[0] = t->input1_id();
  node->in[1] = t->input2_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
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

bool is_transposed(const Node &node) { return (node.flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0; }

void check_fully_connected(const Graph &graph, const Node &node) {
  const Value &filter = input_value(graph, node, 1);
  const bool has_bias = node.in[2] != kNone;
  bool has_kernel = false;
  for (const Types &types : kTypes) {
    has_kernel |= types.input == input_value(graph, node, 0).type && types.filter == filter.type &&
                  types.output == output_value(graph, node).type &&
                  (!has_bias || input_value(graph, node, 2).type == types.bias);
  }
  if (!has_kernel) {
    refuse(node, "no kernel for input %s, filter %s, bias %s, output %s", type_name(input_value(graph, node, 0).type),
           type_name(filter.type), has_bias ? type_name(input_value(graph, node, 2).type) : "none",
           type_name(output_value(graph, node).type));
  }
  if (filter.role == Role::kConstant) {
    if (has_bias && input_value(graph, node, 2).role != Role::kConstant) {
      refuse(node, "the filter is a constant, so the bias must be a constant, too");
    }
  } else if (filter.type != Type::kFp32 || input_value(graph, node, 0).type != Type::kFp32) {
    refuse(node, "only an fp32 filter may be computed at run time");
  }
  if (filter.shape.rank != 2) refuse(node, "the filter is %s, not a matrix", shape_text(filter.shape));

  const Quantization &q = filter.quantization;
  const uint32_t channel_dim = is_transposed(node) ? 1 : 0;
  const bool four_bits = filter.type == Type::kQcint4 || filter.type == Type::kQbint4;
  if ((q.scales != nullptr || q.group_scales != nullptr) && q.channel_dim != channel_dim) {
    refuse(node, "the filter's scales belong to dim %u instead of %u", q.channel_dim, channel_dim);
  }
  if (four_bits && is_transposed(node)) refuse(node, "a 4-bit filter must be [outputs, inputs]");
  check_output_range(node);
  check_filter_scales(graph, node, filter.shape[channel_dim]);
  check_row_parameters(graph, node, 1);
}

void infer_fully_connected(const Graph &, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  const Shape &filter = shapes[node.in[1]];
  if (filter.rank != 2) refuse(node, "the filter is %s, not a matrix", shape_text(filter));
  const uint64_t outputs = filter[is_transposed(node) ? 1 : 0];
  const uint64_t inputs = filter[is_transposed(node) ? 0 : 1];
  if (input.rank == 0 || input.back(0) != inputs) {
    refuse(node, "input %s and filter %s do not fit", shape_text(input), shape_text(filter));
  }
  if (node.in[2] != kNone) {
    const Shape &bias = shapes[node.in[2]];
    if (element_count(bias) != outputs || bias.rank == 0 || bias.back(0) != outputs) {
      refuse(node, "the bias is %s for %llu outputs", shape_text(bias), static_cast<unsigned long long>(outputs));
    }
  }
  Shape output = input;
  output[input.rank - 1] = outputs;
  shapes[node.out[0]] = output;
}

void check_matrix_multiply(const Graph &graph, const Node &node) {
  const Value &a = input_value(graph, node, 0);
  const Value &b = input_value(graph, node, 1);
  const Type output = output_value(graph, node).type;
  if (is_float(a.type) && a.type == b.type && a.type == output) return;
  if (a.type == Type::kQdint8 && b.type == Type::kQcint8 && output == Type::kFp32) {
    if (b.role != Role::kConstant) refuse(node, "a qcint8 operand must be a constant");
    if (b.shape.rank != 2 || b.quantization.channel_dim != (is_transposed(node) ? 0u : 1u)) {
      refuse(node, "a qcint8 operand must be a matrix with a scale per output");
    }
    check_row_parameters(graph, node, 1);
    return;
  }
  refuse(node, "no kernel for %s x %s -> %s", type_name(a.type), type_name(b.type), type_name(output));
}

void infer_matrix_multiply(const Graph &, const Node &node, Shape *shapes) {
  Shape a = shapes[node.in[0]];
  Shape b = shapes[node.in[1]];
  if (a.rank < 2 || b.rank < 2) refuse(node, "operands %s and %s must be matrices", shape_text(a), shape_text(b));
  const uint64_t rows = a.back(1);
  const uint64_t columns = is_transposed(node) ? b.back(1) : b.back(0);
  if (a.back(0) != (is_transposed(node) ? b.back(0) : b.back(1))) {
    refuse(node, "%s and %s do not fit", shape_text(a), shape_text(b));
  }
  Shape output;
  a.dim[a.rank - 2] = a.dim[a.rank - 1] = b.dim[b.rank - 2] = b.dim[b.rank - 1] = 1;
  if (!broadcast(a, b, &output)) {
    refuse(node, "batches %s and %s do not broadcast", shape_text(a), shape_text(b));
  }
  output[output.rank - 2] = rows;
  output[output.rank - 1] = columns;
  shapes[node.out[0]] = output;
}

xnn_status define_fully_connected(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_fully_connected(subgraph, node.min, node.max, ids[node.in[0]], ids[node.in[1]],
                                    node.in[2] == kNone ? XNN_INVALID_VALUE_ID : ids[node.in[2]], ids[node.out[0]],
                                    node.flags);
}

xnn_status define_matrix_multiply(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_batch_matrix_multiply(subgraph, ids[node.in[0]], ids[node.in[1]], ids[node.out[0]], node.flags);
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_FullyConnected, "FullyConnected", XNN_FLAG_TRANSPOSE_WEIGHTS, 0, 0, 0b100, read_fully_connected,
     check_fully_connected, infer_fully_connected, define_fully_connected},
    {wire::NodeUnion_BatchMatrixMultiply, "BatchMatrixMultiply", XNN_FLAG_TRANSPOSE_B, 0, 0, 0, read_matrix_multiply,
     check_matrix_multiply, infer_matrix_multiply, define_matrix_multiply},
};

}  // namespace

KindList matrix_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
