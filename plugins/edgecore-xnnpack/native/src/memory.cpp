#include "memory.h"

#include <cstdlib>

namespace edgecore::xnnpack {

namespace {

thread_local bool failed = false;

void *Note(void *memory) {
  failed = failed || memory == nullptr;
  return memory;
}

void *Allocate(void *, size_t size) { return Note(std::malloc(size)); }
void *Reallocate(void *, void *memory, size_t size) { return Note(std::realloc(memory, size)); }
void Deallocate(void *, void *memory) { std::free(memory); }

void *AllocateAligned(void *, size_t alignment, size_t size) {
  void *memory = nullptr;
  return Note(posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr);
}

}  // namespace

const xnn_allocator *Allocator() {
  static const xnn_allocator allocator = {nullptr, Allocate, Reallocate, Deallocate, AllocateAligned, Deallocate};
  return &allocator;
}

bool AllocationFailed() { return failed; }
void ClearAllocationFailure() { failed = false; }

}  // namespace edgecore::xnnpack
