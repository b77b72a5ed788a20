// Reads the blob of a delegate: a flatbuffer, with or without ExecuTorch's header. Constants are in the blob, or in the
// named data of the .pte file, where several delegates can share a constant by its key.
#ifndef EDGECORE_XNNPACK_BLOB_H_
#define EDGECORE_XNNPACK_BLOB_H_

#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// The two places where the constants of a blob can be.
struct Sources {
  const backend::Host &host;  // gives access to named data
  edgecore_bytes section;     // the constants that are in the blob itself
};

// Reads a blob into a graph, and checks each value (tensor) separately; check_graph checks later that nodes and values
// fit together. Until then, nodes refer to values by their ids in the blob. Constants are not copied: the blob and the
// named data must outlive the graph. Throws backend::Failure.
Graph read_blob(edgecore_bytes blob, const backend::Host &host);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BLOB_H_
