// Element types by their number in a .pte file (PyTorch's ScalarType).
#ifndef EDGECORE_CORE_SCALAR_TYPE_H_
#define EDGECORE_CORE_SCALAR_TYPE_H_

#include "edgecore/abi.h"
#include "edgecore/span.h"

namespace edgecore {

struct ScalarTypeInfo {
  StringView name;  // as PyTorch spells it: "float32"
  uint8_t size;     // bytes per element; 0: no such type
  uint8_t dl_code;
  uint8_t dl_bits;
};

// Of any number; `size` is 0 for one that is no type.
ScalarTypeInfo scalar_type_info(int32_t scalar_type);

}  // namespace edgecore

#endif  // EDGECORE_CORE_SCALAR_TYPE_H_
