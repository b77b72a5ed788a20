#include "edgecore/tensor.h"

#include <cstring>

#include "edgecore/method.h"
#include "edgecore/scalar_type.h"
#include "host/heap.h"
#include "host/tensor_copy.h"

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

Tensor copy_of(const edgecore_tensor &source) {
  Tensor tensor(source.scalar_type, {source.dl.shape, source.dl.shape + source.dl.ndim});
  if (tensor.count() == 0) return tensor;
  const size_t item = tensor.bytes() / tensor.count();
  const auto *from = static_cast<const uint8_t *>(source.dl.data) + source.dl.byte_offset;
  auto *to = static_cast<uint8_t *>(tensor.data());
  std::vector<int64_t> index(tensor.shape().size());
  for (size_t i = 0; i < tensor.count(); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * source.dl.strides[d];
    std::memcpy(to + i * item, from + offset * static_cast<int64_t>(item), item);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == tensor.shape()[d];) index[d] = 0;
  }
  return tensor;
}

}  // namespace edgecore
