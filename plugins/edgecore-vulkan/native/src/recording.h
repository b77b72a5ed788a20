// The work of a graph for the sizes of one prepare: dispatches of shaders, and the memory that they use.
//
// A *storage* is memory that tensors of one recording use: an argument's, a constant's, or a part of the arena.
#ifndef EDGECORE_VULKAN_RECORDING_H_
#define EDGECORE_VULKAN_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shader_device.h"
#include "tensor.h"

namespace edgecore::vulkan {

// The most bytes that the memory of a tensor has after the tensor's end.
constexpr uint64_t kMaxPadding = 256 + 15;

struct Storage {
  enum class Kind : uint8_t { kArena, kConstant, kState, kArgument };
  Kind kind = Kind::kArena;
  uint64_t bytes = 0;
  const Buffer *buffer = nullptr;  // kConstant, kState
  uint32_t argument = 0;           // kArgument
  // kArena: the dispatches that use it, and its place, which plan_memory sets.
  size_t first = SIZE_MAX, last = 0;
  uint64_t offset = 0;
};

// The number of the call of a dispatch that copies an argument at the border of the delegate.
constexpr uint32_t kNoCall = UINT32_MAX;

struct Dispatch {
  const Pipeline *pipeline = nullptr;
  std::vector<uint32_t> storages;  // of the bindings; the first `written` are written
  std::vector<VkFormat> formats;   // of the bindings: of a texel buffer's view, or VK_FORMAT_UNDEFINED
  uint32_t written = 0;
  std::vector<uint32_t> push;
  uint32_t groups[3] = {1, 1, 1};
  uint32_t call = kNoCall;  // number of the operator call in the graph
  std::string shader;
};

// How an argument lies in memory of the host: its staging type has the dtype that it has there on the device.
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
