// Computes layouts of tensors and copies tensors, for the source files of the host layer.
#ifndef EDGECORE_HOST_TENSOR_COPY_H_
#define EDGECORE_HOST_TENSOR_COPY_H_

#include <vector>

#include "edgecore/abi.h"
#include "edgecore/tensor.h"

namespace edgecore {

// Copies a tensor in host memory, with any strides, to a row-major Tensor. If there is no memory, the result is a
// failed tensor (see Tensor::check).
Tensor copy_of(const edgecore_tensor &source);

constexpr char kReadOnly[] = "The tensor is read-only.";

inline Span<const int64_t> span_of(const std::vector<int64_t> &numbers) { return {numbers.data(), numbers.size()}; }

// row_major returns the dims 0 to rank - 1. strides_in_order returns the strides of a tensor without gaps; `order`
// lists its dims from outermost to innermost in memory.
std::vector<uint8_t> row_major(size_t rank);
std::vector<int64_t> strides_in_order(const std::vector<int64_t> &shape, const std::vector<uint8_t> &order);
// Returns true if strides `strides` and `expected` place all elements of a tensor of this shape at the same offsets.
bool has_strides(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                 const std::vector<int64_t> &expected);
// Checks that `dims` is a permutation of the dims of a tensor. Errors: INVALID_ARGUMENT.
Status check_dims(const std::vector<uint8_t> &dims, size_t rank, Error &error);
// Sets `bytes` to the size of a tensor of this shape and dtype without gaps. Errors: INVALID_ARGUMENT.
Status size_in_bytes(const std::vector<int64_t> &shape, int32_t scalar_type, size_t &bytes, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_TENSOR_COPY_H_
