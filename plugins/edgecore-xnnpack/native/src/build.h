// Creates an XNNPACK subgraph and runtime from a checked graph.
#ifndef EDGECORE_XNNPACK_BUILD_H_
#define EDGECORE_XNNPACK_BUILD_H_

#include <xnnpack.h>

#include "edgecore/backend.hpp"
#include "graph.h"
#include "weights.h"
#include "workspace.h"

namespace edgecore::xnnpack {

const char *status_name(xnn_status status);

struct Runtime {
  Weights weights;
  bool weight_cache;                     // true: runtimes share packed weights; false: each packs its own
  std::shared_ptr<Workspace> workspace;  // null: the runtime has its own workspace
  xnn_runtime_t handle = nullptr;
  Copies constants = {};

  ~Runtime() {
    const std::unique_lock<std::mutex> lock = lock_workspace(workspace);
    xnn_delete_runtime(handle);
  }
};

// The values that XNNPACK writes to memory of the delegate, so that the host can read them: entry i is the index of the
// value with the external id graph.externals.size() + i.
using Watched = std::vector<uint32_t>;

// Defines the graph in XNNPACK and creates its runtime, which runs on `threadpool`. Packs the weights that this process
// has not packed yet. Other constants must stay valid until the runtime is deleted. The id of an external value is the
// index of its argument; the ids of watched values follow. `flags` are XNNPACK's runtime flags (XNN_FLAG_*). Throws
// backend::Failure.
void build_runtime(const Graph &graph, const Watched &watched, pthreadpool_t threadpool, uint32_t flags,
                   Runtime *runtime);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BUILD_H_
