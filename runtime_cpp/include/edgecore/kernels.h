// The operators that the runtime itself provides, as a table of kernels (edgecore_kernel_library). Plain C.
#ifndef EDGECORE_KERNELS_H_
#define EDGECORE_KERNELS_H_

#include "edgecore/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the kernels, compiled for the best instruction set that this processor supports. Never NULL; thread-safe.
//
// Operators that return a number (aten::sym_size, aten::sym_numel, aten::_local_scalar_dense, executorch_prim::*) have
// no out argument: the kernel writes tag and value of the result to the entry of edgecore_call.args that follows the
// schema's arguments. Kernels ignore surplus entries of args.
const edgecore_kernel_library *edgecore_kernels_library(void);

// Returns the kernels compiled for the instruction set `name`: "baseline", "avx2" or "avx512". NULL if this library
// does not contain them, or if this processor cannot run them.
const edgecore_kernel_library *edgecore_kernels_library_for(const char *name);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNELS_H_
