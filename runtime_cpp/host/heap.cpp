#include "host/heap.h"

#include <algorithm>

#include "core/platform.h"
#include "host/platform.h"

namespace edgecore {
namespace {

// Returns the number of bytes from `address` up to the next multiple of `alignment`, a power of two.
size_t padding(const uint8_t *address, size_t alignment) {
  return static_cast<size_t>(-reinterpret_cast<uintptr_t>(address)) & (alignment - 1);
}

}  // namespace

void Free::operator()(void *data) const { platform_free(data); }

HeapBlock heap_block(size_t size, size_t alignment) {
  use_host_platform();
  return HeapBlock(platform_allocate(std::max<size_t>(size, 1), std::max(alignment, sizeof(void *))));
}

void *HeapAllocator::allocate(size_t size, size_t alignment) {
  const size_t skip = padding(next_, alignment);
  if (next_ != nullptr && skip <= remaining_ && size <= remaining_ - skip) {
    uint8_t *data = next_ + skip;
    next_ = data + size;
    remaining_ -= skip + size;
    return data;
  }
  const bool own = size > kBlock / 4 || alignment > kBlock / 4;
  HeapBlock block = heap_block(own ? size : kBlock, std::max<size_t>(alignment, 64));
  if (block == nullptr) return nullptr;
  auto *data = static_cast<uint8_t *>(block.get());
  blocks_.push_back(std::move(block));
  if (!own) {
    next_ = data + size;
    remaining_ = kBlock - size;
  }
  return data;
}

void *HeapScratch::allocate(size_t size, size_t alignment) {
  auto *base = static_cast<uint8_t *>(buffer_.get());
  const size_t skip = base == nullptr ? 0 : padding(base + used_, alignment);
  if (base != nullptr && skip <= capacity_ - used_ && size <= capacity_ - used_ - skip) {
    uint8_t *data = base + used_ + skip;
    used_ += skip + size;
    return data;
  }
  if (size > SIZE_MAX / 4) return nullptr;
  HeapBlock block = heap_block(size, alignment);
  if (block == nullptr) return nullptr;
  overflow_bytes_ += size + alignment;
  overflow_.push_back(std::move(block));
  return overflow_.back().get();
}

void HeapScratch::reset() {
  if (!overflow_.empty()) {
    const size_t wanted = used_ + overflow_bytes_;
    overflow_.clear();
    overflow_bytes_ = 0;
    buffer_ = heap_block(wanted, kAlignment);
    capacity_ = buffer_ == nullptr ? 0 : wanted;
  }
  used_ = 0;
}

}  // namespace edgecore
