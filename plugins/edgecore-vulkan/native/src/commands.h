// Writes the Vulkan commands of a recording once for each set of argument buffers, and replays them in later runs.
#ifndef EDGECORE_VULKAN_COMMANDS_H_
#define EDGECORE_VULKAN_COMMANDS_H_

#include <vector>

#include "recording.h"
#include "vulkan/device.h"

namespace edgecore::vulkan {

// The memory of an argument on the device. If `host`, a buffer in host memory, is set, commands copy the argument
// between `host` and `buffer`.
struct Binding {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0;
  VkBuffer host = VK_NULL_HANDLE;
  bool operator==(const Binding &other) const {
    return buffer == other.buffer && offset == other.offset && host == other.host;
  }
};

struct Commands {
  std::vector<Binding> bindings;
  VkCommandBuffer handle = VK_NULL_HANDLE;
  VkDescriptorPool descriptors = VK_NULL_HANDLE;
  std::vector<VkBufferView> views;       // views of buffers that shaders read as texels
  VkQueryPool queries = VK_NULL_HANDLE;  // if profiled: start and end time of each dispatch
  uint64_t last_use = 0;
  bool is_written = false;
};

// Keeps the commands for the last few sets of argument buffers. A model whose state stays on the device needs two sets:
// two buffers hold the state, and swap the roles of input and output in each run.
class CommandCache {
 public:
  CommandCache(Device &device, CommandPool &pool, bool is_profiled)
      : device_(device), pool_(pool), is_profiled_(is_profiled) {}
  ~CommandCache();
  CommandCache(const CommandCache &) = delete;
  CommandCache &operator=(const CommandCache &) = delete;

  // Deletes all recorded commands; the device must not be running any of them.
  void clear();
  // Returns the commands of a recording for these argument buffers, and writes them if the cache does not have them.
  // `inputs` is the number of inputs, `bytes` are the sizes of all arguments. `arena` is the memory of intermediate
  // tensors. No commands of this cache may be running.
  const Commands &get(const Recording &recording, VkBuffer arena, size_t inputs, const std::vector<uint64_t> &bytes,
                      const std::vector<Binding> &bindings);

 private:
  void destroy(Commands &commands);

  Device &device_;
  CommandPool &pool_;
  const bool is_profiled_;
  std::vector<Commands> entries_;
  uint64_t uses_ = 0;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_COMMANDS_H_
