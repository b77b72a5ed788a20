// Records the shader dispatches of products of two computed (not constant) matrices.
#ifndef EDGECORE_VULKAN_OPS_MATMUL_H_
#define EDGECORE_VULKAN_OPS_MATMUL_H_

#include "call.h"

namespace edgecore::vulkan {

// out = alpha * (a b) + addend for `batches` row-major matrices: a is [m, k], b is [k, n] ([n, k] if `transposed`).
struct Product {
  int64_t batches = 1, m = 0, k = 0, n = 0;
  bool transposed = false;
  bool shares_b = false;  // true if all batches multiply by the same b
  double alpha = 1;
  const Tensor *addend = nullptr;
  // The strides of the addend in elements, along [batch / inner, batch % inner, row, column].
  int64_t addend_strides[4] = {0, 0, 0, 0};
  int64_t inner = 1;
};

// Records the dispatch of a product. Either all tensors have the same dtype, or one of `out` and `a` is fp32 and all
// other tensors are fp16.
void multiply_matrices(const Call &call, const Product &product, const Tensor &a, const Tensor &b, const Tensor &out);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_MATMUL_H_
