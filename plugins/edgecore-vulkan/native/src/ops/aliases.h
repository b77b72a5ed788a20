// Calls that this delegate has under another name.
#ifndef EDGECORE_VULKAN_OPS_ALIASES_H_
#define EDGECORE_VULKAN_OPS_ALIASES_H_

#include "blob.h"

namespace edgecore::vulkan {

// Replaces calls of ExecuTorch that are another spelling of an operator in the table, or that one operator computes
// together.
void replace_aliases(Graph *graph);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ALIASES_H_
