#include "edgecore/allocator.h"

namespace edgecore {

void *BufferAllocator::allocate(size_t size, size_t alignment) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(buffer_.data());
  const uintptr_t unaligned = start + used_;
  const size_t padding = (alignment - (unaligned & (alignment - 1))) & (alignment - 1);
  const size_t remaining = buffer_.size() - used_;
  if (padding > remaining || size > remaining - padding) return nullptr;
  used_ += padding + size;
  if (used_ > peak_) peak_ = used_;
  return reinterpret_cast<void *>(unaligned + padding);
}

}  // namespace edgecore
