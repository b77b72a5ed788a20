// Calls of single kernels, for the tests of kernel libraries:
//
//   std::vector<Value> args = {ones({2, 3}), ones({2, 3}), 0.5, empty({2, 3})};
//   EDGECORE_TRY(call_kernel(*my_kernels(), "my_ops::multiply_add.out", args, error));
//   EDGECORE_TRY(check_close(args[3].tensor(), full({2, 3}, 1.5), {}, error));
#ifndef EDGECORE_KERNEL_CALL_H_
#define EDGECORE_KERNEL_CALL_H_

#include <vector>

#include "edgecore/compare.h"
#include "edgecore/kernel.h"
#include "edgecore/make_tensor.h"

namespace edgecore {

// Calls the kernel of an operator, "namespace::name.overload", with the arguments of its schema, the outputs last. The
// kernel writes to the memory of the tensors in `args`. A tensor that the kernel resizes has its new shape in `args`
// afterwards. The tensor's memory must be large enough for that shape. If the result is not a tensor, pass None as one
// more argument, which call_kernel replaces by the result. Loops run on the calling thread. Errors: NOT_FOUND (the
// library has no such kernel), INVALID_ARGUMENT (an argument is Tensor(), which is allowed only as a missing entry of a
// list), and the errors of the kernel.
Status call_kernel(const edgecore_kernel_library &library, StringView op, std::vector<Value> &args, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_KERNEL_CALL_H_
