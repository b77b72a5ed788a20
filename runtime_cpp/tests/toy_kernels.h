// A kernel library for tests: a few operators, one for each way of passing arguments.
#ifndef EDGECORE_TESTS_TOY_KERNELS_H_
#define EDGECORE_TESTS_TOY_KERNELS_H_

#include "edgecore/kernel.h"

// Returns the library with kernels for these operators:
//
// test::scale.out(Tensor x, int factor, *, Tensor out)     float32
// test::fill.out(int[] size, float value, *, Tensor out)   out has the shape `size`
// test::sum.out(Tensor[] tensors, *, Tensor out)           float32, entries may be absent
// test::positive.out(Tensor x, *, Tensor out)              bool of shape []: x[0] > 0
// test::copy_(Tensor self, Tensor source)
// aten::copy_(Tensor self, Tensor source, int non_blocking)
// test::size(Tensor x) -> int                              returns x.shape[0]
// test::add(int a, int b) -> int
// test::scratch.out(Tensor x, *, Tensor out)               copies through scratch memory of the runtime
// executorch_prim::et_view(Tensor self, int[] size, *, Tensor out)
extern "C" const edgecore_kernel_library *toy_kernels();

#endif  // EDGECORE_TESTS_TOY_KERNELS_H_
