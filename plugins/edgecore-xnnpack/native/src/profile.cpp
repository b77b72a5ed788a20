#include "profile.h"

#include <cmath>
#include <cstring>
#include <initializer_list>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

constexpr const char *kUnary = "Unary Elementwise";
constexpr const char *kBinary = "Binary Elementwise";

// What may become an operator: a node, or the clamp that XNNPACK puts behind an arithmetic node with an output range.
struct Step {
  uint32_t node;
  bool is_clamp;
};

bool StartsWith(const std::string &name, std::initializer_list<const char *> starts) {
  for (const char *start : starts) {
    if (name.compare(0, std::strlen(start), start) == 0) return true;
  }
  return false;
}

// Whether XNNPACK may call the operator of `node` so.
bool Computes(const std::string &name, const Node &node) {
  switch (node.kind->id) {
    case wire::NodeUnion_Conv2d:
    case wire::NodeUnion_DepthwiseConv2d:
      return StartsWith(name, {"Convolution"});
    case wire::NodeUnion_ConvTranspose2d:
      return StartsWith(name, {"Deconvolution"});
    case wire::NodeUnion_FullyConnected:
      return StartsWith(name, {"Fully Connected", "Dynamic Fully Connected"});
    case wire::NodeUnion_BatchMatrixMultiply:
      return StartsWith(name, {"Batch Matrix Multiply"});
    case wire::NodeUnion_AvgPooling2d:
      return StartsWith(name, {"Average Pooling"});
    case wire::NodeUnion_GlobalAvgPooling2d:
      return StartsWith(name, {"Mean", "Global Average Pooling"});
    case wire::NodeUnion_MaxPooling2d:
      return StartsWith(name, {"Max Pooling"});
    case wire::NodeUnion_ArgMaxPooling2d:
      return StartsWith(name, {"ArgMax Pooling"});
    case wire::NodeUnion_StaticTranspose:
      return StartsWith(name, {"Transpose"});
    case wire::NodeUnion_StaticSlice:
      return StartsWith(name, {"Slice"});
    case wire::NodeUnion_StaticConstantPad:
      return StartsWith(name, {"Constant Pad"});
    case wire::NodeUnion_StaticResizeBilinear2D:
      return StartsWith(name, {"Resize Bilinear"});
    case wire::NodeUnion_StaticReshape:
    case wire::NodeUnion_Copy:
    case wire::NodeUnion_Concatenate2:
    case wire::NodeUnion_Concatenate3:
    case wire::NodeUnion_Concatenate4:
    case wire::NodeUnion_Concatenate5:
      return StartsWith(name, {"Copy"});
    case wire::NodeUnion_Softmax:
      return StartsWith(name, {"Softmax"});
    case wire::NodeUnion_Convert:
      return StartsWith(name, {"Convert", kUnary});
    default:
      return StartsWith(name, {node.input_count == 2 ? kBinary : kUnary});
  }
}

std::vector<std::string> OperatorNames(xnn_runtime_t runtime) {
  size_t bytes = 0;
  xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, 0, nullptr, &bytes);
  std::string text(bytes, 0);
  xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, bytes, text.data(), &bytes);
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size(); at += names.back().size() + 1) names.emplace_back(text.c_str() + at);
  return names;
}

std::vector<Step> StepsOf(const Graph &graph) {
  std::vector<Step> steps;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    steps.push_back({i, false});
    const bool is_arithmetic = Computes(kBinary, node);
    if (is_arithmetic && (std::isfinite(node.min) || std::isfinite(node.max))) steps.push_back({i, true});
  }
  return steps;
}

}  // namespace

std::vector<uint32_t> NodesOf(const Graph &graph, const std::vector<std::string> &names) {
  const std::vector<Step> steps = StepsOf(graph);
  const auto fits = [&](size_t name, size_t step) {
    return steps[step].is_clamp ? StartsWith(names[name], {kUnary})
                                : Computes(names[name], graph.nodes[steps[step].node]);
  };
  std::vector<uint32_t> nodes(names.size(), kNone);
  if (names.size() == steps.size()) {
    for (size_t i = 0; i < steps.size(); ++i) nodes[i] = steps[i].node;
    return nodes;
  }
  // The first and the last step that an operator may stand for; where they agree there is no other.
  size_t next = 0;
  for (size_t i = 0; i < names.size(); ++i, ++next) {
    while (next < steps.size() && !fits(i, next)) ++next;
    if (next == steps.size()) return std::vector<uint32_t>(names.size(), kNone);
    nodes[i] = steps[next].node;
  }
  size_t end = steps.size();
  for (size_t i = names.size(); i-- > 0; --end) {
    while (!fits(i, end - 1)) --end;
    if (nodes[i] != steps[end - 1].node) nodes[i] = kNone;
  }
  return nodes;
}

Profile::Profile(const Graph &graph, xnn_runtime_t runtime) {
  const std::vector<std::string> names = OperatorNames(runtime);
  const std::vector<uint32_t> nodes = NodesOf(graph, names);
  for (size_t i = 0; i < names.size(); ++i) {
    if (nodes[i] == kNone) {
      operators_.push_back({names[i], -1});
      continue;
    }
    const Node &node = graph.nodes[nodes[i]];
    operators_.push_back({std::string(node.kind->name) + ": " + names[i], node.debug_id});
  }
  times_.resize(names.size());
}

void Profile::Start() { start_ = std::chrono::steady_clock::now(); }

void Profile::StartOperators() {
  const auto passed = std::chrono::steady_clock::now() - start_;
  before_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

void Profile::Report(xnn_runtime_t runtime, const edgecore_host *host, edgecore_scope *scope) {
  size_t bytes = times_.size() * sizeof(uint64_t);
  if (xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing, bytes, times_.data(), &bytes) !=
      xnn_status_success) {
    return;
  }
  uint64_t begin = before_;
  for (size_t i = 0; i < operators_.size(); ++i) {
    const uint64_t end = begin + times_[i] * 1000;
    host->event_add(scope, {operators_[i].name.data(), operators_[i].name.size()}, operators_[i].debug_id, begin, end);
    begin = end;
  }
}

}  // namespace edgecore::xnnpack
