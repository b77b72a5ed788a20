// Reads the blob of a delegate: a flatbuffer, with or without a header. The constants are in the blob, or in the named
// data of the .pte file (constants under a key, which several delegates can share).
#ifndef EDGECORE_XNNPACK_BLOB_H_
#define EDGECORE_XNNPACK_BLOB_H_

#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// The sources of a blob's constants.
struct Sources {
  const backend::Host &host;  // named data
  edgecore_bytes section;     // constant section of the blob
};

// Reads a blob into a graph. Checks each value (tensor) of the graph separately; check_graph checks later that nodes
// and values fit together. Until then, nodes refer to values by their ids in the blob. Constants are not copied: the
// blob and the named data must outlive the graph. Throws backend::Failure.
Graph read_blob(edgecore_bytes blob, const backend::Host &host);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BLOB_H_
