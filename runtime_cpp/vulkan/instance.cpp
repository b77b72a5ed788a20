#include "vulkan/instance.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace edgecore::vulkan {

using backend::fail;

namespace {

constexpr char kInstallDriver[] = "install the driver of the GPU; on Debian, mesa-vulkan-drivers has several";

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

std::string version_text(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
         std::to_string(VK_API_VERSION_PATCH(version));
}

Vulkan::Vulkan(const InstanceSettings &settings) : api_version_(settings.api_version) {
  if (volkInitialize() != VK_SUCCESS) {
    fail(EDGECORE_NOT_FOUND, "this machine has no Vulkan library (libvulkan.so.1): %s", kInstallDriver);
  }
  VkApplicationInfo application = {};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "edgecore";
  application.apiVersion = api_version_;
  const char *const validation = "VK_LAYER_KHRONOS_validation", *const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  std::vector<const char *> layers(settings.layers);
  if (settings.validation) layers.insert(layers.begin(), validation);
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = static_cast<uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = settings.validation ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  const VkResult result = vkCreateInstance(&info, nullptr, &instance_);
  if (result == VK_ERROR_LAYER_NOT_PRESENT && settings.validation) {
    fail(EDGECORE_NOT_FOUND, "the option validation needs the layer %s: on Debian vulkan-validationlayers", validation);
  }
  if (result == VK_ERROR_LAYER_NOT_PRESENT) {
    fail(EDGECORE_NOT_FOUND, "the Vulkan library does not find the layer %s, or a layer after it", layers.front());
  }
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    fail(EDGECORE_NOT_FOUND, "this machine has the Vulkan library, but no Vulkan driver: %s", kInstallDriver);
  }
  check(result, "creating a Vulkan instance");
  volkLoadInstanceOnly(instance_);
  if (settings.validation) {
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
  // the error that the Vulkan loader returns if no driver has a device
  if (listed == VK_ERROR_INITIALIZATION_FAILED) return;
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

void check_version(const VkPhysicalDeviceProperties &properties, uint32_t version) {
  if (properties.apiVersion >= version) return;
  fail(EDGECORE_NOT_SUPPORTED, "the Vulkan driver of %s has version %u.%u, and %u.%u is needed: update the driver",
       properties.deviceName, VK_API_VERSION_MAJOR(properties.apiVersion), VK_API_VERSION_MINOR(properties.apiVersion),
       VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
}

Extensions::Extensions(VkPhysicalDevice device) {
  uint32_t count = 0;
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr), "listing the extensions");
  properties_.resize(count);
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, properties_.data()), "listing the extensions");
  properties_.resize(count);
}

bool Extensions::has(const char *name) const {
  return std::any_of(properties_.begin(), properties_.end(),
                     [&](const VkExtensionProperties &one) { return std::strcmp(one.extensionName, name) == 0; });
}

}  // namespace edgecore::vulkan
