// A Vulkan device: queue, memory, pipelines. Thread-safe.
#ifndef EDGECORE_VULKAN_DEVICE_H_
#define EDGECORE_VULKAN_DEVICE_H_

#include <vk_mem_alloc.h>
#include <volk.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "edgecore/backend.hpp"
#include "pipeline_cache.h"

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
  // Make writes of the host visible to the device, and writes of the device to the host, on memory that is not
  // coherent.
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

// The first message of the validation layer that nobody has taken yet. Thread-safe.
class Messages {
 public:
  void add(const char *text);
  // Returns the message and forgets it; empty if there is none.
  std::string take();

 private:
  std::mutex mutex_;
  std::string first_;
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
  Messages &messages() const { return *messages_; }

 private:
  std::unique_ptr<Messages> messages_ = std::make_unique<Messages>();
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> devices_;
};

// Returns the device with this index or part of its name; for an empty choice the first GPU, or else the first device.
VkPhysicalDevice find_device(const Vulkan &vulkan, std::string_view choice);

// Throws a Failure with one sentence if the driver of a device is too old.
void check_version(const VkPhysicalDeviceProperties &properties);

class Device {
 public:
  // `choice` is the index or a part of the name of a device; empty means the first GPU, or else the first device.
  // `cache_folder` is the folder with compiled shaders; empty for none.
  // `gpu_shaders` chooses the shaders for GPUs on any device.
  Device(std::shared_ptr<Vulkan> vulkan, std::string_view choice, const std::string &cache_folder, bool gpu_shaders);
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
  // Nanoseconds per tick of the device's clock; 0 if it has none.
  double nanoseconds_per_tick() const { return nanoseconds_per_tick_; }
  // Throws a Failure with the message of the validation layer if there is one.
  void check_messages() const;
  // Whether the device runs shaders on a processor. There a load from a storage buffer is a loop over the threads of a
  // subgroup, and one from a texel buffer is not, and shared memory costs more than it saves.
  bool is_processor() const { return is_processor_; }
  // Whether the device is a processor, whatever shaders it runs.
  bool is_software() const { return properties_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  // Whether to read by texel buffers: such a device that has the 64-bit integers of these shaders.
  bool prefers_texels() const { return is_processor_ && has_int64_; }
  // The threads of a subgroup if they can read each other's values (shuffle), or 1.
  uint32_t subgroup_size() const { return subgroup_size_; }

  // Returns the pipeline of a shader, and creates it when it is first asked for. `constants` are the specialization
  // constants from id 3 on; the ids 0 to 2 are the local size.
  // Bit i of `texel_bindings` says that binding i is a texel buffer.
  const Pipeline &pipeline(const std::string &shader, const std::vector<uint32_t> &constants,
                           const uint32_t (&local_size)[3], uint32_t bindings, uint32_t texel_bindings,
                           uint32_t push_bytes);

  // Writes the compiled shaders to the cache folder if there are new ones.
  void store_pipelines();

  // Submits commands; the device signals the fence, which must not be in use, when it has run them.
  void submit(VkCommandBuffer commands, VkFence fence);
  void wait(VkFence fence, uint64_t timeout_ns) const;
  // Returns a buffer on the device with these bytes.
  Buffer upload(const void *data, uint64_t bytes);
  // Copies bytes between two buffers, and waits for the end.
  void copy(const Buffer &from, const Buffer &to, uint64_t offset, uint64_t bytes);

 private:
  void open();
  void close();
  using Key = std::tuple<std::string, std::vector<uint32_t>, uint32_t, uint32_t, uint32_t>;

  const std::shared_ptr<Vulkan> vulkan_;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_ = {};
  VkDevice handle_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_ = {};
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  bool unified_ = false;
  double nanoseconds_per_tick_ = 0;
  bool is_processor_ = false;
  bool has_int64_ = false;
  uint32_t subgroup_size_ = 1;
  VmaAllocator allocator_ = nullptr;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_, pipeline_mutex_;
  std::map<Key, Pipeline> pipelines_;
  std::unique_ptr<PipelineCacheFile> cache_file_;
  bool has_new_pipelines_ = false;
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
