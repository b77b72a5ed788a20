// Decides which arguments of a delegate need readable bytes after their end (tail padding).
#ifndef EDGECORE_XNNPACK_PADDING_H_
#define EDGECORE_XNNPACK_PADDING_H_

#include "graph.h"

namespace edgecore::xnnpack {

// The number of window elements in the first pass of XNNPACK's max pooling kernels, on every processor:
// first_pass_tile_size in XNNPACK's maxpool-config.c (a test compares the two numbers).
constexpr uint64_t kMaxPoolFirstPass = 9;

// Returns true if kernels may read bytes after the last element of an external value. Kernels read their inputs in
// whole vectors. A max pooling with more window elements than kMaxPoolFirstPass also reads its output in whole vectors,
// because later passes combine their maximum with the result so far. A softmax also reads its output, because its last
// pass scales the output in place. The kernel tests (trial/) place a guard page after these bytes.
bool kernels_read_past_end(const Graph &graph, uint32_t value);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_PADDING_H_
