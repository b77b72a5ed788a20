// The native interface of operator kernels, draft version 0. Plain C.
//
// A kernel library is a table of kernels. The operator library of the runtime registers through the same table as a
// user's library. A shared library exports one symbol, edgecore_kernels_v0; a static build passes the table itself.
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
  // The operator's schema arguments in order, then its out arguments. The .pte repeats the result at the end; that
  // entry is not passed. A result that is no tensor (the integer of aten::sym_size) is the last argument: the kernel
  // stores tag and value into that entry, whose memory is writable.
  const edgecore_value *args;
  uint64_t arg_count;
  uint32_t arg_stride;  // bytes from one argument to the next
  uint32_t reserved;
  edgecore_error *error;
} edgecore_call;

// Returns EDGECORE_OK or what host->fail returned. Runs on one thread, may call parallel_for and scratch, must not
// block otherwise, keep pointers of the call, or change its inputs. After a failure the outputs' content is undefined.
// Calls host->resize for each output tensor before it writes to it, also when the shape is the right one already: that
// is how the host refuses an output that must not be written. Memory of inputs and outputs may overlap in a damaged
// file: what decides about addresses (an index) is copied before it is checked.
typedef int32_t(EDGECORE_CALL *edgecore_kernel_fn)(const edgecore_call *call);

typedef struct edgecore_kernel {
  edgecore_header header;
  edgecore_str name;      // "aten::add"
  edgecore_str overload;  // "out"; empty if there is none
  uint64_t dtypes;        // bit n: accepts tensors of ScalarType n (a filter for error messages; the kernel checks)
  edgecore_kernel_fn run;
} edgecore_kernel;

// `package` and `version` keep their places in every version of the interface.
typedef struct edgecore_kernel_library {
  edgecore_header header;
  edgecore_str package;  // distribution that contains it, for messages
  edgecore_str version;
  const edgecore_kernel *kernels;
  uint64_t kernel_count;
  uint32_t kernel_stride;
  uint32_t reserved;
} edgecore_kernel_library;

typedef const edgecore_kernel_library *(EDGECORE_CALL *edgecore_kernels_fn)(void);

#define EDGECORE_KERNELS_SYMBOL "edgecore_kernels_v0"

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_KERNEL_H_
