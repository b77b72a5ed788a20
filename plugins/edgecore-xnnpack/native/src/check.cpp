#include "check.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "nodes.h"

namespace edgecore::xnnpack {

namespace {

// More multiply-adds than this in one node (several minutes) is no model but a damaged or hostile file.
constexpr uint64_t kMaxWork = 1ull << 44;

// A workspace beyond half of the machine's memory would get the process killed instead of failing.
uint64_t MemoryLimit() {
  static const uint64_t limit = [] {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) / 2 : 1ull << 30;
  }();
  return limit;
}

struct ById {
  uint32_t id;
  uint32_t index;
};

bool IndexValues(const Graph &graph, std::vector<ById> *out, Failure *failure) {
  out->reserve(graph.values.size());
  for (uint32_t i = 0; i < graph.values.size(); ++i) out->push_back({graph.values[i].id, i});
  std::sort(out->begin(), out->end(), [](const ById &a, const ById &b) { return a.id < b.id; });
  for (size_t i = 1; i < out->size(); ++i) {
    if ((*out)[i].id == (*out)[i - 1].id) {
      return failure->Set(EDGECORE_INVALID_PROGRAM, "two values have the id %u", (*out)[i].id);
    }
  }
  return true;
}

bool IndexArguments(Graph *graph, Failure *failure) {
  for (uint32_t i = 0; i < graph->values.size(); ++i) {
    const uint32_t argument = graph->values[i].argument;
    if (argument == kNone) continue;
    if (argument >= graph->externals.size()) graph->externals.resize(argument + 1, kNone);
    if (graph->externals[argument] != kNone) {
      return failure->Set(EDGECORE_INVALID_PROGRAM, "two values are argument %u", argument);
    }
    graph->externals[argument] = i;
  }
  return true;
}

class Resolver {
 public:
  Resolver(Graph *graph, const std::vector<ById> &by_id) : graph_(graph), by_id_(by_id) {
    defined_.resize(graph->values.size());
    for (size_t i = 0; i < defined_.size(); ++i) {
      defined_[i] = graph->values[i].role == Role::kConstant || graph->values[i].role == Role::kInput;
    }
  }

  bool Resolve(Node *node, Failure *failure) {
    const NodeKind &kind = *node->kind;
    if ((node->flags & ~kind.flags) != 0) {
      return Refuse(*node, failure, "flags 0x%x are not supported", node->flags & ~kind.flags);
    }
    for (uint32_t i = 0; i < node->input_count; ++i) {
      if (node->in[i] == kNone && (kind.optional >> i & 1u) != 0) continue;
      const uint32_t index = Find(node->in[i]);
      if (index == kNone || !defined_[index]) {
        return Refuse(*node, failure, "input %u is value %u, which %s", i, node->in[i],
                      index == kNone ? "does not exist" : "is not computed before");
      }
      if ((kind.constants >> i & 1u) != 0 && graph_->values[index].role != Role::kConstant) {
        return Refuse(*node, failure, "input %u must be a constant", i);
      }
      node->in[i] = index;
    }
    for (uint32_t &out : node->out) {
      if (&out != &node->out[0] && out == kNone) continue;
      const uint32_t index = Find(out);
      if (index == kNone || defined_[index]) {
        return Refuse(*node, failure, "output value %u %s", out,
                      index == kNone ? "does not exist" : "is a constant, an input, or computed twice");
      }
      out = index;
      defined_[index] = true;
    }
    return true;
  }

  bool Finish(Failure *failure) const {
    for (size_t i = 0; i < defined_.size(); ++i) {
      if (graph_->values[i].role == Role::kOutput && !defined_[i]) {
        return failure->Set(EDGECORE_INVALID_PROGRAM, "output value %u is not computed by any node",
                            graph_->values[i].id);
      }
    }
    return true;
  }

 private:
  uint32_t Find(uint32_t id) const {
    const auto at =
        std::lower_bound(by_id_.begin(), by_id_.end(), id, [](const ById &a, uint32_t b) { return a.id < b; });
    return at != by_id_.end() && at->id == id ? at->index : kNone;
  }

  Graph *graph_;
  const std::vector<ById> &by_id_;
  std::vector<bool> defined_;
};

// Drops nodes whose results nobody uses. XNNPACK drops only the last node of such a chain and aborts on the one before.
bool DropUnused(Graph *graph, Failure *failure) {
  std::vector<bool> used(graph->values.size());
  for (size_t i = 0; i < used.size(); ++i) used[i] = graph->values[i].role == Role::kOutput;
  std::vector<bool> live(graph->nodes.size());
  for (size_t n = graph->nodes.size(); n-- > 0;) {
    const Node &node = graph->nodes[n];
    const bool second = node.out[1] != kNone;
    live[n] = used[node.out[0]] || (second && used[node.out[1]]);
    if (!live[n]) continue;
    if (second && used[node.out[0]] != used[node.out[1]]) {
      return Refuse(node, failure, "one of its two outputs is not used, which XNNPACK cannot do");
    }
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone) used[node.in[i]] = true;
    }
  }
  std::vector<Node> kept;
  for (size_t n = 0; n < live.size(); ++n) {
    if (live[n]) kept.push_back(graph->nodes[n]);
  }
  graph->nodes = std::move(kept);
  for (const Node &node : graph->nodes) {
    for (uint32_t i = 0; i < node.input_count; ++i) {
      if (node.in[i] != kNone) graph->values[node.in[i]].last_use = node.index;
    }
  }
  return true;
}

// XNNPACK of 2024-11 has no kernel for filters and biases of 16 bits of a convolution, but makes 16 of 32 as it packs.
void WidenFilters(Graph *graph) {
  std::unordered_map<uint32_t, uint32_t> wide;
  for (Node &node : graph->nodes) {
    if (!IsConvolution(node)) continue;
    for (uint32_t i = 1; i < 3; ++i) {
      if (node.in[i] == kNone || graph->values[node.in[i]].type != Type::kFp16) continue;
      const auto [entry, is_new] = wide.emplace(node.in[i], graph->values.size());
      if (is_new) {  // apart from the value that other nodes may read
        Value value = graph->values[node.in[i]];
        value.widens = true;
        graph->values.push_back(value);
      }
      node.in[i] = entry->second;
    }
  }
}

uint64_t Bytes(const Graph &graph, uint32_t value, const Shape &shape) {
  return (Elements(shape) * TypeBits(graph.values[value].type) + 7) / 8;
}

// Multiply-adds (or comparisons) of a node, and the bytes of XNNPACK's table of addresses for it.
void Cost(const Node &node, const Shape *shapes, uint64_t *work, uint64_t *table) {
  const Shape &output = shapes[node.out[0]];
  const Window &w = node.window;
  uint64_t each = 1;
  *table = 0;
  if (w.height != 0) {
    const uint64_t window = static_cast<uint64_t>(w.height) * w.width;
    each = window * std::max(1u, node.group_inputs);
    if (output.rank == 4 && __builtin_mul_overflow(output[1] * output[2], window * sizeof(void *), table)) {
      *table = UINT64_MAX / 2;
    }
  } else if (node.input_count >= 2 && shapes[node.in[0]].rank != 0) {
    each = shapes[node.in[0]].back(0);  // an upper bound: right for matrix products
  }
  if (__builtin_mul_overflow(Elements(output), each, work)) *work = UINT64_MAX;
}

}  // namespace

bool CheckGraph(Graph *graph, Failure *failure) {
  std::vector<ById> by_id;
  if (!IndexValues(*graph, &by_id, failure) || !IndexArguments(graph, failure)) return false;
  Resolver resolver(graph, by_id);
  for (Node &node : graph->nodes) {
    if (!resolver.Resolve(&node, failure) || !node.kind->check(*graph, node, failure)) return false;
  }
  if (!resolver.Finish(failure) || !DropUnused(graph, failure)) return false;
  WidenFilters(graph);

  std::vector<Shape> shapes(graph->values.size());
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = graph->values[i].shape;
  uint64_t peak;
  if (!InferShapes(*graph, shapes.data(), &peak, failure)) return false;
  for (const Node &node : graph->nodes) {
    for (uint32_t out : node.out) {
      if (out == kNone || shapes[out] == graph->values[out].shape) continue;
      Value &value = graph->values[out];
      if (value.type == Type::kQdint8 && Elements(value.shape) == Elements(shapes[out])) {
        value.shape = shapes[out];  // executorch declares a convolution's quantised input as NCHW
      } else {
        return Refuse(node, failure, "its output is %s, but the file says %s", Text(shapes[out]),
                      Text(graph->values[out].shape));
      }
    }
  }
  return true;
}

bool InferShapes(const Graph &graph, Shape *shapes, uint64_t *peak_bytes, Failure *failure) {
  uint64_t live = 0, peak = 0, tables = 0;
  for (const Node &node : graph.nodes) {
    if (!node.kind->infer(graph, node, shapes, failure)) return false;
    for (uint32_t out : node.out) {
      if (out == kNone) continue;
      if (!InLimits(shapes[out])) return Refuse(node, failure, "an output of %s is too large", Text(shapes[out]));
      if (graph.values[out].role == Role::kInternal) live += Bytes(graph, out, shapes[out]);
    }
    uint64_t work, table;
    Cost(node, shapes, &work, &table);
    if (work > kMaxWork) {
      return Refuse(node, failure, "%llu multiply-adds in one node", static_cast<unsigned long long>(work));
    }
    peak = std::max(peak, live);
    if (__builtin_add_overflow(tables, table, &tables) || peak + tables < tables || peak + tables > MemoryLimit()) {
      return failure->Set(EDGECORE_OUT_OF_RESOURCES,
                          "the graph needs more than %llu bytes of working memory at node %u, half of the machine's",
                          static_cast<unsigned long long>(MemoryLimit()), node.index);
    }
    const auto release = [&](uint32_t value) {
      const Value &v = graph.values[value];
      if (v.role == Role::kInternal && v.last_use == node.index) live -= Bytes(graph, value, shapes[value]);
    };
    for (uint32_t i = 0; i < node.input_count; ++i) {
      const bool repeated = std::find(node.in.begin(), node.in.begin() + i, node.in[i]) != node.in.begin() + i;
      if (node.in[i] != kNone && !repeated) release(node.in[i]);
    }
  }
  *peak_bytes = peak + tables;
  return true;
}

}  // namespace edgecore::xnnpack
