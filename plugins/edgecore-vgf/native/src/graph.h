// Compiles the graph of a VGF file to a data-graph pipeline of a Vulkan device, and runs it.
#ifndef EDGECORE_VGF_GRAPH_H_
#define EDGECORE_VGF_GRAPH_H_

#include <memory>
#include <vector>

#include "ml_device.h"
#include "vgf.h"

namespace edgecore::vgf {

// A compiled graph. Several runs may use it at the same time.
class Graph {
 public:
  Graph(std::shared_ptr<MlDevice> device, const Vgf &vgf);
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  MlDevice &device() const { return *device_; }
  VkPipeline pipeline() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }
  const std::vector<VkDescriptorSetLayout> &set_layouts() const { return set_layouts_; }
  const std::vector<Argument> &inputs() const { return inputs_; }
  const std::vector<Argument> &outputs() const { return outputs_; }
  const std::vector<size_t> &results() const { return results_; }

 private:
  void create(const Vgf &vgf);
  void close();

  const std::shared_ptr<MlDevice> device_;
  const std::vector<Argument> inputs_, outputs_;
  const std::vector<size_t> results_;
  std::vector<VkDescriptorSetLayout> set_layouts_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

// A tensor in device memory that the host can read and write.
class DeviceTensor {
 public:
  DeviceTensor(MlDevice &device, const Tensor &tensor);
  ~DeviceTensor();
  DeviceTensor(const DeviceTensor &) = delete;
  DeviceTensor &operator=(const DeviceTensor &) = delete;

  VkTensorViewARM view() const { return view_; }
  void write(const void *data);
  void read(void *data) const;

 private:
  void close();

  MlDevice &device_;
  const uint64_t bytes_;
  VkTensorARM tensor_ = VK_NULL_HANDLE;
  VkTensorViewARM view_ = VK_NULL_HANDLE;
  VmaAllocation allocation_ = nullptr;
  void *mapped_ = nullptr;
};

// The execution state of a graph: its tensors, its intermediate memory and its commands. Used by one thread at a time.
class Session {
 public:
  explicit Session(const Graph &graph);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  // Runs the graph on inputs in host memory, and copies each result of the model to its entry of `results`.
  void run(const std::vector<const void *> &inputs, const std::vector<void *> &results);

 private:
  void create();
  void bind_memory();
  void create_descriptors();
  void record();
  void close();

  const Graph &graph_;
  MlDevice &device_;
  edgecore::vulkan::CommandPool pool_;
  std::vector<std::unique_ptr<DeviceTensor>> inputs_, outputs_;
  VkDataGraphPipelineSessionARM session_ = VK_NULL_HANDLE;
  std::vector<VmaAllocation> memory_;
  VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorSet> sets_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

}  // namespace edgecore::vgf

#endif  // EDGECORE_VGF_GRAPH_H_
