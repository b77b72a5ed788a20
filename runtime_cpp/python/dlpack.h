// The structs of DLPack 1.x for exchanging tensors with other libraries
// (https://dmlc.github.io/dlpack/latest/c_api.html).
#ifndef EDGECORE_PYTHON_DLPACK_H_
#define EDGECORE_PYTHON_DLPACK_H_

#include "edgecore/abi.h"

namespace edgecore::python {

struct DlpackVersion {
  uint32_t major;
  uint32_t minor;
};

// The struct DLManagedTensor, of DLPack before 1.0.
struct ManagedTensor {
  edgecore_dl_tensor tensor;
  void *context;
  void (*deleter)(ManagedTensor *self);
};

constexpr uint64_t kDlpackReadOnly = 1;

// The struct DLManagedTensorVersioned, of DLPack 1.0 and later.
struct VersionedTensor {
  DlpackVersion version;
  void *context;
  void (*deleter)(VersionedTensor *self);
  uint64_t flags;
  edgecore_dl_tensor tensor;
};

// DLPackExchangeAPI: the content of the capsule "dlpack_exchange_api" in a type's attribute __dlpack_c_exchange_api__.
// The functions return 0, or -1 and set a Python error. Call them with the GIL held.
struct ExchangeApi {
  DlpackVersion version;
  ExchangeApi *previous;
  int (*allocate)(edgecore_dl_tensor *prototype, VersionedTensor **out, void *error_context,
                  void (*set_error)(void *error_context, const char *kind, const char *message));
  int (*from_object)(void *object, VersionedTensor **out);
  int (*to_object)(VersionedTensor *tensor, void **out_object);
  int (*view_object)(void *object, edgecore_dl_tensor *out);  // view_object may be NULL; `out` borrows from `object`
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out_stream);
};

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_DLPACK_H_
