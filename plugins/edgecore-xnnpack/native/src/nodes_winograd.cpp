// Convolutions that the delegate computes itself, by Winograd's algorithm (winograd.h): variants of the kind Conv2d,
// which choose_winograd assigns to nodes.
#include <vector>

#include "convolution_forms.h"
#include "nodes.h"
#include "winograd.h"

namespace edgecore::xnnpack {

namespace {

WinogradLayer layer_of(uint32_t form, const Node &node, const Shape &input, const Shape &output) {
  WinogradLayer layer;
  layer.form = form;
  layer.batch = input[0], layer.height = input[1], layer.width = input[2], layer.channels = input[3];
  layer.rows = output[1], layer.columns = output[2], layer.outputs = output[3];
  layer.top = node.window.top, layer.left = node.window.left;
  layer.min = node.min, layer.max = node.max;
  return layer;
}

template <uint32_t kForm>
uint64_t scratch_bytes(const Node &node, const Shape *shapes, uint32_t workers) {
  const WinogradLayer layer = layer_of(kForm, node, shapes[node.in[0]], shapes[node.out[0]]);
  const WinogradTarget &target = *winograd_target();
  const WinogradSharing sharing = winograd_sharing(target, layer, workers);
  return winograd_scratch_floats(target, layer, sharing, workers) * sizeof(float);
}

template <uint32_t kForm>
void run(const Graph &, const Node &node, const Shape *shapes, void *const *data, const backend::Host &host,
         uint8_t *scratch) {
  WinogradLayer layer = layer_of(kForm, node, shapes[node.in[0]], shapes[node.out[0]]);
  layer.packed = static_cast<const float *>(data[node.in[1]]);
  const WinogradTarget &target = *winograd_target();
  run_winograd(target, layer, winograd_sharing(target, layer, host.worker_count()),
               static_cast<const float *>(data[node.in[0]]), static_cast<float *>(data[node.out[0]]),
               reinterpret_cast<float *>(scratch),
               [&](uint64_t count, const auto &body) { host.parallel_for(count, 1, body); });
}

// Returns a copy of the kind Conv2d, named `name`, whose nodes the delegate computes by Winograd's F(kForm x kForm).
template <uint32_t kForm>
const NodeKind *winograd_kind(const NodeKind &direct, const char *name) {
  static const NodeKind kind = [&] {
    NodeKind own = direct;
    own.name = name;
    own.define = nullptr;
    own.run = run<kForm>;
    own.scratch_bytes = scratch_bytes<kForm>;
    return own;
  }();
  return &kind;
}

ConvolutionSize size_of(const Graph &graph, const Node &node) {
  const Window &w = node.window;
  const Shape &output = output_value(graph, node).shape;
  const Value &filter = input_value(graph, node, 1);
  const bool is_fp32 = input_value(graph, node, 0).type == Type::kFp32 && filter.type == Type::kFp32 &&
                       output_value(graph, node).type == Type::kFp32;
  return {is_fp32,           w.height,         w.width,     w.stride_height,   w.stride_width,
          w.dilation_height, w.dilation_width, node.groups, node.group_inputs, node.group_outputs,
          output[0],         output[1],        output[2],   filter.bytes};
}

}  // namespace

std::vector<std::string> choose_winograd(Winograd winograd, uint64_t limit, Graph *graph) {
  std::vector<Node *> nodes;
  std::vector<ConvolutionSize> sizes;
  for (Node &node : graph->nodes) {
    if (node.kind != find_conv2d()) continue;
    nodes.push_back(&node);
    sizes.push_back(size_of(*graph, node));
  }
  if (nodes.empty()) return {};
  const std::vector<ConvolutionForm> forms = choose_forms(sizes, winograd, limit);
  std::vector<std::string> report = {summary_of(forms, limit)};
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node *node = nodes[i];
    report.push_back("node " + std::to_string(node->index) + " (Conv2d): " + form_text(forms[i]));
    if (forms[i].form == 0) continue;
    node->kind = forms[i].form == 4 ? winograd_kind<4>(*node->kind, "Conv2d (Winograd F(4x4))")
                                    : winograd_kind<2>(*node->kind, "Conv2d (Winograd F(2x2))");
    // Copy the filter's description (Value) for this convolution, because other nodes may read the original.
    const Value filter = graph->values[node->in[1]];
    node->in[1] = static_cast<uint32_t>(graph->values.size());
    graph->values.push_back(filter);
  }
  return report;
}

bool is_winograd(const Node &node) { return is_own(node) && is_convolution(node); }

const void *pack_winograd(const Graph &graph, const Node &node, const std::vector<const void *> &data, bool is_shared,
                          Weights *weights) {
  const uint32_t form = node.kind->run == run<4> ? 4 : 2;
  const WinogradLayer layer = layer_of(form, node, input_value(graph, node, 0).shape, output_value(graph, node).shape);
  const auto *filter = static_cast<const float *>(data[node.in[1]]);
  const auto *bias = node.in[2] == kNone ? nullptr : static_cast<const float *>(data[node.in[2]]);
  return weights->pack(graph, node, form, winograd_packed_floats(layer) * sizeof(float), is_shared, [&](void *packed) {
    edgecore::xnnpack::pack_winograd(*winograd_target(), layer, filter, bias, static_cast<float *>(packed));
  });
}

}  // namespace edgecore::xnnpack
