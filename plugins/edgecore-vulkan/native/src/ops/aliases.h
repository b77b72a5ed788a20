// Replaces operator calls that ExecuTorch's compiler writes by calls of operators in this backend's table.
#ifndef EDGECORE_VULKAN_OPS_ALIASES_H_
#define EDGECORE_VULKAN_OPS_ALIASES_H_

#include "blob.h"

namespace edgecore::vulkan {

// Replaces calls that ExecuTorch writes by equal operators of this backend's table with other names or arguments, and
// pairs of calls by one operator that computes the pair.
void replace_aliases(Graph *graph);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ALIASES_H_
