#include "cooperative_matrix.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "structure_chain.h"

namespace edgecore::vulkan {

namespace {

constexpr const char *kExtensions[] = {
    VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
    VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME};

// Returns true if a device has the features that shaders with cooperative matrices need.
bool has_features(VkPhysicalDevice physical) {
  const Extensions extensions(physical);
  const bool has_extensions = std::all_of(std::begin(kExtensions), std::end(kExtensions),
                                          [&](const char *name) { return extensions.has(name); });
  if (!has_extensions) return false;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {};
  matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model = {};
  memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic = {};
  arithmetic.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups = {};
  subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  VkPhysicalDevice16BitStorageFeatures storage = {};
  storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  VkPhysicalDeviceFeatures2 supported = {};
  supported.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  chain(&supported, &matrix);
  chain(&supported, &memory_model);
  chain(&supported, &arithmetic);
  chain(&supported, &subgroups);
  chain(&supported, &storage);
  vkGetPhysicalDeviceFeatures2(physical, &supported);
  return matrix.cooperativeMatrix != VK_FALSE && memory_model.vulkanMemoryModel != VK_FALSE &&
         arithmetic.shaderFloat16 != VK_FALSE && subgroups.computeFullSubgroups != VK_FALSE &&
         storage.storageBuffer16BitAccess != VK_FALSE;
}

// Returns the number of threads of a subgroup; 0 if subgroups of the device differ in size.
uint32_t only_subgroup_size(VkPhysicalDevice physical) {
  VkPhysicalDeviceSubgroupProperties subgroup = {};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceSubgroupSizeControlProperties sizes = {};
  sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  chain(&properties, &subgroup);
  chain(&properties, &sizes);
  vkGetPhysicalDeviceProperties2(physical, &properties);
  return sizes.minSubgroupSize == sizes.maxSubgroupSize ? subgroup.subgroupSize : 0;
}

}  // namespace

std::optional<CooperativeMatrix> largest_matrix(VkPhysicalDevice physical) {
  if (!has_features(physical)) return std::nullopt;
  const uint32_t subgroup = only_subgroup_size(physical);
  if (subgroup == 0) return std::nullopt;
  uint32_t count = 0;
  check(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical, &count, nullptr), "counting cooperative matrices");
  VkCooperativeMatrixPropertiesKHR empty = {};
  empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> properties(count, empty);
  check(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical, &count, properties.data()),
        "listing cooperative matrices");
  std::optional<CooperativeMatrix> largest;
  const auto products = [](const CooperativeMatrix &matrix) {
    return uint64_t{matrix.rows} * matrix.columns * matrix.steps;
  };
  for (const VkCooperativeMatrixPropertiesKHR &candidate : properties) {
    const bool fits =
        candidate.scope == VK_SCOPE_SUBGROUP_KHR && candidate.AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
        candidate.BType == VK_COMPONENT_TYPE_FLOAT16_KHR && candidate.CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
        candidate.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && candidate.saturatingAccumulation == VK_FALSE;
    // Skip products whose columns or steps are not multiples of 4: the shader loads vectors of four elements.
    if (!fits || candidate.NSize % 4 != 0 || candidate.KSize % 4 != 0) continue;
    const CooperativeMatrix matrix = {candidate.MSize, candidate.NSize, candidate.KSize, subgroup};
    if (!largest.has_value() || products(matrix) > products(*largest)) largest = matrix;
  }
  return largest;
}

bool uses_matrices(const uint32_t *words, size_t count) {
  constexpr size_t kHeader = 5;
  constexpr uint32_t kOpCapability = 17, kCooperativeMatrix = 6022;
  for (size_t i = kHeader; i + 1 < count && (words[i] & 0xffff) == kOpCapability; i += 2) {
    if (words[i + 1] == kCooperativeMatrix) return true;
  }
  return false;
}

MatrixFeatures::MatrixFeatures() {
  matrix_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  matrix_.cooperativeMatrix = VK_TRUE;
  memory_model_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  memory_model_.vulkanMemoryModel = VK_TRUE;
  arithmetic_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  arithmetic_.shaderFloat16 = VK_TRUE;
  subgroups_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  subgroups_.computeFullSubgroups = VK_TRUE;
}

void MatrixFeatures::add_to(VkPhysicalDeviceFeatures2 *head, std::vector<const char *> *extensions) {
  chain(head, &matrix_);
  chain(head, &memory_model_);
  chain(head, &arithmetic_);
  chain(head, &subgroups_);
  extensions->insert(extensions->end(), std::begin(kExtensions), std::end(kExtensions));
}

}  // namespace edgecore::vulkan
