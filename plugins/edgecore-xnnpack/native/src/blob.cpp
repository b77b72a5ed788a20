#include "blob.h"

#include <cmath>
#include <limits>

#include "nodes.h"
#include "values.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

// Header of 30 bytes, padded to 32: u32 0, "XH00", u16 length, u32 flatbuffer offset and size, u32 constant offset,
// u64 constant size; little endian.
constexpr char kMagic[] = "XH00";
constexpr uint64_t kHeaderSize = 30;

template <typename T>
T Load(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

edgecore_bytes Part(edgecore_bytes blob, uint64_t offset, uint64_t size) {
  if (offset > blob.size || size > blob.size - offset) return {nullptr, 0};
  return {blob.data + offset, size};
}

bool Split(edgecore_bytes blob, edgecore_bytes *flatbuffer, edgecore_bytes *constants, Failure *failure) {
  *flatbuffer = blob;
  *constants = {nullptr, 0};
  if (blob.size < 8)
    return failure->Set(EDGECORE_INVALID_PROGRAM, "blob has only %llu bytes",
                        static_cast<unsigned long long>(blob.size));
  if (std::memcmp(blob.data + 4, kMagic, 4) != 0) return true;
  if (blob.size < kHeaderSize || Load<uint16_t>(blob.data + 8) < kHeaderSize) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "the XH00 header is cut off");
  }
  *flatbuffer = Part(blob, Load<uint32_t>(blob.data + 10), Load<uint32_t>(blob.data + 14));
  if (flatbuffer->data == nullptr) {
    return failure->Set(
        EDGECORE_INVALID_PROGRAM, "the flatbuffer (offset %u, %u bytes) is not in the blob of %llu bytes",
        Load<uint32_t>(blob.data + 10), Load<uint32_t>(blob.data + 14), static_cast<unsigned long long>(blob.size));
  }
  const uint64_t constant_size = Load<uint64_t>(blob.data + 22);
  if (constant_size == 0) return true;
  *constants = Part(blob, Load<uint32_t>(blob.data + 18), constant_size);
  if (constants->data == nullptr) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "the constant section (%llu bytes) is not in the blob of %llu bytes",
                        static_cast<unsigned long long>(constant_size), static_cast<unsigned long long>(blob.size));
  }
  return true;
}

bool ReadNode(const wire::Node *table, Node *node, Failure *failure) {
  if (table->node_type() == wire::NodeUnion_ScaledDotProductAttention) {
    return failure->Set(EDGECORE_NOT_SUPPORTED,
                        "node %u is a ScaledDotProductAttention, which no runtime executes; export with attention "
                        "decomposed into matrix products and softmax",
                        node->index);
  }
  node->kind = FindNodeKind(static_cast<uint8_t>(table->node_type()));
  if (node->kind == nullptr || table->node() == nullptr) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "node %u is of kind %u, which this version does not know",
                        node->index, static_cast<unsigned>(table->node_type()));
  }
  node->min = -std::numeric_limits<float>::infinity();
  node->max = std::numeric_limits<float>::infinity();
  if (const auto *range = table->output_min_max()) {
    node->min = range->output_min();
    node->max = range->output_max();
  }
  return node->kind->read(table->node(), node, failure);
}

}  // namespace

bool ReadBlob(edgecore_bytes blob, const edgecore_host *host, edgecore_scope *scope, Graph *graph, Failure *failure) {
  edgecore_bytes flatbuffer;
  Sources sources = {host, scope, {}};
  if (!Split(blob, &flatbuffer, &sources.section, failure)) return false;

  // A private, aligned copy: nobody can change it after the verifier has seen it.
  if (flatbuffer.size < 8 || flatbuffer.size > FLATBUFFERS_MAX_BUFFER_SIZE) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "a flatbuffer of %llu bytes is not possible",
                        static_cast<unsigned long long>(flatbuffer.size));
  }
  std::vector<uint64_t> copy((flatbuffer.size + 7) / 8);
  std::memcpy(copy.data(), flatbuffer.data, flatbuffer.size);
  const auto *bytes = reinterpret_cast<const uint8_t *>(copy.data());
  const auto identified = [&](const char *id) { return std::memcmp(bytes + 4, id, 4) == 0; };
  if (!identified("XN00") && !identified("XN01")) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "the blob is no XNNPACK graph: identifier XN00 or XN01 is missing");
  }
  // A vector may be shared by many tables of a crafted file, so the number of tables is limited as well.
  flatbuffers::Verifier verifier(bytes, flatbuffer.size, 16, 1u << 20);
  if (!verifier.VerifyBuffer<wire::Graph>(nullptr)) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "the blob's flatbuffer is damaged");
  }
  const wire::Graph *root = wire::GetGraph(bytes);
  if (root->num_externs() > kMaxArguments) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "%u externals, more than %u", root->num_externs(), kMaxArguments);
  }

  const uint32_t value_count = root->xvalues() == nullptr ? 0 : root->xvalues()->size();
  graph->values.resize(value_count);
  for (uint32_t i = 0; i < value_count; ++i) {
    if (!ReadValue(root->xvalues()->Get(i), root->constant_data(), sources, graph, &graph->values[i], failure)) {
      return false;
    }
  }
  const uint32_t node_count = root->xnodes() == nullptr ? 0 : root->xnodes()->size();
  graph->nodes.resize(node_count);
  for (uint32_t i = 0; i < node_count; ++i) {
    graph->nodes[i].index = i;
    graph->nodes[i].debug_id = root->xnodes()->Get(i)->debug_handle();
    if (!ReadNode(root->xnodes()->Get(i), &graph->nodes[i], failure)) return false;
  }
  return true;
}

}  // namespace edgecore::xnnpack
