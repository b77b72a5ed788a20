// Fuses Add nodes into convolutions: the convolution's kernel adds the other operand, so the convolution's result is
// not written to memory and read again.
#ifndef EDGECORE_XNNPACK_SUMS_H_
#define EDGECORE_XNNPACK_SUMS_H_

#include <xnnpack.h>

#include <vector>

#include "graph.h"

namespace edgecore::xnnpack {

// The Add nodes of a graph, each with the convolution whose kernel computes it.
struct Sums {
  std::vector<uint32_t> add;       // for each node: index of the Add that this convolution computes; else kNone
  std::vector<bool> is_in_kernel;  // for each node: true for an Add that a convolution computes

  bool has(size_t node) const { return !add.empty() && add[node] != kNone; }
  bool skips(size_t node) const { return !add.empty() && is_in_kernel[node]; }
};

// Finds Add nodes that a convolution's kernel can compute with bit-identical results: the convolution is int8, its
// kernel on this processor can add, only the Add uses its output, which is not among the `exposed` values, and the
// Add's other operand has the same shape and is computed before the convolution.
Sums find_sums(const Graph &graph, const std::vector<uint32_t> &exposed);

// Returns the operand of the Add that `convolution` adds to its own result.
uint32_t added_value(const Graph &graph, const Sums &sums, size_t convolution);

// Defines a convolution and its Add as one node of XNNPACK.
xnn_status define_with_sum(xnn_subgraph_t subgraph, const Graph &graph, const Sums &sums, size_t convolution,
                           const uint32_t *ids);

// Returns true if the kernel of an int8 convolution of these sizes (with one group and a weight scale per channel) can
// add a tensor to its result. `taps` is height x width of the filter.
bool kernel_adds(size_t taps, size_t inputs, size_t outputs);

// Makes the convolution that was defined last add the value `other`. The output then has the type and range of the sum.
// Before the addition, the convolution's own result is rounded with the quantization `product` and clamped to [min,
// max].
xnn_status add_to_convolution(xnn_subgraph_t subgraph, uint32_t other, const Quantization &product, float min,
                              float max);

// Throws a Failure if the operands of a fused Add have different shapes: the convolution's kernel does not broadcast.
void check_sums(const Graph &graph, const Sums &sums, const Shape *shapes);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_SUMS_H_
