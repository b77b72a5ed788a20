// Reads, checks and defines in XNNPACK the nodes for NHWC convolutions: regular and grouped, depthwise, transposed.
// Filters and biases are constants.
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

// Maximum height and width of windows and images, far below 2^31 because XNNPACK computes positions in 32 bits.
constexpr uint64_t kMaxWindow = 1u << 16;
constexpr uint64_t kMaxSpatial = 1u << 24;

void read_convolution(const void *table, Node *node) {
  const auto *t = static_cast<const wire::Convolution *>(table);
  node->window = {t->padding_top(),     t->padding_right(),  t->padding_bottom(),     t->padding_left(),
                  t->kernel_height(),   t->kernel_width(),   t->subsampling_height(), t->subsampling_width(),
                  t->dilation_height(), t->dilation_width(), t->adjustment_height(),  t->adjustment_width()};
  node->groups = t->groups();
  node->group_inputs = t->group_input_channels();
  node->group_outputs = t->group_output_channels();
  node->input_count = 3;
  node->in[0] = t->input1_id();
  node->in[1] = t->filter_id();
  node->in[2] = t->bias_id();
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
    {Type::kQint8, Type::kQint8, Type::kQint32, Type::kQint8},
    {Type::kQint8, Type::kQcint8, Type::kQcint32, Type::kQint8},
    {Type::kQuint8, Type::kQuint8, Type::kQint32, Type::kQuint8},
    {Type::kQdint8, Type::kQcint8, Type::kFp32, Type::kFp32},
};

void check_types(const Graph &graph, const Node &node) {
  const Type input = input_value(graph, node, 0).type;
  const Type filter = input_value(graph, node, 1).type;
  const Type output = output_value(graph, node).type;
  for (const Types &types : kTypes) {
    if (types.input != input || types.filter != filter || types.output != output) continue;
    if (node.in[2] == kNone || input_value(graph, node, 2).type == types.bias) return;
  }
  refuse(node, "no kernel for input %s, filter %s, bias %s, output %s", type_name(input), type_name(filter),
         node.in[2] == kNone ? "none" : type_name(input_value(graph, node, 2).type), type_name(output));
}

void check_common(const Graph &graph, const Node &node, const Shape &filter, uint32_t channel_dim) {
  const Window &w = node.window;
  if (w.height == 0 || w.width == 0 || w.stride_height == 0 || w.stride_width == 0 || w.dilation_height == 0 ||
      w.dilation_width == 0 || node.groups == 0 || node.group_inputs == 0 || node.group_outputs == 0) {
    refuse(node, "kernel, strides, dilations, groups and channels must be positive");
  }
  for (uint64_t number : {w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height, w.stride_width,
                          w.dilation_height, w.dilation_width, w.adjustment_height, w.adjustment_width}) {
    if (number > kMaxWindow) {
      refuse(node, "%llu is too large for a window, padding, stride or dilation",
             static_cast<unsigned long long>(number));
    }
  }
  const Value &constant = input_value(graph, node, 1);
  if (constant.shape != filter) {
    refuse(node, "the filter is %s; kernel, groups and channels ask for %s", shape_text(constant.shape),
           shape_text(filter));
  }
  const uint64_t outputs = static_cast<uint64_t>(node.groups) * node.group_outputs;
  if (constant.quantization.scales != nullptr && constant.quantization.channel_dim != channel_dim) {
    refuse(node, "the filter's scales belong to dim %u instead of %u", constant.quantization.channel_dim, channel_dim);
  }
  if (node.in[2] != kNone) {
    const Value &bias = input_value(graph, node, 2);
    if (bias.shape.rank != 1 || bias.shape[0] != outputs) {
      refuse(node, "the bias is %s for %llu output channels", shape_text(bias.shape),
             static_cast<unsigned long long>(outputs));
    }
  }
  check_types(graph, node);
  check_output_range(node);
  check_filter_scales(graph, node, outputs);
  check_row_parameters(graph, node, 3);
}

void check_conv2d(const Graph &graph, const Node &node) {
  const Shape filter = {4,
                        {static_cast<uint64_t>(node.groups) * node.group_outputs, node.window.height, node.window.width,
                         node.group_inputs}};
  check_common(graph, node, filter, 0);
}

void check_depthwise(const Graph &graph, const Node &node) {
  if (node.group_inputs != 1) refuse(node, "%u input channels per group", node.group_inputs);
  if (input_value(graph, node, 0).type == Type::kQdint8) refuse(node, "does not support qdint8");
  const Shape filter = {
      4, {1, node.window.height, node.window.width, static_cast<uint64_t>(node.groups) * node.group_outputs}};
  check_common(graph, node, filter, 3);
}

void check_input(const Node &node, const Shape &input) {
  if (input.rank != 4 || input[3] != static_cast<uint64_t>(node.groups) * node.group_inputs) {
    refuse(node, "the input is %s; expected [N, H, W, %llu]", shape_text(input),
           static_cast<unsigned long long>(node.groups) * node.group_inputs);
  }
  if (input[1] > kMaxSpatial || input[2] > kMaxSpatial) refuse(node, "%s is too large", shape_text(input));
}

uint64_t extent(uint32_t kernel, uint32_t dilation) { return static_cast<uint64_t>(kernel - 1) * dilation + 1; }

void infer_convolution(const Graph &, const Node &node, Shape *shapes) {
  const Window &w = node.window;
  const Shape &input = shapes[node.in[0]];
  check_input(node, input);
  const uint64_t height = input[1] + w.top + w.bottom;
  const uint64_t width = input[2] + w.left + w.right;
  if (height < extent(w.height, w.dilation_height) || width < extent(w.width, w.dilation_width)) {
    refuse(node, "the kernel is larger than the padded input %s", shape_text(input));
  }
  shapes[node.out[0]] = {4,
                         {input[0], (height - extent(w.height, w.dilation_height)) / w.stride_height + 1,
                          (width - extent(w.width, w.dilation_width)) / w.stride_width + 1,
                          static_cast<uint64_t>(node.groups) * node.group_outputs}};
}

void infer_transposed(const Graph &, const Node &node, Shape *shapes) {
  const Window &w = node.window;
  const Shape &input = shapes[node.in[0]];
  check_input(node, input);
  const uint64_t height = w.stride_height * (input[1] - 1) + w.adjustment_height + extent(w.height, w.dilation_height);
  const uint64_t width = w.stride_width * (input[2] - 1) + w.adjustment_width + extent(w.width, w.dilation_width);
  const uint64_t rows = static_cast<uint64_t>(w.top) + w.bottom;
  const uint64_t columns = static_cast<uint64_t>(w.left) + w.right;
  if (height <= rows || width <= columns) refuse(node, "padding leaves nothing of the output");
  if (height > kMaxSpatial || width > kMaxSpatial) refuse(node, "the output is too large");
  // Refuse a transposed convolution whose output is smaller than stride - 1: XNNPACK computes every stride-th column
  // separately, starting from column 0, 1, ..., stride - 1, and counts these columns as ceil((width - first) / stride)
  // with unsigned numbers. The result is huge if `first` is beyond the width.
  if (height - rows + 1 < w.stride_height || width - columns + 1 < w.stride_width) {
    refuse(node, "the output is smaller than the stride - 1");
  }
  shapes[node.out[0]] = {
      4, {input[0], height - rows, width - columns, static_cast<uint64_t>(node.groups) * node.group_outputs}};
}

uint32_t bias(const Node &node, const uint32_t *ids) {
  return node.in[2] == kNone ? XNN_INVALID_VALUE_ID : ids[node.in[2]];
}

xnn_status define_conv2d(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_convolution_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width, w.stride_height,
                                   w.stride_width, w.dilation_height, w.dilation_width, node.groups, node.group_inputs,
                                   node.group_outputs, node.min, node.max, ids[node.in[0]], ids[node.in[1]],
                                   bias(node, ids), ids[node.out[0]], node.flags);
}

xnn_status define_depthwise(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_depthwise_convolution_2d(subgraph, w.top, w.right, w.bottom, w.left, w.height, w.width,
                                             w.stride_height, w.stride_width, w.dilation_height, w.dilation_width,
                                             node.group_outputs, node.groups, node.min, node.max, ids[node.in[0]],
                                             ids[node.in[1]], bias(node, ids), ids[node.out[0]], node.flags);
}

xnn_status define_transposed(xnn_subgraph_t subgraph, const Graph &, const Node &node, const uint32_t *ids) {
  const Window &w = node.window;
  return xnn_define_deconvolution_2d(subgraph, w.top, w.right, w.bottom, w.left, w.adjustment_height,
                                     w.adjustment_width, w.height, w.width, w.stride_height, w.stride_width,
                                     w.dilation_height, w.dilation_width, node.groups, node.group_inputs,
                                     node.group_outputs, node.min, node.max, ids[node.in[0]], ids[node.in[1]],
                                     bias(node, ids), ids[node.out[0]], node.flags);
}

constexpr uint32_t kFilterAndBias = 0b110;
constexpr uint32_t kBias = 0b100;

const NodeKind kKinds[] = {
    {wire::NodeUnion_Conv2d, "Conv2d", 0, 0, kFilterAndBias, kBias, read_convolution, check_conv2d, infer_convolution,
     define_conv2d},
    {wire::NodeUnion_DepthwiseConv2d, "DepthwiseConv2d", 0, 0, kFilterAndBias, kBias, read_convolution, check_depthwise,
     infer_convolution, define_depthwise},
    {wire::NodeUnion_ConvTranspose2d, "ConvTranspose2d", 0, 0, kFilterAndBias, kBias, read_convolution, check_conv2d,
     infer_transposed, define_transposed},
};

}  // namespace

const NodeKind *find_conv2d() { return &kKinds[0]; }

bool is_convolution(const Node &node) { return node.kind->read == read_convolution; }

KindList convolution_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
