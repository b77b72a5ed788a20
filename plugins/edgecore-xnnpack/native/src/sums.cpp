#include "sums.h"

#include "edgecore/backend.hpp"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

// Functions that a patch of this plugin adds to XNNPACK (third_party/patches/24-int8-convolution-sum.patch). They are
// weak symbols, because an XNNPACK without the patch (CMake's option XNNPACK_DIR) lacks them.
extern "C" {
__attribute__((weak)) bool xnn_can_add_to_convolution_2d(size_t kernel_size, size_t input_channels,
                                                         size_t output_channels);
__attribute__((weak)) xnn_status xnn_add_to_convolution_2d(xnn_subgraph_t subgraph, uint32_t other_id,
                                                           float product_scale, int32_t product_zero_point,
                                                           float product_min, float product_max);
}

namespace {

bool can_add(const Graph &graph, const Node &node) {
  if (node.kind != find_conv2d() || node.groups != 1 || node.in[2] == kNone) return false;
  if (input_value(graph, node, 0).type != Type::kQint8 || input_value(graph, node, 1).type != Type::kQcint8) {
    return false;
  }
  return kernel_adds(static_cast<size_t>(node.window.height) * node.window.width, node.group_inputs,
                     node.group_outputs);
}

}  // namespace

bool kernel_adds(size_t taps, size_t inputs, size_t outputs) {
  if (xnn_can_add_to_convolution_2d == nullptr || xnn_add_to_convolution_2d == nullptr) return false;
  // XNNPACK computes a convolution with one input and one output channel by other kernels, which cannot add a tensor.
  return (inputs > 1 || outputs > 1) && xnn_can_add_to_convolution_2d(taps, inputs, outputs);
}

xnn_status add_to_convolution(xnn_subgraph_t subgraph, uint32_t other, const Quantization &product, float min,
                              float max) {
  return xnn_add_to_convolution_2d(subgraph, other, product.scale, product.zero_point, min, max);
}

Sums find_sums(const Graph &graph, const std::vector<uint32_t> &exposed) {
  Sums sums = {std::vector<uint32_t>(graph.nodes.size(), kNone), std::vector<bool>(graph.nodes.size())};
  std::vector<uint32_t> uses(graph.values.size()), producer(graph.values.size(), kNone);
  for (uint32_t value : exposed) ++uses[value];
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (uint32_t value : graph.nodes[i].in) {
      if (value != kNone) ++uses[value];
    }
    for (uint32_t value : graph.nodes[i].out) {
      if (value != kNone) producer[value] = i;
    }
  }
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    if (node.kind->id != wire::NodeUnion_Add) continue;
    for (size_t k = 0; k < 2; ++k) {
      const Value &product = graph.values[node.in[k]], &other = graph.values[node.in[1 - k]];
      const uint32_t convolution = producer[node.in[k]], before = producer[node.in[1 - k]];
      if (convolution == kNone || product.role != Role::kInternal || uses[node.in[k]] != 1) continue;
      const bool is_available = before == kNone ? other.role == Role::kInput : before < convolution;
      const bool is_same = other.shape == product.shape && output_value(graph, node).shape == product.shape;
      if (!is_available || !is_same || !can_add(graph, graph.nodes[convolution])) continue;
      sums.add[convolution] = i;
      sums.is_in_kernel[i] = true;
      break;
    }
  }
  return sums;
}

uint32_t added_value(const Graph &graph, const Sums &sums, size_t convolution) {
  const Node &add = graph.nodes[sums.add[convolution]];
  return add.in[0] == graph.nodes[convolution].out[0] ? add.in[1] : add.in[0];
}

xnn_status define_with_sum(xnn_subgraph_t subgraph, const Graph &graph, const Sums &sums, size_t convolution,
                           const uint32_t *ids) {
  const Node &add = graph.nodes[sums.add[convolution]];
  Node node = graph.nodes[convolution];
  const Quantization &product = output_value(graph, node).quantization;
  const float product_min = node.min, product_max = node.max;
  node.min = add.min, node.max = add.max, node.out[0] = add.out[0];
  const xnn_status status = node.kind->define(subgraph, graph, node, ids);
  if (status != xnn_status_success) return status;
  return add_to_convolution(subgraph, ids[added_value(graph, sums, convolution)], product, product_min, product_max);
}

void check_sums(const Graph &graph, const Sums &sums, const Shape *shapes) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!sums.has(i)) continue;
    const Shape &product = shapes[graph.nodes[i].out[0]], &other = shapes[added_value(graph, sums, i)];
    if (product == other) continue;
    const Node &add = graph.nodes[sums.add[i]];
    backend::fail(EDGECORE_NOT_SUPPORTED, "node %u (%s): operands of %s and %s, which were the same size at loading",
                  add.index, add.kind->name, shape_text(product), shape_text(other));
  }
}

}  // namespace edgecore::xnnpack
