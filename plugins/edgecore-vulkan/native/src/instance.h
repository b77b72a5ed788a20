// One execution state of a delegate: its recording for the current shapes, memory and commands.
#ifndef EDGECORE_VULKAN_INSTANCE_H_
#define EDGECORE_VULKAN_INSTANCE_H_

#include <memory>
#include <vector>

#include "blob.h"
#include "device.h"
#include "recorder.h"

namespace edgecore::vulkan {

class Execution {
 public:
  Execution(const Graph &graph, Device &device, Weights &weights, uint64_t timeout_ns);
  ~Execution();
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  // Records the graph for the shapes of the arguments, and sets the shapes of the outputs.
  void prepare(const backend::Arguments &arguments);
  // Copies the inputs to the device, runs the commands, and copies the outputs back.
  void execute(const backend::Arguments &arguments);

 private:
  // An argument in memory that the host can reach. On a device with memory of its own, `local` is the copy there.
  struct Place {
    Buffer host;
    Buffer local;
    bool is_input = false;
    uint64_t bytes = 0;
  };

  Recording record_shapes(const std::vector<Shape> &shapes, const backend::Arguments *arguments);
  void allocate(const Recording &recording);
  void write_commands();
  void destroy_commands();
  void barrier();
  VkDescriptorBufferInfo place_of(const Storage &storage) const;

  const Graph &graph_;
  Device &device_;
  Weights &weights_;
  const uint64_t timeout_ns_;
  Recording recording_;
  Buffer arena_;
  std::vector<Place> places_;  // one per tensor argument: inputs, then outputs
  bool has_max_shapes_ = false;
  bool is_written_ = false;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
  std::vector<VkBufferView> views_;  // of texel buffers
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_INSTANCE_H_
