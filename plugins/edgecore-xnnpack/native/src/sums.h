// Sums of two values that a convolution's kernel computes, so that the convolution's result is not written and read
// again.
#ifndef EDGECORE_XNNPACK_SUMS_H_
#define EDGECORE_XNNPACK_SUMS_H_

#include <xnnpack.h>

#include <vector>

#include "graph.h"

namespace edgecore::xnnpack {

// The Add nodes of a graph that are computed by the convolution of one of their operands.
struct Sums {
  std::vector<uint32_t> add;       // by node: index of the Add that this convolution computes, else kNone
  std::vector<bool> is_in_kernel;  // by node: true for such an Add

  bool has(size_t node) const { return !add.empty() && add[node] != kNone; }
  bool skips(size_t node) const { return !add.empty() && is_in_kernel[node]; }
};

// Finds Add nodes that a convolution's kernel can compute with the same bits: the convolution is int8, its kernel on
// this processor can add, its output has no other use, and the other operand has the same shape and is computed before
// the convolution.
Sums find_sums(const Graph &graph);

// Returns the operand that the convolution adds to its products.
uint32_t added_value(const Graph &graph, const Sums &sums, size_t convolution);

// Defines a convolution and its Add as one node of XNNPACK.
xnn_status define_with_sum(xnn_subgraph_t subgraph, const Graph &graph, const Sums &sums, size_t convolution,
                           const uint32_t *ids);

// Returns true if the kernel of such an int8 convolution (one group, per-channel weight scales) can add.
bool kernel_adds(size_t taps, size_t inputs, size_t outputs);

// Makes the convolution that was defined last add the value `other`. Its output has the type and range of the sum.
// Before the sum, the products are rounded with the quantization `product` and clamped to [min, max].
xnn_status add_to_convolution(xnn_subgraph_t subgraph, uint32_t other, const Quantization &product, float min,
                              float max);

// Throws a Failure if the operands of a sum have different shapes: a kernel does not broadcast.
void check_sums(const Graph &graph, const Sums &sums, const Shape *shapes);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_SUMS_H_
