// A Vulkan device with the shaders of this backend. Thread-safe.
#ifndef EDGECORE_VULKAN_SHADER_DEVICE_H_
#define EDGECORE_VULKAN_SHADER_DEVICE_H_

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cooperative_matrix.h"
#include "pipeline_cache.h"
#include "pipeline_maker.h"
#include "tuning.h"
#include "vulkan/device.h"

namespace edgecore::vulkan {

struct ShaderCode;

// A compute shader, specialized by constants. Another thread compiles it.
struct Pipeline {
  // Waits until the shader is compiled, and throws a Failure if compilation failed.
  VkPipeline handle() const { return compiled.get(); }

  std::shared_future<VkPipeline> compiled;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  uint32_t bindings = 0;
  uint32_t local_size[3] = {1, 1, 1};
};

class ShaderDevice : public Device {
 public:
  // Opens a device. `choice` is the index or a part of the name of the device; an empty `choice` selects the first GPU,
  // or the first device if there is no GPU. `cache_folder` is the folder for compiled shaders; if it is empty, none are
  // stored. `gpu_shaders` makes a CPU use the shaders for GPUs.
  ShaderDevice(const std::shared_ptr<Vulkan> &vulkan, std::string_view choice, const std::string &cache_folder,
               bool gpu_shaders);
  ~ShaderDevice();
  ShaderDevice(const ShaderDevice &) = delete;
  ShaderDevice &operator=(const ShaderDevice &) = delete;

  // Returns true if the device runs shaders on a CPU. On a CPU, a load from a storage buffer becomes a slow loop over
  // the threads of a subgroup, unlike a load from a texel buffer. Shared memory costs more than it saves.
  bool is_processor() const { return is_processor_; }
  // Returns true if shaders should read texel buffers: the device runs shaders on a CPU, and supports 64-bit integers,
  // which the shaders with texel buffers need.
  bool prefers_texels() const { return is_processor_ && has_int64_; }
  // Returns true if shaders can store integers of 8 bits.
  bool has_8_bit_storage() const { return has_8_bit_storage_; }
  // Returns the number of threads of a subgroup if they can read each other's values (shuffle), otherwise 1.
  uint32_t subgroup_size() const { return subgroup_size_; }

  // Returns the sizes of the cooperative matrices that shaders use, if the device supports them.
  const std::optional<CooperativeMatrix> &matrix() const { return matrix_; }

  // Returns the tunable sizes of shaders. Call set_tuning only before the first recording.
  const Tuning &tuning() const { return tuning_; }
  void set_tuning(const Tuning &tuning) { tuning_ = tuning; }

  // Returns the pipeline of a shader. If the pipeline is new, or if its last compilation failed, another thread begins
  // to compile it. `constants` are the specialization constants from id 3 on; ids 0 to 2 are the local size. Bit i of
  // `texel_bindings` is 1 if binding i is a texel buffer.
  const Pipeline &pipeline(const std::string &shader, const std::vector<uint32_t> &constants,
                           const uint32_t (&local_size)[3], uint32_t bindings, uint32_t texel_bindings,
                           uint32_t push_bytes);

  // Writes the shaders that have been compiled so far to the cache folder, if there are new shaders.
  void store_pipelines();

 private:
  struct Features;
  using Key = std::tuple<std::string, std::vector<uint32_t>, uint32_t, uint32_t, uint32_t>;

  ShaderDevice(const std::shared_ptr<Vulkan> &vulkan, const Features &features, const std::string &cache_folder,
               bool gpu_shaders);
  VkPipeline compile(const ShaderCode &code, VkPipelineLayout layout, const std::vector<uint32_t> &constants);
  void destroy(const Pipeline &pipeline);

  const bool is_processor_;
  const bool has_int64_;
  const bool has_8_bit_storage_;
  const std::optional<CooperativeMatrix> matrix_;
  uint32_t subgroup_size_ = 1;
  Tuning tuning_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex pipeline_mutex_;
  std::map<Key, Pipeline> pipelines_;
  // Pipelines that failed to compile; kept, because recordings may refer to them.
  std::list<std::map<Key, Pipeline>::node_type> failed_;
  const PipelineCacheFile cache_file_;
  std::atomic<bool> has_new_pipelines_{false};
  std::unique_ptr<PipelineMaker> maker_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_SHADER_DEVICE_H_
