// Poolings over NHWC.
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kMaxWindow = 1u << 16;
constexpr uint64_t kMaxElementsOfWindow = 1u << 24;
constexpr uint64_t kMaxSpatial = 1u << 24;

bool ReadPooling(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Pooling *>(table);
  node->window = {t->padding_top(),     t->padding_right(), t->padding_bottom(), t->padding_left(),
                  t->pooling_height(),  t->pooling_width(), t->stride_height(),  t->stride_width(),
                  t->dilation_height(), t->dilation_width()};
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

// XNNPACK's average pooling has no dilation, and writers leave the fields empty.
bool ReadAverage(const void *table, Node *node, Failure *failure) {
  ReadPooling(table, node, failure);
  node->window.dilation_height = node->window.dilation_width = 1;
  return true;
}

bool ReadArgMax(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::ArgMaxPooling2d *>(table);
  node->window = {t->padding_top(),    t->padding_right(), t->padding_bottom(), t->padding_left(),
                  t->pooling_height(), t->pooling_width(), t->pooling_height(), t->pooling_width()};
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_value_id();
  node->out[1] = t->output_index_id();
  node->flags = t->flags();
  return true;
}

bool ReadGlobal(const void *table, Node *node, Failure *) {
  const auto *t = static_cast<const wire::Unary *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
  return true;
}

uint64_t Extent(uint32_t size, uint32_t dilation) { return static_cast<uint64_t>(size - 1) * dilation + 1; }

bool CheckWindow(const Node &node, Failure *failure) {
  const Window &w = node.window;
  for (uint64_t number : {w.height, w.width, w.stride_height, w.stride_width, w.dilation_height, w.dilation_width}) {
    if (number == 0 || number > kMaxWindow) {
      return Refuse(node, failure, "window, stride and dilation must lie in 1 .. %llu",
                    static_cast<unsigned long long>(kMaxWindow));
    }
  }
  const uint64_t elements = static_cast<uint64_t>(w.height) * w.width;
  if (elements < 2 || elements > kMaxElementsOfWindow) {
    return Refuse(node, failure, "a window of %u x %u is not supported", w.height, w.width);
  }
  if (w.stride_height > w.height || w.stride_width > w.width) {
    return Refuse(node, failure, "stride %u x %u is larger than the window %u x %u", w.stride_height, w.stride_width,
                  w.height, w.width);
  }
  const uint64_t height = Extent(w.height, w.dilation_height);
  const uint64_t width = Extent(w.width, w.dilation_width);
  if (w.top >= height || w.bottom >= height || w.left >= width || w.right >= width) {
    return Refuse(node, failure, "padding is as large as the window");
  }
  return OutputRange(node, failure);
}

bool CheckMax(const Graph &graph, const Node &node, Failure *failure) {
  return DataMovement(graph, node, failure) && CheckWindow(node, failure);
}

bool CheckAverage(const Graph &graph, const Node &node, Failure *failure) {
  if (!IsFloat(Out(graph, node).type)) {
    return Refuse(node, failure, "does not take %s", TypeName(Out(graph, node).type));
  }
  return SameType(graph, node, failure) && CheckWindow(node, failure);
}

bool CheckArgMax(const Graph &graph, const Node &node, Failure *failure) {
  if (Out(graph, node).type != Type::kFp32 || Out(graph, node, 1).type != Type::kInt32) {
    return Refuse(node, failure, "the values must be fp32 and the indices int32, not %s and %s",
                  TypeName(Out(graph, node).type), TypeName(Out(graph, node, 1).type));
  }
  return SameType(graph, node, failure) && CheckWindow(node, failure);
}

bool CheckGlobal(const Graph &graph, const Node &node, Failure *failure) {
  const Type type = Out(graph, node).type;
  if (!IsFloat(type) && !IsQuantized8(type)) return Refuse(node, failure, "does not take %s", TypeName(type));
  if (!SameType(graph, node, failure)) return false;
  if (!std::isinf(node.min) || !std::isinf(node.max)) return Refuse(node, failure, "has no output range");
  if (!IsQuantized8(type)) return true;
  const float ratio = In(graph, node, 0).quantization.scale / Out(graph, node).quantization.scale;
  if (!(ratio >= 0x1.0p-8f && ratio < 0x1.0p+8f)) {
    return Refuse(node, failure, "input to output scale is %g, outside 2^-8 .. 2^8", static_cast<double>(ratio));
  }
  return true;
}

// XNNPACK keeps tables of addresses that it does not renew when only the number of channels changes.
bool CheckInput(const Graph &graph, const Node &node, const Shape &input, Failure *failure) {
  if (input.rank != 4 || In(graph, node, 0).shape.rank != 4 || input[3] != In(graph, node, 0).shape[3]) {
    return Refuse(node, failure, "the input is %s; expected [N, H, W, C] with the C of the file", Text(input));
  }
  if (input[1] > kMaxSpatial || input[2] > kMaxSpatial) return Refuse(node, failure, "%s is too large", Text(input));
  return true;
}

bool InferPooling(const Graph &graph, const Node &node, Shape *shapes, Failure *failure) {
  const Window &w = node.window;
  const Shape &input = shapes[node.in[0]];
  if (!CheckInput(graph, node, input, failure)) return false;
  const uint64_t height = input[1] + w.top + w.bottom;
  const uint64_t width = input[2] + w.left + w.right;
  if (height < Extent(w.height, w.dilation_height) || width < Extent(w.width, w.dilation_width)) {
    return Refuse(node, failure, "the window is larger than the padded input %s", Text(input));
  }
  const Shape output = {4,
                        {input[0], (height - Extent(w.height, w.dilation_height)) / w.stride_height + 1,
                         (width - Extent(w.width, w.dilation_width)) / w.stride_width + 1, input[3]}};
  shapes[node.out[0]] = output;
  if (node.out[1] != kNone) shapes[node.out[1]] = output;
  return true;
}

bool InferGlobal(const Graph &graph, const Node &node, Shape *shapes, Failure *failure) {
  const Shape &input = shapes[node.in[0]];
  if (input.rank < 3 || In(graph, node, 0).shape.rank != input.rank) {
    return Refuse(node, failure, "the input is %s; expected [..., H, W, C]", Text(input));
  }
  const uint32_t height = input.rank - 3;
  Shape output = input;
  output[height] = output[height + 1] = 1;
  if ((node.flags & XNN_FLAG_KEEP_DIMS) == 0) {
    output[height] = input[input.rank - 1];
    output.rank = height + 1;
  }
  shapes[node.out[0]] = output;
  return true;
}

// The stock writer sets KEEP_DIMS on windows, where it means nothing; it is not handed on.
xnn_status DefineMax(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_max_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height,
                                   w.stride_width, w.dilation_height, w.dilation_width, node.min, node.max,
                                   ids[node.in[0]], ids[node.out[0]], 0);
}

xnn_status DefineAverage(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_average_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height,
                                       w.stride_width, node.min, node.max, ids[node.in[0]], ids[node.out[0]], 0);
}

xnn_status DefineArgMax(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_argmax_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, ids[node.in[0]],
                                      ids[node.out[0]], ids[node.out[1]], node.flags);
}

xnn_status DefineGlobal(xnn_subgraph_t subgraph, const Graph &graph, const Node &node, const uint32_t *ids) {
  const size_t rank = In(graph, node, 0).shape.rank;
  const size_t axes[] = {rank - 3, rank - 2};
  return xnn_define_static_reduce(subgraph, xnn_reduce_mean, 2, axes, ids[node.in[0]], ids[node.out[0]], node.flags);
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_AvgPooling2d, "AvgPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, ReadAverage, CheckAverage, InferPooling,
     DefineAverage},
    {wire::NodeUnion_MaxPooling2d, "MaxPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, ReadPooling, CheckMax, InferPooling,
     DefineMax},
    {wire::NodeUnion_ArgMaxPooling2d, "ArgMaxPooling2d", 0, 0, 0, 0, ReadArgMax, CheckArgMax, InferPooling,
     DefineArgMax},
    {wire::NodeUnion_GlobalAvgPooling2d, "GlobalAvgPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, ReadGlobal, CheckGlobal,
     InferGlobal, DefineGlobal},
};

}  // namespace

KindList PoolingKinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
