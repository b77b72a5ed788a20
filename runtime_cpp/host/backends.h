// Backends in use: drivers of the process, and program handles of a loaded file.
#ifndef EDGECORE_HOST_BACKENDS_H_
#define EDGECORE_HOST_BACKENDS_H_

#include "edgecore/host.h"

namespace edgecore {

// The driver of a checked table, created by the first call and kept until the process ends. Thread-safe.
Result<edgecore_driver *> driver_of(const edgecore_backend *table, Error &error);

// Whether each of `options` is declared by the backend for `when` (EDGECORE_OPTION_AT_LOAD or AT_RUN), with its type.
// Integers given for floats are converted in place. Errors: INVALID_ARGUMENT with what the backend has.
Status check_options(const edgecore_backend *table, uint32_t when, Span<edgecore_option> options, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_BACKENDS_H_
