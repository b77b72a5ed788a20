// The kinds of nodes in a blob, by their number in the flatbuffer's union. Each kind has functions that read, check and
// define a node, and that infer its output shapes.
#ifndef EDGECORE_XNNPACK_NODES_H_
#define EDGECORE_XNNPACK_NODES_H_

#include <xnnpack.h>

#include <string>
#include <vector>

#include "edgecore/backend.hpp"
#include "graph.h"
#include "options.h"
#include "weights.h"

namespace edgecore::xnnpack {

struct NodeKind {
  uint8_t id;  // the kind's number in the node union of the flatbuffer
  const char *name;
  uint32_t flags;      // the node flags of XNNPACK (XNN_FLAG_*) that this kind supports
  int32_t operation;   // number of concatenated inputs, xnn_unary_operator or xnn_binary_operator
  uint32_t constants;  // a bit for each input that must be a constant, because XNNPACK packs it
  uint32_t optional;   // a bit for each input that may be absent

  // Copies the fields of the flatbuffer table into the node; the node then refers to values by their ids. Throws if a
  // list is too long.
  void (*read)(const void *table, Node *node);
  // Checks types, quantization and parameters, once after load. check_graph has already checked that the operands are
  // defined.
  void (*check)(const Graph &graph, const Node &node);
  // Infers the output shapes from the input shapes, and checks the conditions that XNNPACK has on shapes.
  void (*infer)(const Graph &graph, const Node &node, Shape *shapes);
  // Defines the node in XNNPACK. `ids` maps indices of values to XNNPACK's ids. The pointer is null for a kind that the
  // delegate computes itself.
  xnn_status (*define)(xnn_subgraph_t subgraph, const Graph &graph, const Node &node, const uint32_t *ids);
  // Computes a node that XNNPACK lacks. `shapes` and `data` have one entry per value; `scratch` has scratch_bytes()
  // bytes.
  void (*run)(const Graph &graph, const Node &node, const Shape *shapes, void *const *data, const backend::Host &host,
              uint8_t *scratch) = nullptr;
  // Returns the number of bytes of scratch memory that `run` needs on a host with this many workers. Null: `run` needs
  // none.
  uint64_t (*scratch_bytes)(const Node &node, const Shape *shapes, uint32_t workers) = nullptr;
};

// Returns true for a node that the delegate computes itself.
inline bool is_own(const Node &node) { return node.kind->run != nullptr; }

// Returns the node kind with this number in the flatbuffer's union; null for an unknown number.
const NodeKind *find_node_kind(uint8_t id);

// Tables of node kinds, one in each file nodes_*.cpp.
struct KindList {
  const NodeKind *items;
  size_t count;
};
KindList unary_kinds();
KindList binary_kinds();
KindList convolution_kinds();
KindList pooling_kinds();
KindList matrix_kinds();
KindList movement_kinds();
KindList cache_kinds();

// Returns true for a CacheUpdate, which writes to a state.
bool updates_state(const Node &node);

// Returns true for convolutions of any kind: regular, depthwise, transposed.
bool is_convolution(const Node &node);

// Returns true for elementwise functions of one tensor, or of two tensors with broadcasting, and for conversions.
bool is_elementwise(const Node &node);

// Returns the kind Conv2d.
const NodeKind *find_conv2d();

// Calls choose_forms (convolution_forms.h) to choose the convolutions that the delegate computes by Winograd's
// algorithm, and changes their nodes. Returns a sentence about all convolutions, then a line for each.
std::vector<std::string> choose_winograd(Winograd winograd, uint64_t limit, Graph *graph);

// Returns true for a convolution that the delegate computes by Winograd's algorithm, because choose_winograd changed
// it.
bool is_winograd(const Node &node);

// Returns the packed weights of a convolution that Winograd's algorithm computes; they live as long as `weights`.
// `data` has the address of each constant. If `is_shared`, equal nodes of the process share the packed weights.
const void *pack_winograd(const Graph &graph, const Node &node, const std::vector<const void *> &data, bool is_shared,
                          Weights *weights);

// Throws a Failure (EDGECORE_INVALID_PROGRAM) whose text begins with the node's index and kind: "node 12 (Conv2d): ".
[[noreturn, gnu::format(printf, 2, 3)]] void refuse(const Node &node, const char *format, ...);

inline const Value &input_value(const Graph &graph, const Node &node, uint32_t i) { return graph.values[node.in[i]]; }
inline const Value &output_value(const Graph &graph, const Node &node, uint32_t i = 0) {
  return graph.values[node.out[i]];
}

// The functions check_* below are shared by several kinds of nodes; each throws backend::Failure if its condition is
// violated. check_same_type checks that all inputs and the output have the same type.
void check_same_type(const Graph &graph, const Node &node);
// Checks that a node's 8-bit inputs and outputs have the same scale and zero point.
void check_same_quantization(const Graph &graph, const Node &node);
// Checks that a node's output range has min <= max and that neither is NaN.
void check_output_range(const Node &node);
// Checks a node that only moves elements: inputs and output have the same type (fp32, fp16, qint8 or quint8), scale and
// zero point.
void check_data_movement(const Graph &graph, const Node &node);
// Checks a copy or reshape as check_data_movement does, but also allows int32 (the indices of ArgMax).
void check_copy(const Graph &graph, const Node &node);
// Checks that the filter (input 1) of an integer kernel has a zero point that XNNPACK supports, and that input scale *
// filter scale / output scale is in XNNPACK's range for each of the `channels`.
void check_filter_scales(const Graph &graph, const Node &node, uint64_t channels);
// Checks that the elements along the last `dims` dims of a dynamically quantized input share a scale and zero point.
void check_row_parameters(const Graph &graph, const Node &node, uint32_t dims);
// Infers the shape of an output that has the shape of input 0.
void infer_same(const Graph &graph, const Node &node, Shape *shapes);

// Copies a flatbuffers::Vector<uint32_t> of sizes to `out`; returns false if it has more than kMaxRank entries.
template <typename T>
bool read_dims(const T *vector, Shape *out) {
  const uint32_t size = vector == nullptr ? 0 : vector->size();
  if (size > kMaxRank) return false;
  out->rank = size;
  for (uint32_t i = 0; i < size; ++i) out->dim[i] = vector->Get(i);
  return true;
}

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_NODES_H_
