// Computes the nodes that XNNPACK lacks: the update of a KV cache in place, and attention that reads the cache in
// place. XNNPACK could compute them only with copies of the whole cache in each call, because it cannot write into an
// input, and because its matmul first packs the second operand.
#include <algorithm>
#include <cmath>

#include "attention.h"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

using backend::fail;

namespace {

// --- CacheUpdate writes rows into a state. Its inputs are the state, the rows and the positions. ---

void read_update(const void *table, Node *node) {
  const auto *t = static_cast<const wire::CacheUpdate *>(table);
  node->input_count = 3;
  node->in[0] = t->cache_id();
  node->in[1] = t->rows_id();
  node->in[2] = t->positions_id();
  node->out[0] = t->output_id();
  node->axis = t->dim();
}

void check_no_range(const Node &node) {
  if (std::isfinite(node.min) || std::isfinite(node.max)) refuse(node, "does not support an output range");
}

void check_update(const Graph &graph, const Node &node) {
  check_no_range(node);
  if (input_value(graph, node, 0).role != Role::kState) refuse(node, "input 0 is no state");
  if (output_value(graph, node).role != Role::kInternal) refuse(node, "its output is no internal value");
  if (input_value(graph, node, 1).type != Type::kFp32 || output_value(graph, node).type != Type::kFp32) {
    refuse(node, "does not support %s rows and a %s output", type_name(input_value(graph, node, 1).type),
           type_name(output_value(graph, node).type));
  }
  if (input_value(graph, node, 2).type != Type::kInt64 || input_value(graph, node, 2).shape.rank != 1) {
    refuse(node, "the positions are %s of rank %u instead of int64 of rank 1",
           type_name(input_value(graph, node, 2).type), input_value(graph, node, 2).shape.rank);
  }
  if (node.axis >= input_value(graph, node, 0).shape.rank) refuse(node, "the state has no dim %u", node.axis);
}

void infer_update(const Graph &, const Node &node, Shape *shapes) {
  const Shape &cache = shapes[node.in[0]];
  Shape rows = cache;
  rows[node.axis] = shapes[node.in[2]][0];
  if (shapes[node.in[1]] != rows) {
    refuse(node, "the rows are %s instead of %s", shape_text(shapes[node.in[1]]), shape_text(rows));
  }
  shapes[node.out[0]] = cache;
}

// Copies the new rows of a KV cache to their positions; a negative position counts from the end, as in PyTorch.
void run_update(const Graph &graph, const Node &node, const Shape *shapes, void *const *data, const backend::Host &,
                uint8_t *) {
  const Shape &cache = shapes[node.in[0]];
  const auto *positions = static_cast<const int64_t *>(data[node.in[2]]);
  const uint64_t count = shapes[node.in[2]][0], size = cache[node.axis];
  const auto limit = static_cast<int64_t>(size);
  for (uint64_t i = 0; i < count; ++i) {
    if (positions[i] < -limit || positions[i] >= limit) {
      fail(EDGECORE_INVALID_ARGUMENT, "position %lld is outside of the state '%s', whose dim %u has %lld elements",
           static_cast<long long>(positions[i]), graph.states[graph.values[node.in[0]].state].name.c_str(), node.axis,
           static_cast<long long>(limit));
    }
  }
  uint64_t outer = 1, row_bytes = sizeof(float);
  for (uint32_t d = 0; d < node.axis; ++d) outer *= cache[d];
  for (uint32_t d = node.axis + 1; d < cache.rank; ++d) row_bytes *= cache[d];
  const auto *from = static_cast<const uint8_t *>(data[node.in[1]]);
  auto *to = static_cast<uint8_t *>(data[node.in[0]]);
  for (uint64_t o = 0; o < outer; ++o, to += size * row_bytes) {
    for (uint64_t i = 0; i < count; ++i, from += row_bytes) {
      const auto position = static_cast<uint64_t>(positions[i] < 0 ? positions[i] + limit : positions[i]);
      std::memcpy(to + position * row_bytes, from, static_cast<size_t>(row_bytes));
    }
  }
}

// --- ScaledDotProductAttention reads a query, a key, a value, a scale and a mask. ---

void read_attention(const void *table, Node *node) {
  const auto *t = static_cast<const wire::ScaledDotProductAttention *>(table);
  node->input_count = 5;
  node->in = {t->query_id(), t->key_id(), t->value_id(), t->scale_id(), t->mask_id()};
  node->out[0] = t->output_id();
  node->flags = t->flags();
}

void check_attention(const Graph &graph, const Node &node) {
  check_no_range(node);
  for (uint32_t i = 0; i < 5; ++i) {
    if (node.in[i] != kNone && input_value(graph, node, i).type != Type::kFp32) {
      refuse(node, "input %u is %s; only fp32 is supported", i, type_name(input_value(graph, node, i).type));
    }
  }
  if (output_value(graph, node).type != Type::kFp32) refuse(node, "the output is not fp32");
  const Value &scale = input_value(graph, node, 3);
  if (scale.role != Role::kConstant || element_count(scale.shape) != 1) {
    refuse(node, "the scale is no constant of one element");
  }
}

// Infers the output shape of an attention. The batch dims of query, key and value must be equal, except that several
// query heads may share a head of key and value (grouped-query attention).
void infer_attention(const Graph &, const Node &node, Shape *shapes) {
  const Shape &query = shapes[node.in[0]], &key = shapes[node.in[1]], &value = shapes[node.in[2]];
  const uint32_t rank = query.rank;
  bool fits = rank >= 3 && key.rank == rank && value.rank == rank && query.back(0) == key.back(0) &&
              key.back(1) == value.back(1) && key.back(2) == value.back(2) && query.back(2) % key.back(2) == 0;
  for (uint32_t d = 0; fits && d + 3 < rank; ++d) fits = query[d] == key[d] && key[d] == value[d];
  if (!fits) {
    refuse(node, "query %s, key %s and value %s do not fit", shape_text(query), shape_text(key), shape_text(value));
  }
  Shape output = query;
  output[rank - 1] = value.back(0);
  if (node.in[4] != kNone) {
    Shape scores = query, all;
    scores[rank - 1] = key.back(1);
    const Shape &mask = shapes[node.in[4]];
    if (mask.rank > rank || !broadcast(mask, scores, &all) || all != scores) {
      refuse(node, "mask %s does not fit scores %s", shape_text(mask), shape_text(scores));
    }
  }
  shapes[node.out[0]] = output;
}

uint64_t attention_scratch(const Node &node, const Shape *shapes, uint32_t workers) {
  const Shape &query = shapes[node.in[0]], &key = shapes[node.in[1]];
  return workers * attention_scratch_bytes(key.back(1), query.back(0));
}

void run_attention(const Graph &, const Node &node, const Shape *shapes, void *const *data, const backend::Host &host,
                   uint8_t *scratch) {
  const Shape &query = shapes[node.in[0]], &key = shapes[node.in[1]];
  const uint32_t rank = query.rank;
  AttentionHead head;
  head.keys = key.back(1);
  head.width = query.back(0);
  head.value_width = shapes[node.in[2]].back(0);
  head.scale = *static_cast<const float *>(data[node.in[3]]);
  // Treat the query rows of all heads that share a key head as one list of rows, which are consecutive in memory.
  const uint64_t tokens = query.back(1), group = query.back(2) / key.back(2), rows = group * tokens;
  uint64_t heads = key.back(2);
  for (uint32_t d = 0; d + 3 < rank; ++d) heads *= key[d];

  // The mask's strides in elements, one for each dim of the scores; 0 where the mask is broadcast.
  const auto *mask = node.in[4] == kNone ? nullptr : static_cast<const float *>(data[node.in[4]]);
  Shape steps = query;
  if (mask != nullptr) {
    const Shape &shape = shapes[node.in[4]];
    uint64_t step = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t size = i < shape.rank ? shape.back(i) : 1;
      steps[rank - 1 - i] = size == 1 ? 0 : step;
      step *= size;
    }
  }
  // Returns the address of the mask of query row number `row`, counted over all batches and heads.
  const auto mask_row = [&](uint64_t row) {
    uint64_t offset = 0;
    for (uint32_t d = rank - 1; d-- > 0; row /= query[d]) offset += row % query[d] * steps[d];
    return mask + offset;
  };

  const uint64_t blocks = (rows + kAttentionRows - 1) / kAttentionRows;
  const uint64_t bytes = attention_scratch(node, shapes, 1);
  const AttentionKernel kernel = attention_kernel();
  host.parallel_for(heads * blocks, 1, [&](uint64_t begin, uint64_t end, uint32_t worker) {
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t h = i / blocks, first = i % blocks * kAttentionRows;
      AttentionHead each = head;
      each.rows = std::min(kAttentionRows, rows - first);
      each.query = static_cast<const float *>(data[node.in[0]]) + (h * rows + first) * head.width;
      each.key = static_cast<const float *>(data[node.in[1]]) + h * head.keys * head.width;
      each.value = static_cast<const float *>(data[node.in[2]]) + h * head.keys * head.value_width;
      each.output = static_cast<float *>(data[node.out[0]]) + (h * rows + first) * head.value_width;
      for (uint64_t r = 0; mask != nullptr && r < each.rows; ++r) each.mask[r] = mask_row(h * rows + first + r);
      each.mask_step = steps[rank - 1];
      kernel(each, reinterpret_cast<float *>(scratch + worker * bytes));
    }
  });
}

const NodeKind kKinds[] = {
    {wire::NodeUnion_CacheUpdate, "CacheUpdate", 0, 0, 0, 0, read_update, check_update, infer_update, nullptr,
     run_update},
    {wire::NodeUnion_ScaledDotProductAttention, "ScaledDotProductAttention", 0, 0, 0, 0b10000, read_attention,
     check_attention, infer_attention, nullptr, run_attention, attention_scratch},
};

}  // namespace

bool updates_state(const Node &node) { return node.kind->id == wire::NodeUnion_CacheUpdate; }

KindList cache_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace edgecore::xnnpack
