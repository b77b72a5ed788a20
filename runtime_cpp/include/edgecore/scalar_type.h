// Element types by their number in a .pte file, which is the number in PyTorch's enum ScalarType.
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

// Describes an element type. `size` is 0 if there is no type of this number.
ScalarTypeInfo scalar_type_info(int32_t scalar_type);

}  // namespace edgecore

#endif  // EDGECORE_SCALAR_TYPE_H_
