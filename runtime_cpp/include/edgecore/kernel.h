// The native interface of operator kernels, draft version 0. Plain C.
//
// A kernel library is a table of kernels. The runtime's own kernels and a user's library use the same kind of table. A
// shared library exports one symbol, edgecore_kernels_v0, which returns the table; a static build passes the table
// itself.
#ifndef EDGECORE_KERNEL_H_
#define EDGECORE_KERNEL_H_

#include "edgecore/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

// One call of one kernel. Valid until the kernel returns.
typedef struct edgecore_call {
  edgecore_header header;
  const edgecore_host *host;
  edgecore_scope *scope;
  // The arguments in the order of the operator's schema, out arguments last. An operator that returns nothing, or only
  // arguments that it modifies, has no out arguments. If the result is not a tensor, such as the integer of
  // aten::sym_size, one more entry follows, to which the kernel writes the result's tag and value. (A .pte file lists
  // the result once more after the arguments; the kernel does not receive that entry.)
  const edgecore_value *args;
  uint64_t arg_count;
  uint32_t arg_stride;  // bytes from one entry of args to the next
  uint32_t reserved;
  edgecore_error *error;
} edgecore_call;

// Computes an operator. Returns EDGECORE_OK, or the code that host->fail returned. The host calls the function on one
// thread. The function may use host->parallel_for and host->scratch, but must not block or keep pointers to the call.
// The function may change only its outputs and the arguments that the schema marks as written (`Tensor(a!) cache`).
// Before writing to such a tensor, the function must call host->resize for the tensor, even if the shape stays the
// same, because resize refuses read-only tensors. After a failure the content of these tensors is undefined. In a
// damaged file arguments may overlap: copy a value that determines an address, such as an index, before checking it, so
// that the kernel's own writes cannot change the value after the check.
typedef int32_t(EDGECORE_CALL *edgecore_kernel_fn)(const edgecore_call *call);

typedef struct edgecore_kernel {
  edgecore_header header;
  edgecore_str name;      // "aten::add"
  edgecore_str overload;  // overload name, such as "out"; empty if there is none
  uint64_t dtypes;        // bit n: the kernel takes tensors of ScalarType n; used in messages and to choose a kernel
  edgecore_kernel_fn run;
} edgecore_kernel;

// A table of kernels. `package` and `version` keep their offsets in every version of the interface, so that a host that
// refuses a library can still name its package to the user.
typedef struct edgecore_kernel_library {
  edgecore_header header;
  edgecore_str package;  // the pip package that contains the library, for error messages
  edgecore_str version;
  const edgecore_kernel *kernels;
  uint64_t kernel_count;
  uint32_t kernel_stride;
  uint32_t flags;  // EDGECORE_KERNELS_*
} edgecore_kernel_library;

// The kernels were compiled for chosen models: edgecore_kernel.dtypes lists all element types that the tensors of a
// call (arguments and results) may have. Loading a method fails if the method calls a kernel with another type.
#define EDGECORE_KERNELS_SELECTED 1u

typedef const edgecore_kernel_library *(EDGECORE_CALL *edgecore_kernels_fn)(void);

#define EDGECORE_KERNELS_SYMBOL "edgecore_kernels_v0"

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNEL_H_
