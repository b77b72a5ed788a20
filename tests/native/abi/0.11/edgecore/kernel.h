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
  // The arguments of the operator's schema in order, then its out arguments: none if it returns nothing, or arguments
  // that it writes. (In a .pte file a repetition of the result follows, which the kernel does not get.) If the result
  // is no tensor, such as the integer of aten::sym_size, it is the last argument: it gets tag and value.
  const edgecore_value *args;
  uint64_t arg_count;
  uint32_t arg_stride;  // bytes from one argument to the next
  uint32_t reserved;
  edgecore_error *error;
} edgecore_call;

// Computes an operator. Returns EDGECORE_OK, or the code that host->fail returned. The host calls it on one thread; it
// may use host->parallel_for and host->scratch, but must not block or keep pointers to the call. It may change its
// outputs and the arguments that the schema marks as written (`Tensor(a!) cache`), nothing else, and must first call
// host->resize for each of them (a written argument keeps its shape): it refuses read-only tensors. After a failure
// their content is undefined. In a damaged file arguments may overlap: a kernel must copy a value that determines an
// address, such as an index, before it checks the value, so that its own writes cannot change it after the check.
typedef int32_t(EDGECORE_CALL *edgecore_kernel_fn)(const edgecore_call *call);

typedef struct edgecore_kernel {
  edgecore_header header;
  edgecore_str name;      // "aten::add"
  edgecore_str overload;  // "out"; empty if there is none
  uint64_t dtypes;        // bit n: takes tensors of ScalarType n (for messages and for the choice of a kernel)
  edgecore_kernel_fn run;
} edgecore_kernel;

// A table of kernels. `package` and `version` keep their offsets in every version of the interface, so that a host can
// name the package of a library that it refuses.
typedef struct edgecore_kernel_library {
  edgecore_header header;
  edgecore_str package;  // the pip package that contains it, for error messages
  edgecore_str version;
  const edgecore_kernel *kernels;
  uint64_t kernel_count;
  uint32_t kernel_stride;
  uint32_t flags;  // EDGECORE_KERNELS_*
} edgecore_kernel_library;

// The kernels were compiled for chosen models: edgecore_kernel.dtypes has the types of all tensors, arguments and
// results, with which a kernel may be called. A method that calls it with others is refused when it is loaded.
#define EDGECORE_KERNELS_SELECTED 1u

typedef const edgecore_kernel_library *(EDGECORE_CALL *edgecore_kernels_fn)(void);

#define EDGECORE_KERNELS_SYMBOL "edgecore_kernels_v0"

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNEL_H_
