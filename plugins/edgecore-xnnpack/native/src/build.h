// Hands a checked graph to XNNPACK.
#ifndef EDGECORE_XNNPACK_BUILD_H_
#define EDGECORE_XNNPACK_BUILD_H_

#include <xnnpack.h>

#include "failure.h"
#include "graph.h"
#include "weights.h"
#include "workspace.h"

namespace edgecore::xnnpack {

const char *StatusName(xnn_status status);

struct Runtime {
  Weights weights;
  bool weight_cache;                     // else each runtime packs its weights for itself
  std::shared_ptr<Workspace> workspace;  // NULL: one of its own
  xnn_runtime_t handle = nullptr;
  std::vector<std::unique_ptr<uint8_t[]>> constants = {};  // copies

  ~Runtime() {
    const std::unique_lock<std::mutex> turn = TakeTurn(workspace);
    xnn_delete_runtime(handle);
  }
};

// Defines the graph and creates a runtime over `threadpool`. Weights that the process has not yet are packed here.
// Constants of other nodes are used until the runtime is deleted. External values have the arguments' indices as ids.
// `flags` are XNNPACK's of a runtime.
bool BuildRuntime(const Graph &graph, pthreadpool_t threadpool, uint32_t flags, Runtime *runtime, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BUILD_H_
