// Reads, checks and defines in XNNPACK the nodes for NHWC poolings (nodes.h).
#include <cmath>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kMaxWindow = 1u << 16;
constexpr uint64_t kMaxElementsOfWindow = 1u << 24;
constexpr uint64_t kMaxSpatial = 1u << 24;

void read_pooling(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Pooling *>(table);
  node->window = {t->padding_top(),     t->padding_right(), t->padding_bottom(), t->padding_left(),
                  t->pooling_height(),  t->pooling_width(), t->stride_height(),  t->stride_width(),
                  t->dilation_height(), t->dilation_width()};
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

// Reads an average pooling. XNNPACK's average pooling has no dilation: blobs store 0, which is replaced by 1.
void read_average(const void *table, Node *node) {
  read_pooling(table, node);
  node->window.dilation_height = node->window.dilation_width = 1;
}

void read_arg_max(const void *table, Node *node) {
  const auto *t = static_cast<const wire::ArgMaxPooling2d *>(table);
  node->window = {t->padding_top(),    t->padding_right(), t->padding_bottom(), t->padding_left(),
                  t->pooling_height(), t->pooling_width(), t->pooling_height(), t->pooling_width()};
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_value_id();
  node->out[1] = t->output_index_id();
  node->flags = t->flags();
}

void read_global(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Unary *>(table);
  node->input_count = 1;
  node->in[0] = t->input_id();
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

uint64_t extent(uint32_t size, uint32_t dilation) { return static_cast<uint64_t>(size - 1) * dilation + 1; }

void check_window(const Node &node) {
  const Window &w = node.window;
  for (uint64_t number : {w.height, w.width, w.stride_height, w.stride_width, w.dilation_height, w.dilation_width}) {
    if (number == 0 || number > kMaxWindow) {
      refuse(node, "window, stride and dilation must lie in 1 .. %llu", static_cast<unsigned long long>(kMaxWindow));
    }
  }
  const uint64_t elements = static_cast<uint64_t>(w.height) * w.width;
  if (elements < 2 || elements > kMaxElementsOfWindow) {
    refuse(node, "a window of %u x %u is not supported", w.height, w.width);
  }
  if (w.stride_height > w.height || w.stride_width > w.width) {
    refuse(node, "stride %u x %u is larger than the window %u x %u", w.stride_height, w.stride_width, w.height,
           w.width);
  }
  const uint64_t height = extent(w.height, w.dilation_height);
  const uint64_t width = extent(w.width, w.dilation_width);
  if (w.top >= height || w.bottom >= height || w.left >= width || w.right >= width) {
    refuse(node, "the padding must be smaller than the window");
  }
  check_output_range(node);
}

void check_max(const Graph &graph, const Node &node) {
  check_data_movement(graph, node);
  check_window(node);
}

void check_average(const Graph &graph, const Node &node) {
  if (!is_float(output_value(graph, node).type)) {
    refuse(node, "does not support %s", type_name(output_value(graph, node).type));
  }
  check_same_type(graph, node);
  check_window(node);
}

void check_arg_max(const Graph &graph, const Node &node) {
  if (output_value(graph, node).type != Type::kFp32 || output_value(graph, node, 1).type != Type::kInt32) {
    refuse(node, "the values must be fp32 and the indices int32, not %s and %s",
           type_name(output_value(graph, node).type), type_name(output_value(graph, node, 1).type));
  }
  check_same_type(graph, node);
  check_window(node);
}

void check_global(const Graph &graph, const Node &node) {
  const Type type = output_value(graph, node).type;
  if (!is_float(type) && !is_quantized8(type)) refuse(node, "does not support %s", type_name(type));
  check_same_type(graph, node);
  if (!std::isinf(node.min) || !std::isinf(node.max)) refuse(node, "does not support an output range");
  if (!is_quantized8(type)) return;
  const float ratio = input_value(graph, node, 0).quantization.scale / output_value(graph, node).quantization.scale;
  if (!(ratio >= 0x1.0p-8f && ratio < 0x1.0p+8f)) {
    refuse(node, "input scale / output scale is %g, outside 2^-8 .. 2^8", static_cast<double>(ratio));
  }
}

// Checks the input shape of a pooling. The number of channels must be as declared in the blob: XNNPACK's indirection
// buffer, a table of input addresses, depends on this number, but XNNPACK does not update it if only the number
// changes.
void check_input(const Graph &graph, const Node &node, const Shape &input) {
  if (input.rank != 4 || input_value(graph, node, 0).shape.rank != 4 ||
      input[3] != input_value(graph, node, 0).shape[3]) {
    refuse(node, "the input is %s; expected [N, H, W, C] with the C of the file", shape_text(input));
  }
  if (input[1] > kMaxSpatial || input[2] > kMaxSpatial) refuse(node, "%s is too large", shape_text(input));
}

void infer_pooling(const Graph &graph, const Node &node, Shape *shapes) {
  const Window &w = node.window;
  const Shape &input = shapes[node.in[0]];
  check_input(graph, node, input);
  const uint64_t height = input[1] + w.top + w.bottom;
  const uint64_t width = input[2] + w.left + w.right;
  if (height < extent(w.height, w.dilation_height) || width < extent(w.width, w.dilation_width)) {
    refuse(node, "the window is larger than the padded input %s", shape_text(input));
  }
  const Shape output = {4,
                        {input[0], (height - extent(w.height, w.dilation_height)) / w.stride_height + 1,
                         (width - extent(w.width, w.dilation_width)) / w.stride_width + 1, input[3]}};
  shapes[node.out[0]] = output;
  if (node.out[1] != kNone) shapes[node.out[1]] = output;
}

void infer_global(const Graph &graph, const Node &node, Shape *shapes) {
  const Shape &input = shapes[node.in[0]];
  if (input.rank < 3 || input_value(graph, node, 0).shape.rank != input.rank) {
    refuse(node, "the input is %s; expected [..., H, W, C]", shape_text(input));
  }
  const uint32_t height = input.rank - 3;
  Shape output = input;
  output[height] = output[height + 1] = 1;
  if ((node.flags & XNN_FLAG_KEEP_DIMS) == 0) {
    output[height] = input[input.rank - 1];
    output.rank = height + 1;
  }
  shapes[node.out[0]] = output;
}

// Defines a max pooling without the flags of the blob: ExecuTorch's compiler sets KEEP_DIMS on max and average
// poolings, where the flag has no meaning.
xnn_status define_max(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_max_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height,
                                   w.stride_width, w.dilation_height, w.dilation_width, node.min, node.max,
                                   ids[node.in[0]], ids[node.out[0]], 0);
}

xnn_status define_average(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_average_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height,
                                       w.stride_width, node.min, node.max, ids[node.in[0]], ids[node.out[0]], 0);
}

xnn_status define_arg_max(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_argmax_pooling_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, ids[node.in[0]],
                                      ids[node.out[0]], ids[node.out[1]], node.flags);
}

xnn_status define_global(xnn_subgraph_t subgraph, const Graph &graph, const Node &node, const uint32_t *ids) {
  const size_t rank = input_value(graph, node, 0).shape.rank;
  const size_t axes[] = {rank - 3, rank - 2};
  return xnn_define_static_reduce(subgraph, xnn_reduce_mean, 2, axes, ids[node.in[0]], ids[node.out[0]], node.flags);
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_AvgPooling2d, "AvgPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, read_average, check_average,
     infer_pooling, define_average},
    {wire::NodeUnion_MaxPooling2d, "MaxPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, read_pooling, check_max, infer_pooling,
     define_max},
    {wire::NodeUnion_ArgMaxPooling2d, "ArgMaxPooling2d", 0, 0, 0, 0, read_arg_max, check_arg_max, infer_pooling,
     define_arg_max},
    {wire::NodeUnion_GlobalAvgPooling2d, "GlobalAvgPooling2d", XNN_FLAG_KEEP_DIMS, 0, 0, 0, read_global, check_global,
     infer_global, define_global},
};

}  // namespace

KindList pooling_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
