#include "vulkan/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr uint64_t kUploadTimeoutNs = 60'000'000'000;

}  // namespace

Device::Device(std::shared_ptr<Vulkan> vulkan, VkPhysicalDevice physical, const DeviceNeeds &needs)
    : vulkan_(std::move(vulkan)), physical_(physical) {
  vkGetPhysicalDeviceProperties(physical_, &properties_);
  try {
    open(needs);
  } catch (...) {
    close();
    throw;
  }
}

void Device::open(const DeviceNeeds &needs) {
  check_version(properties_, vulkan_->api_version());

  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  const auto family = std::find_if(families.begin(), families.end(), [&](const VkQueueFamilyProperties &candidate) {
    return (candidate.queueFlags & needs.queue_flags) == needs.queue_flags;
  });
  if (family == families.end()) fail(EDGECORE_NOT_SUPPORTED, "%s cannot compute", properties_.deviceName);
  queue_family_ = static_cast<uint32_t>(family - families.begin());
  if (family->timestampValidBits == 64) nanoseconds_per_tick_ = double{properties_.limits.timestampPeriod};

  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = needs.features;
  info.enabledExtensionCount = static_cast<uint32_t>(needs.extensions.size());
  info.ppEnabledExtensionNames = needs.extensions.data();
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  check(vkCreateDevice(physical_, &info, nullptr, &handle_), "creating a Vulkan device");
  volkLoadDeviceTable(&vk_, handle_);
  vk_.vkGetDeviceQueue(handle_, queue_family_, 0, &queue_);

  VmaVulkanFunctions functions = {};
  functions.vkGetInstanceProcAddr = vkGetInstanceProcAddr;
  functions.vkGetDeviceProcAddr = vkGetDeviceProcAddr;
  VmaAllocatorCreateInfo allocator = {};
  allocator.vulkanApiVersion = vulkan_->api_version();
  allocator.physicalDevice = physical_;
  allocator.device = handle_;
  allocator.instance = vulkan_->instance();
  allocator.pVulkanFunctions = &functions;
  check(vmaCreateAllocator(&allocator, &allocator_), "creating an allocator of device memory");

  const VkPhysicalDeviceMemoryProperties *memory = nullptr;
  vmaGetMemoryProperties(allocator_, &memory);
  constexpr VkMemoryPropertyFlags kShared =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const bool shares = std::any_of(memory->memoryTypes, memory->memoryTypes + memory->memoryTypeCount,
                                  [](const VkMemoryType &type) { return (type.propertyFlags & kShared) == kShared; });
  unified_ = shares && properties_.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

Device::~Device() { close(); }

void Device::close() {
  if (allocator_ != nullptr) vmaDestroyAllocator(allocator_);
  if (handle_ != VK_NULL_HANDLE) vk_.vkDestroyDevice(handle_, nullptr);
}

void Device::check_messages() const {
  const std::string message = vulkan_->messages().take();
  if (!message.empty()) fail(EDGECORE_INTERNAL, "the validation layer of Vulkan: %s", message.c_str());
}

void Device::submit(VkCommandBuffer commands, VkFence fence) {
  check(vk_.vkResetFences(handle_, 1, &fence), "resetting a fence");
  VkSubmitInfo submit = {};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  const std::lock_guard<std::mutex> lock(queue_mutex_);
  check(vk_.vkQueueSubmit(queue_, 1, &submit, fence), "submitting work to the device");
}

void Device::wait(VkFence fence, uint64_t timeout_ns) const {
  check(vk_.vkWaitForFences(handle_, 1, &fence, VK_TRUE, timeout_ns), "waiting for the device");
}

Buffer Device::upload(uint64_t bytes, const std::function<void(uint8_t *memory)> &write) {
  Buffer buffer(*this, bytes, unified_);
  const Buffer staging = unified_ ? Buffer() : Buffer(*this, bytes, true);
  const Buffer &written = unified_ ? buffer : staging;
  std::memset(written.mapped(), 0, bytes);
  write(static_cast<uint8_t *>(written.mapped()));
  written.flush();
  if (unified_) return buffer;
  copy(staging, buffer, 0, bytes);
  return buffer;
}

void Device::copy(const Buffer &from, const Buffer &to, uint64_t offset, uint64_t bytes) {
  CommandPool pool(*this);
  const VkCommandBuffer commands = pool.allocate();
  VkCommandBufferBeginInfo begin = {};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check(vk_.vkBeginCommandBuffer(commands, &begin), "recording commands");
  const VkBufferCopy region = {offset, offset, bytes};
  vk_.vkCmdCopyBuffer(commands, from.handle(), to.handle(), 1, &region);
  VkMemoryBarrier barrier = {};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
  vk_.vkCmdPipelineBarrier(
      commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
      VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1,
      &barrier, 0, nullptr, 0, nullptr);
  check(vk_.vkEndCommandBuffer(commands), "recording commands");
  submit(commands, pool.fence());
  wait(pool.fence(), kUploadTimeoutNs);
}

CommandPool::CommandPool(Device &device) : device_(device) {
  VkCommandPoolCreateInfo pool = {};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = device.queue_family();
  check(device.vk().vkCreateCommandPool(device.handle(), &pool, nullptr, &pool_), "creating a command pool");
  VkFenceCreateInfo fence = {};
  fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  const VkResult result = device.vk().vkCreateFence(device.handle(), &fence, nullptr, &fence_);
  if (result != VK_SUCCESS) device.vk().vkDestroyCommandPool(device.handle(), pool_, nullptr);
  check(result, "creating a fence");
}

CommandPool::~CommandPool() {
  device_.vk().vkDestroyFence(device_.handle(), fence_, nullptr);
  device_.vk().vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

VkCommandBuffer CommandPool::allocate() {
  VkCommandBufferAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check(device_.vk().vkAllocateCommandBuffers(device_.handle(), &info, &commands), "allocating a command buffer");
  return commands;
}

Buffer::Buffer(Device &device, uint64_t bytes, bool host_access) : device_(&device), size_(bytes) {
  VkBufferCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  // Avoid sizes that are powers of two: the driver llvmpipe compiles a shader again for each combination of texel
  // buffers of such sizes.
  info.size = (bytes & (bytes - 1)) == 0 ? bytes + 16 : bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VmaAllocationCreateInfo allocation = {};
  allocation.usage =
      host_access && !device.unified() ? VMA_MEMORY_USAGE_AUTO_PREFER_HOST : VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE;
  if (host_access) {
    allocation.flags = VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
  }
  VmaAllocationInfo result = {};
  check(vmaCreateBuffer(device.allocator(), &info, &allocation, &handle_, &allocation_, &result),
        "allocating device memory");
  mapped_ = result.pMappedData;
}

Buffer::~Buffer() {
  if (device_ != nullptr) vmaDestroyBuffer(device_->allocator(), handle_, allocation_);
}

void Buffer::swap(Buffer &other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(allocation_, other.allocation_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
}

void Buffer::flush() const {
  check(vmaFlushAllocation(device_->allocator(), allocation_, 0, VK_WHOLE_SIZE), "flushing memory");
}

void Buffer::invalidate() const {
  check(vmaInvalidateAllocation(device_->allocator(), allocation_, 0, VK_WHOLE_SIZE), "invalidating memory");
}

}  // namespace edgecore::vulkan
