// Convolutions that the delegate computes itself, by Winograd's algorithm (winograd.h): variants of the kind Conv2d,
// which choose_winograd gives to nodes.
#include <algorithm>
#include <vector>

#include "build.h"
#include "nodes.h"
#include "winograd.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kMinChannels = 16;
// A transformed filter is 1.8 or 4 times as large, and is read from memory at each run: it must serve so many tiles
// that the products take longer than reading it. 16 tiles are too few on a processor with two AVX512 units: 256
// channels at 14x14 took 1.5 ms with F(4x4), 0.8 ms with F(2x2); 512 channels at 7x7 gained nothing from F(2x2).
constexpr uint64_t kMinTiles = 20;

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

// Returns a kind that differs from Conv2d in its name and in who computes it.
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

bool is_eligible(const Graph &graph, const Node &node) {
  const Window &w = node.window;
  return w.height == 3 && w.width == 3 && w.stride_height == 1 && w.stride_width == 1 && w.dilation_height == 1 &&
         w.dilation_width == 1 && node.groups == 1 && node.group_inputs >= kMinChannels &&
         node.group_outputs >= kMinChannels && input_value(graph, node, 0).type == Type::kFp32 &&
         input_value(graph, node, 1).type == Type::kFp32 && output_value(graph, node).type == Type::kFp32;
}

// Returns m of the form that a layer gets, or 0 for the direct form, and subtracts from `limit` the bytes by which its
// weights grow.
uint32_t form_of(const Graph &graph, const Node &node, Winograd winograd, uint64_t *limit) {
  for (const uint32_t form : {4u, 2u}) {
    if (form == 4 && winograd != Winograd::kOn) continue;
    const WinogradLayer layer =
        layer_of(form, node, input_value(graph, node, 0).shape, output_value(graph, node).shape);
    // An image of one row or column fills a part of each tile only: not worth it.
    if (winograd_tiles(layer) < kMinTiles || std::min(layer.rows, layer.columns) < form - 1) continue;
    const uint64_t direct = input_value(graph, node, 1).bytes, bytes = winograd_packed_floats(layer) * sizeof(float);
    const uint64_t growth = bytes - std::min(bytes, direct);
    if (growth > *limit) continue;
    *limit -= growth;
    return form;
  }
  return 0;
}

}  // namespace

std::string choose_winograd(Winograd winograd, uint64_t limit, Graph *graph) {
  if (winograd == Winograd::kOff || winograd_target() == nullptr || !runs_parts()) return "";
  std::vector<Node *> nodes;
  for (Node &node : graph->nodes) {
    if (node.kind == find_conv2d() && is_eligible(*graph, node)) nodes.push_back(&node);
  }
  // Large images first: they gain the most time for each byte.
  const auto pixels = [&](const Node *node) {
    return element_count(output_value(*graph, *node).shape) / node->group_outputs;
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](const Node *a, const Node *b) { return pixels(a) > pixels(b); });
  uint64_t rest = limit, counts[2] = {};
  for (Node *node : nodes) {
    const uint32_t form = form_of(*graph, *node, winograd, &rest);
    if (form == 0) continue;
    ++counts[form / 4];
    node->kind = form == 4 ? winograd_kind<4>(*node->kind, "Conv2d (Winograd F(4x4))")
                           : winograd_kind<2>(*node->kind, "Conv2d (Winograd F(2x2))");
    const Value filter = graph->values[node->in[1]];  // a copy, since other nodes may read the value as it is
    node->in[1] = static_cast<uint32_t>(graph->values.size());
    graph->values.push_back(filter);
  }
  return std::to_string(nodes.size()) + " convolutions fit Winograd's algorithm: " + std::to_string(counts[1]) +
         " use F(4x4), " + std::to_string(counts[0]) + " F(2x2); their packed weights grow by " +
         std::to_string((limit - rest) >> 10) + " KiB";
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
