// Lists the Vulkan devices of this machine, for `edgecore doctor vulkan`.
#ifndef EDGECORE_VULKAN_DEVICES_H_
#define EDGECORE_VULKAN_DEVICES_H_

#include <cstdint>

namespace edgecore::vulkan {

// Writes a line for each device: "device", then the fields that src/edgecore_vulkan/devices.py reads, separated by
// tabs. If there is no device, or Vulkan does not start, the only line is "problem" and a sentence. Stores at most
// `size` bytes of these lines in `text`, and returns the size of all lines.
uint64_t list_devices(char *text, uint64_t size) noexcept;

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_DEVICES_H_
