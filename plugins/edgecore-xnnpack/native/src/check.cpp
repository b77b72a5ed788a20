#include "check.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "fp16.h"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

using backend::fail;

namespace {

// Maximum number of multiply-adds of a node. A node with more would run for minutes, and occurs only in a damaged or
// hostile file.
constexpr uint64_t kMaxWork = 1ull << 44;

// Returns the maximum memory in bytes that a graph may use: half of the machine's memory. With more, Linux might grant
// the allocation but kill the process later. On 32-bit processors, returns at most a quarter of the address space, so
// that XNNPACK's sums of sizes and gaps fit in size_t.
uint64_t memory_limit() {
  static const uint64_t limit = [] {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGE_SIZE);
    const uint64_t half =
        pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) / 2 : 1ull << 30;
    return std::min<uint64_t>(half, SIZE_MAX / 4);
  }();
  return limit;
}

struct ById {
  uint32_t id;
  uint32_t index;
};

void index_values(const Graph &graph, std::vector<ById> *out) {
  out->reserve(graph.values.size());
  for (uint32_t i = 0; i < graph.values.size(); ++i) out->push_back({graph.values[i].id, i});
  std::sort(out->begin(), out->end(), [](const ById &a, const ById &b) { return a.id < b.id; });
  for (size_t i = 1; i < out->size(); ++i) {
    if ((*out)[i].id == (*out)[i - 1].id) {
      fail(EDGECORE_INVALID_PROGRAM, "two values have the id %u", (*out)[i].id);
    }
  }
}

void index_arguments(Graph *graph) {
  for (uint32_t i = 0; i < graph->values.size(); ++i) {
    const uint32_t argument = graph->values[i].argument;
    if (argument == kNone) continue;
    if (argument >= graph->externals.size()) graph->externals.resize(argument + 1, kNone);
    if (graph->externals[argument] != kNone) {
      fail(EDGECORE_INVALID_PROGRAM, "two values are argument %u", argument);
    }
    graph->externals[argument] = i;
  }
}

class Resolver {
 public:
  Resolver(Graph *graph, const std::vector<ById> &by_id) : graph_(graph), by_id_(by_id) {
    defined_.resize(graph->values.size());
    for (size_t i = 0; i < defined_.size(); ++i) {
      const Role role = graph->values[i].role;
      defined_[i] = role == Role::kConstant || role == Role::kInput || role == Role::kState;
    }
  }

  void resolve(Node *node) {
    const NodeKind &kind = *node->kind;
    if ((node->flags & ~kind.flags) != 0) {
      refuse(*node, "flags 0x%x are not supported", node->flags & ~kind.flags);
    }
    for (uint32_t i = 0; i < node->input_count; ++i) {
      if (node->in[i] == kNone && (kind.optional >> i & 1u) != 0) continue;
      const uint32_t index = find(node->in[i]);
      if (index == kNone || !defined_[index]) {
        refuse(*node, "input %u is value %u, which %s", i, node->in[i],
               index == kNone ? "does not exist" : "is not computed before");
      }
      if ((kind.constants >> i & 1u) != 0 && graph_->values[index].role != Role::kConstant) {
        refuse(*node, "input %u must be a constant", i);
      }
      node->in[i] = index;
    }
    for (uint32_t &out : node->out) {
      if (&out != &node->out[0] && out == kNone) continue;
      const uint32_t index = find(out);
      if (index == kNone || defined_[index]) {
        refuse(*node, "output value %u %s", out,
               index == kNone ? "does not exist" : "is a constant, an input, or computed twice");
      }
      out = index;
      defined_[index] = true;
    }
  }

  void finish() const {
    for (size_t i = 0; i < defined_.size(); ++i) {
      if (graph_->values[i].role == Role::kOutput && !defined_[i]) {
        fail(EDGECORE_INVALID_PROGRAM, "output value %u is not computed by any node", graph_->values[i].id);
      }
    }
  }

 private:
  uint32_t find(uint32_t id) const {
    const auto at =
        std::lower_bound(by_id_.begin(), by_id_.end(), id, [](const ById &a, uint32_t b) { return a.id < b; });
    return at != by_id_.end() && at->id == id ? at->index : kNone;
  }

  Graph *graph_;
  const std::vector<ById> &by_id_;
  std::vector<bool> defined_;
};

// Drops nodes whose results are not used. XNNPACK would remove only the last node of an unused chain, and would abort
// on the node before it.
void drop_unused(Graph *graph) {
  std::vector<bool> used(graph->values.size());
  for (size_t i = 0; i < used.size(); ++i) used[i] = graph->values[i].role == Role::kOutput;
  std::vector<bool> live(graph->nodes.size());
  for (size_t n = graph->nodes.size(); n-- > 0;) {
    const Node &node = graph->nodes[n];
    const bool has_second = node.out[1] != kNone;
    live[n] = used[node.out[0]] || (has_second && used[node.out[1]]) || updates_state(node);
    if (!live[n]) continue;
    if (has_second && used[node.out[0]] != used[node.out[1]]) {
      refuse(node, "one of its two outputs is not used, which XNNPACK does not support");
    }
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone) used[node.in[i]] = true;
    }
  }
  std::vector<Node> live_nodes;
  for (size_t n = 0; n < live.size(); ++n) {
    if (live[n]) live_nodes.push_back(graph->nodes[n]);
  }
  graph->nodes = std::move(live_nodes);
  for (const Node &node : graph->nodes) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone) graph->values[node.in[i]].last_use = node.index;
    }
  }
}

// Marks the output of each CacheUpdate (a node that writes rows into a KV cache) as the state that the node updates.
// Throws if another node accesses a state that a node updates: the result would depend on the order of the nodes.
void link_states(Graph *graph) {
  std::vector<uint32_t> readers(graph->states.size());
  for (const Node &node : graph->nodes) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone && graph->values[node.in[i]].role == Role::kState) {
        ++readers[graph->values[node.in[i]].state];
      }
    }
  }
  for (const Node &node : graph->nodes) {
    if (!updates_state(node)) continue;
    const uint32_t state = graph->values[node.in[0]].state;
    if (readers[state] != 1) refuse(node, "another node uses the state '%s'", graph->states[state].name.c_str());
    graph->values[node.out[0]].state = state;
  }
}

// Marks fp16 filters and biases of convolutions for conversion to fp32, because XNNPACK's fp16 convolutions support
// only fp32 filters (as of 2024-11). XNNPACK rounds both back to fp16 when it packs them, so their numbers do not
// change.
void widen_filters(Graph *graph) {
  std::unordered_map<uint32_t, uint32_t> wide;
  for (Node &node : graph->nodes) {
    if (!is_convolution(node)) continue;
    for (uint32_t i = 1; i < 3; ++i) {
      if (node.in[i] == kNone || graph->values[node.in[i]].type != Type::kFp16) continue;
      const auto [entry, is_new] = wide.emplace(node.in[i], graph->values.size());
      if (is_new) {  // convert a copy to fp32, because other nodes may read the original constant as fp16
        Value value = graph->values[node.in[i]];
        value.widens = true;
        graph->values.push_back(value);
      }
      node.in[i] = entry->second;
    }
  }
}

// Returns true for intermediate values, which live in XNNPACK's workspace or in the delegate's memory (exposed.h).
bool lives_in_workspace(const Value &value) { return value.role == Role::kInternal && value.state == kNone; }

uint64_t value_bytes(const Graph &graph, uint32_t value, const Shape &shape) {
  return (element_count(shape) * type_bits(graph.values[value].type) + 7) / 8;
}

// Multiplies sizes in bytes. A product that overflows becomes UINT64_MAX / 4: above every limit, but small enough that
// adding further sizes does not overflow.
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) || product > UINT64_MAX / 4 ? UINT64_MAX / 4 : product;
}

// XNNPACK rounds sizes up to multiples of three numbers: the rows and the columns of a kernel's tile, and the bytes of
// input channels that a kernel reads at a time. These are upper bounds of the three numbers.
constexpr uint64_t kTileRows = 16, kTileColumns = 64, kInputBytes = 64;

// Returns an upper bound in bytes of XNNPACK's indirection buffer (its table of input addresses) for a node with a
// window. A transposed convolution has a separate table for each remainder of the output column modulo the stride. Each
// table is rounded up to whole tiles.
uint64_t table_bytes(const Node &node, const Shape &output) {
  const Window &w = node.window;
  const uint64_t window = static_cast<uint64_t>(w.height) * w.width;
  uint64_t positions = times(output[1], output[2]) + kTileRows;
  if (node.kind->id == wire::NodeUnion_ConvTranspose2d) {
    positions = times(output[1] + w.stride_height, output[2] + kTileRows * w.stride_width);
  }
  return times(times(positions, window), sizeof(void *));
}

// Returns an upper bound in bytes of the operand that XNNPACK packs, at load or in each run; 0 if it packs none.
// XNNPACK packs a transposed convolution once for each remainder of the output position modulo the stride; each time it
// packs a part of the filter, and all biases.
uint64_t packed_bytes(const Graph &graph, const Node &node, const Shape *shapes) {
  if (is_own(node) || node.input_count < 2 || node.in[1] == kNone) return 0;
  const Shape &filter = shapes[node.in[1]];
  const uint64_t item = is_float(input_value(graph, node, 1).type) ? sizeof(float) : 1;
  uint64_t groups = 1, outputs = 0, inputs = 0, window = 1, parts = 1;
  switch (node.kind->id) {
    case wire::NodeUnion_ConvTranspose2d:
      parts = static_cast<uint64_t>(node.window.stride_height) * node.window.stride_width;
      [[fallthrough]];
    case wire::NodeUnion_Conv2d:
      groups = node.groups;
      outputs = node.group_outputs;
      inputs = node.group_inputs;
      window = static_cast<uint64_t>(node.window.height) * node.window.width;
      break;
    case wire::NodeUnion_DepthwiseConv2d:
      outputs = filter[3];
      inputs = 1;
      window = static_cast<uint64_t>(node.window.height) * node.window.width;
      break;
    case wire::NodeUnion_FullyConnected:
    case wire::NodeUnion_BatchMatrixMultiply: {
      const bool is_transposed = (node.flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
      const bool has_outputs_last = is_transposed == (node.kind->id == wire::NodeUnion_FullyConnected);
      outputs = filter.back(has_outputs_last ? 0 : 1);
      inputs = filter.back(has_outputs_last ? 1 : 0);
      groups = element_count(filter) / (outputs * inputs);
      break;
    }
    default:
      return 0;
  }
  const auto rounded = [](uint64_t number, uint64_t step) { return (number + step - 1) / step * step; };
  const uint64_t row = times(window, rounded(inputs * item, kInputBytes)) + times(parts, kInputBytes);
  return times(times(groups, rounded(outputs, kTileColumns)), row);
}

// Sets `work` to an upper bound of the node's number of multiply-adds (or comparisons), and `table` to an upper bound
// in bytes of XNNPACK's table of input addresses for this node.
void node_cost(const Node &node, const Shape *shapes, uint64_t *work, uint64_t *table) {
  const Shape &output = shapes[node.out[0]];
  const Window &w = node.window;
  uint64_t each = 1;
  *table = 0;
  if (w.height != 0) {
    each = static_cast<uint64_t>(w.height) * w.width * std::max(1u, node.group_inputs);
    if (output.rank == 4) *table = table_bytes(node, output);
  } else if (node.kind->id == wire::NodeUnion_StaticResizeBilinear2D) {
    // A bilinear resize needs 4 input addresses and 2 interpolation weights per output pixel.
    *table = times(output[1] * output[2], 4 * sizeof(void *) + 2 * sizeof(float));
  } else if (is_own(node)) {
    // Per output element, the number of multiply-adds of attention is at most the larger of the key's last two sizes. A
    // cache update only copies, and needs none.
    each = updates_state(node) ? 1 : std::max(shapes[node.in[1]].back(0), shapes[node.in[1]].back(1));
  } else if (node.input_count >= 2 && shapes[node.in[0]].rank != 0) {
    // Each output of a GEMM takes one multiply-add per input; elementwise nodes need fewer operations.
    each = shapes[node.in[0]].back(0);
  }
  if (__builtin_mul_overflow(element_count(output), each, work)) *work = UINT64_MAX;
}

}  // namespace

void check_graph(Graph *graph) {
  std::vector<ById> by_id;
  index_values(*graph, &by_id);
  index_arguments(graph);
  Resolver resolver(graph, by_id);
  for (Node &node : graph->nodes) {
    resolver.resolve(&node);
    node.kind->check(*graph, node);
  }
  resolver.finish();
  drop_unused(graph);
  link_states(graph);
  widen_filters(graph);
  compute_in_fp32_if_needed(graph);

  std::vector<Shape> shapes(graph->values.size());
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = graph->values[i].shape;
  infer_shapes(*graph, shapes.data());
  for (const Node &node : graph->nodes) {
    for (uint32_t out : node.out) {
      if (out == kNone || shapes[out] == graph->values[out].shape) continue;
      Value &value = graph->values[out];
      if (value.type == Type::kQdint8 && element_count(value.shape) == element_count(shapes[out])) {
        value.shape = shapes[out];  // accept NCHW: ExecuTorch declares the inputs of convolutions in this order
      } else {
        refuse(node, "its output is %s, but the file says %s", shape_text(shapes[out]),
               shape_text(graph->values[out].shape));
      }
    }
  }
}

void infer_shapes(const Graph &graph, Shape *shapes) {
  uint64_t live = 0, peak = 0, tables = 0;
  for (const State &state : graph.states) live += graph.values[state.value].bytes;
  if (live > memory_limit()) {
    fail(EDGECORE_OUT_OF_RESOURCES, "the states have %llu bytes, more than the limit of %llu bytes on this machine",
         static_cast<unsigned long long>(live), static_cast<unsigned long long>(memory_limit()));
  }
  for (const Node &node : graph.nodes) {
    node.kind->infer(graph, node, shapes);
    for (uint32_t out : node.out) {
      if (out == kNone) continue;
      if (!in_limits(shapes[out])) refuse(node, "an output of %s is too large", shape_text(shapes[out]));
      if (lives_in_workspace(graph.values[out])) live += value_bytes(graph, out, shapes[out]);
    }
    uint64_t work, table;
    node_cost(node, shapes, &work, &table);
    if (work > kMaxWork) {
      refuse(node, "%llu multiply-adds are more than the limit of %llu for a node",
             static_cast<unsigned long long>(work), static_cast<unsigned long long>(kMaxWork));
    }
    const uint64_t packed = packed_bytes(graph, node, shapes);
    if (packed > SIZE_MAX / 2) {
      fail(EDGECORE_OUT_OF_RESOURCES,
           "at node %u the packed weights could need %llu bytes, too many for this processor", node.index,
           static_cast<unsigned long long>(packed));
    }
    peak = std::max(peak, live);
    if (__builtin_add_overflow(tables, table, &tables) || peak + tables < tables || peak + tables > memory_limit()) {
      fail(EDGECORE_OUT_OF_RESOURCES,
           "at node %u the graph needs more working memory than the limit of %llu bytes on this machine", node.index,
           static_cast<unsigned long long>(memory_limit()));
    }
    const auto release = [&](uint32_t value) {
      const Value &v = graph.values[value];
      if (lives_in_workspace(v) && v.last_use == node.index) live -= value_bytes(graph, value, shapes[value]);
    };
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const bool is_repeated = std::find(node.in.begin(), node.in.begin() + i, node.in[i]) != node.in.begin() + i;
      if (node.in[i] != kNone && !is_repeated) release(node.in[i]);
    }
  }
}

}  // namespace edgecore::xnnpack
