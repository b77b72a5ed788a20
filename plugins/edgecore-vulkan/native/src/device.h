// A Vulkan device: queue, memory, pipelines. Thread-safe.
#ifndef EDGECORE_VULKAN_DEVICE_H_
#define EDGECORE_VULKAN_DEVICE_H_

#include <volk.h>

#include <vk_mem_alloc.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::vulkan {

// Throws a Failure that names the step and the error unless `result` is VK_SUCCESS.
void check(VkResult result, const char *step);

class Device;

// Memory of a device with its VkBuffer. `mapped` is its address on the host, or nullptr if the host cannot access it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device &device, uint64_t bytes, bool host_access);
  Buffer(Buffer &&other) noexcept { swap(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  VkBuffer handle() const { return handle_; }
  uint64_t size() const { return size_; }
  void *mapped() const { return mapped_; }
  // Make writes of the host visible to the device, and writes of the device to the host, on memory that is not coherent.
  void flush() const;
  void invalidate() const;

 private:
  void swap(Buffer &other) noexcept;

  Device *device_ = nullptr;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VmaAllocation allocation_ = nullptr;
  uint64_t size_ = 0;
  void *mapped_ = nullptr;
};

// A compute shader with its specialization constants.
struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  uint32_t bindings = 0;
  uint32_t local_size[3] = {1, 1, 1};
};

// The Vulkan library and its instance. Throws a Failure with one sentence if there is no Vulkan driver.
class Vulkan {
 public:
  explicit Vulkan(bool validation);
  ~Vulkan();
  Vulkan(const Vulkan &) = delete;
  Vulkan &operator=(const Vulkan &) = delete;

  VkInstance instance() const { return instance_; }
  const std::vector<VkPhysicalDevice> &devices() const { return devices_; }

 private:
  VkInstance instance_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> devices_;
};

class Device {
 public:
  // `choice` is the index or a part of the name of a device; empty means the first GPU, or else the first device.
  // `gpu_shaders` chooses the shaders for GPUs on any device.
  Device(const Vulkan &vulkan, std::string_view choice, bool gpu_shaders);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  VkDevice handle() const { return handle_; }
  VmaAllocator allocator() const { return allocator_; }
  const VolkDeviceTable &vk() const { return vk_; }
  const VkPhysicalDeviceLimits &limits() const { return properties_.limits; }
  const char *name() const { return properties_.deviceName; }
  uint32_t queue_family() const { return queue_family_; }
  // Whether the host and the device share their memory, so that staging copies would gain nothing.
  bool unified() const { return unified_; }
  // Whether a device runs shaders on a processor, with 64-bit integers. There a load from a storage buffer is a loop
  // over the threads of a subgroup, and one from a texel buffer is not, and shared memory costs more than it saves.
  bool prefers_texels() const { return prefers_texels_; }
  // The threads of a subgroup if they can read each other's values (shuffle), or 1.
  uint32_t subgroup_size() const { return subgroup_size_; }

  // Returns the pipeline of a shader, and creates it when it is first asked for. `constants` are the specialization
  // constants from id 3 on; the ids 0 to 2 are the local size.
  // Bit i of `texel_bindings` says that binding i is a texel buffer.
  const Pipeline &pipeline(const std::string &shader, const std::vector<uint32_t> &constants,
                           const uint32_t (&local_size)[3], uint32_t bindings, uint32_t texel_bindings,
                           uint32_t push_bytes);

  // Submits commands and waits until the device has run them.
  void run(VkCommandBuffer commands, VkFence fence, uint64_t timeout_ns);
  // Returns a buffer on the device with these bytes.
  Buffer upload(const void *data, uint64_t bytes);

 private:
  using Key = std::tuple<std::string, std::vector<uint32_t>, uint32_t, uint32_t, uint32_t>;

  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_ = {};
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  bool unified_ = false;
  bool prefers_texels_ = false;
  uint32_t subgroup_size_ = 1;
  VmaAllocator allocator_ = nullptr;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_, pipeline_mutex_;
  std::map<Key, Pipeline> pipelines_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_DEVICE_H_
