// Opens the Vulkan library, creates a Vulkan instance, and chooses a device. Backends that use Vulkan compile these
// files into their libraries: see cmake/edgecoreVulkan.cmake.
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

// Throws a Failure that names the step and the error, unless `result` is VK_SUCCESS.
void check(VkResult result, const char *step);

// Returns a Vulkan version number as text: "1.4.309".
std::string version_text(uint32_t version);

// Keeps the first message of Vulkan's validation layer since the last take(). Thread-safe.
class Messages {
 public:
  void add(const char *text);
  // Returns the message and forgets it. Returns an empty text if there is no message.
  std::string take();

 private:
  std::mutex mutex_;
  std::string first_;
};

struct InstanceSettings {
  bool validation = false;
  // The version of Vulkan that the backend uses.
  uint32_t api_version = VK_API_VERSION_1_1;
  // Names of Vulkan layers to load between the backend and the drivers.
  std::vector<const char *> layers;
};

// The Vulkan library and its instance. The constructor throws a Failure with one sentence if there is no Vulkan driver.
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

// Returns the device whose index is `choice`, or whose name contains `choice`. If `choice` is empty, returns the first
// GPU or, if there is none, the first device.
VkPhysicalDevice find_device(const Vulkan &vulkan, std::string_view choice);

// Throws a Failure with one sentence if the driver of a device supports only a Vulkan version below `version`.
void check_version(const VkPhysicalDeviceProperties &properties, uint32_t version);

// The names of the extensions that a device supports.
class Extensions {
 public:
  explicit Extensions(VkPhysicalDevice device);
  bool has(const char *name) const;

 private:
  std::vector<VkExtensionProperties> properties_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_INSTANCE_H_
