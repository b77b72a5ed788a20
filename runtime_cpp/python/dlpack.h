// The structures of DLPack 1.x that cross into other libraries (https://dmlc.github.io/dlpack/latest/c_api.html).
#ifndef EDGECORE_PYTHON_DLPACK_H_
#define EDGECORE_PYTHON_DLPACK_H_

#include "edgecore/abi.h"

namespace edgecore::python {

struct DlpackVersion {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensor {
  edgecore_dl_tensor tensor;
  void *context;
  void (*deleter)(ManagedTensor *self);
};

constexpr uint64_t kDlpackReadOnly = 1;

struct VersionedTensor {
  DlpackVersion version;
  void *context;
  void (*deleter)(VersionedTensor *self);
  uint64_t flags;
  edgecore_dl_tensor tensor;
};

// What a type's __dlpack_c_exchange_api__ capsule ("dlpack_exchange_api") holds. Functions give 0, or -1 with a Python
// error; the GIL is held.
struct ExchangeApi {
  DlpackVersion version;
  ExchangeApi *previous;
  int (*allocate)(edgecore_dl_tensor *prototype, VersionedTensor **out, void *error_context,
                  void (*set_error)(void *error_context, const char *kind, const char *message));
  int (*from_object)(void *object, VersionedTensor **out);
  int (*to_object)(VersionedTensor *tensor, void **out_object);
  int (*view_object)(void *object, edgecore_dl_tensor *out);  // NULL if not offered; borrows from the object
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out_stream);
};

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_DLPACK_H_
