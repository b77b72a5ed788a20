// The Vulkan library, its instance, and the choice of a device. Backends that use Vulkan compile these files into their
// libraries: see cmake/edgecoreVulkan.cmake.
#ifndef EDGECORE_VULKAN_INSTANCE_H_
#define EDGECORE_VULKAN_INSTANCE_H_

#include <volk.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::vulkan {

// Throws a Failure that names the step and the error unless `result` is VK_SUCCESS.
void check(VkResult result, const char *step);

// Returns a version as text, such as 1.4.309.
std::string version_text(uint32_t version);

// Holds the first message of the validation layer since the last take(). Thread-safe.
class Messages {
 public:
  void add(const char *text);
  // Returns the message and clears it; empty if there is none.
  std::string take();

 private:
  std::mutex mutex_;
  std::string first_;
};

struct InstanceSettings {
  bool validation = false;
  // The version of Vulkan that the backend uses.
  uint32_t api_version = VK_API_VERSION_1_1;
  // Names of layers between the backend and the drivers.
  std::vector<const char *> layers;
};

// The Vulkan library and its instance. Throws a Failure with one sentence if there is no Vulkan driver.
class Vulkan {
 public:
  explicit Vulkan(const InstanceSettings &settings);
  ~Vulkan();
  Vulkan(const Vulkan &) = delete;
  Vulkan &operator=(const Vulkan &) = delete;

  VkInstance instance() const { return instance_; }
  uint32_t api_version() const { return api_version_; }
  const std::vector<VkPhysicalDevice> &devices() const { return devices_; }
  Messages &messages() const { return *messages_; }

 private:
  std::unique_ptr<Messages> messages_ = std::make_unique<Messages>();
  VkInstance instance_ = VK_NULL_HANDLE;
  uint32_t api_version_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<VkPhysicalDevice> devices_;
};

// Returns the device with this index, or with this part of its name. For an empty choice returns the first GPU, or, if
// there is none, the first device.
VkPhysicalDevice find_device(const Vulkan &vulkan, std::string_view choice);

// Throws a Failure with one sentence if the driver of a device is older than `version`.
void check_version(const VkPhysicalDeviceProperties &properties, uint32_t version);

// The extensions of a device.
class Extensions {
 public:
  explicit Extensions(VkPhysicalDevice device);
  bool has(const char *name) const;

 private:
  std::vector<VkExtensionProperties> properties_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_INSTANCE_H_
