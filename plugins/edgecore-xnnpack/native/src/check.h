// The checks that a graph must pass before it is handed to XNNPACK.
#ifndef EDGECORE_XNNPACK_CHECK_H_
#define EDGECORE_XNNPACK_CHECK_H_

#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// Replaces the blob's value ids in nodes by indices into Graph::values. Checks that every operand exists and is defined
// exactly once, before its first use; that each node's types and parameters are valid; and that the declared shapes
// equal those inferred from the inputs. Removes nodes with unused results. Throws backend::Failure.
void check_graph(Graph *graph);

// Infers the shapes of all values. `shapes` has one entry per value; the caller fills in the shapes of inputs and
// constants. Throws backend::Failure, also if intermediate values and XNNPACK's address tables would need too much
// memory.
void infer_shapes(const Graph &graph, Shape *shapes);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_CHECK_H_
