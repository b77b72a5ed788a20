// What makes a graph safe to hand to XNNPACK.
#ifndef EDGECORE_XNNPACK_CHECK_H_
#define EDGECORE_XNNPACK_CHECK_H_

#include "failure.h"
#include "graph.h"

namespace edgecore::xnnpack {

// Turns the blob's value ids into indices; checks that every operand exists, is defined before it is used and at most
// once, that types and parameters fit, and that the declared shapes are those that follow from the inputs.
bool CheckGraph(Graph *graph, Failure *failure);

// Shapes of all values from those of the inputs, which the caller has put into `shapes` (one per value; the constants'
// are there as well). Gives the bytes that the values between nodes and XNNPACK's tables need at the same time.
bool InferShapes(const Graph &graph, Shape *shapes, uint64_t *peak_bytes, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_CHECK_H_
