#include "build.h"

#include <cstring>
#include <new>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

// XNNPACK's numbers of the wire format's types.
constexpr xnn_datatype kTypes[] = {
    xnn_datatype_invalid, xnn_datatype_fp32,   xnn_datatype_fp16,    xnn_datatype_qint8,  xnn_datatype_quint8,
    xnn_datatype_qint32,  xnn_datatype_qcint8, xnn_datatype_qcint32, xnn_datatype_qcint4, xnn_datatype_qdint8,
    xnn_datatype_qbint4,  xnn_datatype_qpint8, xnn_datatype_int32,   xnn_datatype_pfp32,  xnn_datatype_bf16,
};

constexpr uint64_t kPage = 4096;
constexpr uint64_t kOverread = 64;  // XNNPACK reads at most 32 bytes past an array
constexpr uint64_t kAlignment = 4;
constexpr uint64_t kCopyAlignment = 64;

using Copies = std::vector<std::unique_ptr<uint8_t[]>>;

bool Packs(const Node &node) {
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

// The float32 bits of a float16 number: its exponent has another bias, and subnormal ones are normal in 32 bits.
uint32_t WidenHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00) return sign | 0x7F800000u | (magnitude & 0x3FFu) << 13;  // infinity, NaN
  if (magnitude >= 0x0400) return sign | ((magnitude << 13) + (112u << 23));
  const float number = static_cast<float>(magnitude) * 0x1.0p-24f;
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return sign | bits;
}

// Any alignment.
void WidenHalves(const void *halves, uint64_t count, uint8_t *out) {
  const auto *bytes = static_cast<const uint8_t *>(halves);
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + i * sizeof(half), sizeof(half));
    const uint32_t wide = WidenHalf(half);
    std::memcpy(out + i * sizeof(wide), &wide, sizeof(wide));
  }
}

// The address of each constant for XNNPACK, NULL for other values. They are used in place. A copy is made of one that
// is not aligned, and of one so near the end of its last page that reading past it could fault: into `packed` if it is
// no longer read after packing, else into `kept`.
bool PlaceConstants(const Graph &graph, Copies *packed, Copies *kept, std::vector<const void *> *data,
                    Failure *failure) {
  std::vector<bool> read(graph.values.size());
  for (const Node &node : graph.nodes) {
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      if (node.in[i] != kNone && !(Packs(node) && i > 0)) read[node.in[i]] = true;
    }
  }
  data->resize(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value &value = graph.values[i];
    if (value.role != Role::kConstant) continue;
    const auto address = reinterpret_cast<uintptr_t>(value.data);
    const uint64_t end = (address + value.bytes) % kPage;
    (*data)[i] = value.data;
    const bool fits = address % kAlignment == 0 && end != 0 && end <= kPage - kOverread;
    if (fits && !value.widens) continue;
    const uint64_t bytes = value.widens ? value.bytes * 2 : value.bytes;
    auto *memory = new (std::nothrow) uint8_t[bytes + kOverread + kCopyAlignment];
    if (memory == nullptr) {
      return failure->Set(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for a constant of %llu bytes",
                          static_cast<unsigned long long>(bytes));
    }
    (read[i] ? kept : packed)->emplace_back(memory);
    const auto start = reinterpret_cast<uintptr_t>(memory);
    uint8_t *copy = memory + (kCopyAlignment - start % kCopyAlignment) % kCopyAlignment;
    if (value.widens) {
      WidenHalves(value.data, Elements(value.shape), copy);
    } else {
      std::memcpy(copy, value.data, value.bytes);
    }
    (*data)[i] = copy;
  }
  return true;
}

xnn_status DefineValue(xnn_subgraph_t subgraph, const Value &value, const void *data, uint32_t *id) {
  const xnn_datatype type = value.widens ? xnn_datatype_fp32 : kTypes[static_cast<size_t>(value.type)];
  const Quantization &q = value.quantization;
  const size_t rank = value.shape.rank;
  const size_t *dims = Sizes(value.shape);
  const uint32_t external = value.argument == kNone ? XNN_INVALID_VALUE_ID : value.argument;
  const uint32_t flags = value.role == Role::kInput    ? XNN_VALUE_FLAG_EXTERNAL_INPUT
                         : value.role == Role::kOutput ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT
                                                       : 0;
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

int32_t Code(xnn_status status) {
  return status == xnn_status_out_of_memory ? EDGECORE_MEMORY_ALLOCATION_FAILED : EDGECORE_NOT_SUPPORTED;
}

bool Define(const Graph &graph, const std::vector<const void *> &data, xnn_subgraph_t subgraph, Failure *failure) {
  // Values that no node touches are left out.
  std::vector<bool> used(graph.values.size());
  for (const Node &node : graph.nodes) {
    for (uint32_t value : node.in) {
      if (value != kNone) used[value] = true;
    }
    for (uint32_t value : node.out) {
      if (value != kNone) used[value] = true;
    }
  }
  std::vector<uint32_t> ids(graph.values.size(), XNN_INVALID_VALUE_ID);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value &value = graph.values[i];
    if (!used[i] && value.argument == kNone) continue;
    const xnn_status status = DefineValue(subgraph, value, data[i], &ids[i]);
    if (status != xnn_status_success) {
      return failure->Set(Code(status), "XNNPACK refused value %u (%s %s): %s", value.id, TypeName(value.type),
                          Text(value.shape), StatusName(status));
    }
  }
  for (const Node &node : graph.nodes) {
    const xnn_status status = node.kind->define(subgraph, graph, node, ids.data());
    if (status != xnn_status_success) {
      Refuse(node, failure, "XNNPACK refused it: %s", StatusName(status));
      failure->code = Code(status);
      return false;
    }
  }
  return true;
}

}  // namespace

const char *StatusName(xnn_status status) {
  static const char *const names[] = {"success",       "uninitialized",         "invalid parameter",
                                      "invalid state", "unsupported parameter", "not supported by this processor",
                                      "out of memory", "reallocation required", "deprecated"};
  const auto index = static_cast<size_t>(status);
  return index < std::size(names) ? names[index] : "unknown status";
}

bool BuildRuntime(const Graph &graph, pthreadpool_t threadpool, uint32_t flags, Runtime *runtime, Failure *failure) {
  Copies packed;
  std::vector<const void *> data;
  if (!PlaceConstants(graph, &packed, &runtime->constants, &data, failure)) return false;
  xnn_subgraph_t subgraph = nullptr;
  xnn_status status = xnn_create_subgraph(static_cast<uint32_t>(graph.externals.size()), 0, &subgraph);
  if (status != xnn_status_success) {
    return failure->Set(Code(status), "XNNPACK could not create a graph: %s", StatusName(status));
  }
  bool done = Define(graph, data, subgraph, failure);
  if (done) {
    if (runtime->weight_cache) runtime->weights.Name(graph, data);
    const std::unique_lock<std::mutex> turn = TakeTurn(runtime->workspace);
    status = xnn_create_runtime_v4(subgraph, runtime->weight_cache ? runtime->weights.provider() : nullptr,
                                   runtime->workspace == nullptr ? nullptr : runtime->workspace->handle(), threadpool,
                                   flags, &runtime->handle);
    if (status == xnn_status_success && runtime->weights.failed()) status = xnn_status_invalid_state;
    if (status != xnn_status_success) {
      done = failure->Set(Code(status), "XNNPACK could not prepare the graph's %zu nodes: %s", graph.nodes.size(),
                          StatusName(status));
    }
  }
  xnn_delete_subgraph(subgraph);
  return done;
}

}  // namespace edgecore::xnnpack
