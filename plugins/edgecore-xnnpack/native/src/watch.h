// Passes the results of a graph's nodes to the host, for debugging (EDGECORE_INSTANCE_VALUES).
#ifndef EDGECORE_XNNPACK_WATCH_H_
#define EDGECORE_XNNPACK_WATCH_H_

#include <cstdint>
#include <vector>

#include "edgecore/backend.hpp"
#include "graph.h"

namespace edgecore::xnnpack {

// Returns the internal values that nodes compute, except values that XNNPACK cannot write to the caller's memory. These
// are layer inputs that XNNPACK itself quantizes per token or packs.
std::vector<uint32_t> watched_values(const Graph &graph);

// Passes the output of a node to the host. `data` and `shape` are in memory order, the outermost dim first. Integers
// that represent real numbers are dequantized to float32.
void report_value(const backend::Host &host, const Node &node, const Value &value, const Shape &shape,
                  const void *data);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WATCH_H_
