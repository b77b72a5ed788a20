// Convolutions that the delegate computes itself, by Winograd's algorithm (winograd.h): variants of the kind Conv2d,
// which choose_winograd assigns to nodes.
#include <algorithm>
#include <cmath>
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

// Returns an int8 output range's bound without the zero point, rounded as XNNPACK does.
float int8_bound(float bound, const Quantization &output) {
  const auto zero_point = static_cast<float>(output.zero_point);
  return std::rint(std::clamp(bound / output.scale + zero_point, -128.0f, 127.0f)) - zero_point;
}

WinogradLayer int8_layer_of(uint32_t form, const Graph &graph, const Node &node, const Shape &input,
                            const Shape &output) {
  WinogradLayer layer = layer_of(form, node, input, output);
  const Quantization &result = output_value(graph, node).quantization;
  layer.min = int8_bound(node.min, result), layer.max = int8_bound(node.max, result);
  layer.input_zero_point = input_value(graph, node, 0).quantization.zero_point;
  layer.output_zero_point = result.zero_point;
  return layer;
}

// A Winograd form of nodes: its kernels, and its layers.
template <uint32_t kForm>
struct Fp32 {
  static const WinogradTarget &target() { return *winograd_target(); }
  static WinogradLayer layer(const Graph &, const Node &node, const Shape &input, const Shape &output) {
    return layer_of(kForm, node, input, output);
  }
  static constexpr uint32_t kM = kForm;
};

template <uint32_t kForm>
struct Int8 {
  static const WinogradTarget &target() { return *winograd_int8_target(); }
  static WinogradLayer layer(const Graph &graph, const Node &node, const Shape &input, const Shape &output) {
    return int8_layer_of(kForm, graph, node, input, output);
  }
  static constexpr uint32_t kM = kForm;
};

template <typename Form>
uint64_t scratch_bytes(const Node &node, const Shape *shapes, uint32_t workers) {
  const WinogradLayer layer = layer_of(Form::kM, node, shapes[node.in[0]], shapes[node.out[0]]);
  const WinogradSharing sharing = winograd_sharing(Form::target(), layer, workers);
  return winograd_scratch_bytes(Form::target(), layer, sharing, workers);
}

template <typename Form>
void run(const Graph &graph, const Node &node, const Shape *shapes, void *const *data, const backend::Host &host,
         uint8_t *scratch) {
  WinogradLayer layer = Form::layer(graph, node, shapes[node.in[0]], shapes[node.out[0]]);
  layer.packed = data[node.in[1]];
  const WinogradSharing sharing = winograd_sharing(Form::target(), layer, host.worker_count());
  run_winograd(Form::target(), layer, sharing, data[node.in[0]], data[node.out[0]], scratch,
               [&](uint64_t count, const auto &body) { host.parallel_for(count, 1, body); });
}

// Returns a copy of the kind Conv2d, named `name`, whose nodes the delegate computes in this form.
template <typename Form>
const NodeKind *winograd_kind(const NodeKind &direct, const char *name) {
  static const NodeKind kind = [&] {
    NodeKind own = direct;
    own.name = name;
    own.define = nullptr;
    own.run = run<Form>;
    own.scratch_bytes = scratch_bytes<Form>;
    return own;
  }();
  return &kind;
}

const NodeKind *kind_of(const ConvolutionForm &form, const NodeKind &direct) {
  if (form.is_int8) {
    return form.form == 4 ? winograd_kind<Int8<4>>(direct, "Conv2d (Winograd F(4x4) int8)")
                          : winograd_kind<Int8<2>>(direct, "Conv2d (Winograd F(2x2) int8)");
  }
  return form.form == 4 ? winograd_kind<Fp32<4>>(direct, "Conv2d (Winograd F(4x4))")
                        : winograd_kind<Fp32<2>>(direct, "Conv2d (Winograd F(2x2))");
}

ConvolutionSize size_of(const Graph &graph, const Node &node) {
  const Window &w = node.window;
  const Shape &output = output_value(graph, node).shape;
  const Value &filter = input_value(graph, node, 1);
  const Type input = input_value(graph, node, 0).type, result = output_value(graph, node).type;
  const bool is_fp32 = input == Type::kFp32 && filter.type == Type::kFp32 && result == Type::kFp32;
  const bool is_int8 = input == Type::kQint8 && result == Type::kQint8;
  return {is_fp32   ? kFp32Type
          : is_int8 ? kInt8Type
                    : kOtherType,
          w.height,
          w.width,
          w.stride_height,
          w.stride_width,
          w.dilation_height,
          w.dilation_width,
          node.groups,
          node.group_inputs,
          node.group_outputs,
          output[0],
          output[1],
          output[2],
          filter.bytes};
}

// Returns the factors by which sums of products become outputs, computed as XNNPACK does.
std::vector<float> int8_scales(const Graph &graph, const Node &node) {
  const Quantization &filter = input_value(graph, node, 1).quantization;
  const float input = input_value(graph, node, 0).quantization.scale;
  const float output = output_value(graph, node).quantization.scale;
  std::vector<float> scales(node.group_outputs);
  for (size_t k = 0; k < scales.size(); ++k) {
    scales[k] = input * (filter.scales == nullptr ? filter.scale : filter.scales[k]) / output;
  }
  return scales;
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
    node->kind = kind_of(forms[i], *node->kind);
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
  const Shape &input = input_value(graph, node, 0).shape, &output = output_value(graph, node).shape;
  const void *bias = node.in[2] == kNone ? nullptr : data[node.in[2]];
  if (node.kind->run == run<Int8<2>> || node.kind->run == run<Int8<4>>) {
    const uint32_t form = node.kind->run == run<Int8<4>> ? 4 : 2;
    const WinogradTarget &target = *winograd_int8_target();
    const WinogradLayer layer = int8_layer_of(form, graph, node, input, output);
    const std::vector<float> scales = int8_scales(graph, node);
    return weights->pack(graph, node, form, winograd_packed_bytes(target, layer), is_shared, [&](void *packed) {
      pack_winograd_int8(target, layer, static_cast<const int8_t *>(data[node.in[1]]),
                         static_cast<const int32_t *>(bias), scales.data(), packed);
    });
  }
  const uint32_t form = node.kind->run == run<Fp32<4>> ? 4 : 2;
  const WinogradTarget &target = *winograd_target();
  const WinogradLayer layer = layer_of(form, node, input, output);
  return weights->pack(graph, node, form, winograd_packed_bytes(target, layer), is_shared, [&](void *packed) {
    edgecore::xnnpack::pack_winograd(target, layer, static_cast<const float *>(data[node.in[1]]),
                                     static_cast<const float *>(bias), static_cast<float *>(packed));
  });
}

}  // namespace edgecore::xnnpack
