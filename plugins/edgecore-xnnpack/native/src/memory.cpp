#include "memory.h"

#include <cstdlib>
#include <cstring>

namespace edgecore::xnnpack {

namespace {

thread_local bool failed = false;
thread_local bool fills = false;

void *checked(void *memory) {
  failed = failed || memory == nullptr;
  return memory;
}

void *fresh(void *memory, size_t size) {
  if (fills && memory != nullptr) std::memset(memory, 0xFF, size);
  return checked(memory);
}

void *allocate(void *, size_t size) { return fresh(std::malloc(size), size); }
void *reallocate(void *, void *memory, size_t size) { return checked(std::realloc(memory, size)); }
void deallocate(void *, void *memory) { std::free(memory); }

void *allocate_aligned(void *, size_t alignment, size_t size) {
  void *memory = nullptr;
  return fresh(posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr, size);
}

}  // namespace

const xnn_allocator *allocator() {
  static const xnn_allocator allocator = {nullptr, allocate, reallocate, deallocate, allocate_aligned, deallocate};
  return &allocator;
}

bool allocation_failed() { return failed; }
void clear_allocation_failure() { failed = false; }

FillsNewMemory::FillsNewMemory() { fills = true; }
FillsNewMemory::~FillsNewMemory() { fills = false; }

}  // namespace edgecore::xnnpack
