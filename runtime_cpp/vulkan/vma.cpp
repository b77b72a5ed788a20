// Compiles volk, which opens the Vulkan library at run time, and the Vulkan Memory Allocator: headers with their code.
#define VOLK_IMPLEMENTATION
#include <volk.h>

#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
