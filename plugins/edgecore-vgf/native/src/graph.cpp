#include "graph.h"

#include <cstring>
#include <utility>

namespace edgecore::vgf {
namespace {

using edgecore::backend::fail;
using edgecore::vulkan::check;

constexpr uint64_t kTimeoutNs = 600'000'000'000;  // 10 minutes: the emulation layer's first run compiles shaders

const std::vector<int64_t> &vulkan_shape(const Tensor &tensor) {
  static const std::vector<int64_t> one = {1};
  return tensor.shape.empty() ? one : tensor.shape;
}

VkTensorDescriptionARM description_of(const Tensor &tensor) {
  VkTensorDescriptionARM description = {};
  description.sType = VK_STRUCTURE_TYPE_TENSOR_DESCRIPTION_ARM;
  description.tiling = VK_TENSOR_TILING_LINEAR_ARM;
  description.format = static_cast<VkFormat>(tensor.format);
  description.dimensionCount = static_cast<uint32_t>(vulkan_shape(tensor).size());
  description.pDimensions = vulkan_shape(tensor).data();
  description.usage = VK_TENSOR_USAGE_DATA_GRAPH_BIT_ARM;
  return description;
}

}  // namespace

Graph::Graph(std::shared_ptr<MlDevice> device, const Vgf &vgf)
    : device_(std::move(device)), inputs_(vgf.inputs), outputs_(vgf.outputs), results_(vgf.results) {
  const std::lock_guard<std::mutex> lock(device_->mutex());
  try {
    create(vgf);
  } catch (...) {
    close();
    throw;
  }
}

Graph::~Graph() {
  const std::lock_guard<std::mutex> lock(device_->mutex());
  close();
}

void Graph::create(const Vgf &vgf) {
  const VolkDeviceTable &vk = device_->vk();
  const VkDevice device = device_->handle();
  std::vector<std::vector<VkDescriptorSetLayoutBinding>> slots(vgf.descriptor_sets);
  std::vector<VkTensorDescriptionARM> descriptions;
  std::vector<VkDataGraphPipelineResourceInfoARM> resources;
  descriptions.reserve(inputs_.size() + outputs_.size() + vgf.constants.size());
  for (const auto *arguments : {&inputs_, &outputs_}) {
    for (const Argument &argument : *arguments) {
      slots[argument.set].push_back({argument.binding, VK_DESCRIPTOR_TYPE_TENSOR_ARM, 1, VK_SHADER_STAGE_ALL, nullptr});
      descriptions.push_back(description_of(argument.tensor));
      resources.push_back({VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_RESOURCE_INFO_ARM, &descriptions.back(), argument.set,
                           argument.binding, 0});
    }
  }
  for (const auto &bindings : slots) {
    VkDescriptorSetLayoutCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    info.bindingCount = static_cast<uint32_t>(bindings.size());
    info.pBindings = bindings.data();
    set_layouts_.emplace_back();
    check(vk.vkCreateDescriptorSetLayout(device, &info, nullptr, &set_layouts_.back()), "creating a layout of tensors");
  }
  VkPipelineLayoutCreateInfo layout = {};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = static_cast<uint32_t>(set_layouts_.size());
  layout.pSetLayouts = set_layouts_.data();
  check(vk.vkCreatePipelineLayout(device, &layout, nullptr, &layout_), "creating a pipeline layout");

  std::vector<VkDataGraphPipelineConstantARM> constants;
  for (const Constant &constant : vgf.constants) {
    descriptions.push_back(description_of(constant.tensor));
    constants.push_back({VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_CONSTANT_ARM, &descriptions.back(),
                         static_cast<uint32_t>(constants.size()), constant.data.data});
  }
  VkShaderModuleCreateInfo code = {};
  code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  code.codeSize = vgf.spirv.size() * sizeof(uint32_t);
  code.pCode = vgf.spirv.data();
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk.vkCreateShaderModule(device, &code, nullptr, &module), "reading the SPIR-V of the VGF file");
  VkDataGraphPipelineShaderModuleCreateInfoARM stage = {};
  stage.sType = VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_SHADER_MODULE_CREATE_INFO_ARM;
  stage.module = module;
  stage.pName = vgf.entry_point.c_str();
  stage.constantCount = static_cast<uint32_t>(constants.size());
  stage.pConstants = constants.data();
  VkDataGraphPipelineCreateInfoARM info = {};
  info.sType = VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_CREATE_INFO_ARM;
  info.pNext = &stage;
  info.layout = layout_;
  info.resourceInfoCount = static_cast<uint32_t>(resources.size());
  info.pResourceInfos = resources.data();
  const VkResult result = device_->ml().vkCreateDataGraphPipelinesARM(device, VK_NULL_HANDLE, VK_NULL_HANDLE, 1, &info,
                                                                      nullptr, &pipeline_);
  vk.vkDestroyShaderModule(device, module, nullptr);
  check(result, "compiling the graph of the VGF file");
}

void Graph::close() {
  const VolkDeviceTable &vk = device_->vk();
  const VkDevice device = device_->handle();
  if (pipeline_ != VK_NULL_HANDLE) vk.vkDestroyPipeline(device, pipeline_, nullptr);
  if (layout_ != VK_NULL_HANDLE) vk.vkDestroyPipelineLayout(device, layout_, nullptr);
  for (const VkDescriptorSetLayout one : set_layouts_) {
    if (one != VK_NULL_HANDLE) vk.vkDestroyDescriptorSetLayout(device, one, nullptr);
  }
}

DeviceTensor::DeviceTensor(MlDevice &device, const Tensor &tensor) : device_(device), bytes_(tensor.bytes) {
  try {
    const VkTensorDescriptionARM description = description_of(tensor);
    VkTensorCreateInfoARM info = {};
    info.sType = VK_STRUCTURE_TYPE_TENSOR_CREATE_INFO_ARM;
    info.pDescription = &description;
    info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    check(device_.ml().vkCreateTensorARM(device_.handle(), &info, nullptr, &tensor_), "creating a tensor");

    const VkTensorMemoryRequirementsInfoARM question = {VK_STRUCTURE_TYPE_TENSOR_MEMORY_REQUIREMENTS_INFO_ARM, nullptr,
                                                        tensor_};
    VkMemoryRequirements2 needs = {};
    needs.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2;
    device_.ml().vkGetTensorMemoryRequirementsARM(device_.handle(), &question, &needs);
    VmaAllocationCreateInfo wanted = {};
    wanted.flags = VMA_ALLOCATION_CREATE_MAPPED_BIT;
    wanted.requiredFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    wanted.preferredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    VmaAllocationInfo found = {};
    check(vmaAllocateMemory(device_.allocator(), &needs.memoryRequirements, &wanted, &allocation_, &found),
          "allocating memory for a tensor");
    mapped_ = found.pMappedData;
    // Zero the memory: Arm's emulation layer does not write results that are constant zeros (OpConstantNull).
    std::memset(mapped_, 0, bytes_);
    check(vmaFlushAllocation(device_.allocator(), allocation_, 0, VK_WHOLE_SIZE), "clearing a tensor");
    const VkBindTensorMemoryInfoARM bind = {VK_STRUCTURE_TYPE_BIND_TENSOR_MEMORY_INFO_ARM, nullptr, tensor_,
                                            found.deviceMemory, found.offset};
    check(device_.ml().vkBindTensorMemoryARM(device_.handle(), 1, &bind), "binding memory to a tensor");
    VkTensorViewCreateInfoARM view = {};
    view.sType = VK_STRUCTURE_TYPE_TENSOR_VIEW_CREATE_INFO_ARM;
    view.tensor = tensor_;
    view.format = static_cast<VkFormat>(tensor.format);
    check(device_.ml().vkCreateTensorViewARM(device_.handle(), &view, nullptr, &view_), "creating a view of a tensor");
  } catch (...) {
    close();
    throw;
  }
}

DeviceTensor::~DeviceTensor() { close(); }

void DeviceTensor::close() {
  if (view_ != VK_NULL_HANDLE) device_.ml().vkDestroyTensorViewARM(device_.handle(), view_, nullptr);
  if (tensor_ != VK_NULL_HANDLE) device_.ml().vkDestroyTensorARM(device_.handle(), tensor_, nullptr);
  if (allocation_ != nullptr) vmaFreeMemory(device_.allocator(), allocation_);
}

void DeviceTensor::write(const void *data) {
  std::memcpy(mapped_, data, bytes_);
  check(vmaFlushAllocation(device_.allocator(), allocation_, 0, VK_WHOLE_SIZE), "flushing a tensor");
}

void DeviceTensor::read(void *data) const {
  check(vmaInvalidateAllocation(device_.allocator(), allocation_, 0, VK_WHOLE_SIZE), "reading a tensor");
  std::memcpy(data, mapped_, bytes_);
}

Session::Session(const Graph &graph) : graph_(graph), device_(graph.device()), pool_(graph.device()) {
  const std::lock_guard<std::mutex> lock(device_.mutex());
  try {
    create();
  } catch (...) {
    close();
    throw;
  }
}

Session::~Session() {
  const std::lock_guard<std::mutex> lock(device_.mutex());
  close();
}

void Session::create() {
  for (const Argument &input : graph_.inputs()) {
    inputs_.push_back(std::make_unique<DeviceTensor>(device_, input.tensor));
  }
  for (const Argument &output : graph_.outputs()) {
    outputs_.push_back(std::make_unique<DeviceTensor>(device_, output.tensor));
  }
  VkDataGraphPipelineSessionCreateInfoARM info = {};
  info.sType = VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_SESSION_CREATE_INFO_ARM;
  info.dataGraphPipeline = graph_.pipeline();
  check(device_.ml().vkCreateDataGraphPipelineSessionARM(device_.handle(), &info, nullptr, &session_),
        "creating a session");
  bind_memory();
  create_descriptors();
  record();
}

// Allocates and binds the memory that the session needs for intermediate values.
void Session::bind_memory() {
  const MlFunctions &ml = device_.ml();
  const VkDataGraphPipelineSessionBindPointRequirementsInfoARM question = {
      VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_SESSION_BIND_POINT_REQUIREMENTS_INFO_ARM, nullptr, session_};
  uint32_t count = 0;
  check(ml.vkGetDataGraphPipelineSessionBindPointRequirementsARM(device_.handle(), &question, &count, nullptr),
        "asking for the memory of a session");
  std::vector<VkDataGraphPipelineSessionBindPointRequirementARM> points(count);
  for (auto &point : points) point.sType = VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_SESSION_BIND_POINT_REQUIREMENT_ARM;
  check(ml.vkGetDataGraphPipelineSessionBindPointRequirementsARM(device_.handle(), &question, &count, points.data()),
        "asking for the memory of a session");
  for (const auto &point : points) {
    if (point.bindPointType != VK_DATA_GRAPH_PIPELINE_SESSION_BIND_POINT_TYPE_MEMORY_ARM) {
      fail(EDGECORE_NOT_SUPPORTED, "the driver asks for an object of type %d", static_cast<int>(point.bindPointType));
    }
    for (uint32_t object = 0; object < point.numObjects; ++object) {
      const VkDataGraphPipelineSessionMemoryRequirementsInfoARM of = {
          VK_STRUCTURE_TYPE_DATA_GRAPH_PIPELINE_SESSION_MEMORY_REQUIREMENTS_INFO_ARM, nullptr, session_,
          point.bindPoint, object};
      VkMemoryRequirements2 needs = {};
      needs.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2;
      ml.vkGetDataGraphPipelineSessionMemoryRequirementsARM(device_.handle(), &of, &needs);
      if (needs.memoryRequirements.size == 0) continue;
      VmaAllocationCreateInfo wanted = {};
      wanted.preferredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
      VmaAllocationInfo found = {};
      memory_.emplace_back(nullptr);
      check(vmaAllocateMemory(device_.allocator(), &needs.memoryRequirements, &wanted, &memory_.back(), &found),
            "allocating the memory of a session");
      const VkBindDataGraphPipelineSessionMemoryInfoARM bind = {
          VK_STRUCTURE_TYPE_BIND_DATA_GRAPH_PIPELINE_SESSION_MEMORY_INFO_ARM,
          nullptr,
          session_,
          point.bindPoint,
          object,
          found.deviceMemory,
          found.offset};
      check(ml.vkBindDataGraphPipelineSessionMemoryARM(device_.handle(), 1, &bind), "binding the memory of a session");
    }
  }
}

void Session::create_descriptors() {
  const VolkDeviceTable &vk = device_.vk();
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_TENSOR_ARM,
                                     static_cast<uint32_t>(inputs_.size() + outputs_.size())};
  VkDescriptorPoolCreateInfo pool = {};
  pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  pool.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
  pool.maxSets = static_cast<uint32_t>(graph_.set_layouts().size());
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  check(vk.vkCreateDescriptorPool(device_.handle(), &pool, nullptr, &descriptors_), "creating a descriptor pool");
  VkDescriptorSetAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  info.descriptorPool = descriptors_;
  info.descriptorSetCount = static_cast<uint32_t>(graph_.set_layouts().size());
  info.pSetLayouts = graph_.set_layouts().data();
  sets_.resize(graph_.set_layouts().size());
  check(vk.vkAllocateDescriptorSets(device_.handle(), &info, sets_.data()), "allocating descriptors");
  const auto write = [&](const std::vector<Argument> &arguments,
                         const std::vector<std::unique_ptr<DeviceTensor>> &tensors) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const VkTensorViewARM view = tensors[i]->view();
      const VkWriteDescriptorSetTensorARM tensor = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET_TENSOR_ARM, nullptr, 1,
                                                    &view};
      VkWriteDescriptorSet descriptor = {};
      descriptor.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      descriptor.pNext = &tensor;
      descriptor.dstSet = sets_[arguments[i].set];
      descriptor.dstBinding = arguments[i].binding;
      descriptor.descriptorCount = 1;
      descriptor.descriptorType = VK_DESCRIPTOR_TYPE_TENSOR_ARM;
      vk.vkUpdateDescriptorSets(device_.handle(), 1, &descriptor, 0, nullptr);
    }
  };
  write(graph_.inputs(), inputs_);
  write(graph_.outputs(), outputs_);
}

void Session::record() {
  const VolkDeviceTable &vk = device_.vk();
  commands_ = pool_.allocate();
  VkCommandBufferBeginInfo begin = {};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check(vk.vkBeginCommandBuffer(commands_, &begin), "recording commands");
  vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_DATA_GRAPH_ARM, graph_.pipeline());
  vk.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_DATA_GRAPH_ARM, graph_.layout(), 0,
                             static_cast<uint32_t>(sets_.size()), sets_.data(), 0, nullptr);
  device_.ml().vkCmdDispatchDataGraphARM(commands_, session_, nullptr);
  VkMemoryBarrier2 barrier = {};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2;
  barrier.srcStageMask = VK_PIPELINE_STAGE_2_DATA_GRAPH_BIT_ARM;
  barrier.srcAccessMask = VK_ACCESS_2_DATA_GRAPH_WRITE_BIT_ARM;
  barrier.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT;
  barrier.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT;
  VkDependencyInfo dependency = {};
  dependency.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO;
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  vk.vkCmdPipelineBarrier2(commands_, &dependency);
  check(vk.vkEndCommandBuffer(commands_), "recording commands");
}

void Session::run(const std::vector<const void *> &inputs, const std::vector<void *> &results) {
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i]->write(inputs[i]);
  device_.submit(commands_, pool_.fence());
  device_.wait(pool_.fence(), kTimeoutNs);
  for (size_t i = 0; i < results.size(); ++i) outputs_[graph_.results()[i]]->read(results[i]);
}

void Session::close() {
  const VolkDeviceTable &vk = device_.vk();
  if (descriptors_ != VK_NULL_HANDLE) vk.vkDestroyDescriptorPool(device_.handle(), descriptors_, nullptr);
  if (session_ != VK_NULL_HANDLE) {
    device_.ml().vkDestroyDataGraphPipelineSessionARM(device_.handle(), session_, nullptr);
  }
  for (const VmaAllocation one : memory_) vmaFreeMemory(device_.allocator(), one);
  inputs_.clear();
  outputs_.clear();
}

}  // namespace edgecore::vgf
