// XNNPACK's heap. Some of its functions lose the status of an allocation that failed; the failure is kept here.
#ifndef EDGECORE_XNNPACK_MEMORY_H_
#define EDGECORE_XNNPACK_MEMORY_H_

#include <xnnpack.h>

namespace edgecore::xnnpack {

const xnn_allocator *Allocator();

// Whether an allocation on this thread failed since the last ClearAllocationFailure.
bool AllocationFailed();
void ClearAllocationFailure();

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_MEMORY_H_
