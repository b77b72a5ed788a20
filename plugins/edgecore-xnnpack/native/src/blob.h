// Reads a delegate blob: header or bare flatbuffer, constants in the blob or in the program's named data.
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

// Reads a blob into a graph. Each field of a value is checked on its own; the ids in nodes are still those of the blob.
// Constants are not copied: the blob and the named data must outlive the graph. Throws backend::Failure.
Graph read_blob(edgecore_bytes blob, const backend::Host &host);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BLOB_H_
