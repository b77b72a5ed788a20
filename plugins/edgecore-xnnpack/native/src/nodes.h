// One entry per node kind of the wire format, by its union id: how it is read, what must hold, what shape it gives, and
// how it is defined in XNNPACK.
#ifndef EDGECORE_XNNPACK_NODES_H_
#define EDGECORE_XNNPACK_NODES_H_

#include <xnnpack.h>

#include "failure.h"
#include "graph.h"

namespace edgecore::xnnpack {

struct NodeKind {
  uint8_t id;  // in the wire format's node union
  const char *name;
  uint32_t flags;      // XNNPACK node flags that it understands
  int32_t operation;   // xnn_unary_operator, xnn_binary_operator, or number of concatenated inputs
  uint32_t constants;  // bit per input: must be a constant, which XNNPACK packs
  uint32_t optional;   // bit per input: may be absent

  // Copies the fields of the flatbuffer table into the node; ids stay the blob's. Checks only what does not fit.
  bool (*read)(const void *table, Node *node, Failure *failure);
  // Types, quantisation and parameters, once. The operands exist and are defined before.
  bool (*check)(const Graph &graph, const Node &node, Failure *failure);
  // The outputs' shapes from the inputs'; what XNNPACK demands of shapes.
  bool (*infer)(const Graph &graph, const Node &node, Shape *shapes, Failure *failure);
  // `ids` maps value indices to XNNPACK's.
  xnn_status (*define)(xnn_subgraph_t subgraph, const Graph &graph, const Node &node, const uint32_t *ids);
};

// NULL for an unknown id.
const NodeKind *FindNodeKind(uint8_t id);

// Tables of the families, in nodes_*.cpp.
struct KindList {
  const NodeKind *items;
  size_t count;
};
KindList UnaryKinds();
KindList BinaryKinds();
KindList ConvolutionKinds();
KindList PoolingKinds();
KindList MatrixKinds();
KindList MovementKinds();

bool IsConvolution(const Node &node);  // of any kind, with a filter and a bias

// Like Failure::Set with "node 12 (Conv2d): " in front.
__attribute__((format(printf, 3, 4))) bool Refuse(const Node &node, Failure *failure, const char *format, ...);

inline const Value &In(const Graph &graph, const Node &node, uint32_t i) { return graph.values[node.in[i]]; }
inline const Value &Out(const Graph &graph, const Node &node, uint32_t i = 0) { return graph.values[node.out[i]]; }

// Checks shared by several kinds.
bool SameType(const Graph &graph, const Node &node, Failure *failure);          // all inputs and the output
bool SameQuantization(const Graph &graph, const Node &node, Failure *failure);  // of quantised inputs and output
bool OutputRange(const Node &node, Failure *failure);                           // min <= max, no NaN
bool DataMovement(const Graph &graph, const Node &node, Failure *failure);      // fp32, fp16 or 8 bits, unchanged
bool Relabel(const Graph &graph, const Node &node, Failure *failure);           // these, and the indices of ArgMax
// Filters of integer kernels (input 1): zero point, and input scale * filter scale / output scale in range.
bool FilterScales(const Graph &graph, const Node &node, uint64_t channels, Failure *failure);
// A dynamically quantised input has one set of parameters for each `dims` trailing dims.
bool RowParameters(const Graph &graph, const Node &node, uint32_t dims, Failure *failure);
// Input and output have the same shape.
bool InferSame(const Graph &graph, const Node &node, Shape *shapes, Failure *failure);

// Copies a vector of at most kMaxRank numbers. T is a flatbuffers::Vector<uint32_t>.
template <typename T>
bool ReadDims(const T *vector, Shape *out) {
  const uint32_t size = vector == nullptr ? 0 : vector->size();
  if (size > kMaxRank) return false;
  out->rank = size;
  for (uint32_t i = 0; i < size; ++i) out->dim[i] = vector->Get(i);
  return true;
}

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_NODES_H_
