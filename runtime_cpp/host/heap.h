// Allocators that supply the core with heap memory.
#ifndef EDGECORE_HOST_HEAP_H_
#define EDGECORE_HOST_HEAP_H_

#include <memory>
#include <vector>

#include "edgecore/allocator.h"

namespace edgecore {

// A deleter for std::unique_ptr: returns memory to the platform's heap (edgecore/platform.h).
struct Free {
  void operator()(void *data) const;
};
using HeapBlock = std::unique_ptr<void, Free>;

// Allocates `size` bytes at a multiple of `alignment` (a power of two). Returns NULL if there is no memory.
HeapBlock heap_block(size_t size, size_t alignment);

// Serves small allocations from blocks of kBlock bytes, and each large allocation from a block of its own. The
// destructor frees all blocks.
class HeapAllocator final : public Allocator {
 public:
  void *allocate(size_t size, size_t alignment) override;

 private:
  static constexpr size_t kBlock = 32 * 1024;
  std::vector<HeapBlock> blocks_;
  uint8_t *next_ = nullptr;
  size_t remaining_ = 0;  // bytes that are free in the current block, from next_ on
};

// Scratch memory in one buffer. A request that does not fit gets a block of its own; the next reset() frees these
// blocks and enlarges the buffer by their size, so that later runs allocate nothing.
class HeapScratch final : public ScratchAllocator {
 public:
  void *allocate(size_t size, size_t alignment) override;
  void reset() override;

 private:
  static constexpr size_t kAlignment = 64;
  HeapBlock buffer_;
  size_t capacity_ = 0;
  size_t used_ = 0;
  std::vector<HeapBlock> overflow_;  // blocks of the requests that did not fit the buffer; freed by reset()
  size_t overflow_bytes_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_HEAP_H_
