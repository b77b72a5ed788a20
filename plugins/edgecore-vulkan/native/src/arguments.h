// Determines dtypes and layouts of a delegate's arguments, and converts arguments between host and device dtypes.
#ifndef EDGECORE_VULKAN_ARGUMENTS_H_
#define EDGECORE_VULKAN_ARGUMENTS_H_

#include "blob.h"

namespace edgecore::vulkan {

// Returns true if an argument of this dtype may be passed where the blob has `type`: the blob declares 64-bit numbers
// as 32-bit types, so int64 and float64 arguments are accepted as well.
bool fits(const edgecore_dl_dtype &dtype, DataType type);

// to_device copies elements within host memory and converts them from the argument's `dtype` to `held`, the dtype that
// the device uses: float64 becomes float32, and int64 is clamped to int32. to_host converts results back.
void to_device(const edgecore_dl_dtype &dtype, Dtype held, const void *from, void *to, int64_t elements);
void to_host(const edgecore_dl_dtype &dtype, Dtype held, const void *from, void *to, int64_t elements);

// Returns the memory layout of argument number `index`. Throws a Failure if it is neither row-major nor channels last.
Layout layout_of(const edgecore_tensor &tensor, size_t index);

inline int64_t count(const edgecore_dl_tensor &tensor) {
  int64_t elements = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) elements *= tensor.shape[d];
  return elements;
}

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_ARGUMENTS_H_
