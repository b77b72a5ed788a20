// Assigns memory to intermediate tensors in the arena, the one buffer that all of them share.
#ifndef EDGECORE_VULKAN_MEMORY_PLAN_H_
#define EDGECORE_VULKAN_MEMORY_PLAN_H_

#include "recording.h"

namespace edgecore::vulkan {

// Assigns an offset in the arena to each storage (memory of intermediate tensors), so that storages in use at the same
// time do not overlap. Places the largest storage first, and each at the lowest free offset. Sets the size of the
// arena.
void plan_memory(Recording *recording);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_MEMORY_PLAN_H_
