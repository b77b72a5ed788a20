// Exports every kernel as a C function edgecore_kernel_NAME, for the tables that the command `edgecore kernels` writes:
// a table names only the functions that chosen models need. Each function has its own section (-ffunction-sections), so
// that the linker drops the kernels that no table names.
#include "edgecore/kernel.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
#define EDGECORE_OPERATOR(name, overload, function, dtypes) int32_t function(const edgecore_call *);
#include "operators.inc"
#undef EDGECORE_OPERATOR
}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#define EDGECORE_OPERATOR(name, overload, function, dtypes)                  \
  extern "C" int32_t edgecore_kernel_##function(const edgecore_call *call);  \
  extern "C" int32_t edgecore_kernel_##function(const edgecore_call *call) { \
    return edgecore::EDGECORE_VARIANT::function(call);                       \
  }
#include "operators.inc"
#undef EDGECORE_OPERATOR
