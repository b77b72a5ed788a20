#include "fp16.h"

#include <algorithm>
#include <utility>

#include "hardware.h"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {
namespace {

#if defined(__x86_64__) || defined(__i386__)
constexpr char kFeature[] = "avx2";
#else
constexpr char kFeature[] = "neon_fp16_arith";
#endif

// Returns true for a value that XNNPACK sees as fp32: an fp32 value, or an fp16 constant that is converted to fp32.
bool is_wide(const Value &value) { return value.type == Type::kFp32 || value.widens; }

Node conversion(uint32_t from, uint32_t to, uint32_t index) {
  Node node;
  node.kind = find_node_kind(wire::NodeUnion_Convert);
  node.index = index;
  node.input_count = 1;
  node.in[0] = from;
  node.out[0] = to;
  return node;
}

// Adds an fp32 value that nodes use instead of an fp16 argument (a conversion connects both), and returns its index.
uint32_t add_stand_in(Graph *graph, uint32_t argument) {
  Value value = graph->values[argument];
  value.type = Type::kFp32;
  value.bytes *= 2;
  value.role = Role::kInternal;
  value.argument = kNone;
  graph->values.push_back(value);
  return static_cast<uint32_t>(graph->values.size() - 1);
}

}  // namespace

bool has_fp16_kernels() { return may_use(kFeature, true); }

void compute_in_fp32_if_needed(Graph *graph) {
  const auto is_fp16 = [](const Value &value) { return value.type == Type::kFp16; };
  if (std::none_of(graph->values.begin(), graph->values.end(), is_fp16) || has_fp16_kernels()) return;
  // Do not convert graphs with fp16 states (mutable buffers): the host shares the states with other methods, as fp16.
  const auto is_fp16_state = [&](const State &state) { return is_fp16(graph->values[state.value]); };
  if (std::any_of(graph->states.begin(), graph->states.end(), is_fp16_state)) return;
  uint32_t next_index = graph->nodes.empty() ? 0 : graph->nodes.back().index + 1;
  std::vector<Node> nodes, last;
  std::vector<uint32_t> stand_ins(graph->values.size(), kNone);
  for (uint32_t i = 0; i < stand_ins.size(); ++i) {
    if (!is_fp16(graph->values[i])) continue;
    switch (graph->values[i].role) {
      case Role::kConstant:
        graph->values[i].widens = true;
        break;
      case Role::kInput:
        stand_ins[i] = add_stand_in(graph, i);
        nodes.push_back(conversion(i, stand_ins[i], 0));
        break;
      case Role::kOutput:
        stand_ins[i] = add_stand_in(graph, i);
        last.push_back(conversion(stand_ins[i], i, next_index++));
        break;
      default:
        graph->values[i].type = Type::kFp32;
        graph->values[i].bytes *= 2;
    }
  }
  for (Node node : graph->nodes) {
    for (uint32_t &value : node.in) {
      if (value != kNone && stand_ins[value] != kNone) value = stand_ins[value];
    }
    for (uint32_t &value : node.out) {
      if (value != kNone && stand_ins[value] != kNone) value = stand_ins[value];
    }
    // Turn a conversion from fp32 to fp32 into a copy, because XNNPACK converts only between different types.
    if (node.kind->id == wire::NodeUnion_Convert && is_wide(input_value(*graph, node, 0)) &&
        is_wide(output_value(*graph, node))) {
      node.kind = find_node_kind(wire::NodeUnion_Copy);
    }
    nodes.push_back(node);
  }
  nodes.insert(nodes.end(), last.begin(), last.end());
  graph->nodes = std::move(nodes);
  for (const Node &node : graph->nodes) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone) graph->values[node.in[i]].last_use = node.index;
    }
  }
}

}  // namespace edgecore::xnnpack
