#include "shader_device.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "shaders.h"

namespace edgecore::vulkan {

using backend::fail;

// The optional features of a device that the shaders use.
struct ShaderDevice::Features {
  explicit Features(VkPhysicalDevice device) : physical(device), largest(largest_matrix(device)) {
    VkPhysicalDevice8BitStorageFeatures storage8 = {};
    storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
    VkPhysicalDevice16BitStorageFeatures storage16 = {};
    storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    const bool knows_8_bits = Extensions(physical).has(VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
    if (knows_8_bits) storage16.pNext = &storage8;
    VkPhysicalDeviceFeatures2 supported = {};
    supported.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    supported.pNext = &storage16;
    vkGetPhysicalDeviceFeatures2(physical, &supported);
    storage.sType = storage16.sType;
    storage.storageBuffer16BitAccess = storage16.storageBuffer16BitAccess;
    bytes.sType = storage8.sType;
    bytes.storageBuffer8BitAccess = storage8.storageBuffer8BitAccess;
    if (knows_8_bits) storage.pNext = &bytes;
    core.sType = supported.sType;
    core.pNext = &storage;
    core.features.shaderInt64 = supported.features.shaderInt64;
    if (knows_8_bits) extensions.push_back(VK_KHR_8BIT_STORAGE_EXTENSION_NAME);
    if (largest.has_value()) matrix.add_to(&core, &extensions);
  }
  Features(const Features &) = delete;
  Features &operator=(const Features &) = delete;

  DeviceNeeds needs() const {
    DeviceNeeds result;
    result.features = &core;
    result.extensions = extensions;
    return result;
  }

  VkPhysicalDevice physical;
  std::optional<CooperativeMatrix> largest;
  VkPhysicalDevice8BitStorageFeatures bytes = {};
  VkPhysicalDevice16BitStorageFeatures storage = {};
  VkPhysicalDeviceFeatures2 core = {};
  MatrixFeatures matrix;
  std::vector<const char *> extensions;
};

namespace {

bool has_failed(const Pipeline &pipeline) {
  if (pipeline.compiled.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  try {
    pipeline.compiled.get();
    return false;
  } catch (const backend::Failure &) {
    return true;
  }
}

}  // namespace

ShaderDevice::ShaderDevice(const std::shared_ptr<Vulkan> &vulkan, std::string_view choice,
                           const std::string &cache_folder, bool gpu_shaders)
    : ShaderDevice(vulkan, Features(find_device(*vulkan, choice)), cache_folder, gpu_shaders) {}

ShaderDevice::ShaderDevice(const std::shared_ptr<Vulkan> &vulkan, const Features &features,
                           const std::string &cache_folder, bool gpu_shaders)
    : Device(vulkan, features.physical, features.needs()),
      is_processor_(is_software() && !gpu_shaders),
      has_int64_(features.core.features.shaderInt64 != VK_FALSE),
      has_8_bit_storage_(features.bytes.storageBuffer8BitAccess != VK_FALSE),
      matrix_(features.largest),
      cache_file_(cache_folder, properties()) {
  VkPhysicalDeviceSubgroupProperties subgroup = {};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceProperties2 more = {};
  more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  more.pNext = &subgroup;
  vkGetPhysicalDeviceProperties2(features.physical, &more);
  const bool shuffles = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                        (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  if (shuffles) subgroup_size_ = subgroup.subgroupSize;

  const std::vector<uint8_t> compiled = cache_file_.read();
  VkPipelineCacheCreateInfo cache = {};
  cache.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  cache.initialDataSize = compiled.size();
  cache.pInitialData = compiled.data();
  check(vk().vkCreatePipelineCache(handle(), &cache, nullptr, &cache_), "creating a pipeline cache");
  constexpr size_t kMaxThreads = 8;
  maker_ = std::make_unique<PipelineMaker>(std::min<size_t>(std::thread::hardware_concurrency(), kMaxThreads));
}

ShaderDevice::~ShaderDevice() {
  maker_.reset();  // waits for its threads
  for (const auto &[key, pipeline] : pipelines_) destroy(pipeline);
  for (const auto &node : failed_) destroy(node.mapped());
  vk().vkDestroyPipelineCache(handle(), cache_, nullptr);
}

void ShaderDevice::destroy(const Pipeline &pipeline) {
  try {
    if (pipeline.compiled.valid()) vk().vkDestroyPipeline(handle(), pipeline.handle(), nullptr);
  } catch (const backend::Failure &) {
    // Ignore the exception: compilation has failed, so there is no pipeline to destroy.
  }
  vk().vkDestroyPipelineLayout(handle(), pipeline.layout, nullptr);
  vk().vkDestroyDescriptorSetLayout(handle(), pipeline.set_layout, nullptr);
}

const Pipeline &ShaderDevice::pipeline(const std::string &shader, const std::vector<uint32_t> &constants,
                                       const uint32_t (&local_size)[3], uint32_t bindings, uint32_t texel_bindings,
                                       uint32_t push_bytes) {
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  std::vector<uint32_t> values(local_size, local_size + 3);
  values.insert(values.end(), constants.begin(), constants.end());
  const Key key(shader, values, bindings, texel_bindings, push_bytes);
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) {
    if (!has_failed(found->second)) return found->second;
    failed_.push_back(pipelines_.extract(found));  // retry a failed compilation, because memory may be available again
  }
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
  check(vk().vkCreateDescriptorSetLayout(handle(), &sets, nullptr, &made.set_layout),
        "creating a descriptor set layout");
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo layout = {};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &made.set_layout;
  layout.pushConstantRangeCount = push_bytes == 0 ? 0 : 1;
  layout.pPushConstantRanges = &range;
  const VkResult result = vk().vkCreatePipelineLayout(handle(), &layout, nullptr, &made.layout);
  if (result != VK_SUCCESS) vk().vkDestroyDescriptorSetLayout(handle(), made.set_layout, nullptr);
  check(result, "creating a pipeline layout");

  Pipeline &kept = pipelines_.emplace(key, std::move(made)).first->second;
  kept.compiled = maker_->make(
      [this, code, layout = kept.layout, values = std::move(values)] { return compile(*code, layout, values); });
  return kept;
}

VkPipeline ShaderDevice::compile(const ShaderCode &code, VkPipelineLayout layout,
                                 const std::vector<uint32_t> &constants) {
  VkShaderModuleCreateInfo module_info = {};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code.bytes;
  module_info.pCode = code.words;
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk().vkCreateShaderModule(handle(), &module_info, nullptr, &module), "reading a shader");
  std::vector<VkSpecializationMapEntry> entries(constants.size());
  for (uint32_t i = 0; i < entries.size(); ++i) entries[i] = {i, i * 4, 4};
  const VkSpecializationInfo specialization = {static_cast<uint32_t>(entries.size()), entries.data(),
                                               constants.size() * 4, constants.data()};
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  if (uses_matrices(code.words, code.bytes / 4)) {  // a shader with cooperative matrices needs whole subgroups
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout;
  VkPipeline made = VK_NULL_HANDLE;
  const VkResult result = vk().vkCreateComputePipelines(handle(), cache_, 1, &info, nullptr, &made);
  vk().vkDestroyShaderModule(handle(), module, nullptr);
  check(result, "compiling a shader");
  has_new_pipelines_ = true;
  return made;
}

void ShaderDevice::store_pipelines() {
  if (!cache_file_.is_open() || !has_new_pipelines_.exchange(false)) return;
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  size_t bytes = 0;
  if (vk().vkGetPipelineCacheData(handle(), cache_, &bytes, nullptr) != VK_SUCCESS) return;
  std::vector<uint8_t> compiled(bytes);
  if (vk().vkGetPipelineCacheData(handle(), cache_, &bytes, compiled.data()) != VK_SUCCESS) return;
  compiled.resize(bytes);
  cache_file_.write(compiled);
}

}  // namespace edgecore::vulkan
