// A recording: the dispatches of shaders that compute a graph for the sizes of one prepare(), and their memory.
//
// A *storage* is memory of tensors of one recording: an argument's or a constant's memory, or a part of the arena.
#ifndef EDGECORE_VULKAN_RECORDING_H_
#define EDGECORE_VULKAN_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shader_device.h"
#include "tensor.h"

namespace edgecore::vulkan {

// The maximum number of unused bytes after a tensor in its memory (see storage_bytes).
constexpr uint64_t kMaxPadding = 256 + 15;

struct Storage {
  enum class Kind : uint8_t { kArena, kConstant, kState, kArgument };
  Kind kind = Kind::kArena;
  uint64_t bytes = 0;
  const Buffer *buffer = nullptr;  // kConstant, kState: the buffer that holds the tensor
  uint32_t argument = 0;           // kArgument: index of the argument.
  // kArena: the first and last dispatch that use the storage, and its offset in the arena, which plan_memory sets.
  size_t first = SIZE_MAX, last = 0;
  uint64_t offset = 0;
};

// The value of Dispatch::call for a copy of an argument of the delegate, which belongs to no operator call.
constexpr uint32_t kNoCall = UINT32_MAX;

struct Dispatch {
  const Pipeline *pipeline = nullptr;
  std::vector<uint32_t> storages;  // storage of each binding; the dispatch writes the first `written` of them
  std::vector<VkFormat> formats;   // for each binding: format of its texel view; VK_FORMAT_UNDEFINED: a storage buffer
  uint32_t written = 0;
  std::vector<uint32_t> push;
  uint32_t groups[3] = {1, 1, 1};
  uint32_t call = kNoCall;  // index of the operator call in the graph
  std::string shader;
};

// The format of an argument in memory. `dtype` is the dtype on the device that corresponds to the argument's type in
// host memory.
struct ArgumentFormat {
  Dtype dtype = Dtype::kFloat32;
  Layout layout = Layout::kRowMajor;
  Shape shape;
};

struct Recording {
  std::vector<Storage> storages;
  std::vector<Dispatch> dispatches;
  std::vector<ArgumentFormat> outputs;
  uint64_t arena_bytes = 0;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_RECORDING_H_
