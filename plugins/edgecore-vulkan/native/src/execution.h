// Executes a delegate. Keeps its recording (shader dispatches) for the current shapes, its memory and its commands.
#ifndef EDGECORE_VULKAN_EXECUTION_H_
#define EDGECORE_VULKAN_EXECUTION_H_

#include <string>
#include <vector>

#include "blob.h"
#include "buffers.h"
#include "commands.h"
#include "recorder.h"
#include "shader_device.h"

namespace edgecore::vulkan {

// The alignment in bytes of an argument's offset in its buffer: the largest minStorageBufferOffsetAlignment that Vulkan
// allows.
constexpr uint64_t kArgumentAlignment = 256;

// The times of one dispatch, in nanoseconds since the start of the run's first dispatch.
struct DispatchTime {
  std::string name;
  uint32_t call;  // index of the operator call in the graph, as in Dispatch
  uint64_t begin, end;
};

class Execution {
 public:
  // `states` are the session's state buffers that the graph uses. `timeout_ns` limits the time of a run.
  Execution(const Graph &graph, ShaderDevice &device, Weights &weights, StateBuffers states, uint64_t timeout_ns,
            bool is_profiled);
  ~Execution();
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  // Records the dispatches of the graph for the shapes of the arguments, and sets the shapes of the outputs.
  void prepare(const backend::Arguments &arguments);
  // Copies the inputs from host memory to the device, and submits the commands.
  void start(const backend::Arguments &arguments);
  // Waits for the end of the run that start() has submitted, and copies the outputs to host memory.
  void finish();
  // Returns the times of the dispatches in the last run, which must have ended. Empty unless the execution is profiled.
  std::vector<DispatchTime> times() const;

 private:
  // Memory for an argument that the caller passes in host memory: both host and device can access `host`. On a device
  // with separate memory, shaders use the copy in `local`.
  struct Place {
    Buffer host, local;
  };
  // An output of the run that is copied to host memory.
  struct HostOutput {
    const Place *place;
    edgecore_dl_dtype dtype;
    Dtype held;
    void *data;
    int64_t elements;
  };

  void allocate(const Recording &recording);
  std::vector<Binding> bind(const backend::Arguments &arguments);

  const Graph &graph_;
  ShaderDevice &device_;
  Weights &weights_;
  const StateBuffers states_;
  const uint64_t timeout_ns_;
  Recording recording_;
  // Bytes of each argument for the current shapes; 0 for scalars and for arguments that the graph does not use.
  std::vector<uint64_t> argument_bytes_;
  Buffer arena_;
  std::vector<Place> places_;  // memory for each argument that the caller has in host memory: inputs, then outputs
  bool has_max_shapes_ = false;
  CommandPool pool_;
  CommandCache commands_;
  const Commands *running_ = nullptr;  // the commands of the last run
  bool is_pending_ = false;            // true if a run has been submitted that may still use the device memory
  std::vector<HostOutput> host_outputs_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_EXECUTION_H_
