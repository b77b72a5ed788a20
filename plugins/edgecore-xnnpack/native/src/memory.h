// The allocator that XNNPACK uses. It records failed allocations, because some functions of XNNPACK do not return an
// error status after a failed allocation.
#ifndef EDGECORE_XNNPACK_MEMORY_H_
#define EDGECORE_XNNPACK_MEMORY_H_

#include <xnnpack.h>

namespace edgecore::xnnpack {

const xnn_allocator *allocator();

// Returns true if an allocation on this thread failed since the last call of clear_allocation_failure.
bool allocation_failed();
void clear_allocation_failure();

// While an object of this class exists, memory that XNNPACK allocates on this thread is filled with 0xFF, which is NaN
// in fp32 and fp16. New memory is often zero, so this makes kernels that read uninitialized memory fail in tests.
class FillsNewMemory {
 public:
  FillsNewMemory();
  ~FillsNewMemory();
  FillsNewMemory(const FillsNewMemory &) = delete;
  FillsNewMemory &operator=(const FillsNewMemory &) = delete;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_MEMORY_H_
