// Matrices that a subgroup multiplies cooperatively (VK_KHR_cooperative_matrix).
#ifndef EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_
#define EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_

#include <volk.h>

#include <optional>

#include "vulkan/device.h"

namespace edgecore::vulkan {

// The product of fp16 [rows, steps] and fp16 [steps, columns], with sums in fp32.
struct CooperativeMatrix {
  uint32_t rows, columns, steps;
  uint32_t subgroup;  // threads of a subgroup
};

// Returns the largest such product that a device supports, by its number of multiplications. Returns none if the device
// has none, lacks another feature of the shaders with such matrices, or has subgroups of several sizes.
std::optional<CooperativeMatrix> largest_matrix(VkPhysicalDevice physical);

// Returns true if a SPIR-V shader declares the capability CooperativeMatrixKHR. Capabilities come first in a module.
bool uses_matrices(const uint32_t *words, size_t count);

// The features and extensions that shaders with such matrices need.
class MatrixFeatures {
 public:
  MatrixFeatures();
  MatrixFeatures(const MatrixFeatures &) = delete;
  MatrixFeatures &operator=(const MatrixFeatures &) = delete;

  // Appends the features (members of this object) to a chain, and the extensions to a list.
  void add_to(VkPhysicalDeviceFeatures2 *head, std::vector<const char *> *extensions);

 private:
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix_ = {};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_ = {};
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic_ = {};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups_ = {};
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_
