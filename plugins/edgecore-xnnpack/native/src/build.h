// Hands a checked graph to XNNPACK.
#ifndef EDGECORE_XNNPACK_BUILD_H_
#define EDGECORE_XNNPACK_BUILD_H_

#include <xnnpack.h>

#include "failure.h"
#include "graph.h"

namespace edgecore::xnnpack {

const char *StatusName(xnn_status status);

// Defines the graph and creates a runtime over `threadpool`. Weights are packed here; the graph's constants are used
// until the runtime is deleted. External values have the arguments' indices as ids.
bool BuildRuntime(const Graph &graph, pthreadpool_t threadpool, xnn_runtime_t *runtime, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BUILD_H_
