// Nodes that move data: transpose, reshape, slice, pad, concatenate, and resize by interpolation.
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kMaxResize = 1u << 20;  // float positions are exact to less than a pixel

template <typename Table>
void ReadEnds(const Table *t, Node *node) {
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

bool BadCount(Node *node, Failure *failure) {
  return Refuse(*node, failure, "a list of dims has the wrong length, or more than %u entries", kMaxRank);
}

bool ReadTranspose(const void *table, Node *node, Failure *failure) {
  const auto *t = static_cast<const wire::StaticTranspose *>(table);
  ReadEnds(t, node);
  if (!ReadDims(t->perm(), &node->first) || node->first.rank != t->num_dims()) return BadCount(node, failure);
  return true;
}

bool ReadReshape(const void *table, Node *node, Failure *failure) {
  const auto *t = static_cast<const wire::StaticReshape *>(table);
  ReadEnds(t, node);
  if (!ReadDims(t->new_shape(), &node->first) || node->first.rank != t->num_dims()) return BadCount(node, failure);
  return true;
}

bool ReadSlice(const void *table, Node *node, Failure *failure) {
  const auto *t = static_cast<const wire::StaticSlice *>(table);
  ReadEnds(t, node);
  if (!ReadDims(t->offsets(), &node->first) || !ReadDims(t->sizes(), &node->second) ||
      node->first.rank != t->num_dims() || node->second.rank != t->num_dims()) {
    return BadCount(node, failure);
  }
  return true;
}

bool ReadPad(const void *table, Node *node, Failure *failure) {
  const auto *t = static_cast<const wire::StaticConstantPad *>(table);
  ReadEnds(t, node);
  node->number = t->padding_value();
  if (!ReadDims(t->pre_paddings(), &node->first) || !ReadDims(t->post_paddings(), &node->second) ||
      node->first.rank != node->second.rank) {
    return BadCount(node, failure);
  }
  return true;
}

bool ReadResize(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::StaticResizeBilinear2D *>(table);
  ReadEnds(t, node);
  node->first = {2, {t->new_height(), t->new_width()}};
  return true;
}

bool ReadConcatenate(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Concatenate *>(table);
  node->axis = t->axis();
  node->input_count = static_cast<uint32_t>(node->kind->operation);
  const uint32_t ids[5] = {t->input1_id(), t->input2_id(), t->input3_id(), t->input4_id(), t->input5_id()};
  for (uint32_t i = 0; i < node->input_count; ++i) node->in[i] = ids[i];
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

bool CheckTranspose(const Graph &graph, const Node &node, Failure *failure) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < node.first.rank; ++i) {
    if (node.first[i] >= node.first.rank || (seen >> node.first[i] & 1u) != 0) {
      return Refuse(node, failure, "%s is not a permutation", Text(node.first));
    }
    seen |= 1u << node.first[i];
  }
  return DataMovement(graph, node, failure);
}

bool CheckPad(const Graph &graph, const Node &node, Failure *failure) {
  if (IsQuantized8(Out(graph, node).type) && !std::isfinite(node.number)) {
    return Refuse(node, failure, "the padding value is not finite");
  }
  return DataMovement(graph, node, failure);
}

bool InferTranspose(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape input = shapes[node.in[0]];
  if (input.rank != node.first.rank || input.rank == 0) {
    return Refuse(node, failure, "permutation %s does not fit input %s", Text(node.first), Text(input));
  }
  Shape &output = shapes[node.out[0]];
  output.rank = input.rank;
  for (uint32_t i = 0; i < input.rank; ++i) output[i] = input[static_cast<uint32_t>(node.first[i])];
  return true;
}

// One dim may be 0: it takes what is left.
bool InferReshape(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  Shape output = node.first;
  uint32_t open = kNone;
  for (uint32_t i = 0; i < output.rank; ++i) {
    if (output[i] != 0) continue;
    if (open != kNone) return Refuse(node, failure, "%s leaves more than one dim open", Text(node.first));
    open = i;
    output[i] = 1;
  }
  const uint64_t elements = Elements(input);
  const bool fits = InLimits(output) && elements % Elements(output) == 0;
  if (fits && open != kNone) output[open] = elements / Elements(output);
  if (!fits || Elements(output) != elements) {
    return Refuse(node, failure, "cannot reshape %s to %s", Text(input), Text(node.first));
  }
  shapes[node.out[0]] = output;
  return true;
}

// A size of 0 means the whole dim.
bool InferSlice(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  Shape output = input;
  bool fits = input.rank == node.first.rank && input.rank != 0;
  for (uint32_t i = 0; fits && i < input.rank; ++i) {
    if (node.second[i] != 0) output[i] = node.second[i];
    fits = output[i] <= input[i] && node.first[i] <= input[i] - output[i];
  }
  if (!fits) {
    return Refuse(node, failure, "offsets %s and sizes %s do not fit input %s", Text(node.first), Text(node.second),
                  Text(input));
  }
  shapes[node.out[0]] = output;
  return true;
}

bool InferPad(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  if (input.rank != node.first.rank || input.rank == 0) {
    return Refuse(node, failure, "paddings %s do not fit input %s", Text(node.first), Text(input));
  }
  Shape output = input;
  for (uint32_t i = 0; i < input.rank; ++i) output[i] += node.first[i] + node.second[i];
  shapes[node.out[0]] = output;
  return true;
}

bool InferResize(const Graph &graph, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  // XNNPACK keeps a table of addresses that it does not renew when only the number of channels changes.
  if (input.rank != 4 || In(graph, node, 0).shape.rank != 4 || input[3] != In(graph, node, 0).shape[3]) {
    return Refuse(node, failure, "the input is %s; expected [N, H, W, C] with the C of the file", Text(input));
  }
  for (uint64_t size : {input[1], input[2], node.first[0], node.first[1]}) {
    if (size == 0 || size > kMaxResize) {
      return Refuse(node, failure, "cannot resize %s to %s", Text(input), Text(node.first));
    }
  }
  shapes[node.out[0]] = {4, {input[0], node.first[0], node.first[1], input[3]}};
  return true;
}

bool InferConcatenate(const Graph &, const Node &node, Shape *shapes, Failure *failure) {
  Shape output = shapes[node.in[0]];
  if (node.axis >= output.rank) {
    return Refuse(node, failure, "axis %u does not exist in %s", node.axis, Text(output));
  }
  for (uint32_t i = 1; i < node.input_count; ++i) {
    Shape input = shapes[node.in[i]];
    const uint64_t more = node.axis < input.rank ? input[node.axis] : 0;
    if (node.axis < input.rank) input[node.axis] = output[node.axis];
    if (input != output) {
      return Refuse(node, failure, "input %u is %s and does not fit %s", i, Text(shapes[node.in[i]]), Text(output));
    }
    output[node.axis] += more;
  }
  shapes[node.out[0]] = output;
  return true;
}

xnn_status DefineTranspose(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_transpose(subgraph, node.first.rank, Sizes(node.first), ids[node.in[0]], ids[node.out[0]],
                                     node.flags);
}

xnn_status DefineReshape(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_reshape(subgraph, node.first.rank, Sizes(node.first), ids[node.in[0]], ids[node.out[0]],
                                   node.flags);
}

xnn_status DefineSlice(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_slice(subgraph, node.first.rank, Sizes(node.first), Sizes(node.second), ids[node.in[0]],
                                 ids[node.out[0]], node.flags);
}

xnn_status DefinePad(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_constant_pad(subgraph, Sizes(node.first), Sizes(node.second), node.number, ids[node.in[0]],
                                        ids[node.out[0]], node.flags);
}

xnn_status DefineResize(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_resize_bilinear_2d(subgraph, node.first[0], node.first[1], ids[node.in[0]], ids[node.out[0]],
                                              node.flags);
}

xnn_status DefineConcatenate(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const auto axis = static_cast<int32_t>(node.axis);
  const auto in = [&](uint32_t i) { return ids[node.in[i]]; };
  const uint32_t out = ids[node.out[0]];
  switch (node.input_count) {
    case 2:
      return xnn_define_concatenate2(subgraph, axis, in(0), in(1), out, node.flags);
    case 3:
      return xnn_define_concatenate3(subgraph, axis, in(0), in(1), in(2), out, node.flags);
    case 4:
      return xnn_define_concatenate4(subgraph, axis, in(0), in(1), in(2), in(3), out, node.flags);
    default:
      return xnn_define_concatenate5(subgraph, axis, in(0), in(1), in(2), in(3), in(4), out, node.flags);
  }
}

constexpr NodeKind Concatenate(uint8_t id, const char *name, int32_t inputs) {
  return {id, name, 0, inputs, 0, 0, ReadConcatenate, DataMovement, InferConcatenate, DefineConcatenate};
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_StaticTranspose, "StaticTranspose", 0, 0, 0, 0, ReadTranspose, CheckTranspose, InferTranspose,
     DefineTranspose},
    {wire::NodeUnion_StaticReshape, "StaticReshape", 0, 0, 0, 0, ReadReshape, Relabel, InferReshape, DefineReshape},
    {wire::NodeUnion_StaticSlice, "StaticSlice", 0, 0, 0, 0, ReadSlice, DataMovement, InferSlice, DefineSlice},
    {wire::NodeUnion_StaticConstantPad, "StaticConstantPad", 0, 0, 0, 0, ReadPad, CheckPad, InferPad, DefinePad},
    {wire::NodeUnion_StaticResizeBilinear2D, "StaticResizeBilinear2D", XNN_FLAG_ALIGN_CORNERS, 0, 0, 0, ReadResize,
     DataMovement, InferResize, DefineResize},
    Concatenate(wire::NodeUnion_Concatenate2, "Concatenate2", 2),
    Concatenate(wire::NodeUnion_Concatenate3, "Concatenate3", 3),
    Concatenate(wire::NodeUnion_Concatenate4, "Concatenate4", 4),
    Concatenate(wire::NodeUnion_Concatenate5, "Concatenate5", 5),
};

}  // namespace

KindList MovementKinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
