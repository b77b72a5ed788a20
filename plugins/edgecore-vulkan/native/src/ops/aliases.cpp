// Operators of ExecuTorch's registry that are other spellings of operators that this delegate has. Only blobs of
// ExecuTorch's own partitioner hold them.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

struct Alias {
  std::string_view name, target;
};

// The target reads no argument that the alias lacks.
constexpr Alias kAliases[] = {
    {"aten.alias_copy.default", "aten.clone.default"},
    {"aten.permute.default", "aten.permute_copy.default"},
    {"dim_order_ops._clone_dim_order.default", "aten.clone.default"},
    {"dim_order_ops._to_dim_order_copy.default", "aten._to_copy.default"},
};

// Calls that fill a tensor with a number: of a size, or like another tensor.
struct Filling {
  std::string_view name, target;
  int64_t number;
};

constexpr Filling kFillings[] = {
    {"aten.ones.default", "aten.full.default", 1},
    {"aten.ones_like.default", "aten.full_like.default", 1},
    {"aten.zeros.default", "aten.full.default", 0},
    {"aten.zeros_like.default", "aten.full_like.default", 0},
};

template <typename Row, size_t kCount>
const Row *find(const Row (&rows)[kCount], std::string_view name) {
  const Row *row = std::find_if(std::begin(rows), std::end(rows), [&](const Row &one) { return one.name == name; });
  return row == std::end(rows) ? nullptr : row;
}

uint32_t add_value(Graph *graph, Value value) {
  graph->values.push_back(std::move(value));
  return static_cast<uint32_t>(graph->values.size() - 1);
}

uint32_t add_integer(Graph *graph, int64_t number) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = number;
  return add_value(graph, std::move(value));
}

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

// Transposes a matrix: t_copy(x) is permute_copy(x, [1, 0]), and of fewer dims x itself.
void transpose(Graph *graph, OperatorCall *call) {
  if (call->args.size() != 2 || graph->values[call->args[0]].shape.size() != 2) {
    call->name = "aten.clone.default";
    return;
  }
  Value order;
  order.kind = Kind::kIntList;
  order.integers = {1, 0};
  call->name = "aten.permute_copy.default";
  call->args.insert(call->args.begin() + 1, add_value(graph, std::move(order)));
}

}  // namespace

void replace_aliases(Graph *graph) {
  const std::vector<uint32_t> uses = count_uses(*graph);
  for (OperatorCall &call : graph->calls) {
    if (const Alias *alias = find(kAliases, call.name)) {
      call.name = alias->target;
    } else if (const Filling *filling = find(kFillings, call.name)) {
      if (call.args.empty()) continue;
      call.name = filling->target;
      call.args.insert(call.args.begin() + 1, add_integer(graph, filling->number));
    } else if (call.name == "aten.scalar_tensor.default") {
      Value none;
      none.kind = Kind::kIntList;  // the sizes of a tensor without dims
      call.name = "aten.full.default";
      call.args.insert(call.args.begin(), add_value(graph, std::move(none)));
    } else if (call.name == "aten.t_copy.default") {
      transpose(graph, &call);
    } else if (call.name == "aten.max_pool2d_with_indices.default") {
      drop_indices(*graph, uses, &call);
    }
  }
}

}  // namespace edgecore::vulkan
