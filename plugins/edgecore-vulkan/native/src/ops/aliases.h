// Replaces operator calls in ExecuTorch's blobs with calls of operators that this backend's table has.
#ifndef EDGECORE_VULKAN_OPS_ALIASES_H_
#define EDGECORE_VULKAN_OPS_ALIASES_H_

#include "blob.h"

namespace edgecore::vulkan {

// Replaces calls in ExecuTorch's blobs with calls of equivalent operators in this backend's table, which have other
// names or arguments. Replaces pairs of calls with one call that computes both.
void replace_aliases(Graph *graph);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ALIASES_H_
