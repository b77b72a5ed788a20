#include "padding.h"

#include <algorithm>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

bool kernels_read_past_end(const Graph &graph, uint32_t value) {
  if (graph.values[value].role == Role::kInput) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    if (std::find(node.in.begin(), node.in.end(), value) != node.in.end()) return true;
    // A softmax, and a max pooling with a large window, read their own outputs back. If the graph has such a node,
    // every output of the graph needs readable bytes after its end: XNNPACK fuses a following clamp into the pooling,
    // which then writes and reads the clamp's output.
    const uint64_t elements = uint64_t{node.window.height} * node.window.width;
    return node.kind->id == wire::NodeUnion_Softmax ||
           (node.kind->id == wire::NodeUnion_MaxPooling2d && elements > kMaxPoolFirstPass);
  });
}

}  // namespace edgecore::xnnpack
