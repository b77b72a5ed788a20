#include "profile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

constexpr const char *kUnary = "Unary Elementwise";
constexpr const char *kBinary = "Binary Elementwise";

// An operator that XNNPACK may have created for a node. It is the operator that computes the node, or the clamp that
// XNNPACK appends if an elementwise node of two inputs has an output range. nodes_of matches Operations to the
// operators that XNNPACK reports.
struct Operation {
  uint32_t node;
  bool is_clamp;
};

bool starts_with(const std::string &name, std::initializer_list<const char *> starts) {
  for (const char *start : starts) {
    if (name.compare(0, std::strlen(start), start) == 0) return true;
  }
  return false;
}

// Returns true if `name` can be XNNPACK's name of the operator that computes `node`.
bool computes(const std::string &name, const Node &node) {
  switch (node.kind->id) {
    case wire::NodeUnion_Conv2d:
    case wire::NodeUnion_DepthwiseConv2d:
      return starts_with(name, {"Convolution"});
    case wire::NodeUnion_ConvTranspose2d:
      return starts_with(name, {"Deconvolution"});
    case wire::NodeUnion_FullyConnected:
      return starts_with(name, {"Fully Connected", "Dynamic Fully Connected"});
    case wire::NodeUnion_BatchMatrixMultiply:
      return starts_with(name, {"Batch Matrix Multiply"});
    case wire::NodeUnion_AvgPooling2d:
      return starts_with(name, {"Average Pooling"});
    case wire::NodeUnion_GlobalAvgPooling2d:
      return starts_with(name, {"Mean", "Global Average Pooling"});
    case wire::NodeUnion_MaxPooling2d:
      return starts_with(name, {"Max Pooling"});
    case wire::NodeUnion_ArgMaxPooling2d:
      return starts_with(name, {"ArgMax Pooling"});
    case wire::NodeUnion_StaticTranspose:
      return starts_with(name, {"Transpose"});
    case wire::NodeUnion_StaticSlice:
      return starts_with(name, {"Slice"});
    case wire::NodeUnion_StaticConstantPad:
      return starts_with(name, {"Constant Pad"});
    case wire::NodeUnion_StaticResizeBilinear2D:
      return starts_with(name, {"Resize Bilinear"});
    case wire::NodeUnion_StaticReshape:
    case wire::NodeUnion_Copy:
    case wire::NodeUnion_Concatenate2:
    case wire::NodeUnion_Concatenate3:
    case wire::NodeUnion_Concatenate4:
    case wire::NodeUnion_Concatenate5:
      return starts_with(name, {"Copy"});
    case wire::NodeUnion_Softmax:
      return starts_with(name, {"Softmax"});
    case wire::NodeUnion_Convert:
      return starts_with(name, {"Convert", kUnary});
    default:
      return starts_with(name, {node.input_count == 2 ? kBinary : kUnary});
  }
}

std::vector<std::string> operator_names(xnn_runtime_t runtime) {
  size_t bytes = 0;
  xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, 0, nullptr, &bytes);
  std::string text(bytes, 0);
  xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, bytes, text.data(), &bytes);
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size(); at += names.back().size() + 1) names.emplace_back(text.c_str() + at);
  return names;
}

std::vector<Operation> operations_of(const Graph &graph, const std::vector<bool> &is_skipped) {
  std::vector<Operation> operations;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    if (is_own(node) || is_skipped[i]) continue;
    operations.push_back({i, false});
    const bool is_arithmetic = computes(kBinary, node);
    if (is_arithmetic && (std::isfinite(node.min) || std::isfinite(node.max))) operations.push_back({i, true});
  }
  return operations;
}

}  // namespace

std::vector<uint32_t> nodes_of(const Graph &graph, const std::vector<bool> &is_skipped,
                               const std::vector<std::string> &names) {
  const std::vector<Operation> operations = operations_of(graph, is_skipped);
  const auto fits = [&](size_t name, size_t operation) {
    return operations[operation].is_clamp ? starts_with(names[name], {kUnary})
                                          : computes(names[name], graph.nodes[operations[operation].node]);
  };
  std::vector<uint32_t> nodes(names.size(), kNone);
  if (names.size() == operations.size()) {
    for (size_t i = 0; i < operations.size(); ++i) nodes[i] = operations[i].node;
    return nodes;
  }
  // Match the reported operators in order, each to the earliest possible Operation, then each to the latest possible
  // one. If both matches belong to the same node, the operator computes this node; otherwise the operator's node is
  // ambiguous.
  size_t next = 0;
  for (size_t i = 0; i < names.size(); ++i, ++next) {
    while (next < operations.size() && !fits(i, next)) ++next;
    if (next == operations.size()) return std::vector<uint32_t>(names.size(), kNone);
    nodes[i] = operations[next].node;
  }
  size_t end = operations.size();
  for (size_t i = names.size(); i-- > 0; --end) {
    while (!fits(i, end - 1)) --end;
    if (nodes[i] != operations[end - 1].node) nodes[i] = kNone;
  }
  return nodes;
}

Profile::Profile(const Graph &graph, const Runtime &runtime) {
  const std::vector<std::string> names = operator_names(runtime.handle);
  std::vector<bool> is_skipped;
  for (size_t i = 0; i < graph.nodes.size(); ++i) is_skipped.push_back(runtime.skips(i));
  const std::vector<uint32_t> nodes = nodes_of(graph, is_skipped, names);
  for (size_t i = 0; i < names.size(); ++i) {
    if (nodes[i] == kNone) {
      operators_.push_back({names[i], -1, kNone});
      continue;
    }
    const Node &node = graph.nodes[nodes[i]];
    operators_.push_back({std::string(node.kind->name) + ": " + names[i], node.debug_id, node.index});
  }
  times_.resize(names.size());
}

void Profile::start() {
  start_ = std::chrono::steady_clock::now();
  own_.clear();
}

void Profile::start_operators() { before_ = now(); }

uint64_t Profile::now() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

void Profile::add_own(const Node &node, uint64_t begin, uint64_t end) { own_.push_back({&node, begin, end}); }

void Profile::report(xnn_runtime_t runtime, const backend::Host &host) {
  size_t bytes = times_.size() * sizeof(uint64_t);
  if (xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing, bytes, times_.data(), &bytes) !=
      xnn_status_success) {
    return;
  }
  // XNNPACK counts nanoseconds if it has the plugin's patches, and microseconds otherwise. An XNNPACK that can run
  // parts of a graph has the patches.
  const uint64_t unit = runs_parts() ? 1 : 1000;
  // Subtract the times of the delegate's nodes: XNNPACK measures from the end of its previous operator, so the time of
  // an operator after a node of the delegate includes the time of that node.
  uint64_t begin = before_;
  size_t next = 0;
  for (size_t i = 0; i < operators_.size(); ++i) {
    uint64_t time = times_[i] * unit;
    for (; next < own_.size() && operators_[i].node != kNone && operators_[i].node > own_[next].node->index; ++next) {
      const uint64_t own = own_[next].end - own_[next].begin;
      if (i > 0) time -= std::min(time, own);  // XNNPACK's clock starts with operator 0: subtract nothing
      begin += own;
    }
    const uint64_t end = begin + time;
    host.add_event(operators_[i].name, operators_[i].debug_id, begin, end);
    begin = end;
  }
  for (const Own &own : own_) host.add_event(own.node->kind->name, own.node->debug_id, own.begin, own.end);
}

}  // namespace edgecore::xnnpack
