// Device buffers for arguments. The host keeps values in these buffers between delegates and between runs, which saves
// copies through host memory.
#ifndef EDGECORE_VULKAN_BUFFERS_H_
#define EDGECORE_VULKAN_BUFFERS_H_

#include <memory>
#include <utility>

#include "vulkan/device.h"

// A device buffer. Shaders use `memory`. On a device with separate memory, the host maps `staging` instead of `memory`,
// and the contents are copied between the two.
struct edgecore_buffer {
  edgecore_buffer(const edgecore::backend::Host &services, std::shared_ptr<edgecore::vulkan::Device> owner,
                  uint64_t bytes)
      : host(services), device(std::move(owner)), memory(*device, bytes, device->unified()) {
    if (!device->unified()) staging = edgecore::vulkan::Buffer(*device, bytes, true);
  }
  edgecore::backend::Host host;  // functions of the host, from the backend's Driver, which outlives the buffer
  std::shared_ptr<edgecore::vulkan::Device> device;
  edgecore::vulkan::Buffer memory, staging;
  uint64_t mapped_offset = 0, mapped_bytes = 0;
};

namespace edgecore::vulkan {

void *map(edgecore_buffer &buffer, uint64_t offset, uint64_t bytes);
void flush(edgecore_buffer &buffer);
void invalidate(edgecore_buffer &buffer);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_BUFFERS_H_
