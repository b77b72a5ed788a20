#include "device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shaders.h"

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr uint32_t kApiVersion = VK_API_VERSION_1_1;
constexpr char kInstallDriver[] = "install the driver of the GPU; on Debian, mesa-vulkan-drivers has several";
constexpr uint64_t kUploadTimeoutNs = 60'000'000'000;

const char *name_of(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_DEVICE_LOST:
      return "the device was lost: its driver has stopped; load the file again";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "no driver for this version of Vulkan";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "the device lacks a feature";
    case VK_TIMEOUT:
      return "the device did not finish in time";
    default:
      return "Vulkan reports an error";
  }
}

int rank_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    default:
      return 3;
  }
}

VkBool32 VKAPI_PTR receive_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                   const VkDebugUtilsMessengerCallbackDataEXT *data, void *messages) {
  static_cast<Messages *>(messages)->add(data->pMessage == nullptr ? "" : data->pMessage);
  return VK_FALSE;
}

}  // namespace

void Messages::add(const char *text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (first_.empty()) first_ = text;
}

std::string Messages::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(first_, {});
}

void check(VkResult result, const char *step) {
  if (result == VK_SUCCESS) return;
  const bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
  fail(memory ? EDGECORE_MEMORY_ALLOCATION_FAILED : EDGECORE_ACCESS_FAILED, "%s: %s (VkResult %d)", step,
       name_of(result), static_cast<int>(result));
}

Vulkan::Vulkan(bool validation) {
  if (volkInitialize() != VK_SUCCESS) {
    fail(EDGECORE_NOT_FOUND, "this machine has no Vulkan library (libvulkan.so.1): %s", kInstallDriver);
  }
  VkApplicationInfo application = {};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "edgecore";
  application.apiVersion = kApiVersion;
  const char *layer = "VK_LAYER_KHRONOS_validation", *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = validation ? 1 : 0;
  info.ppEnabledLayerNames = &layer;
  info.enabledExtensionCount = validation ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  const VkResult result = vkCreateInstance(&info, nullptr, &instance_);
  if (result == VK_ERROR_LAYER_NOT_PRESENT) {
    fail(EDGECORE_NOT_FOUND, "the option validation needs the layer %s: on Debian vulkan-validationlayers", layer);
  }
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    fail(EDGECORE_NOT_FOUND, "this machine has the Vulkan library, but no Vulkan driver: %s", kInstallDriver);
  }
  check(result, "creating a Vulkan instance");
  volkLoadInstanceOnly(instance_);
  if (validation) {
    VkDebugUtilsMessengerCreateInfoEXT messenger = {};
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType =
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    messenger.pfnUserCallback = receive_message;
    messenger.pUserData = messages_.get();
    check(vkCreateDebugUtilsMessengerEXT(instance_, &messenger, nullptr, &messenger_), "listening to validation");
  }
  uint32_t count = 0;
  const VkResult listed = vkEnumeratePhysicalDevices(instance_, &count, nullptr);
  if (listed == VK_ERROR_INITIALIZATION_FAILED) return;  // what the loader returns if no driver has a device
  check(listed, "listing the Vulkan devices");
  devices_.resize(count);
  check(vkEnumeratePhysicalDevices(instance_, &count, devices_.data()), "listing the Vulkan devices");
}

Vulkan::~Vulkan() {
  if (messenger_ != VK_NULL_HANDLE) vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  vkDestroyInstance(instance_, nullptr);
}

VkPhysicalDevice find_device(const Vulkan &vulkan, std::string_view choice) {
  const auto &devices = vulkan.devices();
  if (devices.empty()) {
    fail(EDGECORE_NOT_FOUND, "this machine has a Vulkan driver, but no device that it drives: %s", kInstallDriver);
  }
  int best = INT32_MAX;
  VkPhysicalDevice found = VK_NULL_HANDLE;
  for (size_t i = 0; i < devices.size(); ++i) {
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(devices[i], &properties);
    const bool chosen = choice.empty() || choice == std::to_string(i) ||
                        std::string_view(properties.deviceName).find(choice) != std::string_view::npos;
    if (!chosen || rank_of(properties.deviceType) >= best) continue;
    best = rank_of(properties.deviceType);
    found = devices[i];
  }
  if (found == VK_NULL_HANDLE) {
    fail(EDGECORE_NOT_FOUND, "no Vulkan device has the index or name '%.*s'; there are %zu devices",
         static_cast<int>(std::min<size_t>(choice.size(), 100)), choice.data(), devices.size());
  }
  return found;
}

void check_version(const VkPhysicalDeviceProperties &properties) {
  if (properties.apiVersion >= kApiVersion) return;
  fail(EDGECORE_NOT_SUPPORTED, "the Vulkan driver of %s has version %u.%u, and 1.1 is needed: update the driver",
       properties.deviceName, VK_API_VERSION_MAJOR(properties.apiVersion), VK_API_VERSION_MINOR(properties.apiVersion));
}

Device::Device(std::shared_ptr<Vulkan> vulkan, std::string_view choice, const std::string &cache_folder,
               bool gpu_shaders)
    : vulkan_(std::move(vulkan)), physical_(find_device(*vulkan_, choice)) {
  vkGetPhysicalDeviceProperties(physical_, &properties_);
  is_processor_ = properties_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && !gpu_shaders;
  try {
    open();
    cache_file_ = std::make_unique<PipelineCacheFile>(cache_folder, properties_);
    const std::vector<uint8_t> compiled = cache_file_->read();
    VkPipelineCacheCreateInfo cache = {};
    cache.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    cache.initialDataSize = compiled.size();
    cache.pInitialData = compiled.data();
    check(vk_.vkCreatePipelineCache(handle_, &cache, nullptr, &cache_), "creating a pipeline cache");
  } catch (...) {
    close();
    throw;
  }
}

void Device::open() {
  check_version(properties_);

  VkPhysicalDeviceSubgroupProperties subgroup = {};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceProperties2 more = {};
  more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  more.pNext = &subgroup;
  vkGetPhysicalDeviceProperties2(physical_, &more);
  const bool shuffles = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                        (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  if (shuffles) subgroup_size_ = subgroup.subgroupSize;

  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  const auto family = std::find_if(families.begin(), families.end(), [](const VkQueueFamilyProperties &one) {
    return (one.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0;
  });
  if (family == families.end()) fail(EDGECORE_NOT_SUPPORTED, "%s cannot compute", properties_.deviceName);
  queue_family_ = static_cast<uint32_t>(family - families.begin());
  if (family->timestampValidBits == 64) nanoseconds_per_tick_ = double{properties_.limits.timestampPeriod};

  VkPhysicalDevice16BitStorageFeatures storage16 = {};
  storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  VkPhysicalDeviceFeatures2 supported = {};
  supported.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  supported.pNext = &storage16;
  vkGetPhysicalDeviceFeatures2(physical_, &supported);
  has_int64_ = supported.features.shaderInt64 != 0;
  VkPhysicalDeviceFeatures features = {};
  features.shaderInt64 = has_int64_ ? VK_TRUE : VK_FALSE;
  VkPhysicalDevice16BitStorageFeatures wanted = {};
  wanted.sType = storage16.sType;
  wanted.storageBuffer16BitAccess = storage16.storageBuffer16BitAccess;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &wanted;
  info.pEnabledFeatures = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  check(vkCreateDevice(physical_, &info, nullptr, &handle_), "creating a Vulkan device");
  volkLoadDeviceTable(&vk_, handle_);
  vk_.vkGetDeviceQueue(handle_, queue_family_, 0, &queue_);

  VmaVulkanFunctions functions = {};
  functions.vkGetInstanceProcAddr = vkGetInstanceProcAddr;
  functions.vkGetDeviceProcAddr = vkGetDeviceProcAddr;
  VmaAllocatorCreateInfo allocator = {};
  allocator.vulkanApiVersion = kApiVersion;
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
  for (const auto &[key, pipeline] : pipelines_) {
    vk_.vkDestroyPipeline(handle_, pipeline.handle, nullptr);
    vk_.vkDestroyPipelineLayout(handle_, pipeline.layout, nullptr);
    vk_.vkDestroyDescriptorSetLayout(handle_, pipeline.set_layout, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk_.vkDestroyPipelineCache(handle_, cache_, nullptr);
  if (allocator_ != nullptr) vmaDestroyAllocator(allocator_);
  if (handle_ != VK_NULL_HANDLE) vk_.vkDestroyDevice(handle_, nullptr);
}

const Pipeline &Device::pipeline(const std::string &shader, const std::vector<uint32_t> &constants,
                                 const uint32_t (&local_size)[3], uint32_t bindings, uint32_t texel_bindings,
                                 uint32_t push_bytes) {
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  std::vector<uint32_t> values(local_size, local_size + 3);
  values.insert(values.end(), constants.begin(), constants.end());
  const Key key(shader, values, bindings, texel_bindings, push_bytes);
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) return found->second;
  const ShaderCode *code = find_shader(shader);
  if (code == nullptr) fail(EDGECORE_INTERNAL, "there is no shader '%s'", shader.c_str());

  Pipeline made;
  made.bindings = bindings;
  std::copy(local_size, local_size + 3, made.local_size);
  std::vector<VkDescriptorSetLayoutBinding> slots(bindings);
  for (uint32_t i = 0; i < bindings; ++i) {
    const bool is_texel = (texel_bindings >> i & 1u) != 0;
    slots[i] = {i, is_texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  }
  VkDescriptorSetLayoutCreateInfo sets = {};
  sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  sets.bindingCount = bindings;
  sets.pBindings = slots.data();
  check(vk_.vkCreateDescriptorSetLayout(handle_, &sets, nullptr, &made.set_layout), "creating a descriptor set layout");
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo layout = {};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &made.set_layout;
  layout.pushConstantRangeCount = push_bytes == 0 ? 0 : 1;
  layout.pPushConstantRanges = &range;
  check(vk_.vkCreatePipelineLayout(handle_, &layout, nullptr, &made.layout), "creating a pipeline layout");

  VkShaderModuleCreateInfo module_info = {};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code->bytes;
  module_info.pCode = code->words;
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk_.vkCreateShaderModule(handle_, &module_info, nullptr, &module), "reading a shader");
  std::vector<VkSpecializationMapEntry> entries(values.size());
  for (uint32_t i = 0; i < entries.size(); ++i) entries[i] = {i, i * 4, 4};
  const VkSpecializationInfo specialization = {static_cast<uint32_t>(entries.size()), entries.data(), values.size() * 4,
                                               values.data()};
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = made.layout;
  const VkResult result = vk_.vkCreateComputePipelines(handle_, cache_, 1, &info, nullptr, &made.handle);
  vk_.vkDestroyShaderModule(handle_, module, nullptr);
  if (result != VK_SUCCESS) {
    vk_.vkDestroyPipelineLayout(handle_, made.layout, nullptr);
    vk_.vkDestroyDescriptorSetLayout(handle_, made.set_layout, nullptr);
  }
  check(result, "compiling a shader");
  has_new_pipelines_ = true;
  return pipelines_.emplace(key, made).first->second;
}

void Device::store_pipelines() {
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  if (!has_new_pipelines_ || !cache_file_->is_open()) return;
  has_new_pipelines_ = false;
  size_t bytes = 0;
  if (vk_.vkGetPipelineCacheData(handle_, cache_, &bytes, nullptr) != VK_SUCCESS) return;
  std::vector<uint8_t> compiled(bytes);
  if (vk_.vkGetPipelineCacheData(handle_, cache_, &bytes, compiled.data()) != VK_SUCCESS) return;
  compiled.resize(bytes);
  cache_file_->write(compiled);
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

Buffer Device::upload(const void *data, uint64_t bytes) {
  Buffer buffer(*this, bytes, unified_);
  if (unified_) {
    std::memcpy(buffer.mapped(), data, bytes);
    buffer.flush();
    return buffer;
  }
  const Buffer staging(*this, bytes, true);
  std::memcpy(staging.mapped(), data, bytes);
  staging.flush();
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
  // llvmpipe compiles a shader again for each combination of texel buffers whose sizes are powers of two: none is.
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
