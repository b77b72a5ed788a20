// Renames operator calls that only ExecuTorch's partitioner writes: they get the names of this backend's operators.
// Replaces a pair of calls by one call if this backend has an operator for the pair and ExecuTorch's registry has none.
#include "ops/aliases.h"

#include <map>
#include <vector>

namespace edgecore::vulkan {

namespace {

// Returns, for each value, how many calls, lists and graph outputs refer to the value, including the call that writes
// it.
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

// Replaces max_pool2d_with_indices by max_pool2d, which has no second result, if nothing reads the indices.
void drop_indices(const Graph &graph, const std::vector<uint32_t> &uses, OperatorCall *call) {
  if (call->args.empty()) return;
  const Value &results = graph.values[call->args.back()];
  if (results.kind != Kind::kValueList || results.integers.size() != 2) return;
  if (uses[static_cast<size_t>(results.integers[1])] != 1) return;
  call->name = "aten.max_pool2d.default";
  call->args.back() = static_cast<uint32_t>(results.integers[0]);
}

// Replaces x * sigmoid(x) by silu(x) if nothing else reads the sigmoid, which is then not stored.
void fuse_silu(Graph *graph, const std::vector<uint32_t> &uses) {
  std::map<uint32_t, size_t> sigmoids;  // result of a sigmoid that only one call reads -> index of the sigmoid's call
  std::vector<bool> is_fused(graph->calls.size());
  for (size_t i = 0; i < graph->calls.size(); ++i) {
    OperatorCall &call = graph->calls[i];
    if (call.name == "aten.sigmoid.default" && call.args.size() == 2 && uses[call.args[1]] == 2) {
      sigmoids[call.args[1]] = i;
    }
    if (call.name != "aten.mul.Tensor" || call.args.size() != 3) continue;
    for (size_t factor = 0; factor < 2; ++factor) {
      const auto found = sigmoids.find(call.args[1 - factor]);
      const uint32_t x = call.args[factor];
      if (found == sigmoids.end() || graph->calls[found->second].args[0] != x) continue;
      const Value &value = graph->values[x], &result = graph->values[call.args[2]];
      if (value.kind != Kind::kTensor || result.kind != Kind::kTensor || value.type != result.type) continue;
      is_fused[found->second] = true;
      call.name = "aten.silu.default";
      call.args = {x, call.args[2]};
      break;
    }
  }
  std::vector<OperatorCall> kept;
  for (size_t i = 0; i < is_fused.size(); ++i) {
    if (!is_fused[i]) kept.push_back(std::move(graph->calls[i]));
  }
  graph->calls = std::move(kept);
}

}  // namespace

void replace_aliases(Graph *graph) {
  const std::vector<uint32_t> uses = count_uses(*graph);
  fuse_silu(graph, uses);
  for (OperatorCall &call : graph->calls) {
    if (call.name == "dim_order_ops._clone_dim_order.default") {
      call.name = "aten.clone.default";
    } else if (call.name == "dim_order_ops._to_dim_order_copy.default") {
      call.name = "aten._to_copy.default";  // its last argument, an order of dims, is ignored
    } else if (call.name == "aten.max_pool2d_with_indices.default") {
      drop_indices(*graph, uses, &call);
    }
  }
}

}  // namespace edgecore::vulkan
