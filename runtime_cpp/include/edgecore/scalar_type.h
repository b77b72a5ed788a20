// Properties of element types. An element type is identified by its number in a .pte file, which is also its number in
// PyTorch's enum ScalarType.
#ifndef EDGECORE_SCALAR_TYPE_H_
#define EDGECORE_SCALAR_TYPE_H_

#include "edgecore/abi.h"
#include "edgecore/span.h"

namespace edgecore {

struct ScalarTypeInfo {
  StringView name;  // as PyTorch spells it: "float32"
  uint8_t size;     // bytes per element; 0: no such type
  uint8_t dl_code;  // DLPack's type code and bits
  uint8_t dl_bits;
};

// Returns the properties of an element type; ScalarTypeInfo::size is 0 if there is no type with this number.
ScalarTypeInfo scalar_type_info(int32_t scalar_type);

}  // namespace edgecore

#endif  // EDGECORE_SCALAR_TYPE_H_
