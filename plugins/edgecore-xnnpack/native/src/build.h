// Creates an XNNPACK subgraph and runtime from a checked graph.
#ifndef EDGECORE_XNNPACK_BUILD_H_
#define EDGECORE_XNNPACK_BUILD_H_

#include <xnnpack.h>

#include "edgecore/backend.hpp"
#include "graph.h"
#include "sums.h"
#include "tables.h"
#include "tiles.h"
#include "weights.h"
#include "workspace.h"

namespace edgecore::xnnpack {

const char *status_name(xnn_status status);

// The values that are in the delegate's own memory, not in XNNPACK's workspace or in the call's arguments. Entry i is
// the index of the value with the external id graph.externals.size() + i.
using Exposed = std::vector<uint32_t>;

// A step of a run: XNNPACK's nodes [first, last), then one node that the delegate computes itself.
struct Step {
  size_t first, last;  // range of XNNPACK's nodes; `last` is SIZE_MAX if none of the delegate's nodes follows
  const Node *own;     // the node that the delegate computes after this range; null in the last step of a run
};

struct Runtime {
  Weights weights;
  bool weight_cache;                     // true: all runtimes share packed weights; false: each runtime packs its own
  std::shared_ptr<Workspace> workspace;  // memory for intermediate values; null: each runtime has its own
  Tile tile;  // output rows x columns that a kernel of fp32 layers computes at a time; {}: XNNPACK chooses
  xnn_runtime_t handle = nullptr;
  Sums sums = {};
  Tables tables = {};
  std::vector<Step> steps = {};
  std::vector<const void *> constant_data = {};  // address of each constant, by value index; null for other values
  Copies constants = {};

  // Returns true if a node needs no XNNPACK operator, because the operator of a fused node also computes it.
  bool skips(size_t node) const { return sums.skips(node) || tables.skips(node); }

  ~Runtime() {
    const std::unique_lock<std::mutex> lock = lock_workspace(workspace);
    xnn_delete_runtime(handle);
  }
};

// Defines a value in XNNPACK, and sets `id` to its id. `external` is the external id of the value, or kNone if it is
// internal. `is_written` is true if a node of XNNPACK computes the value. `data` is the address of a constant,
// otherwise null.
xnn_status define_value(xnn_subgraph_t subgraph, const Value &value, uint32_t external, bool is_written,
                        const void *data, uint32_t *id);

// Defines the graph in XNNPACK and creates its runtime, which runs on `threadpool`. Packs weights that this process has
// not packed yet; constants that are not packed must stay valid until the runtime is deleted. The external id of an
// argument is its index; the ids of exposed values follow. `flags` are XNNPACK's runtime flags (XNN_FLAG_*). Throws
// backend::Failure.
void build_runtime(const Graph &graph, const Exposed &exposed, pthreadpool_t threadpool, uint32_t flags,
                   Runtime *runtime);

// Returns true if the linked XNNPACK can run a range of a graph's nodes. The delegate needs this to compute nodes
// itself between XNNPACK's nodes.
bool runs_parts();

// Runs XNNPACK's nodes with the indices [first, last).
xnn_status run_nodes(const Runtime &runtime, size_t first, size_t last);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BUILD_H_
