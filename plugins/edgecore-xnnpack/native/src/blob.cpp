#include "blob.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nodes.h"
#include "values.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

using backend::fail;

namespace {

// ExecuTorch's header of a blob has 30 bytes, padded to 32, little endian: u32 0, "XH00", u16 header length, u32 offset
// and u32 size of the flatbuffer, u32 offset and u64 size of the constants.
constexpr char kMagic[] = "XH00";
constexpr uint64_t kHeaderSize = 30;

// The flatbuffer and the constant section of a blob.
struct Sections {
  edgecore_bytes flatbuffer;
  edgecore_bytes constants;
};

// Returns the bytes [offset, offset + size) of the blob. Throws if they are out of bounds.
edgecore_bytes section(edgecore_bytes blob, const char *name, uint64_t offset, uint64_t size) {
  if (offset > blob.size || size > blob.size - offset) {
    backend::damaged("its %s (offset %llu, %llu bytes) is not in its %llu bytes", name,
                     static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size),
                     static_cast<unsigned long long>(blob.size));
  }
  return {blob.data + offset, size};
}

Sections split(edgecore_bytes blob) {
  backend::ByteReader reader(blob);
  reader.take(4);
  if (std::memcmp(reader.take(4), kMagic, 4) != 0) return {blob, {nullptr, 0}};
  if (reader.number<uint16_t>() < kHeaderSize) backend::damaged("its XH00 header is too short");
  const uint32_t offset = reader.u32(), size = reader.u32(), constant_offset = reader.u32();
  const auto constant_size = reader.number<uint64_t>();
  return {section(blob, "flatbuffer", offset, size),
          constant_size == 0 ? edgecore_bytes{nullptr, 0}
                             : section(blob, "constant section", constant_offset, constant_size)};
}

void read_node(const wire::Node *table, Node *node) {
  node->kind = find_node_kind(static_cast<uint8_t>(table->node_type()));
  if (node->kind == nullptr || table->node() == nullptr) {
    fail(EDGECORE_INVALID_PROGRAM, "node %u is of kind %u, which this version does not know", node->index,
         static_cast<unsigned>(table->node_type()));
  }
  node->min = -std::numeric_limits<float>::infinity();
  node->max = std::numeric_limits<float>::infinity();
  if (const auto *range = table->output_min_max()) {
    node->min = range->output_min();
    node->max = range->output_max();
  }
  node->kind->read(table->node(), node);
}

// Throws if a graph has features of edgecore's own format, but its blob lacks the flatbuffer identifier XE01 of that
// format. Other toolchains may give other meanings to the numbers of these node kinds and types.
void check_no_state(const Graph &graph) {
  const bool has_own = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_own);
  const bool has_positions = std::any_of(graph.values.begin(), graph.values.end(),
                                         [](const Value &value) { return value.type == Type::kInt64; });
  if (!has_own && !has_positions && graph.states.empty()) return;
  fail(EDGECORE_INVALID_PROGRAM, "the blob has states, int64 values or attention nodes, but not the identifier XE01");
}

// Adds the state (a mutable buffer that the delegate keeps between calls) that the flatbuffer describes at `table`.
void read_state(const wire::State *table, const backend::Host &host, Graph *graph) {
  const auto *name = table->name();
  if (name == nullptr || name->size() == 0) fail(EDGECORE_INVALID_PROGRAM, "a state of the blob has no name");
  const auto at = std::find_if(graph->values.begin(), graph->values.end(),
                               [&](const Value &value) { return value.id == table->value_id(); });
  if (at == graph->values.end() || at->role != Role::kInternal || at->type != Type::kFp32) {
    fail(EDGECORE_INVALID_PROGRAM, "the state '%s' is value %u, which is no internal fp32 value", name->c_str(),
         table->value_id());
  }
  at->role = Role::kState;
  at->state = static_cast<uint32_t>(graph->states.size());
  State state;
  state.value = static_cast<uint32_t>(at - graph->values.begin());
  state.name = name->str();
  for (const State &other : graph->states) {
    if (other.name == state.name) fail(EDGECORE_INVALID_PROGRAM, "two states have the name '%s'", name->c_str());
  }
  try {  // even if the blob fills the state with zeros, a .ptd file may have initial content for it
    state.initial = host.named_data(state.name);
  } catch (const backend::Failure &failure) {
    if (table->has_initial() || failure.code != EDGECORE_NOT_FOUND) throw;
  }
  graph->states.push_back(std::move(state));
}

}  // namespace

Graph read_blob(edgecore_bytes blob, const backend::Host &host) {
  const auto [flatbuffer, constants] = split(blob);
  const Sources sources = {host, constants};

  // Copy the flatbuffer: the copy is aligned, and no other code can change it after its verification.
  if (flatbuffer.size < 8 || flatbuffer.size > FLATBUFFERS_MAX_BUFFER_SIZE) {
    fail(EDGECORE_INVALID_PROGRAM, "the blob's flatbuffer of %llu bytes is too small or too large",
         static_cast<unsigned long long>(flatbuffer.size));
  }
  const auto size = static_cast<size_t>(flatbuffer.size);
  std::vector<uint64_t> copy((size + 7) / 8);
  std::memcpy(copy.data(), flatbuffer.data, size);
  const auto *bytes = reinterpret_cast<const uint8_t *>(copy.data());
  const auto has_identifier = [&](const char *id) { return std::memcmp(bytes + 4, id, 4) == 0; };
  if (!has_identifier("XN00") && !has_identifier("XN01") && !has_identifier("XE01")) {
    fail(EDGECORE_INVALID_PROGRAM, "the blob is no XNNPACK graph: identifier XN00, XN01 or XE01 is missing");
  }
  // Limit the number of flatbuffer tables: in a crafted file many may share a vector, which makes verification slow.
  flatbuffers::Verifier verifier(bytes, size, 16, 1u << 20);
  if (!verifier.VerifyBuffer<wire::Graph>(nullptr)) {
    fail(EDGECORE_INVALID_PROGRAM, "the blob's flatbuffer is damaged");
  }
  const wire::Graph *root = wire::GetGraph(bytes);
  if (root->num_externs() > kMaxArguments) {
    fail(EDGECORE_INVALID_PROGRAM, "the graph has %u external values; at most %u are supported", root->num_externs(),
         kMaxArguments);
  }

  const uint32_t value_count = root->xvalues() == nullptr ? 0 : root->xvalues()->size();
  Graph graph;
  graph.values.resize(value_count);
  for (uint32_t i = 0; i < value_count; ++i) {
    read_value(root->xvalues()->Get(i), root->constant_data(), sources, &graph, &graph.values[i]);
  }
  const uint32_t node_count = root->xnodes() == nullptr ? 0 : root->xnodes()->size();
  graph.nodes.resize(node_count);
  for (uint32_t i = 0; i < node_count; ++i) {
    graph.nodes[i].index = i;
    graph.nodes[i].debug_id = root->xnodes()->Get(i)->debug_handle();
    read_node(root->xnodes()->Get(i), &graph.nodes[i]);
  }
  const uint32_t state_count = root->states() == nullptr ? 0 : root->states()->size();
  if (state_count > kMaxArguments) fail(EDGECORE_INVALID_PROGRAM, "the graph has %u states", state_count);
  for (uint32_t i = 0; i < state_count; ++i) read_state(root->states()->Get(i), host, &graph);
  if (!has_identifier("XE01")) check_no_state(graph);
  return graph;
}

}  // namespace edgecore::xnnpack
