// A Vulkan device: its queue and memory, and the submission of commands. Thread-safe.
#ifndef EDGECORE_VULKAN_DEVICE_H_
#define EDGECORE_VULKAN_DEVICE_H_

#include <vk_mem_alloc.h>
#include <volk.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"
#include "vulkan/instance.h"

namespace edgecore::vulkan {

class Device;

// A VkBuffer with its device memory. `mapped` returns the address of the memory on the host, or nullptr if the host
// cannot access the memory.
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
  // For memory that is not coherent: flush makes host writes visible to the device, and invalidate makes device writes
  // visible to the host.
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

// The requirements that a device must meet for a backend.
struct DeviceNeeds {
  // Flags that the queue family must have.
  VkQueueFlags queue_flags = VK_QUEUE_COMPUTE_BIT;
  std::vector<const char *> extensions;
  // Linked list of structures with the features to enable, for VkDeviceCreateInfo::pNext.
  const void *features = nullptr;
};

class Device {
 public:
  Device(std::shared_ptr<Vulkan> vulkan, VkPhysicalDevice physical, const DeviceNeeds &needs);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  VkDevice handle() const { return handle_; }
  VkPhysicalDevice physical() const { return physical_; }
  VmaAllocator allocator() const { return allocator_; }
  const VolkDeviceTable &vk() const { return vk_; }
  const VkPhysicalDeviceProperties &properties() const { return properties_; }
  const VkPhysicalDeviceLimits &limits() const { return properties_.limits; }
  const char *name() const { return properties_.deviceName; }
  uint32_t queue_family() const { return queue_family_; }
  // Returns true if the host and the device share their memory, so that staging copies would gain nothing.
  bool unified() const { return unified_; }
  // Returns the nanoseconds per tick of the device's clock; 0 if the device has no clock.
  double nanoseconds_per_tick() const { return nanoseconds_per_tick_; }
  // Throws a Failure with the first message of the validation layer, if there is one.
  void check_messages() const;
  // Returns true if the device is a software driver that runs on the CPU.
  bool is_software() const { return properties_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }

  // Submits commands to the queue. When the commands have run, the device signals the fence, which must not be in use.
  void submit(VkCommandBuffer commands, VkFence fence);
  void wait(VkFence fence, uint64_t timeout_ns) const;
  // Returns a new buffer on the device. The buffer is all zeros until `write` fills it.
  Buffer upload(uint64_t bytes, const std::function<void(uint8_t *memory)> &write);
  // Copies bytes between two buffers, and waits until the copy is done.
  void copy(const Buffer &from, const Buffer &to, uint64_t offset, uint64_t bytes);

 private:
  void open(const DeviceNeeds &needs);
  void close();

  const std::shared_ptr<Vulkan> vulkan_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_ = {};
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  bool unified_ = false;
  double nanoseconds_per_tick_ = 0;
  VmaAllocator allocator_ = nullptr;
  std::mutex queue_mutex_;
};

// A pool of command buffers, and a fence for one submission at a time. Used by one thread at a time.
class CommandPool {
 public:
  explicit CommandPool(Device &device);
  ~CommandPool();
  CommandPool(const CommandPool &) = delete;
  CommandPool &operator=(const CommandPool &) = delete;

  VkCommandBuffer allocate();
  VkFence fence() const { return fence_; }

 private:
  Device &device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_DEVICE_H_
