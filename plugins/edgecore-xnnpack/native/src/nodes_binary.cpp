// Reads, checks and defines in XNNPACK the nodes for elementwise functions of two tensors, with broadcasting (nodes.h).
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

void read_binary(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Binary *>(table);
  node->input_count = 2;
  node->in[0] = t->input1_id();
  node->in[1] = t->input2_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

void check_binary(const Graph &graph, const Node &node) {
  const Type type = output_value(graph, node).type;
  if (!is_float(type) && !is_quantized8(type)) refuse(node, "does not support %s", type_name(type));
  check_same_type(graph, node);
  check_output_range(node);
  if (!is_quantized8(type)) return;

  // Check the scales of sums and products. Their fixed-point kernels can represent only these ratios: for sums, input
  // scale / output scale in 2^-10 .. 2^8; for products, scale of a * scale of b / output scale in 2^-16 .. 2^8.
  const float a = input_value(graph, node, 0).quantization.scale;
  const float b = input_value(graph, node, 1).quantization.scale;
  const float out = output_value(graph, node).quantization.scale;
  switch (node.kind->operation) {
    case xnn_binary_add:
    case xnn_binary_subtract:
      for (float ratio : {a / out, b / out}) {
        if (!(ratio >= 0x1.0p-10f && ratio < 0x1.0p+8f)) {
          refuse(node, "input scale / output scale is %g, outside 2^-10 .. 2^8", static_cast<double>(ratio));
        }
      }
      return;
    case xnn_binary_multiply: {
      const float ratio = a * b / out;
      if (!(ratio >= 0x1.0p-16f && ratio < 0x1.0p+8f)) {
        refuse(node, "product of the input scales / output scale is %g, outside 2^-16 .. 2^8",
               static_cast<double>(ratio));
      }
      return;
    }
    default:
      return;
  }
}

void infer_binary(const Graph &, const Node &node, Shape *shapes) {
  const Shape &a = shapes[node.in[0]];
  const Shape &b = shapes[node.in[1]];
  if (!broadcast(a, b, &shapes[node.out[0]])) {
    refuse(node, "shapes %s and %s do not broadcast", shape_text(a), shape_text(b));
  }
}

xnn_status define_binary(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const xnn_binary_params params = {node.min, node.max};
  return xnn_define_binary(subgraph, static_cast<xnn_binary_operator>(node.kind->operation), &params, ids[node.in[0]],
                           ids[node.in[1]], ids[node.out[0]], node.flags);
}

constexpr NodeKind binary(uint8_t id, const char *name, xnn_binary_operator operation) {
  return {id, name, 0, operation, 0, 0, read_binary, check_binary, infer_binary, define_binary};
}

const NodeKind kKinds[] = {
    binary(wire::NodeUnion_Add, "Add", xnn_binary_add),
    binary(wire::NodeUnion_Subtract, "Subtract", xnn_binary_subtract),
    binary(wire::NodeUnion_Multiply, "Multiply", xnn_binary_multiply),
    binary(wire::NodeUnion_Div, "Div", xnn_binary_divide),
    binary(wire::NodeUnion_Minimum, "Minimum", xnn_binary_minimum),
    binary(wire::NodeUnion_Maximum, "Maximum", xnn_binary_maximum),
    binary(wire::NodeUnion_PReLU, "PReLU", xnn_binary_prelu),
};

}  // namespace

KindList binary_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
