// Elementwise functions of one tensor, conversions, softmax and copies.
#include <algorithm>
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

bool ReadUnary(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Unary *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

bool ReadElu(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Elu *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  node->number = t->alpha();
  return true;
}

bool ReadLeakyRelu(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::LeakyRelu *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  node->number = t->negative_slope();
  return true;
}

bool CheckElementwise(const Graph &graph, const Node &node, Failure *failure) {
  const Type type = Out(graph, node).type;
  if (!IsFloat(type) && !IsQuantized8(type)) return Refuse(node, failure, "does not take %s", TypeName(type));
  return SameType(graph, node, failure);
}

bool CheckClamp(const Graph &graph, const Node &node, Failure *failure) {
  return DataMovement(graph, node, failure) && OutputRange(node, failure);
}

// The fixed-point kernel holds slope * input scale / output scale in 2^-8 .. 2^7.
bool CheckLeakyRelu(const Graph &graph, const Node &node, Failure *failure) {
  if (!CheckElementwise(graph, node, failure)) return false;
  if (!std::isfinite(node.number)) return Refuse(node, failure, "the slope is not finite");
  if (!IsQuantized8(Out(graph, node).type)) return true;
  const float ratio = In(graph, node, 0).quantization.scale / Out(graph, node).quantization.scale;
  const float negative = std::fabs(ratio * node.number);
  if (ratio < 0x1.0p-8f || ratio > 0x1.0p+7f || negative < 0x1.0p-8f || negative > 0x1.FFFC00p+6f) {
    return Refuse(node, failure, "slope %g with input to output scale %g leaves the fixed-point range",
                  static_cast<double>(node.number), static_cast<double>(ratio));
  }
  return true;
}

bool CheckElu(const Graph &graph, const Node &node, Failure *failure) {
  if (!CheckElementwise(graph, node, failure)) return false;
  if (!std::isfinite(node.number)) return Refuse(node, failure, "alpha is not finite");
  return true;
}

bool CheckSoftmax(const Graph &graph, const Node &node, Failure *failure) {
  if (!IsFloat(Out(graph, node).type)) {
    return Refuse(node, failure, "does not take %s", TypeName(Out(graph, node).type));
  }
  return SameType(graph, node, failure);
}

bool InferSoftmax(const Graph &graph, const Node &node, Shape *shapes, Failure *failure) {
  if (shapes[node.in[0]].rank == 0) return Refuse(node, failure, "the input has no dim to normalise");
  return InferSame(graph, node, shapes, failure);
}

bool CheckConvert(const Graph &graph, const Node &node, Failure *failure) {
  const Value &input = In(graph, node, 0);
  const Value &output = Out(graph, node);
  const Type from = input.type;
  const Type to = output.type;
  if (to == Type::kQdint8) {
    if (IsFloat(from)) return true;
  } else if (IsFloat(from) && (IsFloat(to) || IsQuantized8(to))) {
    return true;
  } else if (IsQuantized8(from) && IsFloat(to)) {
    return true;
  } else if (IsQuantized8(from) && from == to) {
    const float ratio = input.quantization.scale / output.quantization.scale;
    // The kernels hold the ratio in 16 bits with 8 behind the point; the one of SSE2 for quint8 reads 2^15 as -2^15.
    if (ratio >= 0x1.0p-8f && ratio <= (from == Type::kQuint8 ? 0x1.FFFCp+6f : 0x1.0p+7f)) return true;
    return Refuse(node, failure, "input to output scale is %g, outside 2^-8 .. 2^7", static_cast<double>(ratio));
  }
  return Refuse(node, failure, "cannot convert %s to %s", TypeName(from), TypeName(to));
}

bool InferConvert(const Graph &graph, const Node &node, Shape *shapes, Failure *failure) {
  const Value &output = Out(graph, node);
  if (output.type == Type::kQdint8) {
    const Shape &shape = shapes[node.in[0]];
    const uint32_t nonbatch = output.quantization.nonbatch_dims;
    if (nonbatch == 0 || nonbatch > shape.rank) {
      return Refuse(node, failure, "%u dims share quantisation parameters, but the input is %s", nonbatch, Text(shape));
    }
  }
  return InferSame(graph, node, shapes, failure);
}

xnn_status DefineUnary(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
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

xnn_status DefineSoftmax(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_softmax(subgraph, ids[node.in[0]], ids[node.out[0]], node.flags);
}

xnn_status DefineCopy(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_copy(subgraph, ids[node.in[0]], ids[node.out[0]], node.flags);
}

constexpr NodeKind Elementwise(uint8_t id, const char *name, xnn_unary_operator operation) {
  return {id, name, 0, operation, 0, 0, ReadUnary, CheckElementwise, InferSame, DefineUnary};
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_Softmax, "Softmax", 0, 0, 0, 0, ReadUnary, CheckSoftmax, InferSoftmax, DefineSoftmax},
    {wire::NodeUnion_Copy, "Copy", 0, 0, 0, 0, ReadUnary, Relabel, InferSame, DefineCopy},
    {wire::NodeUnion_Clamp, "Clamp", 0, xnn_unary_clamp, 0, 0, ReadUnary, CheckClamp, InferSame, DefineUnary},
    {wire::NodeUnion_Convert, "Convert", 0, xnn_unary_convert, 0, 0, ReadUnary, CheckConvert, InferConvert,
     DefineUnary},
    {wire::NodeUnion_ELU, "ELU", 0, xnn_unary_elu, 0, 0, ReadElu, CheckElu, InferSame, DefineUnary},
    {wire::NodeUnion_LeakyReLU, "LeakyReLU", 0, xnn_unary_leaky_relu, 0, 0, ReadLeakyRelu, CheckLeakyRelu, InferSame,
     DefineUnary},
    Elementwise(wire::NodeUnion_Sigmoid, "Sigmoid", xnn_unary_sigmoid),
    Elementwise(wire::NodeUnion_Floor, "Floor", xnn_unary_floor),
    Elementwise(wire::NodeUnion_SquareRoot, "SquareRoot", xnn_unary_square_root),
    Elementwise(wire::NodeUnion_Ceiling, "Ceiling", xnn_unary_ceiling),
    Elementwise(wire::NodeUnion_Hardswish, "Hardswish", xnn_unary_hardswish),
    Elementwise(wire::NodeUnion_Negate, "Negate", xnn_unary_negate),
    Elementwise(wire::NodeUnion_Square, "Square", xnn_unary_square),
    Elementwise(wire::NodeUnion_Abs, "Abs", xnn_unary_abs),
    Elementwise(wire::NodeUnion_ReciprocalSquareRoot, "ReciprocalSquareRoot", xnn_unary_reciprocal_square_root),
    Elementwise(wire::NodeUnion_Log, "Log", xnn_unary_log),
    Elementwise(wire::NodeUnion_Gelu, "Gelu", xnn_unary_gelu),
    Elementwise(wire::NodeUnion_Tanh, "Tanh", xnn_unary_tanh),
    Elementwise(wire::NodeUnion_Exp, "Exp", xnn_unary_exp),
    Elementwise(wire::NodeUnion_Sin, "Sin", xnn_unary_sine),
    Elementwise(wire::NodeUnion_Cos, "Cos", xnn_unary_cosine),
};

}  // namespace

KindList UnaryKinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
