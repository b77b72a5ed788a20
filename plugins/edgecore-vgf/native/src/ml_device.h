// A Vulkan device with the machine learning extensions VK_ARM_tensors and VK_ARM_data_graph, which the device's driver
// or Arm's emulation layer implements. Thread-safe.
#ifndef EDGECORE_VGF_ML_DEVICE_H_
#define EDGECORE_VGF_ML_DEVICE_H_

#include <memory>
#include <mutex>
#include <string>

#include "arm_ml.h"
#include "vulkan/device.h"

namespace edgecore::vgf {

// The functions of VK_ARM_tensors and VK_ARM_data_graph, for one device.
struct MlFunctions {
  PFN_vkCreateTensorARM vkCreateTensorARM;
  PFN_vkDestroyTensorARM vkDestroyTensorARM;
  PFN_vkCreateTensorViewARM vkCreateTensorViewARM;
  PFN_vkDestroyTensorViewARM vkDestroyTensorViewARM;
  PFN_vkGetTensorMemoryRequirementsARM vkGetTensorMemoryRequirementsARM;
  PFN_vkBindTensorMemoryARM vkBindTensorMemoryARM;
  PFN_vkCreateDataGraphPipelinesARM vkCreateDataGraphPipelinesARM;
  PFN_vkCreateDataGraphPipelineSessionARM vkCreateDataGraphPipelineSessionARM;
  PFN_vkDestroyDataGraphPipelineSessionARM vkDestroyDataGraphPipelineSessionARM;
  PFN_vkGetDataGraphPipelineSessionBindPointRequirementsARM vkGetDataGraphPipelineSessionBindPointRequirementsARM;
  PFN_vkGetDataGraphPipelineSessionMemoryRequirementsARM vkGetDataGraphPipelineSessionMemoryRequirementsARM;
  PFN_vkBindDataGraphPipelineSessionMemoryARM vkBindDataGraphPipelineSessionMemoryARM;
  PFN_vkCmdDispatchDataGraphARM vkCmdDispatchDataGraphARM;
};

class MlDevice : public edgecore::vulkan::Device {
 public:
  MlDevice(std::shared_ptr<edgecore::vulkan::Vulkan> vulkan, VkPhysicalDevice physical);

  const MlFunctions &ml() const { return ml_; }
  // Lock this mutex to create or destroy objects of the extensions: the emulation layer is not thread-safe there.
  std::mutex &mutex() { return mutex_; }

 private:
  MlFunctions ml_ = {};
  std::mutex mutex_;
};

// The load options that choose a device.
struct DeviceSettings {
  std::string emulation;  // absolute path of the emulation layer's folder with lib/ and share/; empty for none
  std::string device;     // selects the Vulkan device: its index, or part of its name
  bool operator==(const DeviceSettings &other) const { return emulation == other.emulation && device == other.device; }
};

// Opens a device whose driver has the extensions, or else a device with the emulation layer. Throws a Failure with one
// sentence if there is neither.
std::shared_ptr<MlDevice> open_device(const DeviceSettings &settings);

}  // namespace edgecore::vgf

#endif  // EDGECORE_VGF_ML_DEVICE_H_
