#ifndef EDGECORE_HOST_TENSOR_COPY_H_
#define EDGECORE_HOST_TENSOR_COPY_H_

#include "edgecore/abi.h"
#include "edgecore/tensor.h"

namespace edgecore {

// Copies a tensor in host memory with any strides to a row-major Tensor, which is empty if memory does not suffice.
Tensor copy_of(const edgecore_tensor &source);

}  // namespace edgecore

#endif  // EDGECORE_HOST_TENSOR_COPY_H_
