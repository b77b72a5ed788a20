// Reads, checks and defines in XNNPACK the nodes for functions of one tensor, conversions, softmax, copies.
#include <algorithm>
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

void read_unary(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Unary *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

void read_elu(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Elu *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  node->number = t->alpha();
}

void read_leaky_relu(const void *table, Node *node) {
  const auto *t = static_cast<const wire::LeakyRelu *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  node->number = t->negative_slope();
}

void check_elementwise(const Graph &graph, const Node &node) {
  const Type type = output_value(graph, node).type;
  if (!is_float(type) && !is_quantized8(type)) refuse(node, "does not support %s", type_name(type));
  check_same_type(graph, node);
}

void check_clamp(const Graph &graph, const Node &node) {
  check_data_movement(graph, node);
  check_output_range(node);
}

// Checks a leaky ReLU. For 8-bit types, two factors must be in the range of the fixed-point kernel: the ratio
// input scale / output scale must be from 2^-8 to 2^7, and the absolute value of the slope times this ratio must be
// from 2^-8 to 2^7 - 2^-8.
void check_leaky_relu(const Graph &graph, const Node &node) {
  check_elementwise(graph, node);
  if (!std::isfinite(node.number)) refuse(node, "the slope is not finite");
  if (!is_quantized8(output_value(graph, node).type)) return;
  const float ratio = input_value(graph, node, 0).quantization.scale / output_value(graph, node).quantization.scale;
  const float negative = std::fabs(ratio * node.number);
  if (ratio < 0x1.0p-8f || ratio > 0x1.0p+7f || negative < 0x1.0p-8f || negative > 0x1.FFFC00p+6f) {
    refuse(node, "slope %g with input scale / output scale %g is outside of the fixed-point range",
           static_cast<double>(node.number), static_cast<double>(ratio));
  }
}

void check_elu(const Graph &graph, const Node &node) {
  check_elementwise(graph, node);
  if (!std::isfinite(node.number)) refuse(node, "alpha is not finite");
}

void check_softmax(const Graph &graph, const Node &node) {
  if (!is_float(output_value(graph, node).type)) {
    refuse(node, "does not support %s", type_name(output_value(graph, node).type));
  }
  check_same_type(graph, node);
}

void infer_softmax(const Graph &graph, const Node &node, Shape *shapes) {
  if (shapes[node.in[0]].rank == 0) refuse(node, "the input has no dim to normalize");
  infer_same(graph, node, shapes);
}

void check_convert(const Graph &graph, const Node &node) {
  const Value &input = input_value(graph, node, 0);
  const Value &output = output_value(graph, node);
  const Type from = input.type;
  const Type to = output.type;
  if (to == Type::kQdint8) {
    if (is_float(from)) return;
  } else if (is_float(from) && (is_float(to) || is_quantized8(to))) {
    return;
  } else if (is_quantized8(from) && is_float(to)) {
    return;
  } else if (is_quantized8(from) && from == to) {
    const float ratio = input.quantization.scale / output.quantization.scale;
    // Refuse conversions between 8-bit types if the kernels cannot represent the ratio of the scales. The kernels store
    // the ratio as a 16-bit integer with 8 fractional bits, so the ratio 2^7 becomes the integer 2^15. The SSE2 kernel
    // for quint8 reads 2^15 as -2^15, so quint8 must have a smaller ratio.
    if (ratio >= 0x1.0p-8f && ratio <= (from == Type::kQuint8 ? 0x1.FFFCp+6f : 0x1.0p+7f)) return;
    refuse(node, "input scale / output scale is %g, outside 2^-8 .. 2^7", static_cast<double>(ratio));
  }
  refuse(node, "cannot convert %s to %s", type_name(from), type_name(to));
}

void infer_convert(const Graph &graph, const Node &node, Shape *shapes) {
  const Value &output = output_value(graph, node);
  if (output.type == Type::kQdint8) {
    const Shape &shape = shapes[node.in[0]];
    const uint32_t nonbatch = output.quantization.nonbatch_dims;
    if (nonbatch == 0 || nonbatch > shape.rank) {
      refuse(node, "%u dims share quantization parameters, but the input is %s", nonbatch, shape_text(shape));
    }
  }
  infer_same(graph, node, shapes);
}

xnn_status define_unary(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const auto operation = static_cast<xnn_unary_operator>(node.kind->operation);
  xnn_unary_params params = {};
  switch (operation) {
    case xnn_unary_clamp:
      params.clamp.min = node.min;
      params.clamp.max = node.max;
      break;
    case xnn_unary_elu:
      params.elu.alpha = node.number;
      break;
    case xnn_unary_leaky_relu:
      params.leaky_relu.negative_slope = node.number;
      break;
    default:
      break;
  }
  return xnn_define_unary(subgraph, operation, &params, ids[node.in[0]], ids[node.out[0]], node.flags);
}

xnn_status define_softmax(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_softmax(subgraph, ids[node.in[0]], ids[node.out[0]], node.flags);
}

xnn_status define_copy(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_copy(subgraph, ids[node.in[0]], ids[node.out[0]], node.flags);
}

constexpr NodeKind elementwise(uint8_t id, const char *name, xnn_unary_operator operation) {
  return {id, name, 0, operation, 0, 0, read_unary, check_elementwise, infer_same, define_unary};
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_Softmax, "Softmax", 0, 0, 0, 0, read_unary, check_softmax, infer_softmax, define_softmax},
    {wire::NodeUnion_Copy, "Copy", 0, 0, 0, 0, read_unary, check_copy, infer_same, define_copy},
    {wire::NodeUnion_Clamp, "Clamp", 0, xnn_unary_clamp, 0, 0, read_unary, check_clamp, infer_same, define_unary},
    {wire::NodeUnion_Convert, "Convert", 0, xnn_unary_convert, 0, 0, read_unary, check_convert, infer_convert,
     define_unary},
    {wire::NodeUnion_ELU, "ELU", 0, xnn_unary_elu, 0, 0, read_elu, check_elu, infer_same, define_unary},
    {wire::NodeUnion_LeakyReLU, "LeakyReLU", 0, xnn_unary_leaky_relu, 0, 0, read_leaky_relu, check_leaky_relu,
     infer_same, define_unary},
    elementwise(wire::NodeUnion_Sigmoid, "Sigmoid", xnn_unary_sigmoid),
    elementwise(wire::NodeUnion_Floor, "Floor", xnn_unary_floor),
    elementwise(wire::NodeUnion_SquareRoot, "SquareRoot", xnn_unary_square_root),
    elementwise(wire::NodeUnion_Ceiling, "Ceiling", xnn_unary_ceiling),
    elementwise(wire::NodeUnion_Hardswish, "Hardswish", xnn_unary_hardswish),
    elementwise(wire::NodeUnion_Negate, "Negate", xnn_unary_negate),
    elementwise(wire::NodeUnion_Square, "Square", xnn_unary_square),
    elementwise(wire::NodeUnion_Abs, "Abs", xnn_unary_abs),
    elementwise(wire::NodeUnion_ReciprocalSquareRoot, "ReciprocalSquareRoot", xnn_unary_reciprocal_square_root),
    elementwise(wire::NodeUnion_Log, "Log", xnn_unary_log),
    elementwise(wire::NodeUnion_Gelu, "Gelu", xnn_unary_gelu),
    elementwise(wire::NodeUnion_Tanh, "Tanh", xnn_unary_tanh),
    elementwise(wire::NodeUnion_Exp, "Exp", xnn_unary_exp),
    elementwise(wire::NodeUnion_Sin, "Sin", xnn_unary_sine),
    elementwise(wire::NodeUnion_Cos, "Cos", xnn_unary_cosine),
};

}  // namespace

bool is_elementwise(const Node &node) {
  const KindList binary = binary_kinds();
  return node.kind->define == define_unary || (node.kind >= binary.items && node.kind < binary.items + binary.count);
}

KindList unary_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
