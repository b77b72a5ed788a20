// Shared libraries of backends and kernels.
#ifndef EDGECORE_HOST_LIBRARY_H_
#define EDGECORE_HOST_LIBRARY_H_

#include "edgecore/backend.h"
#include "edgecore/kernel.h"
#include "edgecore/status.h"

namespace edgecore {

// Loads the library at the absolute `path`, checks its table against this host and against `backend_id` (empty: any),
// and gives the table. The same path is loaded once a process; libraries are never unloaded. Thread-safe.
// Errors: INVALID_ARGUMENT (path not absolute), ACCESS_FAILED (the loader's reason), NOT_FOUND (no entry symbol),
// NOT_SUPPORTED (other interface version, other sanitizers), INVALID_ARGUMENT (another backend_id).
Result<const edgecore_backend *> load_backend_library(const char *path, StringView backend_id, Error &error);

// The same for a library of kernels. Errors: those above without the last.
Result<const edgecore_kernel_library *> load_kernel_library(const char *path, Error &error);

// EDGECORE_FEATURE_* of this build.
uint32_t host_features();

}  // namespace edgecore

#endif  // EDGECORE_HOST_LIBRARY_H_
