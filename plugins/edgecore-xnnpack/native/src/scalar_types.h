// The numbers of scalar types (enum ScalarType) in the .pte format.
#ifndef EDGECORE_XNNPACK_SCALAR_TYPES_H_
#define EDGECORE_XNNPACK_SCALAR_TYPES_H_

#include <cstdint>

namespace edgecore::xnnpack {

constexpr int32_t kByte = 0, kChar = 1, kInt = 3, kLong = 4, kHalf = 5, kFloat = 6, kQint8 = 12, kQuint8 = 13;

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_SCALAR_TYPES_H_
