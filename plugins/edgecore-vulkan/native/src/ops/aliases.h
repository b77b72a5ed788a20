// Names of operators that only the partitioner of ExecuTorch writes.
#ifndef EDGECORE_VULKAN_OPS_ALIASES_H_
#define EDGECORE_VULKAN_OPS_ALIASES_H_

#include "blob.h"

namespace edgecore::vulkan {

// Replaces calls of ExecuTorch that are another spelling of an operator in the table.
void replace_aliases(Graph *graph);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ALIASES_H_
