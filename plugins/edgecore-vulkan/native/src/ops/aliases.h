// Replaces operator calls of ExecuTorch's compiler that have another name in the backend's table of operators.
#ifndef EDGECORE_VULKAN_OPS_ALIASES_H_
#define EDGECORE_VULKAN_OPS_ALIASES_H_

#include "blob.h"

namespace edgecore::vulkan {

// Replaces ExecuTorch's calls that are another spelling of an operator in the table, and pairs of calls that one
// operator of the table computes.
void replace_aliases(Graph *graph);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ALIASES_H_
