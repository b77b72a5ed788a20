// The operator library of the runtime: tables of kernels, each an edgecore_kernel_library. Plain C.
#ifndef EDGECORE_KERNELS_H_
#define EDGECORE_KERNELS_H_

#include "edgecore/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the build for the best instruction set that this processor supports. Never NULL; thread-safe.
//
// Operators that return a number (aten::sym_size, aten::sym_numel, aten::_local_scalar_dense, executorch_prim::*) have
// no out argument: the entry after the schema arguments in edgecore_call.args is their result, and the kernel writes
// tag and number there. A kernel ignores entries of args that it does not need.
const edgecore_kernel_library *edgecore_kernels_library(void);

// Returns the build with this name: "baseline", "avx2" or "avx512" (NUL-terminated). NULL if it was not compiled, or if
// this processor cannot run it.
const edgecore_kernel_library *edgecore_kernels_library_for(const char *name);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNELS_H_
