// Tensors on the device: their dtypes, layouts and shapes.
#ifndef EDGECORE_VULKAN_TENSOR_H_
#define EDGECORE_VULKAN_TENSOR_H_

#include <cstdint>
#include <vector>

namespace edgecore::vulkan {

// The element types of tensors on the device. Integers of all widths and booleans are stored as 32-bit integers,
// because 8-bit and 64-bit storage are optional in Vulkan, and most integer tensors are small (indices, masks). kInt8
// is for activations of quantized networks, on devices with 8-bit storage.
enum class Dtype : uint8_t { kFloat32, kFloat16, kInt32, kInt8 };

constexpr uint64_t size_of(Dtype dtype) { return dtype == Dtype::kInt8 ? 1 : dtype == Dtype::kFloat16 ? 2 : 4; }
constexpr bool is_float(Dtype dtype) { return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat16; }
// Returns the part of a shader's name that stands for the dtype, such as "f32".
constexpr const char *name_of(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? "f32" : dtype == Dtype::kFloat16 ? "f16" : dtype == Dtype::kInt8 ? "i8" : "i32";
}

// The order of a tensor's elements in memory, always without gaps. kChannelsLast, for tensors with 3 or 4 dims, makes
// the third dim from the end the innermost one: [N, C, H, W] is stored as [N, H, W, C].
enum class Layout : uint8_t { kRowMajor, kChannelsLast };

using Shape = std::vector<int64_t>;

// The maximum number of dims.
constexpr size_t kMaxRank = 6;

inline int64_t count(const Shape &shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

// Returns the indices of a tensor's dims in memory order, outermost first.
inline std::vector<uint32_t> dims_in_memory(size_t rank, Layout layout) {
  std::vector<uint32_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<uint32_t>(i);
  if (layout == Layout::kChannelsLast && (rank == 3 || rank == 4)) {
    order[rank - 3] = static_cast<uint32_t>(rank - 2);
    order[rank - 2] = static_cast<uint32_t>(rank - 1);
    order[rank - 1] = static_cast<uint32_t>(rank - 3);
  }
  return order;
}

// Returns the stride of each dim of a tensor, in elements.
inline Shape strides(const Shape &shape, Layout layout) {
  Shape result(shape.size());
  const std::vector<uint32_t> order = dims_in_memory(shape.size(), layout);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    result[order[i]] = stride;
    stride *= shape[order[i]];
  }
  return result;
}

// A tensor of one recording. `storage` is the index of its memory in Recording::storages (recording.h). `texel` is the
// number of elements per texel, 1 or 4, if a dispatch reads the tensor as a texel buffer, and 0 for a storage buffer.
struct Tensor {
  Dtype dtype = Dtype::kFloat32;
  Layout layout = Layout::kRowMajor;
  Shape shape;
  uint32_t storage = 0;
  uint32_t texel = 0;

  size_t rank() const { return shape.size(); }
  int64_t count() const { return vulkan::count(shape); }
  Shape strides() const { return vulkan::strides(shape, layout); }
  // Returns the size of a dim counted from the end: size(1) is the last dim's size; 1 for a dim that does not exist.
  int64_t size(size_t from_end) const { return from_end > rank() ? 1 : shape[rank() - from_end]; }
  // Returns true if this tensor and `other` have their elements in the same order in memory. Strides of dims of size 1
  // do not matter: a tensor with at most one larger dim has the same order in every layout.
  bool same_order(const Tensor &other) const {
    if (shape != other.shape) return false;
    const Shape a = strides(), b = other.strides();
    for (size_t i = 0; i < a.size(); ++i) {
      if (shape[i] != 1 && a[i] != b[i]) return false;
    }
    return true;
  }
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_TENSOR_H_
