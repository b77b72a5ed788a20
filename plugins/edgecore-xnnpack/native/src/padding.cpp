#include "padding.h"

#include <algorithm>

#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

bool kernels_read_past_end(const Graph &graph, uint32_t value) {
  if (graph.values[value].role == Role::kInput) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    if (std::find(node.in.begin(), node.in.end(), value) != node.in.end()) return true;
    // Outputs need readable bytes after their end, too, if the graph has a softmax or a max pooling with a large
    // window, which read their own outputs back. Then every output of the graph counts as one that is read back:
    // XNNPACK fuses a following clamp into the pooling, which then writes and reads the clamp's output.
    const uint64_t elements = uint64_t{node.window.height} * node.window.width;
    return node.kind->id == wire::NodeUnion_Softmax ||
           (node.kind->id == wire::NodeUnion_MaxPooling2d && elements > kMaxPoolFirstPass);
  });
}

}  // namespace edgecore::xnnpack
