// Copies strided arrays.
#ifndef EDGECORE_COREML_ARRAY_H_
#define EDGECORE_COREML_ARRAY_H_

#include <cstdint>
#include <vector>

namespace edgecore::coreml {

// Returns the strides, in elements, of a row-major array without gaps.
std::vector<int64_t> row_major_strides(const std::vector<int64_t> &shape);

// Copies an array into another of the same shape. Strides are in elements of `element_bytes` bytes; the arrays must not
// overlap.
void copy_strided(const std::vector<int64_t> &shape, uint64_t element_bytes, const void *from,
                  const std::vector<int64_t> &from_strides, void *to, const std::vector<int64_t> &to_strides);

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_ARRAY_H_
