// Reads, checks and defines in XNNPACK the nodes that move data, and resizing by interpolation (nodes.h).
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

// Maximum image size of a resize, in pixels per side: above it, pixel positions in fp32 may be wrong by a whole pixel.
constexpr uint64_t kMaxResize = 1u << 20;

template <typename Table>
void read_operands(const Table *t, Node *node) {
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

[[noreturn]] void bad_count(Node *node) {
  refuse(*node, "a list of dims has the wrong length, or more than %u entries", kMaxRank);
}

void read_transpose(const void *table, Node *node) {
  const auto *t = static_cast<const wire::StaticTranspose *>(table);
  read_operands(t, node);
  if (!read_dims(t->perm(), &node->first) || node->first.rank != t->num_dims()) bad_count(node);
}

void read_reshape(const void *table, Node *node) {
  const auto *t = static_cast<const wire::StaticReshape *>(table);
  read_operands(t, node);
  if (!read_dims(t->new_shape(), &node->first) || node->first.rank != t->num_dims()) bad_count(node);
}

void read_slice(const void *table, Node *node) {
  const auto *t = static_cast<const wire::StaticSlice *>(table);
  read_operands(t, node);
  if (!read_dims(t->offsets(), &node->first) || !read_dims(t->sizes(), &node->second) ||
      node->first.rank != t->num_dims() || node->second.rank != t->num_dims()) {
    bad_count(node);
  }
}

void read_pad(const void *table, Node *node) {
  const auto *t = static_cast<const wire::StaticConstantPad *>(table);
  read_operands(t, node);
  node->number = t->padding_value();
  if (!read_dims(t->pre_paddings(), &node->first) || !read_dims(t->post_paddings(), &node->second) ||
      node->first.rank != node->second.rank) {
    bad_count(node);
  }
}

void read_resize(const void *table, Node *node) {
  const auto *t = static_cast<const wire::StaticResizeBilinear2D *>(table);
  read_operands(t, node);
  node->first = {2, {t->new_height(), t->new_width()}};
}

void read_concatenate(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Concatenate *>(table);
  node->axis = t->axis();
  node->input_count = static_cast<uint32_t>(node->kind->operation);
  const uint32_t ids[5] = {t->input1_id(), t->input2_id(), t->input3_id(), t->input4_id(), t->input5_id()};
  for (uint32_t i = 0; i < node->input_count; ++i) node->in[i] = ids[i];
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

void check_transpose(const Graph &graph, const Node &node) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < node.first.rank; ++i) {
    if (node.first[i] >= node.first.rank || (seen >> node.first[i] & 1u) != 0) {
      refuse(node, "%s is not a permutation", shape_text(node.first));
    }
    seen |= 1u << node.first[i];
  }
  check_data_movement(graph, node);
}

void check_pad(const Graph &graph, const Node &node) {
  if (is_quantized8(output_value(graph, node).type) && !std::isfinite(node.number)) {
    refuse(node, "the padding value is not finite");
  }
  check_data_movement(graph, node);
}

void infer_transpose(const Graph &, const Node &node, Shape *shapes) {
  const Shape input = shapes[node.in[0]];
  if (input.rank != node.first.rank || input.rank == 0) {
    refuse(node, "permutation %s does not fit input %s", shape_text(node.first), shape_text(input));
  }
  Shape &output = shapes[node.out[0]];
  output.rank = input.rank;
  for (uint32_t i = 0; i < input.rank; ++i) output[i] = input[static_cast<uint32_t>(node.first[i])];
}

// Infers the output shape of a reshape. One size of the new shape may be 0, which means that it is inferred from the
// number of elements.
void infer_reshape(const Graph &, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  Shape output = node.first;
  uint32_t inferred = kNone;
  for (uint32_t i = 0; i < output.rank; ++i) {
    if (output[i] != 0) continue;
    if (inferred != kNone) refuse(node, "%s has more than one dim of 0 to infer", shape_text(node.first));
    inferred = i;
    output[i] = 1;
  }
  const uint64_t elements = element_count(input);
  const bool fits = in_limits(output) && elements % element_count(output) == 0;
  if (fits && inferred != kNone) output[inferred] = elements / element_count(output);
  if (!fits || element_count(output) != elements) {
    refuse(node, "cannot reshape %s to %s", shape_text(input), shape_text(node.first));
  }
  shapes[node.out[0]] = output;
}

// Infers the output shape of a slice. A size of 0 in the node means the whole dim.
void infer_slice(const Graph &, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  Shape output = input;
  bool fits = input.rank == node.first.rank && input.rank != 0;
  for (uint32_t i = 0; fits && i < input.rank; ++i) {
    if (node.second[i] != 0) output[i] = node.second[i];
    fits = output[i] <= input[i] && node.first[i] <= input[i] - output[i];
  }
  if (!fits) {
    refuse(node, "offsets %s and sizes %s do not fit input %s", shape_text(node.first), shape_text(node.second),
           shape_text(input));
  }
  shapes[node.out[0]] = output;
}

void infer_pad(const Graph &, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  if (input.rank != node.first.rank || input.rank == 0) {
    refuse(node, "paddings %s do not fit input %s", shape_text(node.first), shape_text(input));
  }
  Shape output = input;
  for (uint32_t i = 0; i < input.rank; ++i) output[i] += node.first[i] + node.second[i];
  shapes[node.out[0]] = output;
}

void infer_resize(const Graph &graph, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  // Require the number of channels that the blob declares: if only this number changes, XNNPACK does not update its
  // indirection buffer (a table of input addresses, which depend on the number of channels).
  if (input.rank != 4 || input_value(graph, node, 0).shape.rank != 4 ||
      input[3] != input_value(graph, node, 0).shape[3]) {
    refuse(node, "the input is %s; expected [N, H, W, C] with the C of the file", shape_text(input));
  }
  for (uint64_t size : {input[1], input[2], node.first[0], node.first[1]}) {
    if (size == 0 || size > kMaxResize) {
      refuse(node, "cannot resize %s to %s", shape_text(input), shape_text(node.first));
    }
  }
  shapes[node.out[0]] = {4, {input[0], node.first[0], node.first[1], input[3]}};
}

void infer_concatenate(const Graph &, const Node &node, Shape *shapes) {
  Shape output = shapes[node.in[0]];
  if (node.axis >= output.rank) {
    refuse(node, "axis %u does not exist in %s", node.axis, shape_text(output));
  }
  for (uint32_t i = 1; i < node.input_count; ++i) {
    Shape input = shapes[node.in[i]];
    const uint64_t more = node.axis < input.rank ? input[node.axis] : 0;
    if (node.axis < input.rank) input[node.axis] = output[node.axis];
    if (input != output) {
      refuse(node, "input %u is %s and does not fit %s", i, shape_text(shapes[node.in[i]]), shape_text(output));
    }
    output[node.axis] += more;
  }
  shapes[node.out[0]] = output;
}

xnn_status define_transpose(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_transpose(subgraph, node.first.rank, xnn_dims(node.first).data(), ids[node.in[0]],
                                     ids[node.out[0]], node.flags);
}

xnn_status define_reshape(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_reshape(subgraph, node.first.rank, xnn_dims(node.first).data(), ids[node.in[0]],
                                   ids[node.out[0]], node.flags);
}

xnn_status define_slice(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_slice(subgraph, node.first.rank, xnn_dims(node.first).data(), xnn_dims(node.second).data(),
                                 ids[node.in[0]], ids[node.out[0]], node.flags);
}

xnn_status define_pad(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_constant_pad(subgraph, xnn_dims(node.first).data(), xnn_dims(node.second).data(),
                                        node.number, ids[node.in[0]], ids[node.out[0]], node.flags);
}

xnn_status define_resize(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  return xnn_define_static_resize_bilinear_2d(subgraph, static_cast<size_t>(node.first[0]),
                                              static_cast<size_t>(node.first[1]), ids[node.in[0]], ids[node.out[0]],
                                              node.flags);
}

xnn_status define_concatenate(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
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

constexpr NodeKind concatenate(uint8_t id, const char *name, int32_t inputs) {
  return {id, name, 0, inputs, 0, 0, read_concatenate, check_data_movement, infer_concatenate, define_concatenate};
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_StaticTranspose, "StaticTranspose", 0, 0, 0, 0, read_transpose, check_transpose, infer_transpose,
     define_transpose},
    {wire::NodeUnion_StaticReshape, "StaticReshape", 0, 0, 0, 0, read_reshape, check_copy, infer_reshape,
     define_reshape},
    {wire::NodeUnion_StaticSlice, "StaticSlice", 0, 0, 0, 0, read_slice, check_data_movement, infer_slice,
     define_slice},
    {wire::NodeUnion_StaticConstantPad, "StaticConstantPad", 0, 0, 0, 0, read_pad, check_pad, infer_pad, define_pad},
    {wire::NodeUnion_StaticResizeBilinear2D, "StaticResizeBilinear2D", XNN_FLAG_ALIGN_CORNERS, 0, 0, 0, read_resize,
     check_data_movement, infer_resize, define_resize},
    concatenate(wire::NodeUnion_Concatenate2, "Concatenate2", 2),
    concatenate(wire::NodeUnion_Concatenate3, "Concatenate3", 3),
    concatenate(wire::NodeUnion_Concatenate4, "Concatenate4", 4),
    concatenate(wire::NodeUnion_Concatenate5, "Concatenate5", 5),
};

}  // namespace

KindList movement_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
