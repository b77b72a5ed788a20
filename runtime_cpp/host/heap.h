// The core's allocators over malloc.
#ifndef EDGECORE_HOST_HEAP_H_
#define EDGECORE_HOST_HEAP_H_

#include <cstdlib>
#include <memory>
#include <vector>

#include "edgecore/allocator.h"

namespace edgecore {

struct Free {
  void operator()(void *data) const { std::free(data); }
};
using HeapBlock = std::unique_ptr<void, Free>;

// `size` bytes at a multiple of `alignment` (a power of two); NULL if there are none.
HeapBlock heap_block(size_t size, size_t alignment);

// Small pieces come from blocks of kBlock bytes, big ones from blocks of their own; all are freed with the allocator.
class HeapAllocator final : public Allocator {
 public:
  void *allocate(size_t size, size_t alignment) override;

 private:
  static constexpr size_t kBlock = 32 * 1024;
  std::vector<HeapBlock> blocks_;
  uint8_t *next_ = nullptr;
  size_t left_ = 0;
};

// One buffer that has grown to the most that was in use at a time: after the first runs it allocates no more.
class HeapScratch final : public ScratchAllocator {
 public:
  void *allocate(size_t size, size_t alignment) override;
  void reset() override;

 private:
  static constexpr size_t kAlignment = 64;
  HeapBlock buffer_;
  size_t capacity_ = 0;
  size_t used_ = 0;
  std::vector<HeapBlock> overflow_;  // what did not fit, until reset
  size_t overflow_bytes_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_HEAP_H_
