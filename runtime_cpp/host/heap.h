// Allocators that supply the core with heap memory.
#ifndef EDGECORE_HOST_HEAP_H_
#define EDGECORE_HOST_HEAP_H_

#include <memory>
#include <vector>

#include "edgecore/allocator.h"

namespace edgecore {

// Returns memory to the platform's heap (edgecore/platform.h).
struct Free {
  void operator()(void *data) const;
};
using HeapBlock = std::unique_ptr<void, Free>;

// Allocates `size` bytes at a multiple of `alignment` (a power of two). Returns NULL if there is no memory.
HeapBlock heap_block(size_t size, size_t alignment);

// Allocates small pieces from blocks of kBlock bytes, and large pieces from blocks of their own. Destroying the
// allocator frees all blocks.
class HeapAllocator final : public Allocator {
 public:
  void *allocate(size_t size, size_t alignment) override;

 private:
  static constexpr size_t kBlock = 32 * 1024;
  std::vector<HeapBlock> blocks_;
  uint8_t *next_ = nullptr;
  size_t remaining_ = 0;  // bytes from next_ on in the current block
};

// Scratch memory in one buffer. Requests that do not fit have separate blocks, and the next reset() enlarges the buffer
// by their size, so that later runs allocate nothing.
class HeapScratch final : public ScratchAllocator {
 public:
  void *allocate(size_t size, size_t alignment) override;
  void reset() override;

 private:
  static constexpr size_t kAlignment = 64;
  HeapBlock buffer_;
  size_t capacity_ = 0;
  size_t used_ = 0;
  std::vector<HeapBlock> overflow_;  // blocks for requests that did not fit; freed by reset()
  size_t overflow_bytes_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_HEAP_H_
