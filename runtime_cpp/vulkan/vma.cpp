// Contains the code of two header-only libraries: volk (opens the Vulkan library) and the Vulkan Memory Allocator.
#define VOLK_IMPLEMENTATION
#include <volk.h>

#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
