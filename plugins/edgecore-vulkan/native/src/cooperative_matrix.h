// Finds the matrix products that a subgroup of a device computes cooperatively (VK_KHR_cooperative_matrix).
#ifndef EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_
#define EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_

#include <volk.h>

#include <optional>

#include "vulkan/device.h"

namespace edgecore::vulkan {

// The sizes of a cooperative product of two fp16 matrices, [rows, steps] and [steps, columns], with fp32 sums.
struct CooperativeMatrix {
  uint32_t rows, columns, steps;
  uint32_t subgroup;  // threads of a subgroup
};

// Returns the cooperative product with the most multiplications that a device supports. Returns nothing if the device
// has no such product, lacks another feature of the shaders that use it, or has subgroups of several sizes.
std::optional<CooperativeMatrix> largest_matrix(VkPhysicalDevice physical);

// Returns true if a SPIR-V shader declares the capability CooperativeMatrixKHR. Capabilities come first in a module.
bool uses_matrices(const uint32_t *words, size_t count);

// The device features and extensions that shaders with cooperative matrices need.
class MatrixFeatures {
 public:
  MatrixFeatures();
  MatrixFeatures(const MatrixFeatures &) = delete;
  MatrixFeatures &operator=(const MatrixFeatures &) = delete;

  // Appends the features (members of this object) to a chain of Vulkan structures, and the extensions to a list.
  void add_to(VkPhysicalDeviceFeatures2 *head, std::vector<const char *> *extensions);

 private:
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix_ = {};
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_ = {};
  VkPhysicalDeviceShaderFloat16Int8Features arithmetic_ = {};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups_ = {};
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_COOPERATIVE_MATRIX_H_
