// Loads shared libraries of backends and kernels.
#ifndef EDGECORE_HOST_LIBRARY_H_
#define EDGECORE_HOST_LIBRARY_H_

#include "edgecore/backend.h"
#include "edgecore/kernel.h"
#include "edgecore/status.h"

namespace edgecore {

// Loads the backend library at the absolute `path` and returns the table of functions that it exports. Checks that this
// runtime supports the table, and that the table's id is `backend_id` (empty: any id). A library is loaded once per
// process and never unloaded. Thread-safe.
// Errors: INVALID_ARGUMENT (path not absolute), ACCESS_FAILED (the loader's reason), NOT_FOUND (no entry symbol),
// NOT_SUPPORTED (built for another interface version or with other sanitizers), INVALID_ARGUMENT (another backend_id).
Result<const edgecore_backend *> load_backend_library(const char *path, StringView backend_id, Error &error);

// Loads a kernel library and returns its table. Errors: as for load_backend_library, except the error for another
// backend_id.
Result<const edgecore_kernel_library *> load_kernel_library(const char *path, Error &error);

// Returns the EDGECORE_FEATURE_* bits of this build: the sanitizers it is compiled with. check_backend refuses a
// library that has other bits.
uint32_t host_features();

}  // namespace edgecore

#endif  // EDGECORE_HOST_LIBRARY_H_
