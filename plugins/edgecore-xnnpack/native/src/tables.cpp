#include "tables.h"

#include <memory>
#include <numeric>

#include "build.h"
#include "edgecore/backend.hpp"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

// A function that a patch of this plugin adds to XNNPACK (third_party/patches/26-table-nodes.patch). It is a weak
// symbol, because an XNNPACK without the patch (CMake's option XNNPACK_DIR) lacks it.
extern "C" {
__attribute__((weak)) xnn_status xnn_define_table(xnn_subgraph_t subgraph, uint32_t input_id, uint32_t output_id,
                                                  const uint8_t table[256]);
}

namespace {

using backend::fail;

bool is_scalar(const Value &value) { return value.role == Role::kConstant && element_count(value.shape) == 1; }

// If a single 8-bit value of the graph determines the output of `node`, returns this value, else kNone. `sources` has,
// for each float value that an earlier node computes, the 8-bit value that determines it.
uint32_t source_of(const Graph &graph, const Node &node, const std::vector<uint32_t> &sources) {
  uint32_t source = kNone;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    const Value &value = input_value(graph, node, i);
    if (is_scalar(value)) continue;
    const uint32_t of_input = is_quantized8(value.type) && value.role != Role::kConstant ? node.in[i]  //
                                                                                         : sources[node.in[i]];
    if (of_input == kNone || (source != kNone && of_input != source)) return kNone;
    source = of_input;
  }
  return source != kNone && output_value(graph, node).shape == graph.values[source].shape ? source : kNone;
}

// Returns a flag for each node up to `end`: true if the node lies between the value `source` and the node `end`, so
// that the table of `end` replaces this node.
std::vector<bool> nodes_of_table(const Graph &graph, size_t end, uint32_t source) {
  std::vector<bool> is_needed(graph.values.size()), is_in_table(end + 1);
  is_needed[graph.nodes[end].out[0]] = true;
  for (size_t i = end + 1; i-- > 0;) {
    const Node &node = graph.nodes[i];
    if (!is_needed[node.out[0]]) continue;
    is_in_table[i] = true;
    for (uint32_t value : node.in) {
      if (value != kNone && value != source) is_needed[value] = true;
    }
  }
  return is_in_table;
}

// Runs the nodes between the value `source` and the node `end` for each of the 256 bytes that `source` can be, and
// returns the 256 results.
Tables::Bytes compute_table(const Graph &graph, const std::vector<const void *> &data, size_t end, uint32_t source) {
  const uint32_t result = graph.nodes[end].out[0];
  xnn_subgraph_t subgraph = nullptr;
  xnn_runtime_t runtime = nullptr;
  xnn_status status = xnn_create_subgraph(2, 0, &subgraph);
  const std::unique_ptr<xnn_subgraph, decltype(&xnn_delete_subgraph)> subgraph_owner(subgraph, xnn_delete_subgraph);
  std::vector<uint32_t> ids(graph.values.size(), XNN_INVALID_VALUE_ID);
  const auto define = [&](uint32_t index) {
    if (status != xnn_status_success || ids[index] != XNN_INVALID_VALUE_ID) return;
    Value value = graph.values[index];
    if (value.role != Role::kConstant) value.shape = {1, {std::tuple_size<Tables::Bytes>::value}};
    const uint32_t external = index == source ? 0 : index == result ? 1 : kNone;
    status = define_value(subgraph, value, external, index == result, data[index], &ids[index]);
  };
  const std::vector<bool> is_in_table = nodes_of_table(graph, end, source);
  for (size_t i = 0; i <= end; ++i) {
    if (!is_in_table[i]) continue;
    const Node &node = graph.nodes[i];
    for (uint32_t value : node.in) {
      if (value != kNone) define(value);
    }
    define(node.out[0]);
    if (status == xnn_status_success) status = node.kind->define(subgraph, graph, node, ids.data());
  }
  if (status == xnn_status_success) status = xnn_create_runtime_v3(subgraph, nullptr, nullptr, 0, &runtime);
  const std::unique_ptr<xnn_runtime, decltype(&xnn_delete_runtime)> runtime_owner(runtime, xnn_delete_runtime);
  alignas(64) std::array<uint8_t, 256 + kOverread> input = {}, output = {};
  std::iota(input.begin(), input.begin() + 256, static_cast<uint8_t>(0));
  const std::array<xnn_external_value, 2> externals = {{{0, input.data()}, {1, output.data()}}};
  if (status == xnn_status_success) status = xnn_reshape_runtime(runtime);
  if (status == xnn_status_success) status = xnn_setup_runtime_v2(runtime, externals.size(), externals.data());
  if (status == xnn_status_success) status = xnn_invoke_runtime(runtime);
  if (status != xnn_status_success) {
    fail(status == xnn_status_out_of_memory ? EDGECORE_MEMORY_ALLOCATION_FAILED : EDGECORE_NOT_SUPPORTED,
         "node %u (%s): XNNPACK could not compute its table: %s", graph.nodes[end].index, graph.nodes[end].kind->name,
         status_name(status));
  }
  Tables::Bytes bytes;
  std::copy_n(output.begin(), bytes.size(), bytes.begin());
  return bytes;
}

}  // namespace

Tables find_tables(const Graph &graph, const std::vector<uint32_t> &exposed) {
  if (xnn_define_table == nullptr) return {};
  const size_t count = graph.nodes.size();
  Tables tables = {std::vector<uint32_t>(count, kNone), std::vector<bool>(count), {}};
  std::vector<uint32_t> sources(graph.values.size(), kNone);  // for each float value: its 8-bit source, or kNone
  for (size_t i = 0; i < count; ++i) {
    const Node &node = graph.nodes[i];
    if (!is_elementwise(node)) continue;
    const uint32_t source = source_of(graph, node, sources);
    if (is_float(output_value(graph, node).type)) {
      sources[node.out[0]] = source;
    } else if (is_quantized8(output_value(graph, node).type) && is_float(input_value(graph, node, 0).type)) {
      tables.source[i] = source;
    }
  }
  // Work backwards, so that all uses of a result are known: a node is not computed if only tables read it.
  std::vector<bool> has_use(graph.values.size()), has_other_use(graph.values.size());
  for (uint32_t value : exposed) has_other_use[value] = true;
  for (size_t i = count; i-- > 0;) {
    const Node &node = graph.nodes[i];
    const uint32_t out = node.out[0];
    tables.is_in_tables[i] = sources[out] != kNone && graph.values[out].role == Role::kInternal && has_use[out] &&
                             !has_other_use[out] && is_elementwise(node);
    for (uint32_t value : node.in) {
      if (value == kNone) continue;
      has_use[value] = true;
      if (!tables.has(i) && !tables.is_in_tables[i]) has_other_use[value] = true;
    }
  }
  return tables;
}

void compute_tables(const Graph &graph, const std::vector<const void *> &data, Tables *tables) {
  tables->bytes.resize(tables->source.size());
  for (size_t i = 0; i < tables->source.size(); ++i) {
    if (tables->has(i)) tables->bytes[i] = compute_table(graph, data, i, tables->source[i]);
  }
}

xnn_status define_table(xnn_subgraph_t subgraph, const Graph &graph, const Tables &tables, size_t node,
                        const uint32_t *ids) {
  return xnn_define_table(subgraph, ids[tables.source[node]], ids[graph.nodes[node].out[0]], tables.bytes[node].data());
}

}  // namespace edgecore::xnnpack
