// Contains the code of two header-only libraries: volk, which opens the Vulkan library at run time, and the Vulkan
// Memory Allocator.
#define VOLK_IMPLEMENTATION
#include <volk.h>

#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
