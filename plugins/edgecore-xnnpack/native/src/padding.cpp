#include "padding.h"

#include <algorithm>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

bool kernels_read_past_end(const Graph &graph, uint32_t value) {
  if (graph.values[value].role == Role::kInput) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    if (std::find(node.in.begin(), node.in.end(), value) != node.in.end()) return true;
    // If the graph has a max pooling of several passes, this holds for the outputs of all nodes: XNNPACK fuses a clamp
    // into the pooling before it, which then writes (and reads back) the clamp's output.
    const uint64_t elements = uint64_t{node.window.height} * node.window.width;
    return node.kind->id == wire::NodeUnion_MaxPooling2d && elements > kMaxPoolFirstPass;
  });
}

}  // namespace edgecore::xnnpack
