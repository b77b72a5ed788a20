// Allocators that the application gives to the runtime. The runtime never frees memory itself: the application frees an
// allocator's memory all at once, after the objects in it were destroyed.
#ifndef EDGECORE_ALLOCATOR_H_
#define EDGECORE_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>

#include "edgecore/span.h"

namespace edgecore {

class Allocator {
 public:
  // Returns `size` uninitialized bytes at a multiple of `alignment` (a power of two), or NULL if there is no memory.
  // For size 0 the pointer is not NULL, but must not be dereferenced. Need not be thread-safe.
  virtual void *allocate(size_t size, size_t alignment) = 0;

 protected:
  ~Allocator() = default;
};

// Allocates memory that lives until the end of one kernel call or delegate execution.
class ScratchAllocator : public Allocator {
 public:
  // Frees everything that was allocated, for reuse. The runtime calls reset() after every instruction of a method.
  virtual void reset() = 0;

 protected:
  ~ScratchAllocator() = default;
};

// Allocates from one fixed buffer, front to back, for systems without a heap. Can hold a Program, a Method or the
// scratch memory.
class BufferAllocator final : public ScratchAllocator {
 public:
  explicit BufferAllocator(MutableBytes buffer) : buffer_(buffer) {}
  void *allocate(size_t size, size_t alignment) override;
  void reset() override { used_ = 0; }
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }  // maximum of used() since construction

 private:
  MutableBytes buffer_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_ALLOCATOR_H_
