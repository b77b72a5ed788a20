// Assigns memory in the arena (one buffer for all) to intermediate tensors.
#ifndef EDGECORE_VULKAN_MEMORY_PLAN_H_
#define EDGECORE_VULKAN_MEMORY_PLAN_H_

#include "recording.h"

namespace edgecore::vulkan {

// Assigns an offset to each storage (memory of intermediate tensors) in the arena, so that storages that are in use at
// the same time do not overlap: the largest first, each at the lowest free offset. Sets the size of the arena.
void plan_memory(Recording *recording);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_MEMORY_PLAN_H_
