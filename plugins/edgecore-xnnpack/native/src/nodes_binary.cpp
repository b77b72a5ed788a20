// Elementwise functions of two tensors, with broadcasting.
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

bool ReadBinary(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Binary *>(table);
  node->input_count = 2;
  node->in[0] = t->input1_id();
  node->in[1] = t->input2_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

bool CheckBinary(const Graph &graph, const Node &node, Failure *failure) {
  const Type type = Out(graph, node).type;
  if (!IsFloat(type) && !IsQuantized8(type)) return Refuse(node, failure, "does not take %s", TypeName(type));
  if (!SameType(graph, node, failure) || !OutputRange(node, failure)) return false;
  if (!IsQuantized8(type)) return true;

  // What the fixed-point kernels hold: each scale relative to the output in 2^-10 .. 2^8, a product in 2^-16 .. 2^8.
  const float a = In(graph, node, 0).quantization.scale;
  const float b = In(graph, node, 1).quantization.scale;
  const float out = Out(graph, node).quantization.scale;
  switch (node.kind->operation) {
    case xnn_binary_add:
    case xnn_binary_subtract:
      for (float ratio : {a / out, b / out}) {
        if (!(ratio >= 0x1.0p-10f && ratio < 0x1.0p+8f)) {
          return Refuse(node, failure, "input to output scale is %g, outside 2^-10 .. 2^8", static_cast<double>(ratio));
        }
      }
      return true;
    case xnn_binary_multiply: {
      const float ratio = a * b / out;
      if (!(ratio >= 0x1.0p-16f && ratio < 0x1.0p+8f)) {
        return Refuse(node, failure, "product to output scale is %g, outside 2^-16 .. 2^8", static_cast<double>(ratio));
      }
      return true;
    }
    default:
      return true;
  }
}

bool InferBinary(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &a = shapes[node.in[0]];
  const Shape &b = shapes[node.in[1]];
  if (!Broadcast(a, b, &shapes[node.out[0]])) {
    return Refuse(node, failure, "shapes %s and %s do not broadcast", Text(a), Text(b));
  }
  return true;
}

xnn_status DefineBinary(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const xnn_binary_params params = {node.min, node.max};
  return xnn_define_binary(subgraph, static_cast<xnn_binary_operator>(node.kind->operation), &params, ids[node.in[0]],
                           ids[node.in[1]], ids[node.out[0]], node.flags);
}

constexpr NodeKind Binary(uint8_t id, const char *name, xnn_binary_operator operation) {
  return {id, name, 0, operation, 0, 0, ReadBinary, CheckBinary, InferBinary, DefineBinary};
}

const NodeKind kKinds[] = {
    Binary(wire::NodeUnion_Add, "Add", xnn_binary_add),
    Binary(wire::NodeUnion_Subtract, "Subtract", xnn_binary_subtract),
    Binary(wire::NodeUnion_Multiply, "Multiply", xnn_binary_multiply),
    Binary(wire::NodeUnion_Div, "Div", xnn_binary_divide),
    Binary(wire::NodeUnion_Minimum, "Minimum", xnn_binary_minimum),
    Binary(wire::NodeUnion_Maximum, "Maximum", xnn_binary_maximum),
    Binary(wire::NodeUnion_PReLU, "PReLU", xnn_binary_prelu),
};

}  // namespace

KindList BinaryKinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
