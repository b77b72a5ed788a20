// Where the core's memory comes from. It never frees: an allocator's owner frees everything at once, after the objects
// that live in it are destroyed.
#ifndef EDGECORE_ALLOCATOR_H_
#define EDGECORE_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>

#include "edgecore/span.h"

namespace edgecore {

class Allocator {
 public:
  // Memory of `size` bytes at a multiple of `alignment` (a power of two), or NULL if there is none. Uninitialised.
  // size 0 gives a valid pointer that must not be read. Need not be thread-safe.
  virtual void *allocate(size_t size, size_t alignment) = 0;

 protected:
  ~Allocator() = default;
};

// Memory for the time of one kernel call or delegate execution.
class ScratchAllocator : public Allocator {
 public:
  // Takes back all that was allocated; the core calls it after every instruction.
  virtual void reset() = 0;

 protected:
  ~ScratchAllocator() = default;
};

// Hands out one fixed buffer from front to back. Serves as program, method and scratch memory without a heap.
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
