#include "edgecore/tensor.h"

#include <cstring>

#include "edgecore/method.h"
#include "edgecore/scalar_type.h"
#include "host/heap.h"

namespace edgecore {

Tensor::Tensor(int32_t scalar_type, std::vector<int64_t> shape) {
  size_t bytes = scalar_type_info(scalar_type).size;
  const size_t item = bytes;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) return;
  }
  if (item == 0 || bytes > SIZE_MAX - kArenaTail) return;
  HeapBlock block = heap_block(bytes + kArenaTail, kArenaAlignment);
  if (block == nullptr) return;
  std::memset(block.get(), 0, bytes);
  memory_ = std::move(block);
  scalar_type_ = scalar_type;
  shape_ = std::move(shape);
  count_ = bytes / item;
  bytes_ = bytes;
}

Tensor Tensor::copy_of(int32_t scalar_type, std::vector<int64_t> shape, const void *values, size_t count) {
  Tensor tensor(scalar_type, std::move(shape));
  if (tensor.count_ != count) return {};
  if (tensor.bytes_ != 0) std::memcpy(tensor.data(), values, tensor.bytes_);
  return tensor;
}

}  // namespace edgecore
