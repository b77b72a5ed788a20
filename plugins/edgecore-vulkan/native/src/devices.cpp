#include "devices.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cooperative_matrix.h"
#include "structure_chain.h"
#include "vulkan/instance.h"

namespace edgecore::vulkan {

namespace {

const char *type_text(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "CPU";
    default:
      return "other device";
  }
}

// Names of optional Vulkan features, in three lists: used by the delegate, ignored by it, missing on the device.
struct Features {
  std::vector<std::string> used, unused, missing;
  void add(bool has, bool is_used, const std::string &name) {
    (has ? is_used ? used : unused : missing).push_back(name);
  }
};

std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool has_timestamps(VkPhysicalDevice device) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  return std::any_of(families.begin(), families.end(), [](const VkQueueFamilyProperties &family) {
    return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && family.timestampValidBits != 0;
  });
}

// Collects a device's features, and returns the name of its driver. An extension's structures are added to the query
// only if the driver has the extension.
std::string query(VkPhysicalDevice device, const VkPhysicalDeviceProperties &properties, Features *features) {
  const Extensions extensions(device);
  const bool is_1_2 = properties.apiVersion >= VK_API_VERSION_1_2;
  VkPhysicalDeviceFeatures2 supported = {};
  supported.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  VkPhysicalDevice16BitStorageFeatures storage16 = {};
  storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  chain(&supported, &storage16);
  VkPhysicalDevice8BitStorageFeatures storage8 = {};
  storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  if (is_1_2 || extensions.has(VK_KHR_8BIT_STORAGE_EXTENSION_NAME)) chain(&supported, &storage8);
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic = {};
  arithmetic.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  if (is_1_2 || extensions.has(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME)) chain(&supported, &arithmetic);
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {};
  matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  if (extensions.has(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) chain(&supported, &matrix);
  vkGetPhysicalDeviceFeatures2(device, &supported);

  VkPhysicalDeviceProperties2 details = {};
  details.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  VkPhysicalDeviceSubgroupProperties subgroup = {};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  chain(&details, &subgroup);
  VkPhysicalDeviceDriverProperties driver = {};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  const bool names_driver = is_1_2 || extensions.has(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
  if (names_driver) chain(&details, &driver);
  vkGetPhysicalDeviceProperties2(device, &details);

  constexpr VkSubgroupFeatureFlags kShuffles = VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  const bool has_subgroups = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  features->add(storage16.storageBuffer16BitAccess != VK_FALSE, true, "16-bit storage");
  features->add(storage8.storageBuffer8BitAccess != VK_FALSE, true, "8-bit storage");
  features->add(arithmetic.shaderFloat16 != VK_FALSE, false, "16-bit arithmetic");
  features->add(has_subgroups, (subgroup.supportedOperations & kShuffles) != 0,
                has_subgroups ? "subgroups of " + std::to_string(subgroup.subgroupSize) : "subgroups");
  features->add(matrix.cooperativeMatrix != VK_FALSE, largest_matrix(device).has_value(), "cooperative matrices");
  features->add(has_timestamps(device), true, "timestamps");
  if (!names_driver) return version_text(properties.driverVersion);
  return std::string(driver.driverName) + " " + driver.driverInfo;
}

uint64_t memory_of(VkPhysicalDevice device) {
  VkPhysicalDeviceMemoryProperties memory = {};
  vkGetPhysicalDeviceMemoryProperties(device, &memory);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) bytes += memory.memoryHeaps[i].size;
  }
  return bytes;
}

std::string line_of(const Vulkan &vulkan, size_t index, VkPhysicalDevice chosen) {
  const VkPhysicalDevice device = vulkan.devices()[index];
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(device, &properties);
  std::string problem, driver;
  Features features;
  try {
    check_version(properties, VK_API_VERSION_1_1);
    driver = query(device, properties, &features);
  } catch (const backend::Failure &failure) {
    problem = failure.text;
  }
  std::vector<std::string> fields = {std::to_string(index),
                                     device == chosen ? "1" : "0",
                                     properties.deviceName,
                                     type_text(properties.deviceType),
                                     version_text(properties.apiVersion),
                                     driver,
                                     std::to_string(memory_of(device)),
                                     std::to_string(properties.limits.maxStorageBufferRange),
                                     joined(features.used),
                                     joined(features.unused),
                                     joined(features.missing),
                                     problem};
  std::string line = "device";
  for (std::string &field : fields) {
    std::replace_if(
        field.begin(), field.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    line += "\t" + field;
  }
  return line + "\n";
}

}  // namespace

uint64_t list_devices(char *text, uint64_t size) noexcept {
  std::string lines;
  try {
    const Vulkan vulkan(InstanceSettings{});
    const VkPhysicalDevice chosen = find_device(vulkan, "");
    for (size_t i = 0; i < vulkan.devices().size(); ++i) lines += line_of(vulkan, i, chosen);
  } catch (const backend::Failure &failure) {
    lines = "problem\t" + failure.text + "\n";
  }
  if (size != 0) std::memcpy(text, lines.data(), std::min<uint64_t>(size, lines.size()));
  return lines.size();
}

}  // namespace edgecore::vulkan
