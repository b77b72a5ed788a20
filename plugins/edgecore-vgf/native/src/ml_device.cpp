#include "ml_device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace edgecore::vgf {
namespace {

using edgecore::backend::fail;
using edgecore::backend::Failure;
using edgecore::vulkan::DeviceNeeds;
using edgecore::vulkan::Extensions;
using edgecore::vulkan::find_device;
using edgecore::vulkan::InstanceSettings;
using edgecore::vulkan::version_text;
using edgecore::vulkan::Vulkan;

constexpr uint32_t kApiVersion = VK_API_VERSION_1_3;
constexpr uint32_t kLoaderVersion = VK_MAKE_API_VERSION(0, 1, 4, 309);
constexpr char kLayersVariable[] = "VK_INSTANCE_LAYERS";
constexpr char kMoreLayerPaths[] = "VK_ADD_LAYER_PATH",
               kLayerPath[] = "VK_LAYER_PATH";  // the loader prefers VK_LAYER_PATH to VK_ADD_LAYER_PATH
constexpr char kReplicatedComposites[] = VK_EXT_SHADER_REPLICATED_COMPOSITES_EXTENSION_NAME;
constexpr char kGetLayer[] = "pip install ai-ml-emulation-layer-for-vulkan";
// The graph layer of Arm's emulation calls the tensor layer, so the graph layer must be first.
constexpr const char *kLayers[] = {"VK_LAYER_ML_Graph_Emulation", "VK_LAYER_ML_Tensor_Emulation"};
constexpr const char *kLayerLibraries[] = {"libVkLayer_Graph.so", "libVkLayer_Tensor.so"};

bool has_extensions(VkPhysicalDevice device) {
  const Extensions extensions(device);
  return extensions.has(VK_ARM_TENSORS_EXTENSION_NAME) && extensions.has(VK_ARM_DATA_GRAPH_EXTENSION_NAME);
}

// Returns the device that `choice` selects, or the first suitable device if `choice` is empty. Returns null if the
// device lacks the machine learning extensions.
VkPhysicalDevice find_ml_device(const Vulkan &vulkan, const std::string &choice) {
  if (!choice.empty()) {
    const VkPhysicalDevice device = find_device(vulkan, choice);
    return has_extensions(device) ? device : VK_NULL_HANDLE;
  }
  for (const VkPhysicalDevice device : vulkan.devices()) {
    if (has_extensions(device)) return device;
  }
  return VK_NULL_HANDLE;
}

// Adds a folder of layer manifests to the environment variable in which the Vulkan loader searches for layers. Does
// nothing if the Python package has set the variable before loading this library. Otherwise changes the
// variable once and never changes it back, because a change is unsafe while another thread reads the environment.
void add_layer_path(const std::string &folder) {
  const char *name = std::getenv(kLayerPath) == nullptr ? kMoreLayerPaths : kLayerPath;
  const char *value = std::getenv(name);
  const std::string paths = value == nullptr ? "" : value;
  if ((":" + paths + ":").find(":" + folder + ":") != std::string::npos) return;
  setenv(name, paths.empty() ? folder.c_str() : (folder + ":" + paths).c_str(), 1);
}

// Opens Vulkan with the emulation layer. The manifests name the libraries without a folder; the loader finds them
// because they are already loaded.
std::shared_ptr<Vulkan> open_emulation(InstanceSettings settings, const std::string &folder) {
  for (const char *library : kLayerLibraries) {
    const std::string path = folder + "/lib/" + library;
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      fail(EDGECORE_NOT_FOUND, "the emulation layer for Vulkan cannot be loaded: %s. To install it: %s", dlerror(),
           kGetLayer);
    }
  }
  settings.layers.assign(std::begin(kLayers), std::end(kLayers));
  add_layer_path(folder + "/share/vulkan/explicit_layer.d");
  return std::make_shared<Vulkan>(settings);
}

// The device features and extensions that graphs use.
struct Features {
  explicit Features(VkPhysicalDevice physical) {
    VkPhysicalDeviceVulkan12Features supported12 = {};
    supported12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    VkPhysicalDeviceVulkan11Features supported11 = {};
    supported11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    supported11.pNext = &supported12;
    VkPhysicalDeviceFeatures2 supported = {};
    supported.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    supported.pNext = &supported11;
    vkGetPhysicalDeviceFeatures2(physical, &supported);

    graph.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DATA_GRAPH_FEATURES_ARM;
    graph.dataGraph = VK_TRUE;
    graph.dataGraphShaderModule = VK_TRUE;
    tensors.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TENSOR_FEATURES_ARM;
    tensors.pNext = &graph;
    tensors.tensors = VK_TRUE;
    features13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    features13.pNext = &tensors;
    features13.synchronization2 = VK_TRUE;
    features13.maintenance4 = VK_TRUE;
    features12.sType = supported12.sType;
    features12.pNext = &features13;
    features12.shaderInt8 = supported12.shaderInt8;
    features12.shaderFloat16 = supported12.shaderFloat16;
    features12.storageBuffer8BitAccess = supported12.storageBuffer8BitAccess;
    features12.vulkanMemoryModel = supported12.vulkanMemoryModel;
    features11.sType = supported11.sType;
    features11.pNext = &features12;
    features11.storageBuffer16BitAccess = supported11.storageBuffer16BitAccess;
    core.sType = supported.sType;
    core.pNext = &features11;
    core.features.shaderInt16 = supported.features.shaderInt16;
    core.features.shaderInt64 = supported.features.shaderInt64;
    core.features.shaderFloat64 = supported.features.shaderFloat64;

    needs.queue_flags = VK_QUEUE_DATA_GRAPH_BIT_ARM;
    needs.extensions = {VK_ARM_TENSORS_EXTENSION_NAME, VK_ARM_DATA_GRAPH_EXTENSION_NAME};
    if (Extensions(physical).has(kReplicatedComposites)) {
      composites.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_REPLICATED_COMPOSITES_FEATURES_EXT;
      composites.shaderReplicatedComposites = VK_TRUE;
      graph.pNext = &composites;
      needs.extensions.push_back(kReplicatedComposites);
    }
    needs.features = &core;
  }
  Features(const Features &) = delete;
  Features &operator=(const Features &) = delete;

  VkPhysicalDeviceShaderReplicatedCompositesFeaturesEXT composites = {};
  VkPhysicalDeviceDataGraphFeaturesARM graph = {};
  VkPhysicalDeviceTensorFeaturesARM tensors = {};
  VkPhysicalDeviceVulkan13Features features13 = {};
  VkPhysicalDeviceVulkan12Features features12 = {};
  VkPhysicalDeviceVulkan11Features features11 = {};
  VkPhysicalDeviceFeatures2 core = {};
  DeviceNeeds needs;
};

}  // namespace

MlDevice::MlDevice(std::shared_ptr<Vulkan> vulkan, VkPhysicalDevice physical)
    : Device(std::move(vulkan), physical, Features(physical).needs) {
  const auto find = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(vkGetDeviceProcAddr(handle(), name));
    if (member == nullptr) fail(EDGECORE_NOT_SUPPORTED, "the Vulkan driver of %s has no %s", this->name(), name);
  };
  find(ml_.vkCreateTensorARM, "vkCreateTensorARM");
  find(ml_.vkDestroyTensorARM, "vkDestroyTensorARM");
  find(ml_.vkCreateTensorViewARM, "vkCreateTensorViewARM");
  find(ml_.vkDestroyTensorViewARM, "vkDestroyTensorViewARM");
  find(ml_.vkGetTensorMemoryRequirementsARM, "vkGetTensorMemoryRequirementsARM");
  find(ml_.vkBindTensorMemoryARM, "vkBindTensorMemoryARM");
  find(ml_.vkCreateDataGraphPipelinesARM, "vkCreateDataGraphPipelinesARM");
  find(ml_.vkCreateDataGraphPipelineSessionARM, "vkCreateDataGraphPipelineSessionARM");
  find(ml_.vkDestroyDataGraphPipelineSessionARM, "vkDestroyDataGraphPipelineSessionARM");
  find(ml_.vkGetDataGraphPipelineSessionBindPointRequirementsARM,
       "vkGetDataGraphPipelineSessionBindPointRequirementsARM");
  find(ml_.vkGetDataGraphPipelineSessionMemoryRequirementsARM, "vkGetDataGraphPipelineSessionMemoryRequirementsARM");
  find(ml_.vkBindDataGraphPipelineSessionMemoryARM, "vkBindDataGraphPipelineSessionMemoryARM");
  find(ml_.vkCmdDispatchDataGraphARM, "vkCmdDispatchDataGraphARM");
}

std::shared_ptr<MlDevice> open_device(const DeviceSettings &settings) {
  InstanceSettings instance;
  instance.api_version = kApiVersion;
  auto vulkan = std::make_shared<Vulkan>(instance);
  VkPhysicalDevice physical = find_ml_device(*vulkan, settings.device);
  if (physical == VK_NULL_HANDLE && !settings.emulation.empty()) {
    vulkan = open_emulation(instance, settings.emulation);
    physical = find_ml_device(*vulkan, settings.device);
  }
  if (physical == VK_NULL_HANDLE) {
    fail(EDGECORE_NOT_SUPPORTED,
         "no Vulkan device has the extensions %s and %s: update the driver, or install the emulation layer (%s)",
         VK_ARM_TENSORS_EXTENSION_NAME, VK_ARM_DATA_GRAPH_EXTENSION_NAME, kGetLayer);
  }
  try {
    return std::make_shared<MlDevice>(std::move(vulkan), physical);
  } catch (const Failure &failure) {
    const uint32_t version = volkGetInstanceVersion();
    if (version >= kLoaderVersion || std::getenv(kLayersVariable) == nullptr) throw;
    fail(EDGECORE_NOT_SUPPORTED,
         "the Vulkan loader %s, older than %s, cannot open a device with the layers of %s: unset this variable, since "
         "edgecore-vgf enables the emulation layer itself (%s)",
         version_text(version).c_str(), version_text(kLoaderVersion).c_str(), kLayersVariable, failure.text.c_str());
  }
}

}  // namespace edgecore::vgf
