// Properties of element types. An element type is identified by a number: .pte files and PyTorch's enum ScalarType use
// the same numbers, such as 6 for float32.
#ifndef EDGECORE_SCALAR_TYPE_H_
#define EDGECORE_SCALAR_TYPE_H_

#include "edgecore/abi.h"
#include "edgecore/span.h"

namespace edgecore {

// The numbers of the element types that Tensor supports. The enum is unscoped, so a name is an integer: int32_t type =
// ScalarType::kFloat32.
struct ScalarType {
  enum : int32_t {
    kUInt8 = 0,
    kInt8 = 1,
    kInt16 = 2,
    kInt32 = 3,
    kInt64 = 4,
    kFloat16 = 5,
    kFloat32 = 6,
    kFloat64 = 7,
    kBool = 11,
    kBFloat16 = 15,
    kUInt16 = 27,
    kUInt32 = 28,
    kUInt64 = 29,
  };
};

struct ScalarTypeInfo {
  StringView name;  // PyTorch's name of the type, such as "float32"
  uint8_t size;     // bytes per element; 0: no such type
  uint8_t dl_code;  // dl_code and dl_bits: the type code and the bits of DLPack
  uint8_t dl_bits;
};

// Returns the properties of an element type; ScalarTypeInfo::size is 0 if there is no type with this number.
ScalarTypeInfo scalar_type_info(int32_t scalar_type);

}  // namespace edgecore

#endif  // EDGECORE_SCALAR_TYPE_H_
