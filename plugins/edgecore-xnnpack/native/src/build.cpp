#include "build.h"

#include <cstring>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

using backend::fail;

// Functions that a patch of this plugin adds to XNNPACK (third_party/patches/13-invoke-nodes.patch). They are weak
// symbols, because an XNNPACK that the CMake option XNNPACK_DIR selects may lack the patch.
extern "C" {
__attribute__((weak)) size_t xnn_get_num_nodes(xnn_subgraph_t subgraph);
__attribute__((weak)) xnn_status xnn_invoke_runtime_nodes(xnn_runtime_t runtime, size_t begin, size_t end);
}

namespace {

// XNNPACK's xnn_datatype for each enumerator of Type (graph.h), in the same order.
constexpr xnn_datatype kTypes[] = {
    xnn_datatype_invalid, xnn_datatype_fp32,   xnn_datatype_fp16,   xnn_datatype_qint8,
    xnn_datatype_quint8,  xnn_datatype_qint32, xnn_datatype_qcint8, xnn_datatype_qcint32,
    xnn_datatype_qcint4,  xnn_datatype_qdint8, xnn_datatype_qbint4, xnn_datatype_qpint8,
    xnn_datatype_int32,   xnn_datatype_pfp32,  xnn_datatype_bf16,   xnn_datatype_invalid,
};

constexpr uint64_t kPage = 4096;
constexpr uint32_t kNoFusion = 0x80000000;  // XNN_FLAG_NO_OPERATOR_FUSION in XNNPACK's src/xnnpack/subgraph.h
constexpr uint64_t kAlignment = 4;

using Subgraph = std::unique_ptr<xnn_subgraph, decltype(&xnn_delete_subgraph)>;

bool packs_weights(const Node &node) {
  switch (node.kind->id) {
    case wire::NodeUnion_Conv2d:
    case wire::NodeUnion_DepthwiseConv2d:
    case wire::NodeUnion_ConvTranspose2d:
    case wire::NodeUnion_FullyConnected:
      return true;
    default:
      return false;
  }
}

// Converts the bits of an fp16 number to the bits of the equal fp32 number. The exponent biases differ by 127 - 15 =
// 112. An fp16 denormal, m * 2^-24, becomes a normal fp32 number. Infinities and NaN keep their fraction bits.
uint32_t fp16_to_fp32_bits(uint16_t bits16) {
  const uint32_t sign = (bits16 & 0x8000u) << 16;
  const uint32_t magnitude = bits16 & 0x7FFFu;
  if (magnitude >= 0x7C00) return sign | 0x7F800000u | (magnitude & 0x3FFu) << 13;  // infinity, NaN
  if (magnitude >= 0x0400) return sign | ((magnitude << 13) + (112u << 23));
  const float number = static_cast<float>(magnitude) * 0x1.0p-24f;
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return sign | bits;
}

// Converts `count` fp16 numbers, at any alignment, to fp32.
void convert_fp16_to_fp32(const void *numbers, uint64_t count, uint8_t *out) {
  const auto *bytes = static_cast<const uint8_t *>(numbers);
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits16;
    std::memcpy(&bits16, bytes + i * sizeof(bits16), sizeof(bits16));
    const uint32_t wide = fp16_to_fp32_bits(bits16);
    std::memcpy(out + i * sizeof(wide), &wide, sizeof(wide));
  }
}

// Sets `data` to the address of each constant for XNNPACK, and to null for other values. Most constants are used in
// place, in the blob or the file. A constant is copied if it must be widened to fp32, if it is misaligned, or if it
// ends near the end of a memory page, where kernels that read past the constant could fault. The copy goes to
// `temporary` if only the packing of weights reads it, otherwise to `permanent`.
void provide_constants(const Graph &graph, Copies *temporary, Copies *permanent, std::vector<const void *> *data) {
  std::vector<bool> is_read_by_kernels(graph.values.size());
  for (const Node &node : graph.nodes) {
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i] != kNone && !(packs_weights(node) && i > 0)) is_read_by_kernels[node.in[i]] = true;
    }
  }
  data->resize(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value &value = graph.values[i];
    if (value.role != Role::kConstant) continue;
    const auto address = reinterpret_cast<uintptr_t>(value.data);
    const uint64_t end = (address + value.bytes) % kPage;
    (*data)[i] = value.data;
    const bool is_usable = address % kAlignment == 0 && end != 0 && end <= kPage - kOverread;
    if (is_usable && !value.widens) continue;
    const uint64_t bytes = value.widens ? value.bytes * 2 : value.bytes;
    uint8_t *copy = allocate_copy(bytes, is_read_by_kernels[i] ? permanent : temporary);
    if (value.widens) {
      convert_fp16_to_fp32(value.data, element_count(value.shape), copy);
    } else {
      std::memcpy(copy, value.data, static_cast<size_t>(value.bytes));
    }
    (*data)[i] = copy;
  }
}

int32_t error_code(xnn_status status) {
  return status == xnn_status_out_of_memory ? EDGECORE_MEMORY_ALLOCATION_FAILED : EDGECORE_NOT_SUPPORTED;
}

// Defines the graph's values and nodes in XNNPACK. Returns the steps of a run: ranges of XNNPACK's nodes, each followed
// by a node that the delegate computes.
std::vector<Step> define(const Graph &graph, const Exposed &exposed, const Runtime &runtime, xnn_subgraph_t subgraph) {
  std::vector<uint32_t> external_ids(graph.values.size(), kNone);
  for (size_t i = 0; i < graph.values.size(); ++i) external_ids[i] = graph.values[i].argument;
  for (size_t i = 0; i < exposed.size(); ++i) {
    external_ids[exposed[i]] = static_cast<uint32_t>(graph.externals.size() + i);
  }
  const Sums &sums = runtime.sums;
  const Tables &tables = runtime.tables;
  // Do not define internal values that no node of XNNPACK reads or writes.
  std::vector<bool> is_used(graph.values.size()), is_written(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    if (is_own(node) || tables.skips(i)) continue;
    for (uint32_t value : node.in) {
      if (value != kNone) is_used[tables.has(i) ? tables.source[i] : value] = true;
    }
    for (uint32_t value : node.out) {
      if (value != kNone) is_used[value] = is_written[value] = true;
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    // Define no value for the result of a convolution with a fused addition: it exists only inside the fused kernel.
    if (sums.has(i)) is_used[graph.nodes[i].out[0]] = false;
  }
  std::vector<uint32_t> ids(graph.values.size(), XNN_INVALID_VALUE_ID);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value &value = graph.values[i];
    if ((!is_used[i] && external_ids[i] == kNone) || !is_in_xnnpack(value)) continue;
    const xnn_status status =
        define_value(subgraph, value, external_ids[i], is_written[i], runtime.constant_data[i], &ids[i]);
    if (status != xnn_status_success) {
      fail(error_code(status), "XNNPACK refused value %u (%s %s): %s", value.id, type_name(value.type),
           shape_text(value.shape), status_name(status));
    }
  }
  std::vector<Step> steps;
  size_t first = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    if (runtime.skips(i)) continue;
    if (is_own(node)) {
      if (!runs_parts()) {
        fail(EDGECORE_NOT_SUPPORTED, "node %u (%s): the XNNPACK in this library cannot run a part of a graph",
             node.index, node.kind->name);
      }
      steps.push_back({first, xnn_get_num_nodes(subgraph), &node});
      first = steps.back().last;
      continue;
    }
    const xnn_status status = sums.has(i)     ? define_with_sum(subgraph, graph, sums, i, ids.data())
                              : tables.has(i) ? define_table(subgraph, graph, tables, i, ids.data())
                                              : node.kind->define(subgraph, graph, node, ids.data());
    if (status != xnn_status_success) {
      fail(error_code(status), "node %u (%s): XNNPACK refused the node: %s", node.index, node.kind->name,
           status_name(status));
    }
  }
  const bool is_whole = steps.empty();
  steps.push_back({first, is_whole ? SIZE_MAX : xnn_get_num_nodes(subgraph), nullptr});
  return steps;
}

}  // namespace

xnn_status define_value(xnn_subgraph_t subgraph, const Value &value, uint32_t external, bool is_written,
                        const void *data, uint32_t *id) {
  const xnn_datatype type = value.widens ? xnn_datatype_fp32 : kTypes[static_cast<size_t>(value.type)];
  const Quantization &q = value.quantization;
  const size_t rank = value.shape.rank;
  const std::array<size_t, kMaxRank> sizes = xnn_dims(value.shape);
  const size_t *dims = sizes.data();
  static_assert(kNone == XNN_INVALID_VALUE_ID);
  const uint32_t flags = external == kNone ? 0
                         : is_written      ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT
                                           : XNN_VALUE_FLAG_EXTERNAL_INPUT;
  switch (value.type) {
    case Type::kQint8:
    case Type::kQuint8:
    case Type::kQint32:
      return xnn_define_quantized_tensor_value(subgraph, type, q.zero_point, q.scale, rank, dims, data, external, flags,
                                               id);
    case Type::kQcint8:
    case Type::kQcint32:
    case Type::kQcint4:
      return xnn_define_channelwise_quantized_tensor_value_v2(subgraph, type, q.zero_point, q.scales, rank,
                                                              q.channel_dim, dims, data, external, flags, id);
    case Type::kQbint4:
      return xnn_define_blockwise_quantized_tensor_value(subgraph, type, q.zero_point, q.group_scales, rank,
                                                         q.channel_dim, q.group_size, dims, data, external, flags, id);
    case Type::kQdint8:
      return xnn_define_dynamically_quantized_tensor_value(subgraph, type, rank, q.nonbatch_dims, dims, external, flags,
                                                           id);
    default:
      return xnn_define_tensor_value(subgraph, type, rank, dims, data, external, flags, id);
  }
}

bool runs_parts() { return xnn_get_num_nodes != nullptr && xnn_invoke_runtime_nodes != nullptr; }

xnn_status run_nodes(const Runtime &runtime, size_t first, size_t last) {
  if (first == last) return xnn_status_success;
  if (last == SIZE_MAX) return xnn_invoke_runtime(runtime.handle);
  return xnn_invoke_runtime_nodes(runtime.handle, first, last);
}

const char *status_name(xnn_status status) {
  static const char *const names[] = {"success",       "uninitialized",         "invalid parameter",
                                      "invalid state", "unsupported parameter", "not supported by this processor",
                                      "out of memory", "reallocation required", "deprecated"};
  const auto index = static_cast<size_t>(status);
  return index < std::size(names) ? names[index] : "unknown status";
}

void build_runtime(const Graph &graph, const Exposed &exposed, pthreadpool_t threadpool, uint32_t flags,
                   Runtime *runtime) {
  Copies temporary;
  std::vector<const void *> &data = runtime->constant_data;
  provide_constants(graph, &temporary, &runtime->constants, &data);
  xnn_subgraph_t created = nullptr;
  xnn_status status = xnn_create_subgraph(static_cast<uint32_t>(graph.externals.size() + exposed.size()), 0, &created);
  if (status != xnn_status_success) {
    fail(error_code(status), "XNNPACK could not create a graph: %s", status_name(status));
  }
  const Subgraph subgraph(created, xnn_delete_subgraph);
  runtime->sums = find_sums(graph, exposed);
  runtime->tables = find_tables(graph, exposed);
  compute_tables(graph, data, &runtime->tables);
  runtime->steps = define(graph, exposed, *runtime, subgraph.get());
  if (runtime->weight_cache) runtime->weights.name_packings(graph, data);
  for (const Node &node : graph.nodes) {
    if (is_winograd(node))
      data[node.in[1]] = pack_winograd(graph, node, data, runtime->weight_cache, &runtime->weights);
  }
  // Disable XNNPACK's fusions: a fused node also accesses values of the nodes that it replaces, at other times than
  // ExposedMemory assumes.
  if (runtime->steps.size() > 1) flags |= kNoFusion;
  const std::unique_lock<std::mutex> lock = lock_workspace(runtime->workspace);
  const xnn_weights_cache_t weights = runtime->weight_cache ? runtime->weights.provider() : nullptr;
  const ForcedTile forced(runtime->tile);
  // Call xnn_create_runtime_v3 if there is no shared workspace: xnn_create_runtime_v4 would leak a workspace that it
  // creates itself if one of its later steps fails.
  status = runtime->workspace == nullptr
               ? xnn_create_runtime_v3(subgraph.get(), weights, threadpool, flags, &runtime->handle)
               : xnn_create_runtime_v4(subgraph.get(), weights, runtime->workspace->handle(), threadpool, flags,
                                       &runtime->handle);
  if (status == xnn_status_success && runtime->weights.failed()) status = xnn_status_invalid_state;
  if (status != xnn_status_success) {
    fail(error_code(status), "XNNPACK could not prepare the graph's %zu nodes: %s", graph.nodes.size(),
         status_name(status));
  }
}

}  // namespace edgecore::xnnpack
