// The operator library of the runtime, as tables for edgecore/kernel.h. Plain C.
#ifndef EDGECORE_KERNELS_H_
#define EDGECORE_KERNELS_H_

#include "edgecore/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// The build for the best instruction set that this processor has. Never NULL; thread-safe.
//
// Operators that return a number (aten::sym_size, aten::sym_numel, aten::_local_scalar_dense, executorch_prim::*) have
// no out argument: their result's value must follow the schema arguments in edgecore_call.args, and the kernel writes
// its tag and number there. Entries of args past the ones that a kernel needs are ignored.
const edgecore_kernel_library *edgecore_kernels_library(void);

// The build of the given name: "baseline", "avx2" or "avx512" (NUL-terminated). NULL when it was not built or this
// processor cannot run it.
const edgecore_kernel_library *edgecore_kernels_library_for(const char *name);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNELS_H_
