// Calls that only the partitioner of ExecuTorch writes, which this delegate has under another name.
#include "ops/aliases.h"

#include <vector>

namespace edgecore::vulkan {

namespace {

// Returns for each value how many calls, lists and outputs name it.
std::vector<uint32_t> count_uses(const Graph &graph) {
  std::vector<uint32_t> uses(graph.values.size());
  for (const uint32_t number : graph.outputs) ++uses[number];
  for (const OperatorCall &call : graph.calls) {
    for (const uint32_t number : call.args) ++uses[number];
  }
  for (const Value &value : graph.values) {
    if (value.kind != Kind::kValueList) continue;
    for (const int64_t number : value.integers) ++uses[static_cast<size_t>(number)];
  }
  return uses;
}

// max_pool2d_with_indices has a list of two results. Where nothing reads the indices, max_pool2d computes the first.
void drop_indices(const Graph &graph, const std::vector<uint32_t> &uses, OperatorCall *call) {
  if (call->args.empty()) return;
  const Value &results = graph.values[call->args.back()];
  if (results.kind != Kind::kValueList || results.integers.size() != 2) return;
  if (uses[static_cast<size_t>(results.integers[1])] != 1) return;
  call->name = "aten.max_pool2d.default";
  call->args.back() = static_cast<uint32_t>(results.integers[0]);
}

}  // namespace

void replace_aliases(Graph *graph) {
  const std::vector<uint32_t> uses = count_uses(*graph);
  for (OperatorCall &call : graph->calls) {
    if (call.name == "dim_order_ops._clone_dim_order.default") {
      call.name = "aten.clone.default";
    } else if (call.name == "dim_order_ops._to_dim_order_copy.default") {
      call.name = "aten._to_copy.default";  // the same number of arguments: the last is an order of dims, not read
    } else if (call.name == "aten.max_pool2d_with_indices.default") {
      drop_indices(*graph, uses, &call);
    }
  }
}

}  // namespace edgecore::vulkan
