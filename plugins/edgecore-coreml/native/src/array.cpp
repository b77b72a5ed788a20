#include "array.h"

#include <cstring>

namespace edgecore::coreml {
namespace {

void copy_dim(const std::vector<int64_t> &shape, size_t dim, int64_t bytes, const char *from,
              const std::vector<int64_t> &from_strides, char *to, const std::vector<int64_t> &to_strides) {
  if (dim == shape.size()) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  const bool is_row = dim + 1 == shape.size() && from_strides[dim] == 1 && to_strides[dim] == 1;
  if (is_row) {
    if (shape[dim] != 0) std::memcpy(to, from, static_cast<size_t>(shape[dim] * bytes));
    return;
  }
  for (int64_t i = 0; i < shape[dim]; ++i) {
    copy_dim(shape, dim + 1, bytes, from + i * from_strides[dim] * bytes, from_strides,
             to + i * to_strides[dim] * bytes, to_strides);
  }
}

}  // namespace

std::vector<int64_t> row_major_strides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

void copy_strided(const std::vector<int64_t> &shape, uint64_t element_bytes, const void *from,
                  const std::vector<int64_t> &from_strides, void *to, const std::vector<int64_t> &to_strides) {
  copy_dim(shape, 0, static_cast<int64_t>(element_bytes), static_cast<const char *>(from), from_strides,
           static_cast<char *>(to), to_strides);
}

}  // namespace edgecore::coreml
