// Reads a delegate blob: header or bare flatbuffer, constants in the blob or in the program's named data.
#ifndef EDGECORE_XNNPACK_BLOB_H_
#define EDGECORE_XNNPACK_BLOB_H_

#include "edgecore/abi.h"
#include "failure.h"
#include "graph.h"

namespace edgecore::xnnpack {

// Where the constants of a blob are.
struct Sources {
  const edgecore_host *host;
  edgecore_scope *scope;
  edgecore_bytes section;  // constant section of the blob
};

// Fills in the graph: every field of values is checked by itself, ids of nodes are still the blob's. Constants stay
// where they are, in the blob or in named data, so both must outlive `graph`.
bool ReadBlob(edgecore_bytes blob, const edgecore_host *host, edgecore_scope *scope, Graph *graph, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_BLOB_H_
